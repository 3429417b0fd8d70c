//! Secrets: a hit refuses the round, and the value is never shown again (family H, 123).

use crate::stage::{FIX, Stage};

/// Has the form of a token and is assembled here, so that no scanner reports this file.
fn token() -> String {
    format!("ghp_{}", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5")
}

#[track_caller]
fn refused(steps: &str) {
    refused_at(Stage::new(), steps);
}

#[track_caller]
fn refused_at(stage: Stage, steps: &str) {
    let round = stage.maker(&format!("{FIX}{steps}")).ends("refused", "secrets").never_shows(&token());
    let story = round.id();
    for words in [
        &["show", &story, "--json"][..],
        &["show", &story],
        &["report", &story],
        &["logs", &story],
        &["logs", &story, "--json"],
        &["why", &story],
    ] {
        let ran = stage.env.loopwright_in(stage.repo.path(), words);
        let (out, err) = (ran.stdout(), ran.stderr());
        assert!(!out.contains(&token()) && !err.contains(&token()), "`{words:?}` shows the value");
    }
}

#[test]
fn h123_a_secret_in_a_new_file() {
    refused(&format!("write config.txt \"token = {}\\n\"", token()));
}

#[test]
fn h123_a_secret_in_an_edited_file() {
    refused(&format!("append README.md \"export TOKEN={}\\n\"", token()));
}

#[test]
fn h123_a_secret_in_a_file_name() {
    refused(&format!("write {}.txt x", token()));
}

#[test]
fn h123_a_secret_in_a_staged_text() {
    refused(&format!("stage pull-request.md \"Fix\\n\\nUse {} to log in.\\n\"", token()));
}

#[test]
fn h123_a_secret_in_a_title() {
    refused(&format!("stage pull-request.md \"Fix with {}\\n\\nText.\\n\"", token()));
}

#[test]
fn h123_a_secret_in_a_pr_body() {
    refused(&format!("write PR_BODY.md \"Fix with {}\\n\\nText.\\n\"", token()));
}

#[test]
fn h123_a_secret_in_a_label() {
    let stage = Stage::new().output("[pull-request, issue-label]");
    refused_at(stage, &format!("stage issue-label-7.txt {}", token()));
}

#[test]
fn h123_a_secret_in_a_report_at_l1() {
    let stage = Stage::new().level("L1").output("report").gates(&[]);
    let round = stage.maker(&format!("stage report.md \"The key is {}.\\n\"", token()));
    round.ends("refused", "secrets").never_shows(&token());
}

#[test]
fn h123_a_secret_in_last_words_at_l1() {
    let stage = Stage::new().level("L1").output("report").gates(&[]);
    stage.maker(&format!("say The key is {}.", token())).ends("refused", "secrets").never_shows(&token());
}

#[test]
fn h125_a_secret_in_the_name_of_a_bad_staged_file() {
    let round = Stage::new().maker(&format!("{FIX}stage {}.md x", token()));
    round.ends("refused", "bad-outbox").never_shows(&token());
}

#[test]
fn h125_a_secret_in_the_words_of_a_cannot() {
    let round = Stage::new().maker(&format!("cannot The key {} does not work.", token()));
    round.ends("cannot", "cannot").never_shows(&token());
}

#[test]
fn h125_a_secret_that_a_gate_prints() {
    let stage = Stage::new().with("attempts: 1");
    let token = token();
    let (head, tail) = token.split_at(8);
    let steps = format!("write calc.sh \"a={head}\\nb={tail}\\necho error: $a$b\\nexit 1\\n\"");
    stage.maker(&steps).ends("rejected", "gate-rejected").never_shows(&token);
}

#[test]
fn h125_a_secret_in_a_checkers_summary() {
    let steps =
        format!("verdict fail correctness=1@calc.sh:1 scope=1@gate:tests tests=1@gate:tests \"see {}\"", token());
    let stage = Stage::new().with("attempts: 1");
    stage.checker(&steps).ends("rejected", "checker-rejected").never_shows(&token());
}
