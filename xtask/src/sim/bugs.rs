//! Whether the simulator sees what it should: bugs that schedulers have had are put back, one at a time, into a copy of this
//! workspace, and the simulator must say so. The copy is a folder of the target directory: nothing of it is ever built into
//! the program.

use crate::command::{cargo, program, root, watch};
use std::path::Path;

/// How many seeds a bug may live.
const SEEDS: &str = "400";

/// A bug, as one exact piece of text and what is put in its place.
struct Bug {
    name: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
}

const BUGS: [Bug; 9] = [
    Bug {
        name: "fires at start",
        file: "crates/core/src/dispatch/reload.rs",
        right: "Standing::new(key.clone(), fingerprint, self.seen_ms)",
        wrong: "Standing::new(key.clone(), fingerprint, self.seen_ms - 3_600_000)",
    },
    Bug {
        name: "stale clock",
        file: "crates/engine/src/daemon/desk.rs",
        right: "self.moment.unwrap_or_else(|| self.engine.now_ms())",
        wrong: "self.moment.unwrap_or(self.since_ms)",
    },
    Bug {
        name: "lost high-water mark",
        file: "crates/engine/src/round/due.rs",
        right: "Change::Mark(schedule)",
        wrong: "Change::Mark(ScheduleRow { mark_ms: 0, ..schedule })",
    },
    Bug {
        name: "no fencing",
        file: "crates/engine/src/store/append.rs",
        right: "match guard.fence == ours.fence {",
        wrong: "match guard.fence >= ours.fence {",
    },
    Bug {
        name: "overlap by race",
        file: "crates/core/src/dispatch/mod.rs",
        right: "&& self.slots.run(key).is_none()\n",
        wrong: "&& self.slots.run(key).is_none_or(slots::Run::is_starting)\n",
    },
    Bug {
        name: "no look whether a round runs",
        file: "crates/core/src/dispatch/mod.rs",
        right: "&& self.slots.run(key).is_none()\n",
        wrong: "&& self.slots.run(key).is_none_or(|_| true)\n",
    },
    Bug {
        name: "birth undoes a pause",
        file: "crates/engine/src/round/due.rs",
        right: "Change::Mark(schedule)",
        wrong: "Change::Schedule(schedule)",
    },
    Bug {
        name: "mark goes back",
        file: "crates/engine/src/store/time.rs",
        right: "THEN schedules.mark_ms ELSE excluded.mark_ms END",
        wrong: "THEN excluded.mark_ms ELSE excluded.mark_ms END",
    },
    Bug {
        name: "stop waits for the disk",
        file: "crates/engine/src/daemon/letters.rs",
        right: "        self.rounds.cancel_all();\n",
        wrong: "",
    },
];

/// Puts back all bugs, or those whose names are given, and prints a table of what was said.
pub(super) fn run(named: &[&str]) -> Result<(), String> {
    let chosen: Vec<&Bug> =
        BUGS.iter().filter(|bug| named.is_empty() || named.iter().any(|name| bug.name.contains(name))).collect();
    if chosen.is_empty() {
        let names: Vec<_> = BUGS.iter().map(|bug| bug.name).collect();
        return Err(format!("no such bug; there are: {}", names.join(", ")));
    }
    let copy = root().join("target/bugs");
    copy_workspace(&copy)?;
    let mut rows = Vec::new();
    let mut missed = Vec::new();
    for bug in chosen {
        println!("== {}", bug.name);
        match bug.caught(&copy)? {
            Some((seeds, said)) => rows.push(format!("| {} | `{}` | {seeds} | {said} |", bug.name, bug.file)),
            None => missed.push(bug.name),
        }
    }
    println!("\n| bug | put back in | seeds | what was said |\n|---|---|---|---|");
    rows.iter().for_each(|row| println!("{row}"));
    if missed.is_empty() { Ok(()) } else { Err(format!("not caught within {SEEDS} seeds: {}", missed.join(", "))) }
}

impl Bug {
    /// How many seeds it took, and the first words of the first failure.
    fn caught(&self, copy: &Path) -> Result<Option<(String, String)>, String> {
        let path = copy.join(self.file);
        let text = std::fs::read_to_string(&path).map_err(|why| format!("read {}: {why}", self.file))?;
        let found = text.matches(self.right).count();
        if found != 1 {
            return Err(format!("`{}` is {found} times in {}: tell the bug anew", self.right.trim(), self.file));
        }
        write(&path, text.replacen(self.right, self.wrong, 1).as_bytes())?;
        let said = simulate(copy);
        write(&path, text.as_bytes())?;
        said
    }
}

/// Runs the simulator of the copy until something is wrong.
fn simulate(copy: &Path) -> Result<Option<(String, String)>, String> {
    let mut command = cargo();
    command.current_dir(copy).env("CARGO_TARGET_DIR", root().join("target"));
    command.args(["test", "--quiet", "-p", "loopwright", "--test", "sim", "--", "1", "--seeds", SEEDS, "--first"]);
    let (mut said, mut seeds) = (None, None);
    let ended = watch(command, &mut |line| {
        if let Some((_, why)) = line.strip_prefix("FAILED seed ").and_then(|told| told.split_once(": ")) {
            said.get_or_insert_with(|| shortened(why));
        }
        if let Some(told) = line.strip_prefix("sim: ") {
            seeds = told.split(' ').next().map(str::to_owned);
        }
    });
    match (seeds, said) {
        (Some(seeds), Some(said)) => Ok(Some((seeds, said))),
        (Some(_), None) => Ok(None),
        // It was not built, or did not come to its end.
        (None, _) => Err(ended.err().unwrap_or_else(|| "the simulator said nothing".to_owned())),
    }
}

/// As much as a table holds: without the rows that a failure names.
fn shortened(why: &str) -> String {
    let end = why.find(" RoundRow").or_else(|| why.find(" ReceiptRow")).unwrap_or(why.len());
    let text: String = why[..end].chars().take(160).collect();
    text.replace('|', "/")
}

/// Copies what git knows of, and what it would; what is there and the same stays, so that cargo need not build it again.
fn copy_workspace(copy: &Path) -> Result<(), String> {
    let mut command = program("git");
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = command.output().map_err(|why| format!("git ls-files: {why}"))?;
    if !output.status.success() {
        return Err("git ls-files failed".to_owned());
    }
    for name in String::from_utf8_lossy(&output.stdout).split('\0').filter(|name| !name.is_empty()) {
        let from = root().join(name);
        // What was deleted and not committed yet is not there; links are not followed.
        let Ok(meta) = from.symlink_metadata() else { continue };
        if meta.is_file() {
            let bytes = std::fs::read(&from).map_err(|why| format!("read {name}: {why}"))?;
            write(&copy.join(name), &bytes)?;
        }
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if std::fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    let told = |why: std::io::Error| format!("write {}: {why}", path.display());
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).map_err(told)?;
    std::fs::write(path, bytes).map_err(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_can_still_be_put_back() {
        for bug in BUGS {
            let text = std::fs::read_to_string(root().join(bug.file)).expect("the file is there");
            assert_eq!(text.matches(bug.right).count(), 1, "{}: tell it anew", bug.name);
        }
    }

    #[test]
    fn failures_are_told_without_their_rows() {
        assert_eq!(shortened("P1: rounds overlap: RoundRow { id: 7 }"), "P1: rounds overlap:");
    }
}
