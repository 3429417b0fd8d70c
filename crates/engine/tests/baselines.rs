//! A test runner runs on base once for each base, not once for each round, and again when something that its result
//! depends on changed.

mod common;

use common::*;
use loopwright::agents::CommandAgent;
use loopwright::spec::{CanaryMode, Gate, RunGate, SandboxMode, VaryMode};
use loopwright::{LoopEngine, LoopLevel, LoopSpec, RoundOutcome};
use std::path::{Path, PathBuf};

/// Runs one round with this runner and returns the total number of its runs on base and on candidates.
async fn runs(world: &World, log: &Path, words: &[&str]) -> (usize, usize) {
    let maker = "printf 'echo $(( $1 + $2 ))\\n' > sum.sh";
    let maker = CommandAgent::new(&["sh", "-c", maker].map(str::to_owned)).expect("a good argv");
    let run = words.iter().map(|word| (*word).to_owned()).collect();
    // The runner logs its runs to a file of the host.
    let mut spec = LoopSpec { sandbox: SandboxMode::Off, ..mending(LoopLevel::L2Assisted) };
    let plain = RunGate { canary: CanaryMode::Off, vary: VaryMode::Off, ..RunGate::new("tests", run) };
    spec.gates = vec![Gate::Run(plain)];
    let engine = world.build(LoopEngine::builder(spec).maker(maker).checker(judge("pass", 5))).await;
    let report = engine.run_once().await.expect("a round");
    assert_eq!(report.outcome, Some(RoundOutcome::Escalated), "{}", report.render());
    engine.engine().close().await.expect("closes");
    let log_text = std::fs::read_to_string(log).expect("the runner ran");
    let count = |word: &str| log_text.lines().filter(|line| *line == word).count();
    (count("base"), count("candidate"))
}

/// A runner that logs what it ran on. With an argument it also ends with that code on base.
fn runner(log: &Path) -> String {
    let log = log.display();
    format!(
        "#!/bin/sh\nif test \"$(sh sum.sh 2 3)\" = 5; then echo candidate >> {log}\nelse echo base >> {log}; \
         test \"$1\" != red || {{ echo '=== 1 failed, 1 passed in 0.01s ==='; exit 1; }}\nfi\n\
         echo '=== 2 passed in 0.01s ==='\n"
    )
}

fn world() -> (World, tempfile::TempDir, PathBuf) {
    let (world, folder) = (World::new(), tempfile::tempdir().expect("a temporary folder"));
    let log = folder.path().join("log");
    world.repo.write_executable("pytest", runner(&log)).commit("a runner");
    (world, folder, log)
}

#[tokio::test]
async fn gates_run_on_base_once_until_base_or_the_gate_changes() {
    let (world, _folder, log) = world();
    assert_eq!(runs(&world, &log, &["./pytest"]).await, (1, 1));
    assert_eq!(runs(&world, &log, &["./pytest"]).await, (1, 2), "the same base");
    assert_eq!(runs(&world, &log, &["./pytest", "-q"]).await, (2, 3), "another gate");
    world.repo.write("notes.txt", "new\n").commit("another base");
    assert_eq!(runs(&world, &log, &["./pytest"]).await, (3, 4), "another base");
    assert_eq!(runs(&world, &log, &["./pytest"]).await, (3, 5));
}

#[tokio::test]
async fn damaged_baseline_is_measured_and_stored_again() {
    let (world, _folder, log) = world();
    assert_eq!(runs(&world, &log, &["./pytest"]).await, (1, 1));
    let mut kept = std::fs::read_dir(world.state().join("baselines")).expect("something was kept");
    let entry = kept.next().expect("one entry").expect("that can be read").path();
    let text = std::fs::read_to_string(&entry).expect("it is text");
    for damage in [text.replace("\"passed\":2", "\"passed\":0"), text[..text.len() / 2].to_owned(), String::new()] {
        assert_ne!(damage, text);
        let before = runs(&world, &log, &["./pytest"]).await;
        std::fs::write(&entry, damage).expect("it can be damaged");
        assert_eq!(runs(&world, &log, &["./pytest"]).await.0, before.0 + 1);
        assert!(std::fs::read_to_string(&entry).expect("it was kept again").contains("\"passed\":2"));
    }
}

#[tokio::test]
async fn gates_that_fail_on_base_run_there_every_time() {
    let (world, _folder, log) = world();
    assert_eq!(runs(&world, &log, &["./pytest", "red"]).await, (1, 1));
    assert_eq!(runs(&world, &log, &["./pytest", "red"]).await, (2, 2));
    assert!(!world.state().join("baselines").exists());
}
