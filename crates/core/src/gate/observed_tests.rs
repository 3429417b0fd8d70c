//! Reads the number of tests that ran, and their ids if visible, from the output of common runners: positive evidence
//! for gates that write no report.
//!
//! The maker's code writes the output, so it can inflate the count. The inventory and base's own inputs guard against
//! that. Each runner's parser adds to the same [`ObservedTests`].

use crate::spec::CountFloor;
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The largest number of ids that are kept from one output.
const TESTS_MAX: usize = 200_000;

/// The outcome of one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestOutcome {
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// It did not run.
    Skipped,
}

/// One test in the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedTest {
    /// Its id as the runner spells it.
    pub id: String,
    /// Its outcome.
    pub end: TestOutcome,
}

/// The tests of a run, as its output shows them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedTests {
    /// Tests with an id.
    pub tests: Vec<ObservedTest>,
    /// Sums from summary lines.
    pub summary: Option<SummaryCounts>,
}

/// The sums of the summary lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SummaryCounts {
    /// Passed tests.
    pub passed: u64,
    /// Failed tests.
    pub failed: u64,
    /// The part of the failed tests that may not be separate tests: pytest counts an error beside the test that had it.
    pub errors: u64,
    /// Tests that did not run.
    pub skipped: u64,
}

impl ObservedTests {
    pub(super) fn push(&mut self, id: &str, end: TestOutcome) {
        if self.tests.len() < TESTS_MAX {
            self.tests.push(ObservedTest { id: id.to_owned(), end });
        }
    }

    fn of(&self, end: TestOutcome) -> u64 {
        self.tests.iter().filter(|test| test.end == end).count() as u64
    }

    /// Passed tests: the summary's number if there is one, else the number of passed ids.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.summary.map_or_else(|| self.of(TestOutcome::Passed), |summary| summary.passed)
    }

    /// Failed tests.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.summary.map_or_else(|| self.of(TestOutcome::Failed), |summary| summary.failed)
    }

    /// Skipped tests.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.summary.map_or_else(|| self.of(TestOutcome::Skipped), |summary| summary.skipped)
    }

    /// The number of tests that certainly ran, with any outcome. Without a summary only passed tests count: runners
    /// show a failed test repeatedly.
    #[must_use]
    pub fn ran(&self) -> u64 {
        self.summary.map_or_else(
            || self.of(TestOutcome::Passed),
            |sum| sum.passed.saturating_add(sum.failed).saturating_sub(sum.errors),
        )
    }

    /// Ids that passed.
    #[must_use]
    pub fn passed_ids(&self) -> BTreeSet<&str> {
        let passed = self.tests.iter().filter(|test| test.end == TestOutcome::Passed && !test.id.is_empty());
        passed.map(|test| test.id.as_str()).collect()
    }

    fn add(&mut self, part: SummaryCounts) {
        let sum = self.summary.get_or_insert_default();
        sum.passed = sum.passed.saturating_add(part.passed);
        sum.failed = sum.failed.saturating_add(part.failed);
        sum.errors = sum.errors.saturating_add(part.errors);
        sum.skipped = sum.skipped.saturating_add(part.skipped);
    }
}

/// Checks a run that ended with success: no test in its output may have failed, and at least as many tests must pass as
/// base ran. `base` is the output of base's own run, if known.
///
/// # Errors
/// The contradiction: a code and a fact.
pub fn check_test_results(seen: &ObservedTests, base: Option<&ObservedTests>) -> Result<(), (&'static str, String)> {
    if seen.failed() > 0 {
        return Err(("tests-failed", format!("{} tests failed although the command succeeded", seen.failed())));
    }
    let floor = base.map_or(0, ObservedTests::ran);
    if seen.passed() < floor {
        return Err(("tests-missing", format!("{} tests passed, base ran {floor}", seen.passed())));
    }
    Ok(())
}

/// Compares a run with the floor of `tests_at_least`.
///
/// With `base`, the function compares passed counts, and ids that passed on base must pass here too: a skipped test
/// counts as missing. Base's ids are only compared if this run shows ids at all.
///
/// # Errors
/// The missing tests, in words.
pub fn check_count_floor(
    floor: CountFloor,
    seen: &ObservedTests,
    base: Option<&ObservedTests>,
) -> Result<String, String> {
    let passed = seen.passed();
    let wanted = match floor {
        CountFloor::Number(number) => number,
        CountFloor::Base(_) => {
            base.map(ObservedTests::passed).ok_or("base has no count of tests to compare with")? as f64
        }
    };
    // With a floor of zero, a run without tests would pass.
    if (passed as f64) < wanted.max(1.0) {
        return Err(format!("{passed} tests passed, at least {} must", wanted.max(1.0)));
    }
    if let (CountFloor::Base(_), Some(base)) = (floor, base) {
        let ids = seen.passed_ids();
        let missing: Vec<&str> = base.passed_ids().difference(&ids).copied().take(5).collect();
        if !ids.is_empty() && !missing.is_empty() {
            return Err(format!("base passed tests that are missing here: {}", missing.join(", ")));
        }
    }
    Ok(format!("{passed} tests passed, at least {wanted} had to"))
}

/// Parses both streams of a run.
#[must_use]
pub fn read_observed_tests(stdout: &str, stderr: &str) -> ObservedTests {
    let mut seen = ObservedTests::default();
    let mut plan = None;
    for line in stdout.lines().chain(stderr.lines()) {
        let line = strip_colours(line);
        let line = line.trim_end();
        let _ = summary(&mut seen, line)
            || test_line(&mut seen, line)
            || go_event(&mut seen, line)
            || tap(&mut seen, &mut plan, line);
    }
    // A TAP plan without its results is a run that ended early: planned tests without a result count as failed.
    if let (Some(plan), None) = (plan, seen.summary) {
        let missing = u64::saturating_sub(plan, seen.tests.len() as u64).min(1000);
        (0..missing).for_each(|_| seen.push("", TestOutcome::Failed));
    }
    seen
}

/// Removes SGR sequences, which runners print even into files if colours are enabled.
fn strip_colours(line: &str) -> std::borrow::Cow<'_, str> {
    static SGR: LazyLock<Regex> = LazyLock::new(|| pattern(r"\x1b\[[0-9;]*m"));
    SGR.replace_all(line, "")
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant")
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

impl SummaryCounts {
    fn count(&mut self, word: &str, count: u64) {
        match word {
            "passed" | "xpassed" | "pass" | "passing" => self.passed += count,
            "failed" | "timed out" | "fail" | "failing" | "cancelled" => self.failed += count,
            "error" | "errors" => {
                self.failed += count;
                self.errors += count;
            }
            _ => self.skipped += count,
        }
    }
}

/// Sums `3 passed`, `1 failed`, `2 skipped` anywhere in a line.
fn words(line: &str) -> SummaryCounts {
    static PART: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"(\d+) (passed|failed|skipped|ignored|errors?|xfailed|xpassed|deselected|todo|timed out)\b")
    });
    let mut sum = SummaryCounts::default();
    PART.captures_iter(line).for_each(|part| sum.count(&part[2], number(&part[1])));
    sum
}

/// The summary lines of `cargo test` and nextest, pytest and unittest, `node --test`, jest, vitest and mocha.
fn summary(seen: &mut ObservedTests, line: &str) -> bool {
    static PYTEST: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"^=*\s*(?:\d+ (?:passed|failed|skipped|errors?|xfailed|xpassed|deselected|warnings?),? ?)+in [\d.]+")
    });
    static ENDED: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(skipped|failures|errors|expected failures)=(\d+)"));
    static NODE: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^(?:#|ℹ) (?<word>pass|fail|cancelled|skipped|todo) (?<count>\d+)$"));
    static MOCHA: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s+(?<count>\d+) (?<word>passing|failing|pending)\b"));
    let trimmed = line.trim_start();
    let is_rust = line.starts_with("test result: ") || (trimmed.starts_with("Summary [") && line.contains(" run:"));
    if is_rust || PYTEST.is_match(line) || line.starts_with("Tests: ") || trimmed.starts_with("Tests  ") {
        seen.add(words(line));
    } else if let Some(ran) = line.strip_prefix("Ran ").and_then(|rest| rest.split_once(" test")) {
        seen.add(SummaryCounts { passed: number(ran.0), ..SummaryCounts::default() });
    } else if line == "OK" || line.starts_with("OK (") || line.starts_with("FAILED (") {
        // `Ran N` counted all tests as passed; this subtracts the tests that did not pass.
        let sum = seen.summary.get_or_insert_default();
        for part in ENDED.captures_iter(line) {
            let count = number(&part[2]);
            sum.passed = sum.passed.saturating_sub(count);
            if &part[1] == "skipped" { sum.skipped += count } else { sum.failed += count }
        }
    } else if let Some(found) = NODE.captures(line).or_else(|| MOCHA.captures(line)) {
        let mut part = SummaryCounts::default();
        part.count(&found["word"], number(&found["count"]));
        seen.add(part);
    } else {
        return false;
    }
    true
}

/// The short summary of pytest repeats what a verbose run already showed.
const PYTEST_SHORT: &str = r"^(?<end>PASSED|FAILED|ERROR|XFAIL|XPASS) (?<id>\S+::\S.*?)(?: - .*)?$";

/// Lines about one test: of `cargo test`, nextest, pytest, unittest, `go test -v`, and node's runners.
const TEST_LINES: [&str; 7] = [
    r"^test (?<id>.+?)(?: - should panic)? \.\.\. (?<end>ok|FAILED|ignored)",
    r"^\s+(?<end>PASS|FAIL|SKIP|TIMEOUT|SIGABRT|SIGSEGV) \[[^\]]*\] +(?:\([^)]*\) +)?(?<id>.+)$",
    r"^(?<id>\S+::.+?) (?<end>PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)\b",
    PYTEST_SHORT,
    r"^(?<id>\w+ \([\w.]+\)).* \.\.\. (?<end>ok|FAIL|ERROR|skipped)",
    r"^\s*--- (?<end>PASS|FAIL|SKIP): (?<id>\S+)",
    r"^\s*(?<end>✔|✓|√|✖|✗|✕|○|﹣|↓) (?<id>.+?)(?: \(\d+(?:\.\d+)? ?m?s\)| \d+ms)?(?: # .*)?$",
];

fn test_line(seen: &mut ObservedTests, line: &str) -> bool {
    static EACH: LazyLock<[Regex; 7]> = LazyLock::new(|| TEST_LINES.map(pattern));
    let Some((shape, found)) = EACH.iter().find_map(|shape| Some((shape, shape.captures(line)?))) else {
        return false;
    };
    let is_repeated = || shape.as_str() == PYTEST_SHORT && seen.tests.iter().any(|test| test.id == found["id"]);
    if !is_repeated() {
        seen.push(&found["id"], outcome(&found["end"]));
    }
    true
}

/// The outcome of a test by its runner's word.
fn outcome(word: &str) -> TestOutcome {
    match word {
        "ok" | "PASS" | "PASSED" | "XPASS" | "pass" | "✔" | "✓" | "√" => TestOutcome::Passed,
        "ignored" | "skipped" | "SKIP" | "SKIPPED" | "XFAIL" | "skip" | "○" | "﹣" | "↓" => TestOutcome::Skipped,
        _ => TestOutcome::Failed,
    }
}

/// `go test -json`.
fn go_event(seen: &mut ObservedTests, line: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct GoEvent {
        action: String,
        #[serde(default)]
        package: String,
        test: Option<String>,
    }
    if !line.starts_with('{') || !line.contains("\"Action\"") {
        return false;
    }
    let Ok(event) = serde_json::from_str::<GoEvent>(line) else { return false };
    if let Some(test) = event.test.filter(|_| matches!(event.action.as_str(), "pass" | "skip" | "fail")) {
        seen.push(&format!("{}.{test}", event.package), outcome(&event.action));
    }
    true
}

/// Any other TAP.
fn tap(seen: &mut ObservedTests, plan: &mut Option<u64>, line: &str) -> bool {
    static POINT: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(not )?ok\b(?: +\d+)?(?: +-)? *(.*)$"));
    static PLAN: LazyLock<Regex> = LazyLock::new(|| pattern(r"^1\.\.(\d+)"));
    if let Some(found) = PLAN.captures(line) {
        *plan = Some(number(&found[1]));
        return true;
    }
    // `ok  	example.org/pkg	0.3s` is Go's line for a package.
    let Some(found) = POINT.captures(line).filter(|_| !line.contains('\t')) else { return false };
    let text = &found[2];
    let lower = text.to_ascii_lowercase();
    let end = if lower.contains("# skip") || lower.contains("# todo") {
        TestOutcome::Skipped
    } else if found.get(1).is_some() {
        TestOutcome::Failed
    } else {
        TestOutcome::Passed
    };
    seen.push(text.split(" # ").next().unwrap_or_default().trim(), end);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::BaseWord;

    const BASE: CountFloor = CountFloor::Base(BaseWord::Base);

    fn count(output: &str) -> (u64, u64, u64, usize) {
        let seen = read_observed_tests(output, "");
        (seen.passed(), seen.failed(), seen.skipped(), seen.tests.len())
    }

    #[test]
    fn runners_are_understood() {
        for (runner, output, expected) in [
            (
                "cargo",
                "test a::b ... ok\ntest c ... ignored\ntest result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\ntest result: ok. 2 passed; 0 failed; 0 ignored",
                (3, 0, 1, 2),
            ),
            (
                "nextest",
                "        PASS [   0.005s] core a::b\n        FAIL [   0.1s] (1/2) core c\n     Summary [   0.1s] 2 tests run: 1 passed, 1 failed, 3 skipped",
                (1, 1, 3, 2),
            ),
            ("pytest", "..s\n===== 5 passed, 1 skipped in 0.12s =====", (5, 0, 1, 0)),
            ("pytest -q", "5 passed in 0.12s", (5, 0, 0, 0)),
            (
                "pytest -v",
                "tests/test_a.py::test_x PASSED [ 50%]\ntests/test_a.py::test_y SKIPPED (no) [100%]\n1 passed, 1 skipped in 0.01s",
                (1, 0, 1, 2),
            ),
            (
                "pytest -rA",
                "PASSED tests/test_a.py::test_x\nFAILED tests/test_a.py::test_y - assert 1\n1 failed, 1 passed in 0.01s",
                (1, 1, 0, 2),
            ),
            ("unittest", "test_a (t.T.test_a) ... ok\n----\nRan 3 tests in 0.001s\n\nOK (skipped=1)", (2, 0, 1, 1)),
            ("unittest failing", "Ran 3 tests in 0.001s\n\nFAILED (failures=1, errors=1)", (1, 2, 0, 0)),
            (
                "node tap",
                "TAP version 13\nok 1 - adds\nnot ok 2 - subs\n1..2\n# tests 2\n# pass 1\n# fail 1\n# skipped 0",
                (1, 1, 0, 2),
            ),
            ("node spec", "✔ adds (0.5ms)\nℹ tests 1\nℹ pass 1\nℹ fail 0", (1, 0, 0, 1)),
            ("jest", "  ✓ adds (2 ms)\nTests:       1 skipped, 3 passed, 4 total", (3, 0, 1, 1)),
            ("vitest", " ✓ a.test.ts (3 tests) 4ms\n      Tests  3 passed (3)", (3, 0, 0, 1)),
            ("mocha", "  3 passing (4ms)\n  1 pending", (3, 0, 1, 0)),
            (
                "go -v",
                "=== RUN   TestX\n--- PASS: TestX (0.00s)\n    --- SKIP: TestX/a (0.00s)\nok  \texample.org/p\t0.2s",
                (1, 0, 1, 2),
            ),
            (
                "go -json",
                r#"{"Action":"pass","Package":"p","Test":"TestX","Elapsed":0}
{"Action":"pass","Package":"p","Elapsed":0}"#,
                (1, 0, 0, 1),
            ),
            ("tap", "1..3\nok 1 - a\nok 2 - b # SKIP no", (1, 1, 1, 3)),
            ("nothing", "hello world\n3 warnings", (0, 0, 0, 0)),
        ] {
            assert_eq!(count(output), expected, "{runner}");
        }
    }

    #[test]
    fn colours_do_not_hide_a_count() {
        assert_eq!(count("\u{1b}[32m5 passed\u{1b}[0m\u{1b}[32m in 0.12s\u{1b}[0m").0, 5);
    }

    #[test]
    fn base_is_a_floor_for_counts_and_ids() {
        let base = read_observed_tests("test a ... ok\ntest b ... ok\ntest result: ok. 2 passed; 0 failed", "");
        let same =
            read_observed_tests("test b ... ok\ntest a ... ok\ntest c ... ok\ntest result: ok. 3 passed; 0 failed", "");
        assert!(check_count_floor(BASE, &same, Some(&base)).is_ok());
        let swapped = read_observed_tests("test a ... ok\ntest c ... ok\ntest result: ok. 2 passed; 0 failed", "");
        assert!(check_count_floor(BASE, &swapped, Some(&base)).expect_err("b is gone").contains(": b"));
        let skipped = read_observed_tests(
            "test a ... ok\ntest b ... ignored\ntest result: ok. 1 passed; 0 failed; 1 ignored",
            "",
        );
        assert!(check_count_floor(BASE, &skipped, Some(&base)).is_err());
        assert!(check_count_floor(BASE, &same, None).is_err());
    }

    #[test]
    fn successful_exit_does_not_outweigh_failed_tests_in_the_output() {
        let red = read_observed_tests("Ran 4 tests in 0.001s\n\nFAILED (failures=1)", "");
        let green = read_observed_tests("Ran 4 tests in 0.001s\n\nOK", "");
        assert_eq!(check_test_results(&green, Some(&red)), Ok(()));
        assert_eq!(check_test_results(&green, None), Ok(()));
        assert_eq!(
            check_test_results(&ObservedTests::default(), None),
            Ok(()),
            "a gate that shows no tests may be no suite"
        );
        let code = |seen: &ObservedTests| check_test_results(seen, Some(&red)).expect_err("it speaks against it").0;
        assert_eq!(code(&red), "tests-failed");
        assert_eq!(code(&ObservedTests::default()), "tests-missing");
        assert_eq!(code(&read_observed_tests("Ran 3 tests in 0.001s\n\nOK", "")), "tests-missing");
        assert_eq!(code(&read_observed_tests("Ran 4 tests in 0.001s\n\nOK (skipped=1)", "")), "tests-missing");
    }

    #[test]
    fn error_beside_its_test_is_not_a_second_test() {
        assert_eq!(read_observed_tests("=== 2 passed, 1 error in 0.12s ===", "").ran(), 2);
        assert_eq!(read_observed_tests("✖ adds (1ms)\n✖ adds (1ms)\n✔ subs (1ms)", "").ran(), 1);
    }

    #[test]
    fn run_without_tests_never_passes() {
        assert!(check_count_floor(CountFloor::Number(0.0), &read_observed_tests("bye", ""), None).is_err());
        assert!(check_count_floor(BASE, &read_observed_tests("", ""), Some(&ObservedTests::default())).is_err());
        assert!(check_count_floor(CountFloor::Number(2.0), &read_observed_tests("3 passed in 0.1s", ""), None).is_ok());
    }
}
