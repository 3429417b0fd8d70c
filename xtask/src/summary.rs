//! Reads the counts in the last lines of test runners, as numbers that can be added.

use std::ops::AddAssign;

/// The number of tests by end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TestCounts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl AddAssign for TestCounts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for TestCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Takes nextest's summary as the whole count: it comes last, so a test that prints such a line is overruled.
pub(crate) fn add_nextest_line(counts: &mut TestCounts, line: &str) {
    *counts = nextest(line).unwrap_or(*counts);
}

/// Adds libtest's result of one crate.
pub(crate) fn add_libtest_line(counts: &mut TestCounts, line: &str) {
    *counts += libtest(line).unwrap_or_default();
}

/// Parses nextest's `Summary [ 1.2s] 3 tests run: 2 passed (1 slow), 1 failed, 4 skipped`; other lines are ignored.
fn nextest(line: &str) -> Option<TestCounts> {
    let plain = without_colour(line);
    let rest = plain.trim_start().strip_prefix("Summary")?;
    let (run, parts) = rest.split_once(':')?;
    run.contains("test").then(|| count(parts, ','))
}

/// Parses libtest's `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`.
fn libtest(line: &str) -> Option<TestCounts> {
    let plain = without_colour(line);
    let rest = plain.trim_start().strip_prefix("test result:")?;
    let (_, parts) = rest.split_once('.')?;
    Some(count(parts, ';'))
}

fn count(parts: &str, separator: char) -> TestCounts {
    let mut counts = TestCounts::default();
    for part in parts.split(separator) {
        let mut words = part.split_whitespace();
        let Some(number) = words.next().and_then(|word| word.parse::<u64>().ok()) else {
            continue;
        };
        match words.collect::<Vec<_>>().as_slice() {
            ["passed", ..] => counts.passed += number,
            ["failed", ..] | ["exec", "failed", ..] | ["timed", "out", ..] => counts.failed += number,
            ["skipped", ..] | ["ignored", ..] => counts.skipped += number,
            _ => {}
        }
    }
    counts
}

/// The line without its colour codes.
pub(crate) fn without_colour(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, tail)| tail);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, skipped: u64) -> Option<TestCounts> {
        Some(TestCounts { passed, failed, skipped })
    }

    #[test]
    fn nextest_summaries_of_every_shape_are_counted() {
        let table = [
            ("     Summary [   0.005s] 3 tests run: 3 passed, 0 skipped", counts(3, 0, 0)),
            ("     Summary [   1.2s] 1 test run: 1 passed, 7 skipped", counts(1, 0, 7)),
            ("Summary [ 61.0s] 9 tests run: 5 passed (2 slow), 2 failed, 2 timed out, 1 skipped", counts(5, 4, 1)),
            ("Summary [ 1s] 2/9 tests run: 1 passed, 1 exec failed, 0 skipped", counts(1, 1, 0)),
            (
                "\u{1b}[32;1m     Summary\u{1b}[0m [ 0.1s] \u{1b}[1m2\u{1b}[0m tests run: \u{1b}[1m2\u{1b}[0m passed, 0 skipped",
                counts(2, 0, 0),
            ),
            ("        PASS [   0.005s] xtask summary: 4 passed", None),
            ("Summary of another kind", None),
        ];
        for (line, expected) in table {
            assert_eq!(nextest(line), expected, "{line}");
        }
    }

    #[test]
    fn libtest_results_are_counted() {
        let line = "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.00s";
        assert_eq!(libtest(line), counts(3, 2, 1));
        assert_eq!(libtest("running 3 tests"), None);
    }

    #[test]
    fn the_last_summary_wins_and_results_of_crates_add_up() {
        let mut counts = TestCounts::default();
        add_nextest_line(&mut counts, "    Summary [1s] 9 tests run: 9 passed, 0 skipped");
        add_nextest_line(&mut counts, "    Summary [1s] 2 tests run: 1 passed, 1 failed, 0 skipped");
        add_nextest_line(&mut counts, "error: test run failed");
        add_libtest_line(&mut counts, "test result: ok. 3 passed; 0 failed; 0 ignored");
        add_libtest_line(&mut counts, "test result: ok. 4 passed; 0 failed; 0 ignored");
        assert_eq!(Some(counts), self::counts(8, 1, 0));
    }

    #[test]
    fn the_last_line_reads_as_the_readme_says() {
        assert_eq!(TestCounts { passed: 3, failed: 2, skipped: 1 }.to_string(), "3 passed, 2 failed, 1 skipped");
    }
}
