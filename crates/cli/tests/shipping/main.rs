//! Shipping to a forge: the real binary against a fake GitHub, from the approval to the draft pull request, and through
//! everything that goes wrong on the way.

use loopwright_testkit::fake_forge::ForgeFault;
use loopwright_testkit::{CommandRun, wait};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::Duration;

mod access;
mod babysitter;
mod chains;
mod deliveries;
mod finding;
mod injection;
mod limits;
mod network;
mod oracle;
mod rebase;
mod receiver;
mod signing;
mod soak;
mod stage;

use stage::{PULL, PULLS, PUSH, ShippingStage, UNATTENDED, reasons};

#[test]
fn approved_change_becomes_one_draft_pull_request_and_is_not_proposed_again() {
    let stage = ShippingStage::new("L2", PULL);
    let round = stage.escalate();
    assert_eq!(stage.writes(), 0, "a staged round posts nothing: {:?}", stage.forge.requests());

    let shipped = stage.approve(&round, 0);
    let pulls = stage.remote().pulls();
    let [pull] = pulls.as_slice() else { panic!("{pulls:?}") };
    let about = pull.pull.as_ref().expect("a pull request");
    let body = pull.body.clone().expect("a text");
    assert_eq!((pull.title.as_str(), about.draft, about.base_branch.as_str()), ("Fix the answer", true, "main"));
    assert_eq!(about.head_branch, format!("loop/fix/{round}"));
    for part in
        ["| gates | tests passed |", "> It was wrong.", &format!("_Loopwright: loop `fix`, round `{round}`, cost ")]
    {
        assert!(body.contains(part), "{part} in {body}");
    }
    let receipt = shipped["outbox"][0]["receipt"].as_str().expect("a receipt");
    assert!(receipt.starts_with(stage.forge.url()) && receipt.ends_with("/pull/1"), "{receipt}");
    let tree =
        loopwright_testkit::repo::git(&stage.remote().path(), ["rev-parse", &format!("{}^{{tree}}", about.head)]);
    assert_eq!(Some(tree.trim()), shipped["tree"].as_str(), "the pushed tree is the tree that passed");

    for (state, expected) in [("open", "already-proposed"), ("closed", "already-proposed")] {
        let again = stage.run(&["run", "fix", "--json"]).success().json();
        assert_eq!(again["outcome"], "nothing-to-do", "{state}: {again}");
        assert!(reasons(&again).contains(expected), "{again}");
        stage.remote().close_item(1);
    }
    stage.remote().reopen_item(1);
    stage.remote().merge_pull(1);
    let again = stage.run(&["run", "fix", "--json"]).success().json();
    assert!(reasons(&again).contains("has the same change and is merged"), "the clone has an older base: {again}");
    assert_eq!(stage.remote().pulls().len(), 1);
}

#[test]
fn dry_run_prints_the_text_that_is_posted_later() {
    let stage = ShippingStage::new("L3", UNATTENDED);
    let dry = stage.run(&["run", "fix", "--dry-run", "--json"]).success().json();
    assert_eq!(stage.writes(), 0);
    let sent = stage.run(&["run", "fix", "--json"]).success().json();
    let body = stage.remote().item(1).body.expect("a text");
    let same = |text: &str, round: &Value| {
        let text = text.replace(round.as_str().expect("a round"), "ROUND");
        let lines = text.lines().filter(|line| !line.starts_with("<!--")).map(str::to_owned);
        lines.collect::<Vec<_>>().join("\n").trim().to_owned()
    };
    let would = dry["would_send"][0]["body"].as_str().expect("a text");
    assert_eq!(same(would, &dry["round"]), same(&body, &sent["round"]));
}

#[test]
fn loop_that_ships_by_itself_leaves_at_most_its_open_max() {
    let stage = ShippingStage::new("L3", &format!("{UNATTENDED}open_max: 2\n"));
    for note in ["one", "two"] {
        let _ = stage.set_script(note, "").run(&["run", "fix"]).success();
    }
    let refused = stage.set_script("three", "").run(&["run", "fix"]).code(15);
    assert!(refused.stderr().contains("2 open pull requests"), "{}", refused.stderr());
    assert_eq!(stage.open_pulls().len(), 2);
    stage.remote().close_item(1);
    let _ = stage.run(&["run", "fix"]).success();
    assert_eq!(stage.open_pulls().len(), 2);
}

#[test]
fn answers_that_are_lost_or_late_give_one_pull_request() {
    let faults = [
        ("POST", PULLS, 1, ForgeFault::CutAfter),
        ("POST", PULLS, 1, ForgeFault::CutBefore),
        ("POST", PULLS, 1, ForgeFault::CutInside),
        ("POST", PULLS, 1, ForgeFault::ServerErrorAfter(502)),
        ("POST", PULLS, 1, ForgeFault::ServerError(503)),
        ("POST", PULLS, 1, ForgeFault::TooManyRequests(1)),
        ("POST", PUSH, 1, ForgeFault::CutAfter),
        ("POST", PUSH, 1, ForgeFault::ServerError(500)),
    ];
    for (method, path, nth, fault) in faults {
        let stage = ShippingStage::new("L2", PULL);
        let round = stage.escalate();
        stage.forge.fail(method, path, nth, fault.clone());
        let shipped = stage.approve(&round, 0);
        assert_eq!(shipped["outcome"], "shipped", "{fault:?}: {shipped}");
        assert_eq!(stage.remote().pulls().len(), 1, "{fault:?}");
    }
}

#[test]
fn forge_that_stays_down_keeps_the_item() {
    let stage = ShippingStage::new("L2", &format!("{PULL}budget: {{ round: {{ wall: 2s }} }}\n"));
    let round = stage.escalate();
    stage.forge.fail_always("*", "/repos/**", ForgeFault::ServerError(503));
    let blocked = stage.approve(&round, 10);
    assert!(reasons(&blocked).contains("delivery-blocked"), "{blocked}");
    stage.forge.clear_faults();
    stage.approve(&round, 0);
    assert_eq!(stage.remote().pulls().len(), 1);
}

/// Kills the process that waits for the answer to its create.
fn kill_while_sending(stage: &ShippingStage, round: &str) {
    stage.forge.fail("POST", PULLS, 1, ForgeFault::Stall);
    let mut command = stage.env.command(stage.repo.path());
    let started = command.args(["approve", round]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child: Child = started.expect("the binary starts");
    wait::until("the pull request is created", Duration::from_secs(30), || !stage.remote().pulls().is_empty());
    child.kill().expect("it runs");
    child.wait().expect("it ended");
}

#[test]
fn process_that_is_killed_between_claim_and_receipt_sends_nothing_twice() {
    let stage = ShippingStage::new("L2", PULL);
    let round = stage.escalate();
    kill_while_sending(&stage, &round);
    let _ = stage.run(&["tick"]).success();
    let shown = stage.run(&["show", &round, "--json"]).success().json();
    assert_eq!((&shown["outcome"], &shown["outbox"][0]["state"]), (&"shipped".into(), &"sent".into()), "{shown}");
    assert_eq!(stage.remote().pulls().len(), 1);
    assert_eq!(stage.forge.requests_to("POST", PULLS).len(), 1);
}

#[test]
fn comment_about_a_pull_request_that_was_refused_is_not_sent() {
    let stage = ShippingStage::new("L2", "output: [pull-request, issue-comment]\n");
    stage.set_script("one", "stage 01-issue-comment-1.md \"Fixed in my pull request.\"\n");
    let issue = stage.remote().open_issue(&Default::default());
    assert_eq!(issue, 1);
    let round = stage.escalate();
    stage.remote().push_commit(&format!("loop/fix/{round}"), "a person was faster");
    let refused = stage.approve(&round, 15);
    assert!(reasons(&refused).contains("this item may refer to it"), "{refused}");
    assert!(stage.remote().comments(1).is_empty() && stage.remote().pulls().is_empty(), "{refused}");
}

#[test]
fn stop_keeps_an_approved_item_from_being_sent() {
    let stage = ShippingStage::new("L2", PULL);
    let round = stage.escalate();
    let _ = stage.run(&["stop", "--all"]).success();
    let blocked = stage.approve(&round, 10);
    assert!(reasons(&blocked).contains("everything is stopped"), "{blocked}");
    assert_eq!(stage.writes(), 0);
    let _ = stage.run(&["thaw"]).success();
    stage.approve(&round, 0);
    assert_eq!(stage.remote().pulls().len(), 1);
}

#[test]
fn item_beyond_the_limit_of_a_day_waits() {
    let limits = "output: [{ pull-request: { day_max: 1 } }]\nallow: [pull-request]\n";
    let stage = ShippingStage::new("L3", limits);
    let _ = stage.run(&["run", "fix"]).success();
    let kept = stage.set_script("two", "").run(&["run", "fix", "--json"]).code(10).json();
    assert!(reasons(&kept).contains("its `day_max`"), "{kept}");
    assert_eq!(stage.remote().pulls().len(), 1);
}

#[test]
fn doctor_checks_the_forge_and_changes_nothing() {
    let stage = ShippingStage::new("L2", PULL);
    let line = |ran: &CommandRun, name: &str| {
        let json = ran.json();
        let checks = json["checks"].as_array().expect("checks").clone();
        checks.into_iter().find(|check| check["name"] == format!("forge work {name}")).expect("a line")
    };
    let good = stage.run(&["doctor", "--json"]).success();
    assert_eq!(line(&good, "token")["status"], "ok", "{}", good.stdout());
    assert!(line(&good, "token")["text"].to_string().contains("bot"), "{}", good.stdout());
    assert_eq!(line(&good, "repository")["status"], "ok");
    stage.set_token("ghp_wrong");
    let bad = stage.run(&["doctor", "--json"]).success();
    assert_eq!(line(&bad, "token")["status"], "missing", "{}", bad.stdout());
    assert!(!bad.stdout().contains("ghp_wrong"));
    assert_eq!(stage.writes(), 0);
}

/// A receiver on loopback that accepts one request, answers `ok`, and returns the request.
fn receiver() -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let receive = move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut bytes = Vec::new();
        let mut part = [0; 4096];
        loop {
            let count = stream.read(&mut part).expect("a request");
            bytes.extend_from_slice(&part[..count]);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0_usize) {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
                    .expect("an answer");
                return text;
            }
        }
    };
    (url, std::thread::spawn(receive))
}

#[test]
fn messages_go_to_slack_and_to_a_signed_webhook() {
    let stage = ShippingStage::new("L2", "output: [pull-request, slack, { webhook: { targets: [deploy] } }]\n");
    let (slack, said) = receiver();
    let (hook, called) = receiver();
    let address = stage.write_secret("slack", &format!("{slack}/services/T1"));
    let key = stage.write_secret("hook", "a-secret-of-many-bytes");
    let more = format!(
        "slack: {{ webhook_file: {address} }}\nwebhooks_out: {{ deploy: {{ url: {hook}/run, secret_file: {key} }} }}\n"
    );
    stage.configure(&more);
    let staged = "stage slack.md \"Done <https://evil.example|here> <!channel>\"\nstage webhook-deploy.json \"{}\"\n";
    stage.set_script("one", staged);
    let round = stage.escalate();
    let shipped = stage.approve(&round, 0);
    assert_eq!(shipped["outcome"], "shipped", "{shipped}");
    let said = said.join().expect("a message");
    assert!(
        said.starts_with("POST /services/T1 ") && said.contains(&format!("loop fix · round {round} · cost ")),
        "{said}"
    );
    assert!(!said.contains("<!channel>") && !said.contains("<https://evil"), "{said}");
    let called = called.join().expect("a call");
    assert!(called.starts_with("POST /run ") && called.contains("webhook-signature: v1,"), "{called}");
    assert!(!shipped.to_string().contains("/services/T1"), "{shipped}");
}

#[test]
fn configuration_of_a_forge_is_checked_before_a_round() {
    let stage = ShippingStage::new("L2", PULL);
    std::fs::set_permissions(stage.env.root().join("token"), std::fs::Permissions::from_mode(0o644)).expect("its mode");
    let note = stage.run(&["check", "fix"]).success().stdout();
    assert!(note.contains("other users can read") && note.contains("chmod 600"), "{note}");
    stage.repo.git(["remote", "set-url", "origin", "https://elsewhere.example/acme/app.git"]);
    let refused = stage.run(&["check", "fix"]).code(2);
    assert!(refused.stderr().contains("the remote `origin` is on elsewhere.example"), "{}", refused.stdout());
    stage.repo.write(".loopwright/config.yaml", "forges: { work: { kind: github } }\n");
    let misplaced = stage.run(&["check", "fix"]).code(2);
    assert!(
        misplaced.stderr().contains("a repository does not decide where your tokens are sent"),
        "{}",
        misplaced.stdout()
    );
}
