//! Each pattern end to end with the scripted agent, on the local forge and on a fake GitHub: due, probe, round, outbox,
//! receipt; and a second due moment sends nothing again.

use super::world::{Case, ForgeKind, SomeWork, World, sent};

/// The complete course of a pattern on both forges.
#[track_caller]
fn check(case: &Case) {
    check_on(case, ForgeKind::Local);
    check_on(case, ForgeKind::GitHub);
}

#[track_caller]
fn check_on(case: &Case, forge: ForgeKind) {
    let world = World::new(case, forge);
    world.add_work(case);
    let before = world.visible();
    let mut round = world.due_round();
    assert!(round["item"].as_str().is_some_and(|item| item.starts_with(case.item)), "{forge:?}: {round:#}");
    if round["outcome"] == "escalated" {
        assert_eq!(world.visible(), before, "{forge:?}: nothing leaves before a person approves");
        let id = round["round"].as_str().expect("an id").to_owned();
        round = world.json(&["approve", &id], 0);
        assert_eq!(round["outcome"], "shipped", "{forge:?}: {round:#}");
    } else {
        assert_eq!(round["outcome"], "reported", "{forge:?}: {round:#}");
    }
    assert_eq!(sent(&round), case.sent, "{forge:?}: {round:#}");
    let after = world.visible();
    assert_eq!(after.len() > before.len(), case.sent != ["report"], "{forge:?}: {after:?}");
    let idle =
        world.tick_until("a second due moment", |tick| tick["receipts"].get(0).or(tick["rounds"].get(0)).cloned());
    let (code, again) = world.run_again();
    // A person who approves everything that waits cannot make it be sent again.
    world.approve_all();
    assert_eq!(world.visible(), after, "{forge:?}: nothing is sent twice");
    assert!(idle["round"].is_null(), "{forge:?}: {idle}");
    assert_eq!(code, case.again, "{forge:?}: {again:#}");
    assert!(case.again != 0 || again["outcome"] == "nothing-to-do", "{forge:?}: {again:#}");
    assert_eq!(world.json(&["verify"], 0)["ok"], true);
}

const REPORT: &str =
    "@ maker\nstage report.md \"calc.sh:2 needs a person.\"\n\n@ checker\nverdict pass accuracy=5@item:report.md:1 ";

/// A report with the scores of two dimensions.
fn report(second: &str) -> &'static str {
    format!("{REPORT}{second}=4@item:report.md:1\n").leak()
}

#[test]
fn daily_triage_reports_a_commit_once() {
    let script = report("urgency");
    check(&Case {
        pattern: "daily-triage",
        work: SomeWork::Repository,
        script,
        item: "main@",
        sent: &["report"],
        again: 0,
    });
}

#[test]
fn pr_babysitter_reports_a_pull_request_once() {
    let script = report("action");
    check(&Case { pattern: "pr-babysitter", work: SomeWork::Pull, script, item: "pr-7@", sent: &["report"], again: 0 });
}

#[test]
fn changelog_drafter_reports_a_draft_once() {
    let script = report("completeness");
    check(&Case {
        pattern: "changelog-drafter",
        work: SomeWork::Repository,
        script,
        item: "main@",
        sent: &["report"],
        again: 0,
    });
}

#[test]
fn post_merge_cleanup_reports_a_commit_once() {
    let script = report("origin");
    check(&Case {
        pattern: "post-merge-cleanup",
        work: SomeWork::Repository,
        script,
        item: "main@",
        sent: &["report"],
        again: 0,
    });
}

#[test]
fn issue_triage_reports_an_issue_once() {
    let script = report("restraint");
    check(&Case {
        pattern: "issue-triage",
        work: SomeWork::Issue,
        script,
        item: "issue-3@",
        sent: &["report"],
        again: 0,
    });
}

const FIX: &str = "@ maker\nreplace calc.sh \"$1 - $2\" \"$1 + $2\"\nstage pull-request.md \"Add instead of subtract\"\n\n\
                   @ checker\nverdict pass correctness=5@calc.sh:2 scope=5@gate:small";

#[test]
fn ci_sweeper_proposes_a_fix_of_a_failed_check_once() {
    let script = format!("{FIX} tests=5@gate:tests\n").leak();
    check(&Case {
        pattern: "ci-sweeper",
        work: SomeWork::Check,
        script,
        item: "ci-build@",
        sent: &["pull-request"],
        again: 0,
    });
}

#[test]
fn triage_ci_proposes_a_fix_of_a_failed_check_once() {
    let script = format!("{FIX}\n").leak();
    check(&Case {
        pattern: "triage-ci",
        work: SomeWork::Check,
        script,
        item: "ci-build@",
        sent: &["pull-request"],
        again: 0,
    });
}

const UPDATE: &str = "@ maker\nreplace go.mod v1.0.0 v1.0.2\nstage pull-request.md \"Update pad to v1.0.2\"\n\n\
                      @ checker\nverdict pass correctness=5@go.mod:3 scope=5@gate:small";

#[test]
fn dependency_sweeper_proposes_updates_once() {
    let script = format!("{UPDATE} risk=4@gate:tests\n").leak();
    let sent = &["pull-request"];
    check(&Case {
        pattern: "dependency-sweeper",
        work: SomeWork::Repository,
        script,
        item: "example.org/pad@v1.0.2",
        sent,
        again: 15,
    });
}

#[test]
fn dependency_updater_proposes_an_update_once() {
    let script = format!("{UPDATE}\n").leak();
    let sent = &["pull-request"];
    check(&Case {
        pattern: "dependency-updater",
        work: SomeWork::Repository,
        script,
        item: "example.org/pad@v1.0.2",
        sent,
        again: 0,
    });
}

#[test]
fn doc_sync_proposes_a_correction_once() {
    let script = "@ maker\nreplace docs/usage.md subtracts adds\nstage pull-request.md \"calc.sh adds\"\n\n\
                  @ checker\nverdict pass accuracy=5@docs/usage.md:1 scope=5@gate:documents-only\n";
    check(&Case {
        pattern: "doc-sync",
        work: SomeWork::Repository,
        script,
        item: "main@",
        sent: &["pull-request"],
        again: 15,
    });
}

#[test]
fn issue_groomer_labels_and_plans_an_issue_once() {
    let script = "@ maker\nstage 1-issue-label-3.txt \"bug\\ngroomed\\n\"\nstage 2-issue-comment-3.md \"calc.sh:2 has the wrong sign.\"\n\n\
                  @ checker\nverdict pass accuracy=5@item:2-issue-comment-3.md:1 usefulness=4@item:2-issue-comment-3.md:1\n";
    let sent = &["issue-label", "issue-comment"];
    check(&Case { pattern: "issue-groomer", work: SomeWork::Issue, script, item: "issue-3@", sent, again: 0 });
}

#[test]
fn pr_reviewer_comments_on_a_pull_request_once() {
    let script = "@ maker\nstage 1-pr-comment-7.md \"The product of large numbers overflows.\"\n\
                  stage 2-pr-inline-7.jsonl <<END\n{\"path\": \"calc.sh\", \"line\": 2, \"side\": \"right\", \"body\": \"It overflows.\"}\nEND\n\n\
                  @ checker\nverdict pass accuracy=5@item:1-pr-comment-7.md:1 value=4@item:1-pr-comment-7.md:1\n";
    let sent = &["pr-comment", "pr-inline"];
    check(&Case { pattern: "pr-reviewer", work: SomeWork::Pull, script, item: "pr-7@", sent, again: 0 });
}
