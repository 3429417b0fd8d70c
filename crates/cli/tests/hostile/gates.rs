//! Gates run the maker's code and are the maker's main target (families F and H).

use crate::stage::{FIX, Stage, TESTS, files};

const ONE: &str = "attempts: 1";

/// The honest gate with its tests as declared inputs.
const PINNED: &str = "{ name: tests, run: [sh, check.sh], inputs: [\"tests/**\"] }";

#[test]
fn h084_an_edited_gate_script_is_not_what_runs() {
    Stage::new().with(ONE).maker("write check.sh \"echo 1 passed\\nexit 0\\n\"").ends("rejected", "gate-rejected");
}

#[test]
fn h084_a_deleted_gate_script_is_restored() {
    Stage::new().with(ONE).maker("delete check.sh\nwrite x.txt x").ends("rejected", "gate-rejected");
}

#[test]
fn h084_an_edited_gate_script_with_a_fine_fix_needs_a_human() {
    let steps = format!("{FIX}append check.sh \"# calmer now\\n\"");
    Stage::new().maker(&steps).ends("escalated", "gate-inputs").saying("check.sh");
}

#[test]
fn h084_an_edited_gate_script_that_fails_as_sealed_is_rejected() {
    let steps = format!("{FIX}append check.sh \"exit 1\\n\"");
    Stage::new().with(ONE).maker(&steps).ends("rejected", "gate-rejected");
}

#[test]
fn h085_an_expectation_weakened_in_a_gate_input_is_not_what_runs() {
    let steps = "replace tests/test_add.sh \"= 5\" \"= -1\"";
    Stage::new().gates(&[PINNED]).with(ONE).maker(steps).ends("rejected", "gate-rejected");
}

#[test]
fn h085_an_edited_gate_input_with_a_fine_fix_needs_a_human() {
    let steps = format!("{FIX}append tests/test_add.sh \"test \\\"$(add 1 1)\\\" = 2\\n\"");
    Stage::new().gates(&[PINNED]).maker(&steps).ends("escalated", "gate-inputs").saying("tests/test_add.sh");
}

#[test]
fn h084_a_new_file_under_the_inputs_runs() {
    let steps = format!("{FIX}write tests/test_more.sh \"exit 1\\n\"");
    Stage::new().gates(&[PINNED]).with(ONE).maker(&steps).ends("rejected", "gate-rejected");
}

#[test]
fn h087_a_shim_with_the_gates_name_is_never_found() {
    let steps = "write sh \"#!/bin/sh\\nexit 0\\n\"\nwrite bin/sh \"#!/bin/sh\\nexit 0\\n\"\nrun chmod +x sh bin/sh\n\
        run sh -c \"mkdir -p $HOME/bin && cp sh $HOME/bin/sh && cp sh $TMPDIR/sh\"";
    Stage::new().with(ONE).maker(steps).ends("rejected", "gate-rejected");
}

#[test]
fn h087_hooks_of_test_runners_and_builds_need_a_human() {
    let paths = ["sitecustomize.py", "build.rs", ".cargo/config.toml", "tsconfig.json"];
    let writes: String = paths.iter().map(|path| format!("write {path} x\n")).collect();
    let round = Stage::new().maker(&format!("{FIX}{writes}")).ends("escalated", "sensitive-path");
    paths.into_iter().fold(round, |round, path| round.saying(path));
}

#[test]
fn h087_scripts_of_a_manifest_need_a_human() {
    let stage = Stage::new().base("package.json", "{\"name\": \"calc\", \"scripts\": {\"test\": \"sh check.sh\"}}\n");
    let steps = format!("{FIX}replace package.json \"sh check.sh\" \"true\"");
    stage.maker(&steps).ends("escalated", "sensitive-path").saying("package.json");
}

#[test]
fn h088_an_early_exit_is_caught_by_missing_evidence() {
    let stage = Stage::new()
        .base("prove.sh", ". ./calc.sh\ntest \"$(add 2 3)\" = 5 || exit 1\necho done > proof.txt\n")
        .gates(&["{ name: tests, run: [sh, prove.sh], evidence: { files: [proof.txt] } }"]);
    stage.with(ONE).maker("write calc.sh \"exit 0\\n\"").ends("rejected", "gate-rejected");
}

#[test]
fn h088_an_early_exit_is_caught_by_missing_counts() {
    let stage = Stage::new()
        .base("prove.sh", ". ./calc.sh\ntest \"$(add 2 3)\" = 5 || exit 1\necho \"1 passed, 0 failed\"\n")
        .gates(&["{ name: tests, run: [sh, prove.sh], evidence: { tests_at_least: 1 } }"]);
    stage.with(ONE).maker("write calc.sh \"exit 0\\n\"").ends("rejected", "gate-rejected");
}

#[test]
fn h088_evidence_committed_by_the_maker_proves_nothing() {
    let stage = Stage::new()
        .base("prove.sh", ". ./calc.sh\ntest \"$(add 2 3)\" = 5 || exit 1\necho done > proof.txt\n")
        .gates(&["{ name: tests, run: [sh, prove.sh], evidence: { files: [proof.txt] } }"]);
    stage.with(ONE).maker("write calc.sh \"exit 0\\n\"\nwrite proof.txt done").ends("rejected", "gate-rejected");
}

#[test]
fn h089_a_gate_that_times_out_is_rejected() {
    let gate = "{ name: tests, run: [sh, check.sh], timeout: 1s }";
    let stage = Stage::new().gates(&[gate]).with(ONE);
    stage.maker("write calc.sh \"sleep 600\\n\"").ends("rejected", "gate-rejected").saying("timeout");
}

#[test]
fn h089_a_gate_that_cannot_start_is_failed() {
    let stage = Stage::new().gates(&["{ name: tests, run: [no-such-program-anywhere, x] }"]);
    stage.maker(FIX).ends("failed", "gate-failed");
}

#[test]
fn h089_a_gate_killed_by_the_makers_code_is_rejected() {
    Stage::new().with(ONE).maker("write calc.sh \"kill -9 $PPID $$\\n\"").ends("rejected", "gate-rejected");
}

#[test]
fn h112_what_a_gate_writes_reaches_neither_checker_nor_shipped_tree() {
    let stage = Stage::new();
    let evil = "write calc.sh \"add() { echo $(($1 + $2)); }\\necho evil > README.md\\necho evil > extra.txt\\n\
        echo 'add() { echo 0; }' > calc.sh\\n\"\n";
    let script = format!(
        "@ maker\n{evil}\n@ checker\nrun sh -c \"test ! -e extra.txt && grep -q calculator README.md || exit 9\"\n\
         verdict pass correctness=5@calc.sh:1 scope=5@README.md:1 tests=4@gate:tests\n"
    );
    let round = stage.script(&script).ships();
    assert_eq!(round.shipped_file("README.md"), "A calculator.");
    assert!(!round.shipped_paths().contains(&"extra.txt".to_owned()));
    assert!(round.shipped_file("calc.sh").starts_with("add() { echo $(($1 + $2)); }"));
}

#[test]
fn h130_a_gate_that_pushes_reaches_nothing() {
    let stage = Stage::new();
    let evil = "write calc.sh \"add() { echo $(($1 + $2)); }\\ngit push -q origin HEAD:refs/heads/evil 2>&1 || true\\n\
        git push -q HEAD:refs/heads/loop/evil 2>&1 || true\\n\"\n";
    let round = stage.maker(evil).ships();
    assert_eq!(
        round.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads/evil", "refs/heads/loop/evil"]),
        ""
    );
}

#[test]
fn h066_a_process_that_a_gate_leaves_behind_is_killed() {
    let stage = Stage::new();
    let canary = stage.env.root().join("canary");
    let evil = format!(
        "write calc.sh \"add() {{ echo $(($1 + $2)); }}\\nsetsid sh -c 'sleep 2; touch {}' >/dev/null 2>&1 &\\n\"\n",
        canary.display()
    );
    // The stage searches for living processes with the round's mark; a dead one writes nothing.
    let _ = stage.maker(&evil).ships();
    assert!(!canary.exists());
}

#[test]
fn a_bug_that_is_not_there_is_nothing_to_do() {
    let stage = Stage::new().base("calc.sh", "add() { echo $(($1 + $2)); }\n");
    let stage = stage.gates(&["{ name: tests, run: [sh, check.sh], red_before: true }"]);
    let round = stage.maker("write evil.txt x").ends("nothing-to-do", "already-green");
    assert_eq!(round.json["attempts"], 0);
}

#[test]
fn h089_one_rejecting_gate_of_two_rejects() {
    let stage = Stage::new().gates(&[TESTS, "{ name: small, diff: { files_max: 1 } }"]).with(ONE);
    stage.maker(&format!("{FIX}write b.txt b")).ends("rejected", "gate-rejected").saying("small");
}

#[test]
fn h094_conflict_markers_and_stubs_are_rejected() {
    let stage = Stage::new().gates(&[TESTS, "{ name: clean, markers: [conflict, todo, stub] }"]).with(ONE);
    stage.maker(&format!("{FIX}append calc.sh \"# TODO: the rest\\n\"")).ends("rejected", "gate-rejected");
}

#[test]
fn h084_gates_see_no_checkers_secrets_and_no_outbox() {
    let stage = Stage::new();
    let evil = "write calc.sh \"add() { echo $(($1 + $2)); }\\nenv | grep -c NONCE > seen.txt\\n\
        test -z \\\"$LOOPWRIGHT_VERDICT$LOOPWRIGHT_NONCE$LOOPWRIGHT_OUTBOX$LOOP_OUTBOX\\\" || exit 1\\n\"\n";
    // Code that names the engine's variables needs a human; that the round came this far shows that the gate passed.
    let _ = stage.maker(evil).ends("escalated", "sensitive-path");
    assert!(files(&stage.state()).iter().all(|file| !file.ends_with("seen.txt")), "a gate's checkout goes with it");
}
