//! The demo, as a new user runs it: without set-up, and without touching the user's files.
#![allow(clippy::disallowed_methods, reason = "tests start the program")]

use loopwright_testkit::TestEnv;
use std::path::Path;

#[test]
fn demo_ships_the_honest_change_catches_the_cheat_and_reports() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let ran = env.loopwright(["demo", "--json"]).success();
    let document = ran.json();
    assert_eq!(document["as_told"], true);
    let rounds = document["rounds"].as_array().expect("a list of rounds");
    let words: Vec<_> = rounds.iter().map(|round| round["outcome"].as_str().expect("an outcome")).collect();
    assert_eq!(words, ["shipped", "rejected", "reported"]);
    let codes: Vec<_> =
        rounds[1]["reasons"].as_array().expect("reasons").iter().map(|reason| &reason["code"]).collect();
    assert_eq!(codes, ["test-inventory"]);
    let folder = Path::new(document["folder"].as_str().expect("a folder"));
    for round in rounds {
        let report = round["report"].as_str().expect("a report");
        assert!(Path::new(report).starts_with(folder) && Path::new(report).exists());
    }
    let pull = rounds[0]["outbox"][0]["receipt"].as_str().expect("a receipt");
    let text = std::fs::read_to_string(pull).expect("the pull request is there");
    assert!(text.contains("approved by | demo"), "{text}");
    std::fs::remove_dir_all(folder).expect("the demo's folder goes");
}

#[test]
fn demo_explains_its_rounds_and_names_the_next_steps() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    let ran = env.loopwright(["demo"]).success();
    let story = ran.stdout();
    for words in
        ["fix-cart shipped", "quick-fix rejected", "morning-report reported", "Where to look", "approves it as `demo`"]
    {
        assert!(story.contains(words), "{words} is not in\n{story}");
    }
    let home = std::fs::read_dir(env.home()).expect("the home is there").count();
    assert_eq!(home, 0, "the demo left something in HOME");
    let folder = story.lines().find_map(|line| line.trim().strip_prefix("everything")).expect("a folder").trim();
    std::fs::remove_dir_all(env.root().join(folder)).expect("the demo's folder goes");
}
