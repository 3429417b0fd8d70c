//! The shipped loops through the real program: `patterns` and `new`, and each of the twelve from a due moment to a
//! receipt.
#![allow(clippy::disallowed_methods, reason = "tests start the program")]

#[path = "patterns/pages.rs"]
mod pages;
#[path = "patterns/rounds.rs"]
mod rounds;
#[path = "patterns/world.rs"]
mod world;

use expect_test::expect;
use loopwright_core::patterns::LoopPattern;
use loopwright_testkit::{TestEnv, TestRepo};

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_loopwright"))
}

/// A repository without tests.
fn bare(env: &TestEnv) -> TestRepo {
    let repo = env.repo("repo");
    repo.write("README.md", "A project.\n").commit("first");
    repo
}

/// A repository with a test command that `init` recognises.
fn tested(env: &TestEnv) -> TestRepo {
    let repo = env.repo("repo");
    repo.write_executable("run-tests.sh", "#!/bin/sh\nexit 0\n").commit("first");
    repo
}

#[test]
fn patterns_lists_all_and_shows_each_file_word_for_word() {
    let env = env();
    let list = env.loopwright(["patterns", "--json"]).success().json();
    let names: Vec<_> = list["patterns"].as_array().expect("a list").iter().map(|line| line["name"].clone()).collect();
    assert_eq!(names.len(), 12);
    let page = env.loopwright(["patterns"]).success().stdout();
    for pattern in LoopPattern::all() {
        assert!(names.contains(&pattern.name.into()) && page.contains(pattern.name), "{page}");
        assert_eq!(env.loopwright(["patterns", pattern.name]).success().stdout(), pattern.text);
    }
    let shown = env.loopwright(["patterns", "ci-sweeper", "--json"]).success().json();
    assert_eq!((&shown["level"], &shown["needs_tests"]), (&"L2".into(), &true.into()));
    assert_eq!(shown["skills"][0]["file"], "ci-failures.md");
    let unknown = env.loopwright(["patterns", "ci-sweper"]).code(2).stderr();
    assert!(unknown.contains("did you mean `ci-sweeper`?") && unknown.contains("doc-sync"), "{unknown}");
}

#[test]
fn every_pattern_passes_check_as_new_writes_it_in_a_fresh_repository() {
    for make in [bare, tested] {
        let env = env();
        let repo = make(&env);
        let has_tests = repo.path().join("run-tests.sh").exists();
        for pattern in LoopPattern::all() {
            let new = env.loopwright_in(repo.path(), ["new", pattern.name, "--json"]).success().json();
            assert_eq!((&new["schema"], &new["loop"]), (&1.into(), &pattern.name.into()));
            let expected = if pattern.needs_tests() && !has_tests { "L1" } else { pattern.spec().level.short() };
            assert_eq!(new["level"], expected, "{}", pattern.name);
            let text = repo.read(&format!(".loopwright/loops/{}.md", pattern.name));
            assert_eq!(text.contains("\n  - { name: tests, run: [./run-tests.sh]"), pattern.needs_tests() && has_tests);
            let checked = env.loopwright_in(repo.path(), ["check", pattern.name, "--json"]).success().json();
            assert_eq!((&checked["loops"][0]["ok"], &checked["loops"][0]["level"]), (&true.into(), &expected.into()));
            let schedule = env.loopwright_in(repo.path(), ["schedule", pattern.name, "--days", "2", "--json"]);
            assert!(schedule.success().json()["occurrences"][0].is_object(), "{} is never due", pattern.name);
        }
        let all = env.loopwright_in(repo.path(), ["check", "--json"]).success().json();
        assert_eq!(all["loops"].as_array().map(Vec::len), Some(12));
    }
}

#[test]
fn new_writes_the_loop_and_its_skills_and_prints_the_next_steps() {
    let env = env();
    let repo = tested(&env);
    repo.git(["branch", "--move", "trunk"]);
    let ran = env.loopwright_in(repo.path(), ["new", "ci-sweeper", "--name", "green"]).success();
    expect![[r#"
        $ loopwright new ci-sweeper --name green
        wrote .loopwright/skills/ci-failures.md
        wrote .loopwright/loops/green.md
        level L2
        tests ./run-tests.sh
        next: loopwright check green
        next: loopwright gates test green
        next: loopwright run green --dry-run
        next: loopwright up
        [exit 0]
    "#]]
    .assert_eq(&ran.transcript());
    let text = repo.read(".loopwright/loops/green.md");
    assert!(text.starts_with("---\nname: green\n") && text.contains("branch: trunk }"), "{text}");
    let ran = env.loopwright_in(repo.path(), ["new", "triage-ci"]).success();
    expect![[r#"
        $ loopwright new triage-ci
        wrote .loopwright/loops/triage-ci.md
        kept  .loopwright/skills/ci-failures.md: it already exists
        level L2
        tests ./run-tests.sh
        next: loopwright check triage-ci
        next: loopwright gates test triage-ci
        next: loopwright run triage-ci --dry-run
        next: loopwright up
        [exit 0]
    "#]]
    .assert_eq(&ran.transcript());
}

#[test]
fn new_names_the_parts_that_a_person_has_to_complete() {
    let env = env();
    let repo = bare(&env);
    let ran = env.loopwright_in(repo.path(), ["new", "dependency-updater"]).success();
    expect![[r#"
        $ loopwright new dependency-updater
        wrote .loopwright/skills/dependency-updates.md
        wrote .loopwright/loops/dependency-updater.md
        level L1
        note: no test command was recognised: the loop only reports until you add one as a gate and set `level: L2`
        note: name the hosts of your package registry under `network:`; the loop finds newer versions only there
        next: loopwright check dependency-updater
        next: loopwright run dependency-updater --dry-run
        next: loopwright up
        [exit 0]
    "#]]
    .assert_eq(&ran.transcript());
}

#[test]
fn new_overwrites_nothing_and_refuses_a_name_that_a_loop_has() {
    let env = env();
    let repo = bare(&env);
    repo.write(".loopwright/loops/doc-sync.md", "mine\n");
    repo.write(".loopwright/skills/issue-labels.md", "my labels\n");
    let refused = env.loopwright_in(repo.path(), ["new", "doc-sync", "--json"]).code(2).json();
    assert_eq!(refused["error"]["kind"], "invalid");
    assert_eq!(repo.read(".loopwright/loops/doc-sync.md"), "mine\n");
    let _ = env.loopwright_in(repo.path(), ["new", "doc-sync", "--name", "documents"]).success();
    let again = env.loopwright_in(repo.path(), ["new", "pr-reviewer", "--name", "Documents"]).code(2).stderr();
    assert!(again.contains("not a valid name"), "{again}");
    let taken = env.loopwright_in(repo.path(), ["new", "pr-reviewer", "--name", "documents"]).code(2).stderr();
    assert!(taken.contains("`.loopwright/loops/documents.md` already exists") && taken.contains("--name"), "{taken}");
    assert!(
        !repo.path().join(".loopwright/skills/pull-request-review.md").exists(),
        "a refused command writes nothing"
    );
    let kept = env.loopwright_in(repo.path(), ["new", "issue-triage", "--json"]).success().json();
    assert_eq!(kept["kept"], serde_json::json!([".loopwright/skills/issue-labels.md"]));
    assert_eq!(repo.read(".loopwright/skills/issue-labels.md"), "my labels\n");
    let _ = env.loopwright_in(repo.path(), ["new", "nothing"]).code(2);
    let _ = env.loopwright(["new", "doc-sync"]).code(2);
}
