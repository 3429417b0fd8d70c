//! Poison: files that one start leaves in homes, temporary folders, caches and build outputs do not exist for the next
//! start, nor for gates (family G 120, E 81, F 87).

use crate::stage::{FIX, PASS_STEPS, Stage};

/// Writes a marked file wherever a later program might read.
const POISON: &str = "run sh -c \"for d in $HOME $HOME/.config/git $HOME/.claude $HOME/.codex $HOME/.cargo $HOME/.cache/pip \
    $HOME/.npm $HOME/.local/bin /tmp $TMPDIR target node_modules/.bin .venv/bin; do mkdir -p $d; \
    echo 'exit 0' > $d/poison.sh; done; printf '[alias]\\\\n\\\\tst = !false\\\\n' > $HOME/.gitconfig; true\"\n";

/// Fails when it finds one.
const LOOK: &str = "found=$(find \"$HOME\" /tmp \"${TMPDIR:-/tmp}\" . -name poison.sh 2>/dev/null)\n\
    test -z \"$found\" || { echo \"poisoned: $found\"; exit 1; }\ntest ! -e \"$HOME/.gitconfig\" || exit 1\n";

fn ignoring() -> Stage {
    Stage::new().base(".gitignore", "target/\nnode_modules/\n.venv/\n")
}

#[test]
fn h120_a_maker_leaves_nothing_for_its_gates() {
    let tests = format!("{LOOK}set -e\nfor t in tests/test_*.sh; do sh \"$t\"; done\necho 1 passed\n");
    let stage = ignoring().base("check.sh", tests);
    let _ = stage.maker(&format!("{FIX}{POISON}")).ships();
}

#[test]
fn h120_a_maker_leaves_nothing_for_its_checker() {
    let stage = ignoring().base("look.sh", LOOK);
    let script =
        format!("@ maker\n{FIX}{POISON}\n@ checker\nrun sh -c \"sh look.sh || kill -9 $PPID\"\n{PASS_STEPS}\n");
    let _ = stage.script(&script).ships();
}

#[test]
fn h120_a_round_leaves_nothing_in_homes_and_temporary_folders_for_the_next() {
    let stage = ignoring().base("look.sh", LOOK);
    let _ = stage.maker(&format!("{FIX}{POISON}")).ships();
    let looking = format!("@ maker\nrun sh -c \"sh look.sh || kill -9 $PPID\"\n{FIX}@ checker\n{PASS_STEPS}\n");
    stage.repo.write(".loopwright/s.script", looking);
    stage.repo.commit("another round");
    stage.env.close_pulls();
    let second = stage.run();
    assert_eq!(second.json["outcome"], "shipped", "{}", second.story());
}

#[test]
fn h120_what_a_gate_leaves_is_not_there_for_the_next_gate() {
    let leave = "set -e\nfor d in \"$HOME\" /tmp .; do echo x > $d/poison.sh; done\n\
        for t in tests/test_*.sh; do sh \"$t\"; done\necho 1 passed\n";
    let stage = ignoring().base("check.sh", leave).base("look.sh", LOOK);
    let stage = stage.gates(&["{ name: tests, run: [sh, check.sh] }", "{ name: second, run: [sh, look.sh] }"]);
    let _ = stage.maker(FIX).ships();
}

#[test]
fn h081_an_agent_finds_no_session_of_an_earlier_one() {
    let stage = Stage::new();
    let remember = "run sh -c \"mkdir -p $HOME/.claude/projects $HOME/.codex/sessions; echo memory > $HOME/.claude/projects/m; \
        echo memory > $HOME/.codex/sessions/m\"\n";
    let _ = stage.maker(&format!("{FIX}{remember}")).ships();
    let look = "run sh -c \"find $HOME -type f > seen.txt\"\n";
    stage.repo.write(".loopwright/s.script", format!("@ maker\n{FIX}{look}@ checker\n{PASS_STEPS}\n"));
    stage.repo.commit("another round");
    let second = stage.run();
    assert_eq!(second.json["outcome"], "shipped", "{}", second.story());
    assert_eq!(second.shipped_file("seen.txt"), "", "a fresh HOME is empty");
}
