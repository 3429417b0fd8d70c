//! Loops that answer each other on a forge, and a state that was restored from an older backup: neither floods a forge
//! with effects that no person asked for.

use super::receiver::LossyReceiver;
use super::stage::{ShippingStage, UNATTENDED};
use loopwright_testkit::fake_forge::IssueDraft;
use loopwright_testkit::wait;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

/// A loop that comments on the first issue whenever another party has.
fn add_answering_loop(stage: &ShippingStage, name: &str) {
    stage.repo.write(
        &format!(".loopwright/loops/{name}.md"),
        format!(
            "---\nname: {name}\nintent: Answer.\nlevel: L3\nforge: work\non: {{ every: 1s, probe: open-issues }}\noutput: \
             [issue-comment]\nallow: [issue-comment]\nagents: {{ maker: {{ use: scripted, script: {name}.script }} \
             }}\ngates:\n  - {{ name: tests, run: [./ok.sh] }}\n---\n# Maker\nAnswer.\n"
        ),
    );
    stage.repo.write(
        &format!(".loopwright/{name}.script"),
        format!(
            "@ maker\nstage 01-issue-comment-1.md \"{name} has a remark.\"\n\n@ checker\nverdict pass \
             correctness=5@answer:1 scope=5@gate:tests\n"
        ),
    );
}

#[test]
fn two_loops_that_answer_each_other_stop_with_a_question() {
    let stage = ShippingStage::new("L2", "");
    stage.repo.write_executable("ok.sh", "#!/bin/sh\ntest -f answer\n");
    add_answering_loop(&stage, "ping");
    add_answering_loop(&stage, "pong");
    stage.repo.commit("two loops");
    stage.remote().copy_branches_from(stage.repo.path());
    let issue = stage.remote().open_issue(&IssueDraft { author: "ada", title: "It breaks", ..IssueDraft::default() });
    assert_eq!(issue, 1);
    let asks = || {
        let _ = stage.run(&["tick"]).success();
        stage.run(&["inbox"]).success().stdout().contains("loops answer each other")
    };
    wait::until("a person is asked", PATIENCE, asks);
    let said = stage.remote().comments(issue).len();
    assert!((3..=5).contains(&said), "{said} comments before the question");
    let rounds = stage.run(&["rounds", "--json"]).success().json();
    let stopped = rounds["rounds"].as_array().expect("rounds").iter().find(|round| round["outcome"] == "escalated");
    let round = stopped.expect("the round that was stopped")["round"].as_str().expect("an id").to_owned();
    let shown = stage.run(&["show", &round, "--json"]).success().json();
    assert_eq!(shown["reasons"][0]["code"], "chain-too-long", "{shown:#}");
    assert_eq!(shown["spend"]["tokens"]["input"], 0, "no agent was started: {shown:#}");
    for _ in 0..4 {
        let _ = stage.run(&["tick"]).success();
    }
    assert_eq!(stage.remote().comments(issue).len(), said, "nothing more is written");
    // A person's comment ends the chain: both may answer again.
    stage.remote().comment(issue, "ada", "Thank you both. Anything else?");
    let answered = || {
        let _ = stage.run(&["tick"]).success();
        stage.remote().comments(issue).len() > said + 1
    };
    wait::until("a loop answers the person", PATIENCE, answered);
}

#[test]
fn loop_that_follows_another_and_writes_what_starts_it_stops_with_a_question() {
    let stage = ShippingStage::new("L2", "");
    add_answering_loop(&stage, "writer");
    let file = ".loopwright/loops/writer.md";
    let text = std::fs::read_to_string(stage.repo.path().join(file)).expect("the loop");
    stage.repo.write(file, text.replace("every: 1s, probe: open-issues", "after: [reader]"));
    stage.repo.write(
        ".loopwright/loops/reader.md",
        "---\nname: reader\nintent: Read.\nlevel: L1\ncheck: none\nforge: work\non: { every: 1s, probe: open-issues }\nagents: { \
         maker: { use: scripted, script: reader.script } }\n---\n# Maker\nRead.\n",
    );
    stage.repo.write(".loopwright/reader.script", "@ maker\nsay \"I have read it.\"\n");
    stage.repo.write_executable("ok.sh", "#!/bin/sh\ntest -f answer\n").commit("loops");
    stage.remote().copy_branches_from(stage.repo.path());
    let issue = stage.remote().open_issue(&IssueDraft { author: "ada", title: "It breaks", ..IssueDraft::default() });
    let asks = || {
        let _ = stage.run(&["tick"]).success();
        stage.run(&["inbox"]).success().stdout().contains("loops answer each other")
    };
    wait::until("a person is asked", PATIENCE, asks);
    let said = stage.remote().comments(issue).len();
    assert!((3..=6).contains(&said), "{said} comments before the question");
    for _ in 0..4 {
        let _ = stage.run(&["tick"]).success();
    }
    assert_eq!(stage.remote().comments(issue).len(), said, "nothing more is written");
}

/// A loop that answers each item of its probe with a pull request of its own.
fn add_proposing_loop(stage: &ShippingStage, name: &str, probe: &str) {
    stage.repo.write(
        &format!(".loopwright/loops/{name}.md"),
        format!(
            "---\nname: {name}\nintent: Answer.\nlevel: L3\nforge: work\non: {{ every: 1s, probe: {probe} }}\noutput: \
             [pull-request]\nallow: [pull-request]\nopen_max: 100\nagents: {{ maker: {{ use: scripted, script: {name}.script }} \
             }}\ngates:\n  - {{ name: tests, run: [./ok.sh] }}\n---\n# Maker\nAnswer.\n"
        ),
    );
    stage.repo.write(
        &format!(".loopwright/{name}.script"),
        format!(
            "@ maker\nrun sh -c \"echo $LOOPWRIGHT_ROUND > note\"\nstage pull-request.md \"{name} has a change\\n\\nLook.\"\n\n\
             @ checker\nverdict pass correctness=5@note:1 scope=5@gate:tests tests=4@gate:tests\n"
        ),
    );
}

/// Runs passes until the loops ask a person, and checks that nothing more is sent after that. `between` is what others do.
#[track_caller]
fn assert_pulls_stop(stage: &ShippingStage, between: impl Fn()) {
    let asks = || {
        between();
        let _ = stage.run(&["tick"]).success();
        stage.run(&["inbox"]).success().stdout().contains("loops answer each other")
    };
    wait::until("a person is asked", PATIENCE, asks);
    // Shorter chains may be left.
    for _ in 0..6 {
        between();
        let _ = stage.run(&["tick"]).success();
    }
    let pulls = stage.remote().pulls().len();
    assert!((4..=16).contains(&pulls), "{pulls} pull requests");
    for _ in 0..3 {
        between();
        let _ = stage.run(&["tick"]).success();
    }
    assert_eq!(stage.remote().pulls().len(), pulls, "nothing more is sent");
}

/// A pull request of a person.
fn open_feature(stage: &ShippingStage) {
    stage.repo.write_executable("ok.sh", "#!/bin/sh\ntest -f answer\n").commit("loops");
    stage.repo.git(["branch", "feature"]);
    stage.remote().copy_branches_from(stage.repo.path());
    let _ = stage.remote().push_commit("feature", "a person's work");
    let _ = stage.remote().open_pull("ada", "feature", "My work", "Please look.");
}

#[test]
fn two_loops_that_answer_each_others_pull_requests_stop_with_a_question() {
    let stage = ShippingStage::new("L2", "");
    add_proposing_loop(&stage, "ping", "open-prs");
    add_proposing_loop(&stage, "pong", "open-prs");
    open_feature(&stage);
    assert_pulls_stop(&stage, || ());
}

#[test]
fn loop_whose_own_changes_fail_the_checks_that_start_it_stops_with_a_question() {
    let stage = ShippingStage::new("L2", "");
    add_proposing_loop(&stage, "ping", "failing-ci");
    open_feature(&stage);
    assert_pulls_stop(&stage, || {
        let failed: Vec<_> = stage.remote().checks().into_iter().map(|check| check.head).collect();
        let heads = stage.open_pulls().into_iter().filter_map(|pull| Some(pull.pull?.head));
        for head in heads.filter(|head| !failed.contains(head)) {
            stage.remote().fail_check("build", &head);
        }
    });
}

/// Ships an item, loses the state, restores an older backup, and lets the item become due again.
#[test]
fn restored_state_does_not_ship_a_pull_request_again() {
    let stage = ShippingStage::new("L3", &format!("on: {{ probe: open-issues }}\n{UNATTENDED}"));
    assert_eq!(stage.run(&["run", "fix", "--json"]).success().json()["outcome"], "nothing-to-do");
    let backup = stage.env.root().join("backup").display().to_string();
    let _ = stage.run(&["backup", &backup]).success();
    let issue = stage.remote().open_issue(&IssueDraft { author: "ada", title: "It breaks", ..IssueDraft::default() });
    let shipped = stage.run(&["run", "fix", "--json"]).success().json();
    assert_eq!(shipped["outcome"], "shipped", "{shipped:#}");

    std::fs::remove_dir_all(stage.env.state()).expect("the state is lost");
    let _ = stage.run(&["restore", &backup]).success();
    stage.set_script("two", "");
    let held = stage.run(&["run", "fix", "--json"]).code(10).json();
    assert_eq!(held["outbox"][0]["state"], "in-doubt", "{held:#}");
    assert!(held["reasons"].to_string().contains("was restored from a backup"), "{held:#}");
    assert_eq!(stage.remote().pulls().len(), 1, "nothing is sent twice");
    let round = held["round"].as_str().expect("a round").to_owned();
    let confirmed = stage.run(&["approve", &round, "--whole-round", "--json"]).json();
    assert_eq!(confirmed["outbox"][0]["state"], "sent", "{confirmed:#}");
    assert_eq!(stage.run(&["run", "fix", "--json"]).json()["outcome"], "nothing-to-do");
    // Other work is sent as usual.
    stage.remote().comment(issue, "ada", "It breaks again.");
    stage.set_script("three", "");
    let next = stage.run(&["run", "fix", "--json"]).success().json();
    assert_eq!(next["outcome"], "shipped", "{next:#}");
    assert_eq!(stage.remote().pulls().len(), 2);
}

#[test]
fn restored_state_does_not_write_a_comment_again() {
    let stage = ShippingStage::new("L2", "");
    stage.repo.write_executable("ok.sh", "#!/bin/sh\ntest -f answer\n");
    add_answering_loop(&stage, "ping");
    stage.repo.commit("a loop");
    stage.remote().copy_branches_from(stage.repo.path());
    assert_eq!(stage.run(&["run", "ping", "--json"]).success().json()["outcome"], "nothing-to-do");
    let backup = stage.env.root().join("backup").display().to_string();
    let _ = stage.run(&["backup", &backup]).success();
    let issue = stage.remote().open_issue(&IssueDraft { author: "ada", title: "It breaks", ..IssueDraft::default() });
    assert_eq!(stage.run(&["run", "ping", "--json"]).success().json()["outcome"], "shipped");
    std::fs::remove_dir_all(stage.env.state()).expect("the state is lost");
    let _ = stage.run(&["restore", &backup]).success();
    let held = stage.run(&["run", "ping", "--json"]).code(10).json();
    assert_eq!(held["outbox"][0]["state"], "in-doubt", "{held:#}");
    assert!(held["reasons"].to_string().contains("was restored from a backup"), "{held:#}");
    assert_eq!(stage.remote().comments(issue).len(), 1, "nothing is sent twice");
}

/// Slack and webhooks cannot be asked which messages a lost round has sent.
#[test]
fn restored_state_holds_messages_whose_receiver_cannot_be_asked_unless_a_person_starts_the_round() {
    let stage = ShippingStage::new("L2", "");
    let receiver = LossyReceiver::reliable();
    let (address, key) =
        (stage.write_secret("slack", &receiver.url), stage.write_secret("hook", "a-secret-of-many-bytes"));
    let more = format!(
        "slack: {{ webhook_file: {address} }}\nwebhooks_out: {{ hook: {{ url: {}, secret_file: {key} }} }}\n",
        receiver.url
    );
    stage.configure(&more);
    add_answering_loop(&stage, "tell");
    let text = std::fs::read_to_string(stage.repo.path().join(".loopwright/loops/tell.md")).expect("the loop");
    let text = text.replace("output: [issue-comment]", "output: [slack, { webhook: { targets: [hook] } }]");
    stage.repo.write(".loopwright/loops/tell.md", text.replace("allow: [issue-comment]", "allow: [slack, webhook]"));
    stage.repo.write(
        ".loopwright/tell.script",
        "@ maker\nstage slack.md \"An issue is open.\"\nstage webhook-hook.json \"{}\"\n\n@ checker\nverdict pass \
         correctness=5@answer:1 scope=5@gate:tests\n",
    );
    stage.repo.write_executable("ok.sh", "#!/bin/sh\ntest -f answer\n").commit("a loop");
    stage.remote().copy_branches_from(stage.repo.path());
    assert_eq!(stage.run(&["run", "tell", "--json"]).success().json()["outcome"], "nothing-to-do");
    let backup = stage.env.root().join("backup").display().to_string();
    let _ = stage.run(&["backup", &backup]).success();
    let issue = stage.remote().open_issue(&IssueDraft { author: "ada", title: "It breaks", ..IssueDraft::default() });
    let shipped = stage.run(&["run", "tell", "--json"]).success().json();
    assert_eq!((shipped["outcome"].as_str(), receiver.total()), (Some("shipped"), 2), "{shipped:#}");

    std::fs::remove_dir_all(stage.env.state()).expect("the state is lost");
    let _ = stage.run(&["restore", &backup]).success();
    let held = || {
        let _ = stage.run(&["tick"]).success();
        let rounds = stage.run(&["rounds", "tell", "--json"]).success().json();
        let mut rounds = rounds["rounds"].as_array().cloned().unwrap_or_default().into_iter();
        rounds.find(|round| round["outcome"] == "escalated")
    };
    wait::until("the loop is due again", PATIENCE, || held().is_some());
    let round = held().expect("a round")["round"].as_str().expect("an id").to_owned();
    let shown = stage.run(&["show", &round, "--json"]).success().json();
    let states: Vec<_> = shown["outbox"].as_array().expect("items").iter().map(|item| item["state"].clone()).collect();
    assert_eq!(states, ["in-doubt", "in-doubt"], "{shown:#}");
    let reasons = shown["reasons"].to_string();
    assert!(reasons.contains("the receiver cannot show whether a lost round has sent this work already"), "{reasons}");
    assert_eq!(receiver.total(), 2, "nothing is sent twice");

    stage.remote().comment(issue, "ada", "It breaks again.");
    let own = stage.run(&["run", "tell", "--json"]).success().json();
    assert_eq!((own["outcome"].as_str(), receiver.total()), (Some("shipped"), 4), "a person started it: {own:#}");
}
