//! The limits of a day and of a target, also when several processes send at the same time.

use super::stage::{PULLS, ShippingStage, reasons};
use loopwright_testkit::fake_forge::{ForgeFault, IssueDraft};
use loopwright_testkit::wait;
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const ONE_A_DAY: &str = "output: [{ pull-request: { day_max: 1 } }]\n";

fn start_approval(stage: &ShippingStage, round: &str) -> Child {
    let mut command = stage.env.command(stage.repo.path());
    let started = command.args(["approve", round]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    started.expect("the binary starts")
}

/// Two rounds with different changes that wait for an approval.
fn two_waiting_rounds(stage: &ShippingStage) -> [String; 2] {
    ["one", "two"].map(|note| stage.set_script(note, "").escalate())
}

fn is_kept_by(report: &Value, limit: &str) -> bool {
    reasons(report).contains(limit) && report["outbox"][0]["state"] == "waiting"
}

#[test]
fn item_that_another_process_is_sending_counts_for_the_limit_of_a_day() {
    let stage = ShippingStage::new("L2", ONE_A_DAY);
    let [first, second] = two_waiting_rounds(&stage);
    stage.forge.fail("POST", PULLS, 1, ForgeFault::Stall);
    let mut child = start_approval(&stage, &first);
    wait::until("the first pull request is created", PATIENCE, || !stage.remote().pulls().is_empty());
    let kept = stage.approve(&second, 10);
    assert!(is_kept_by(&kept, "its `day_max`"), "{kept}");
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    assert_eq!(stage.remote().pulls().len(), 1);
}

#[test]
fn item_that_may_have_been_sent_counts_for_the_limit_of_a_day() {
    let stage = ShippingStage::new("L2", &format!("{ONE_A_DAY}budget: {{ round: {{ wall: 3s }} }}\n"));
    let [first, second] = two_waiting_rounds(&stage);
    stage.forge.fail("POST", PULLS, 1, ForgeFault::Stall);
    let doubted = stage.approve(&first, 10);
    assert!(is_kept_by(&doubted, "the item may have been sent"), "{doubted}");
    let kept = stage.approve(&second, 10);
    assert!(is_kept_by(&kept, "its `day_max`"), "{kept}");
    let found = stage.approve(&first, 0);
    assert_eq!((&found["outcome"], stage.remote().pulls().len()), (&"shipped".into(), 1), "{found}");
}

#[test]
fn two_approvals_at_the_same_time_send_no_more_than_the_limit_of_a_day() {
    let stage = ShippingStage::new("L2", ONE_A_DAY);
    let rounds = two_waiting_rounds(&stage);
    let children = rounds.each_ref().map(|round| start_approval(&stage, round));
    for mut child in children {
        child.wait().expect("it ends");
    }
    assert!(stage.remote().pulls().len() <= 1, "{:?}", stage.remote().pulls());
    // If each of the two saw the claim of the other, both wait. One of them is sent later.
    for round in &rounds {
        let _ = stage.run(&["retry", round]);
    }
    assert_eq!(stage.remote().pulls().len(), 1);
}

#[test]
fn item_beyond_the_limit_of_its_target_waits_and_another_target_is_free() {
    let stage = ShippingStage::new("L2", "");
    stage.repo.write_executable("ok.sh", "#!/bin/sh\ntest -f answer\n");
    stage.repo.write(
        ".loopwright/loops/say.md",
        "---\nname: say\nintent: Answer.\nlevel: L3\nforge: work\noutput: [{ issue-comment: { target_max: 1 } }]\nallow: \
         [issue-comment]\nagents: { maker: { use: scripted, script: say.script } }\ngates:\n  - { name: tests, run: \
         [./ok.sh] }\n---\n# Maker\nAnswer.\n",
    );
    stage.repo.commit("a loop that comments");
    stage.remote().copy_branches_from(stage.repo.path());
    for title in ["One", "Two"] {
        stage.remote().open_issue(&IssueDraft { author: "ada", title, ..IssueDraft::default() });
    }
    let say = |issue: u64, text: &str, code: i32| {
        let script = format!(
            "@ maker\nstage 01-issue-comment-{issue}.md \"{text}\"\n\n@ checker\nverdict pass correctness=5@answer:1 \
             scope=5@gate:tests\n"
        );
        stage.repo.write(".loopwright/say.script", script);
        stage.run(&["run", "say", "--json"]).code(code).json()
    };
    say(1, "First.", 0);
    let kept = say(1, "Second.", 10);
    assert!(is_kept_by(&kept, "of issue-comment to 1 within 24 hours, its `target_max`"), "{kept}");
    say(2, "Elsewhere.", 0);
    assert_eq!([1, 2].map(|issue| stage.remote().comments(issue).len()), [1, 1]);
}
