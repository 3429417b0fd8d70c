//! `cargo xtask test [FILTER]`: every check of the workspace in one go, ending in one line of counts.

use crate::command::{HOSTILE, THREADS_VARIABLE, cargo, run as run_command, run_watched, test_threads};
use crate::summary::{self, TestCounts};
use crate::{hostile, setup, sim, soak, tidy, trust};
use std::path::Path;
use std::time::Instant;

/// The most tests that may skip themselves because this host cannot run them. The number may only fall.
const SKIPS_ALLOWED: u64 = 0;

/// Names the file to which tests append their skips: the test runner hides the output of passing tests.
const SKIPS_VARIABLE: &str = "LOOPWRIGHT_TEST_SKIPS";

struct Step {
    name: &'static str,
    when: When,
    work: Work,
}

/// Whether a step also belongs to a run with a filter.
#[derive(PartialEq)]
enum When {
    Always,
    Whole,
}

enum Work {
    /// A function of xtask.
    Inside(fn() -> Result<(), String>),
    /// A cargo command that either succeeds or counts as one failure.
    Cargo { words: &'static [&'static str], env: &'static [(&'static str, &'static str)] },
    /// A cargo command that runs tests and prints counts; the filter is appended, or `whole` if there is none.
    Counted { words: &'static [&'static str], whole: &'static [&'static str], see: fn(&mut TestCounts, &str) },
    /// A suite of xtask that counts its own tests. It has already reported the cases that this host cannot run.
    Suite(fn() -> (TestCounts, Result<(), String>)),
}

const STEPS: &[Step] = &[
    Step { name: "set-up", when: When::Always, work: Work::Inside(setup::run) },
    Step { name: "format", when: When::Whole, work: Work::Cargo { words: &["fmt", "--all", "--check"], env: &[] } },
    Step {
        name: "lints",
        when: When::Whole,
        work: Work::Cargo {
            // The features are those of the tests, so that the lints read the code that runs.
            words: &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--features",
                HOSTILE,
                "--keep-going",
                "--",
                "-D",
                "warnings",
            ],
            env: &[],
        },
    },
    Step {
        name: "documentation",
        when: When::Whole,
        work: Work::Cargo { words: &["doc", "--workspace", "--no-deps"], env: &[("RUSTDOCFLAGS", "-D warnings")] },
    },
    Step { name: "tidy", when: When::Whole, work: Work::Inside(|| tidy::run(tidy::LengthRatchet::Keep)) },
    // One build for this step and the next ones: with other features or other packages, cargo would build the program
    // and everything below it again.
    Step {
        name: "build",
        when: When::Always,
        work: Work::Cargo { words: &["nextest", "run", "--no-run", "--workspace", "--features", HOSTILE], env: &[] },
    },
    Step {
        name: "tests",
        when: When::Always,
        work: Work::Counted {
            words: &["nextest", "run", "--workspace", "--features", HOSTILE],
            // The next step runs these, as root and as an ordinary user.
            whole: &["-E", "not binary(hostile)"],
            see: summary::add_nextest_line,
        },
    },
    Step { name: "hostile suite", when: When::Whole, work: Work::Suite(|| hostile::run_counted(&[])) },
    Step { name: "simulator", when: When::Whole, work: Work::Suite(sim::run_bounded) },
    Step {
        name: "soak",
        when: When::Whole,
        work: Work::Inside(|| {
            soak::SoakOptions::parse(&["--kills", "25", "--killed-rounds", "40"]).and_then(|soak| soak.run())
        }),
    },
    // A sample of the classes of makers, in loops with held-out cases; `cargo xtask trust` runs all combinations.
    Step {
        name: "trust",
        when: When::Whole,
        work: Work::Inside(|| {
            trust::TrustOptions::parse(&["--sample", "120", "--mode", "heldout"]).and_then(|trust| trust.run())
        }),
    },
    Step {
        name: "documentation's examples",
        when: When::Whole,
        work: Work::Counted { words: &["test", "--doc", "--workspace"], whole: &[], see: summary::add_libtest_line },
    },
];

pub(crate) fn run(filter: &[&str]) -> Result<(), String> {
    let skips = tempfile::NamedTempFile::new().map_err(|error| format!("make the file for skips: {error}"))?;
    let mut total = TestCounts::default();
    let mut elsewhere = 0;
    let mut broken = Vec::new();
    for step in STEPS.iter().filter(|step| filter.is_empty() || step.when == When::Always) {
        println!("\n== {}", step.name);
        let started = Instant::now();
        let (counts, ended) = perform(&step.work, filter, skips.path());
        println!("== {} took {:.1} s", step.name, started.elapsed().as_secs_f64());
        total += counts;
        if let Work::Suite(_) = step.work {
            elsewhere += counts.skipped;
        }
        if let Err(why) = ended {
            println!("== {} failed: {why}", step.name);
            broken.push(step.name);
        }
    }
    let skipped = print_skips(skips.path())?;
    // The test runner counted these as passed, but they proved nothing.
    total.passed = total.passed.saturating_sub(skipped);
    total.skipped += skipped;
    let counted = total.skipped - elsewhere;
    if counted > SKIPS_ALLOWED {
        println!("\n{counted} skipped, at most {SKIPS_ALLOWED} allowed");
        total.failed += 1;
    }
    if !broken.is_empty() {
        println!("\nfailed steps: {}", broken.join(", "));
    }
    println!("\n{total}");
    if total.failed == 0 { Ok(()) } else { Err(String::new()) }
}

/// A step that fails without naming a failed test counts as one failure, so that the last line cannot look green.
fn perform(work: &Work, filter: &[&str], skips: &Path) -> (TestCounts, Result<(), String>) {
    let mut counts = TestCounts::default();
    let ended = match work {
        Work::Inside(function) => function(),
        Work::Cargo { words, env } => {
            let mut command = cargo();
            command.args(*words).envs(env.iter().copied());
            run_command(command)
        }
        Work::Suite(function) => {
            let (suite_counts, ended) = function();
            counts = suite_counts;
            ended
        }
        Work::Counted { words, whole, see } => {
            let mut command = cargo();
            // A snapshot that differs is a failure here and creates no new file beside the old one.
            command.args(*words).args(if filter.is_empty() { *whole } else { filter });
            command.env(SKIPS_VARIABLE, skips).env("INSTA_UPDATE", "no");
            if words.first() == Some(&"nextest") {
                command.env(THREADS_VARIABLE, test_threads());
            }
            let ended = run_watched(command, &mut |line| see(&mut counts, line));
            if !(filter.is_empty() && whole.is_empty()) {
                // Tests outside the filter were not requested; only tests that skip themselves count.
                counts.skipped = 0;
            }
            ended
        }
    };
    if ended.is_err() && counts.failed == 0 {
        counts.failed = 1;
    }
    (counts, ended)
}

fn print_skips(file: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("read the skips: {error}"))?;
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("SKIPPED:")).collect();
    for line in &lines {
        println!("{line}");
    }
    Ok(lines.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_breaks_without_a_count_is_one_failure() {
        let (counts, ended) = perform(&Work::Inside(|| Err("broken".to_owned())), &[], Path::new("unused"));
        assert_eq!((counts.failed, ended), (1, Err("broken".to_owned())));
        let (counts, ended) = perform(&Work::Inside(|| Ok(())), &[], Path::new("unused"));
        assert_eq!((counts, ended), (TestCounts::default(), Ok(())));
    }

    #[test]
    fn only_lines_marked_as_skipped_are_skips() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), "SKIPPED: a: no kernel\nnoise\nSKIPPED: b: no kernel\n")
            .expect("it can be written");
        assert_eq!(print_skips(file.path()), Ok(2));
    }

    #[test]
    fn a_filtered_run_still_sets_up_builds_and_tests() {
        let names: Vec<&str> = STEPS.iter().filter(|step| step.when == When::Always).map(|step| step.name).collect();
        assert_eq!(names, ["set-up", "build", "tests"]);
    }
}
