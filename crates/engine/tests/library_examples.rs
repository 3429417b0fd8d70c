//! The examples are the first programs that people run: each runs here unchanged, without a key or network, and prints
//! what it promises. Cargo builds them with the tests.
#![expect(clippy::disallowed_methods, reason = "the examples are started as a person starts them")]

use std::path::PathBuf;
use std::process::Command;

/// The example's program, in the folder beside this test's own.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let target = test.parent().and_then(|deps| deps.parent()).expect("tests are in target/<profile>/deps");
    target.join("examples").join(name)
}

/// Runs an example with only PATH set, and returns its output.
fn run(name: &str) -> String {
    let home = tempfile::tempdir().expect("a folder");
    let program = program(name);
    let mut command = Command::new(&program);
    command.env_clear().env("PATH", loopwright_testkit::TRUSTED_PATH).env("HOME", home.path()).current_dir(home.path());
    let hint = "build it with `cargo build --examples`, or run the tests without a target filter";
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}; {hint}", program.display()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {errors}");
    let left = std::fs::read_dir(home.path()).expect("the folder is there").count();
    assert_eq!(left, 0, "{name} leaves nothing in HOME");
    String::from_utf8(output.stdout).expect("examples print text")
}

#[test]
fn report_shows_the_makers_findings_and_that_there_was_no_checker() {
    let output = run("report");
    assert!(output.starts_with("# read-sum: reported\n"), "{output}");
    assert!(output.contains("> - sum.sh line 1 subtracts: echo $(( $1 - $2 ))"), "{output}");
    assert!(output.contains("check: none"), "{output}");
}

#[test]
fn approve_ships_after_the_programs_approval_and_leaves_the_checkout_alone() {
    let output = run("approve");
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines[..4], ["outcome: escalated", "changed: sum.sh +1 -1", "gate tests: passed", "outcome: shipped"]);
    assert!(lines[4].starts_with("pull-request sent: ") && lines[4].ends_with("pulls/1.md"), "{output}");
    assert_eq!(lines[5], "the checkout still says: echo $(( $1 - $2 ))");
}

#[test]
fn allowlist_executes_once_and_ships_by_itself() {
    let output = run("allowlist");
    assert_eq!(output.matches("executing pull-request of mend-sum").count(), 1, "{output}");
    assert!(output.ends_with("outcome: shipped\npull-request sent: request 1\n"), "{output}");
}

#[test]
fn custom_agent_plays_both_roles_and_its_usage_is_counted() {
    assert_eq!(run("custom_agent"), "outcome: escalated\ntokens: 3000\n");
}

#[test]
fn scheduler_runs_only_due_loops() {
    let output = run("scheduler");
    // A fourth round may have started before the stop.
    assert!(
        (3..=4).contains(&output.lines().count()) && output.lines().all(|line| line == "pulse: reported"),
        "{output}"
    );
}

#[test]
fn patterns_prints_the_seven_loops_as_specs() {
    let specs: Vec<loopwright::LoopSpec> = serde_json::from_str(&run("patterns")).expect("specs as JSON");
    assert_eq!(specs, loopwright::patterns::catalogue());
    assert_eq!(specs.len(), 7);
}

#[test]
fn seed_spec_reads_back_what_the_loop_engine_would() {
    assert_eq!(run("seed_spec"), "issue-triage L1-report every 2h comment\n");
}

#[test]
fn seed_loop_waits_at_l2_and_executes_once_at_l3() {
    assert_eq!(run("seed_loop"), "L2: escalated\nmend-sum proposes pull-request, verified: true\nL3: shipped\n");
}
