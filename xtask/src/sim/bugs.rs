//! Tests the simulator: puts bugs that schedulers have had back into a copy of this workspace, each behind a switch of
//! its own, and requires the simulator to report a failure when the switch is on. The copy is a folder of the target
//! directory: the program itself has no such switches.

use crate::command::{cargo, program, root, run_watched};
use std::path::Path;

/// The number of seeds within which a bug must be caught.
const SEEDS: &str = "400";

/// A bug: its name, and the file into which it was put back.
struct SeededBug {
    name: &'static str,
    file: &'static str,
}

/// A piece of a file, quoted exactly, and its replacement with bugs; `[NAME]` stands for the condition that the bug is
/// on.
struct Edit {
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
}

const EDITS: [Edit; 9] = [
    Edit {
        file: "crates/core/src/dispatch/reload.rs",
        right: "LoopStanding::new(key.clone(), fingerprint, self.seen_ms)",
        wrong: "LoopStanding::new(key.clone(), fingerprint, \
                self.seen_ms - if [fires at start] { 3_600_000 } else { 0 })",
    },
    Edit {
        file: "crates/engine/src/daemon/dispatch_loop.rs",
        right: "self.pass_ms.unwrap_or_else(|| self.engine.now_ms())",
        wrong: "self.pass_ms.unwrap_or_else(|| if [stale clock] { self.since_ms } else { self.engine.now_ms() })",
    },
    Edit {
        file: "crates/engine/src/round/start.rs",
        right: "RowChange::Mark(schedule)",
        wrong: "if [start reverts a pause] { RowChange::Schedule(schedule) } else { RowChange::Mark(ScheduleRow { \
                mark_ms: if [lost high-water mark] { 0 } else { schedule.mark_ms }, ..schedule }) }",
    },
    Edit {
        file: "crates/engine/src/store/append.rs",
        right: "match ours == found {",
        wrong: "match [no fencing] || ours == found {",
    },
    Edit {
        file: "crates/core/src/dispatch/mod.rs",
        right: "self.frozen.is_none() && self.slots.run(key).is_none();",
        wrong: "self.frozen.is_none() && self.slots.run(key).is_none_or(|run| \
                [no check whether a round runs] || [overlap by race] && run.is_starting());",
    },
    Edit {
        file: "crates/engine/src/store/time.rs",
        right: "\"mark_ms\" => \"mark_ms = CASE",
        wrong: "\"mark_ms\" if [mark moves back] => \"mark_ms = excluded.mark_ms\".to_owned(),\n\
                \"mark_ms\" => \"mark_ms = CASE",
    },
    Edit {
        file: "crates/engine/src/daemon/jobs.rs",
        right: "self.step(DispatchInput::Successor { key, round, items });",
        wrong: "if ![new round begins before an abandoned one ends] { \
                self.step(DispatchInput::Successor { key, round, items }); }",
    },
    Edit {
        file: "crates/engine/src/daemon/requests.rs",
        right: "self.rounds.cancel_all_because(&reason);",
        wrong: "if ![stop waits for the disk] { self.rounds.cancel_all_because(&reason); }",
    },
    Edit {
        file: "crates/engine/src/daemon/message.rs",
        right: "desk.on_slot_released(slot)",
        wrong: "if [slot of an open round is released] { desk.free_slot(slot) } else { desk.on_slot_released(slot) }",
    },
];

/// The variable that names the bug that is on.
const SWITCH: &str = "SIM_BUG";

/// All bugs, in the order of their edits.
fn bugs() -> Vec<SeededBug> {
    let named = |edit: &Edit| {
        let names = edit.wrong.split('[').skip(1).filter_map(|rest| rest.split_once(']'));
        names.map(|(name, _)| SeededBug { name, file: edit.file }).collect::<Vec<_>>()
    };
    EDITS.iter().flat_map(named).collect()
}

impl Edit {
    /// The file's text with the bugs in it.
    fn applied(&self, text: &str) -> Result<String, String> {
        let found = text.matches(self.right).count();
        if found != 1 {
            return Err(format!("`{}` is {found} times in {}: update the quote", self.right.trim(), self.file));
        }
        let is_on = format!("std::env::var(\"{SWITCH}\").is_ok_and(|bug| bug == \"");
        let wrong = self.wrong.replace('[', &is_on).replace(']', "\")");
        Ok(text.replacen(self.right, &wrong, 1))
    }
}

/// Puts all bugs back, switches them on one at a time (all, or those whose names are given), and prints a table of the
/// reported failures.
pub(super) fn run(named: &[&str]) -> Result<(), String> {
    let all = bugs();
    let chosen: Vec<&SeededBug> =
        all.iter().filter(|bug| named.is_empty() || named.iter().any(|name| bug.name.contains(name))).collect();
    if chosen.is_empty() {
        let names: Vec<_> = all.iter().map(|bug| bug.name).collect();
        return Err(format!("no such bug; there are: {}", names.join(", ")));
    }
    let copy = root().join("target/bugs");
    copy_workspace(&copy)?;
    let mut rows = Vec::new();
    let mut missed = Vec::new();
    for bug in chosen {
        println!("== {}", bug.name);
        match simulate(&copy, bug.name)? {
            Some((seed, said)) => rows.push(format!("| {} | `{}` | {seed} | {said} |", bug.name, bug.file)),
            None => missed.push(bug.name),
        }
    }
    println!("\n| bug | put back in | first seed | reported failure |\n|---|---|---|---|");
    rows.iter().for_each(|row| println!("{row}"));
    if missed.is_empty() { Ok(()) } else { Err(format!("not caught within {SEEDS} seeds: {}", missed.join(", "))) }
}

/// Runs the copy's simulator from seed 1 to the first failure: the seed, and the start of the failure's text.
fn simulate(copy: &Path, bug: &str) -> Result<Option<(String, String)>, String> {
    let mut command = cargo();
    // A target directory of its own: cargo distinguishes the copy and the workspace by their times only.
    command.current_dir(copy).env("CARGO_TARGET_DIR", copy.join("target")).env(SWITCH, bug);
    command.args(["test", "--quiet", "-p", "loopwright", "--test", "sim", "--", "1", "--seeds", SEEDS, "--first"]);
    let (mut said, mut is_over) = (None, false);
    let ended = run_watched(command, &mut |line| {
        if let Some(found) = failure(line) {
            said.get_or_insert(found);
        }
        is_over |= line.starts_with("sim: ");
    });
    if is_over {
        return Ok(said);
    }
    // The build failed, or the simulator did not finish.
    Err(ended.err().unwrap_or_else(|| "the simulator printed no result".to_owned()))
}

/// Reads `FAILED seed 7 at commit abc: P1 …`.
fn failure(line: &str) -> Option<(String, String)> {
    let (seed, rest) = line.strip_prefix("FAILED seed ")?.split_once(' ')?;
    let (_, why) = rest.split_once(": ")?;
    Some((seed.to_owned(), shortened(why)))
}

/// The part of a failure's text that fits into a table: without the rows it names.
fn shortened(why: &str) -> String {
    let end = why.find(" RoundRow").or_else(|| why.find(" ReceiptRow")).unwrap_or(why.len());
    let text: String = why[..end].chars().take(160).collect();
    text.replace('|', "/")
}

/// Copies all files that git tracks or would track. A file that is already the same is not written, so that cargo need
/// not build it again.
fn copy_workspace(copy: &Path) -> Result<(), String> {
    let mut command = program("git");
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = command.output().map_err(|why| format!("git ls-files: {why}"))?;
    if !output.status.success() {
        return Err("git ls-files failed".to_owned());
    }
    for name in String::from_utf8_lossy(&output.stdout).split('\0').filter(|name| !name.is_empty()) {
        let from = root().join(name);
        // A deleted file that is not committed yet is missing; links are not followed.
        let Ok(meta) = from.symlink_metadata() else { continue };
        if meta.is_file() {
            let bytes = std::fs::read(&from).map_err(|why| format!("read {name}: {why}"))?;
            write(&copy.join(name), &with_bugs(name, bytes)?)?;
        }
    }
    Ok(())
}

fn with_bugs(name: &str, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let mut edits = EDITS.iter().filter(|edit| edit.file == name).peekable();
    if edits.peek().is_none() {
        return Ok(bytes);
    }
    let text = String::from_utf8(bytes).map_err(|why| format!("{name}: {why}"))?;
    edits.try_fold(text, |text, edit| edit.applied(&text)).map(String::into_bytes)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let failed = |why: std::io::Error| format!("write {}: {why}", path.display());
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
    std::fs::write(path, bytes).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_can_still_be_put_back_and_has_a_switch_of_its_own() {
        for edit in EDITS {
            let text = std::fs::read(root().join(edit.file)).expect("the file is there");
            let wrong = with_bugs(edit.file, text).unwrap_or_else(|why| panic!("{why}"));
            assert!(String::from_utf8_lossy(&wrong).contains(SWITCH), "{}", edit.file);
        }
        let mut names: Vec<_> = bugs().iter().map(|bug| bug.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 11);
    }

    #[test]
    fn failures_are_shown_without_their_rows() {
        let found = failure("FAILED seed 7 at commit abc: P1: rounds overlap: RoundRow { id: 9 }");
        assert_eq!(found, Some(("7".to_owned(), "P1: rounds overlap:".to_owned())));
    }
}
