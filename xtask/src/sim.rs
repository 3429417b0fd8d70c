//! `cargo xtask sim [SEED] [--seeds N]`: starts the engine's simulator and counts its results. The simulator is a test
//! program of the library: the real daemon, store and rounds on a manual clock, under seeded faults. `cargo xtask sim
//! --bugs` puts known bugs back, one at a time, and requires the simulator to catch each of them.

mod bugs;

use crate::command::{HOSTILE, cargo, run_watched};
use crate::summary::TestCounts;

/// The number of seeds that the test command runs.
const SEEDS: &str = "200";
/// From this number of seeds on, an optimized build saves more time than it takes.
const MANY: u64 = 3_000;

pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    match words {
        ["--bugs", named @ ..] => bugs::run(named),
        words => counted(words).1,
    }
}

/// The seeds of the test command.
pub(crate) fn run_bounded() -> (TestCounts, Result<(), String>) {
    counted(&["1", "--seeds", SEEDS])
}

fn counted(words: &[&str]) -> (TestCounts, Result<(), String>) {
    let mut command = cargo();
    // With the whole workspace and its features, cargo builds nothing again that the tests have built.
    command.args(["test", "--quiet", "--workspace", "--features", HOSTILE, "--test", "sim"]);
    if is_many(words) {
        command.args(["--profile", "sim"]);
    }
    command.arg("--").args(words);
    let mut counts = TestCounts::default();
    let ended = run_watched(command, &mut |line| see(&mut counts, line));
    (counts, ended)
}

fn is_many(words: &[&str]) -> bool {
    let asked = words.windows(2).find(|pair| pair[0] == "--seeds").and_then(|pair| pair[1].parse().ok());
    asked.is_some_and(|seeds: u64| seeds >= MANY)
}

/// Reads `sim: 200 seeds, 0 failed, …`.
fn see(counts: &mut TestCounts, line: &str) {
    let Some(summary) = line.strip_prefix("sim: ") else { return };
    let mut numbers = summary.split(", ").filter_map(|part| part.split(' ').next()?.parse::<u64>().ok());
    if let (Some(seeds), Some(failed)) = (numbers.next(), numbers.next()) {
        counts.passed += seeds.saturating_sub(failed);
        counts.failed += failed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_seeds_are_run_by_an_optimized_build() {
        assert!(is_many(&["20000", "--seeds", "100000"]));
        assert!(!is_many(&["1", "--seeds", SEEDS]) && !is_many(&["100000"]));
    }

    #[test]
    fn seeds_are_counted_as_tests() {
        let mut counts = TestCounts::default();
        see(&mut counts, "FAILED seed 7 at commit abc: P1");
        see(&mut counts, "sim: 200 seeds, 3 failed, 410 lives, 9 due moments in 2 receipts, 7 rounds (); 41 s");
        assert_eq!((counts.passed, counts.failed), (197, 3));
    }
}
