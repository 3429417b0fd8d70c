//! Our own open pull requests are followed: a failed check and a person's comment are items, and our own words are
//! not.

use super::stage::PullStage;
use loopwright_core::patterns::LoopPattern;
use serde_json::Value;

/// A loop that opens pull requests by itself.
const FIX: &str = "---\nname: fix\nintent: Make the answer right.\nlevel: L3\nforge: work\nagents: { maker: { use: scripted, script: \
                   fix.script } }\ngates:\n  - { name: tests, run: [./test.sh], red_before: true }\noutput: [pull-request]\n\
                   allow: [pull-request]\n---\n# Maker\nFix the answer.\n";
const SCRIPT: &str = "@ maker\nreplace answer \"41\" \"42\"\nstage pull-request.md \"Fix the answer\"\n\n@ checker\n\
                      verdict pass correctness=5@answer:1 scope=5@gate:tests tests=4@gate:tests\n";

fn pattern() -> LoopPattern {
    LoopPattern::find("pr-babysitter").expect("a pattern")
}

/// The shipped loop, whose maker reports its own brief.
fn babysitter() -> String {
    let agent =
        "agents: { maker: { use: command, run: [sh, -c, \"cat > $LOOPWRIGHT_OUTBOX/report.md\"] } }\ncheck: none\n";
    pattern().text.replacen("name: pr-babysitter\n", &format!("name: pr-babysitter\nforge: work\n{agent}"), 1)
}

/// A loop's pull request, number 1, and the loop that follows it.
fn stage() -> PullStage {
    let stage = PullStage::new();
    stage.repo.write(".loopwright/fix.script", SCRIPT);
    for skill in pattern().skills {
        stage.repo.write(&format!(".loopwright/skills/{}", skill.file), skill.text);
    }
    let stage = stage.with_loop("fix", FIX).with_loop("pr-babysitter", &babysitter());
    let shipped = stage.json(&["run", "fix"], 0);
    assert_eq!(shipped["outcome"], "shipped", "{shipped:#}");
    stage
}

fn look(stage: &PullStage) -> (Value, String) {
    let round = stage.json(&["run", "pr-babysitter"], 0);
    let report = match round["outcome"].as_str() {
        Some("reported") => stage.run(&["report", round["round"].as_str().expect("an id")]).success().stdout(),
        _ => String::new(),
    };
    (round, report)
}

#[track_caller]
fn expect_idle(stage: &PullStage) {
    let (round, _) = look(stage);
    assert_eq!(round["outcome"], "nothing-to-do", "{round:#}");
}

#[test]
fn failed_check_of_our_pull_request_is_an_item_once_for_each_commit() {
    let stage = stage();
    let head = stage.remote().item(1).pull.expect("a pull request").head;
    expect_idle(&stage);
    stage.remote().report_check("build", &head, "success", "fine");
    expect_idle(&stage);
    stage.remote().report_check("lint", &head, "failure", "answer:1: too short");
    let (round, report) = look(&stage);
    assert_eq!(round["item"], format!("pr-1:check-lint@{head}"), "{round:#}");
    for part in ["the check `lint` failed on pull request 1", "failed: lint: answer:1: too short", "+42"] {
        assert!(report.contains(part), "{part} in {report}");
    }
    expect_idle(&stage);
}

#[test]
fn comment_of_a_person_is_an_item_and_our_own_or_a_program_s_is_not() {
    let stage = stage();
    let own = stage.remote().item(1).body.expect("a text");
    let marker = own.lines().find(|line| line.starts_with("<!--")).expect("a marker").to_owned();
    stage.remote().comment(1, "bot", &format!("I looked.\n\n{marker}"));
    stage.remote().comment(1, "coverage[bot]", "90 %");
    stage.remote().review(1, "ada", "APPROVED", "");
    expect_idle(&stage);
    stage.remote().comment_inline(1, "ada", "answer", 1, "Why 42?");
    let (round, report) = look(&stage);
    assert!(round["item"].as_str().is_some_and(|item| item.starts_with("pr-1:comment-inline-")), "{round:#}");
    assert!(report.contains("ada: answer:1: Why 42?"), "{report}");
    expect_idle(&stage);
    stage.remote().comment(1, "ada", "And another thing.");
    assert_eq!(look(&stage).0["outcome"], "reported");
    expect_idle(&stage);
}
