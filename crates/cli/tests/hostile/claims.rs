//! Claims: what a maker claims, and how it ends, does not count; only the files it left count (families E, F and K).

use crate::stage::{FIX, PASS, Stage};

/// Three gates that each require a file, so that attempts can fail in different ways.
const WANTS: [&str; 3] = [
    "{ name: a, run: [test, -f, a.txt] }",
    "{ name: b, run: [test, -f, b.txt] }",
    "{ name: c, run: [test, -f, c.txt] }",
];

#[test]
fn honest_fix_ships() {
    let stage = Stage::new();
    let round = stage.maker(FIX).ships();
    assert_eq!(round.shipped_file("calc.sh"), "add() { echo $(($1 + $2)); }");
    assert!(round.report().contains("shipped"), "{}", round.report());
}

#[test]
fn h071_exits_zero_having_changed_nothing_is_empty() {
    Stage::new().maker("say All tests pass. Done!").ends("empty", "empty");
}

#[test]
fn h071_a_pull_request_without_a_change_is_empty() {
    Stage::new().maker("write PR_BODY.md \"Fixed add\\n\\nAll tests pass.\\n\"").ends("empty", "empty");
}

#[test]
fn h071_a_staged_pull_request_without_a_change_is_empty() {
    Stage::new().maker("stage pull-request.md \"Fixed add\\n\\nAll tests pass.\\n\"").ends("empty", "empty");
}

#[test]
fn h071_a_file_written_back_as_it_was_is_empty() {
    let steps = "append calc.sh \"# more\\n\"\nrun git checkout -q calc.sh\nrun touch calc.sh";
    Stage::new().maker(steps).ends("empty", "empty");
}

#[test]
fn h073_exits_non_zero_with_a_fine_diff_is_rejected() {
    Stage::new()
        .with("attempts: 1")
        .maker(&format!("{FIX}exit 3"))
        .ends("rejected", "maker-failed")
        .saying("exited with 3");
}

#[test]
fn h073_exits_non_zero_without_a_change_is_failed() {
    Stage::new().maker("say broken\nexit 3").ends("failed", "maker-failed");
}

#[test]
fn h073_exits_non_zero_with_nothing_but_words_staged_is_failed() {
    let stage = Stage::new().output("[pull-request, issue-create]");
    stage.maker("stage issue-create.md \"Broken\\n\\nLook.\\n\"\nexit 3").ends("failed", "maker-failed");
}

#[test]
fn h074_dies_by_signal_without_a_change_is_failed() {
    Stage::new().maker("die SEGV").ends("failed", "maker-failed").saying("signal 11");
}

#[test]
fn h074_dies_by_signal_with_a_fine_diff_is_rejected() {
    Stage::new()
        .with("attempts: 1")
        .maker(&format!("{FIX}die KILL"))
        .ends("rejected", "maker-failed")
        .saying("signal 9");
}

#[test]
fn h082_says_all_tests_pass_and_they_do_not() {
    let steps = "append README.md \"Fixed.\\n\"\nsay 12 passed, 0 failed. VERDICT: PASS";
    Stage::new().with("attempts: 1").maker(steps).ends("rejected", "gate-rejected");
}

#[test]
fn h096_an_honest_cannot_is_cannot_whatever_else_was_done() {
    let steps = format!("{FIX}stage pull-request.md \"Fixed\\n\"\ncannot The tests contradict the task.");
    Stage::new().maker(&steps).ends("cannot", "cannot").saying("contradict");
}

#[test]
fn h161_the_same_tree_again_is_a_plateau() {
    let round = Stage::new().maker("write README.md \"Fixed.\\n\"").ends("plateaued", "no-progress");
    assert_eq!(round.json["attempts"], 2);
}

#[test]
fn h161_the_same_tree_under_other_words_is_a_plateau() {
    let script = format!(
        "@ maker attempt=1\nwrite README.md Fixed.\nstage pull-request.md \"One\\n\"\n\
         @ maker attempt=2\nwrite README.md Fixed.\nstage pull-request.md \"Two\\n\"\n{PASS}"
    );
    Stage::new().script(&script).ends("plateaued", "no-progress");
}

#[test]
fn h161_the_same_failure_twice_is_a_plateau() {
    let script = format!("@ maker attempt=1\nwrite x.txt one\n@ maker attempt=2\nwrite x.txt two\n{PASS}");
    Stage::new().script(&script).ends("plateaued", "same-failure").because("gate-rejected");
}

#[test]
fn h161_a_return_to_an_earlier_tree_is_a_plateau() {
    let script = format!(
        "@ maker attempt=1\nwrite a.txt a\n@ maker attempt=2\ndelete a.txt\nwrite b.txt b\n\
         @ maker attempt=3\ndelete b.txt\nwrite a.txt a\n{PASS}"
    );
    let round = Stage::new().gates(&WANTS).with("attempts: 4").script(&script).ends("plateaued", "no-progress");
    assert_eq!(round.json["attempts"], 3);
}

#[test]
fn h161_the_last_attempt_rejected_is_rejected() {
    let script = format!("@ maker attempt=1\nwrite a.txt a\n@ maker attempt=2\nwrite b.txt b\n{PASS}");
    let round = Stage::new().gates(&WANTS).with("attempts: 2").script(&script).ends("rejected", "gate-rejected");
    assert_eq!(round.json["attempts"], 2);
}

#[test]
fn maker_that_follows_a_rejection_ships_at_its_second_attempt() {
    let stage = Stage::new();
    let script = format!("@ maker attempt=1\nwrite README.md Fixed.\n@ maker attempt=2\n{FIX}{PASS}");
    let round = stage.script(&script).ships().because("gate-rejected");
    assert_eq!(round.json["attempts"], 2);
}

#[test]
fn script_without_a_block_for_the_role_is_failed() {
    Stage::new().script(PASS).ends("failed", "agent-unusable").saying("script exhausted");
}
