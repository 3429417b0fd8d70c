//! The judgement of a run with canaries: which falsified tests failed, which survived, and which other tests failed.

use super::super::super::gate::observed_tests::{self, TestOutcome};
use super::TestCanary;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The result of a run with canaries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CanaryReport {
    /// Falsified tests that failed, by their index.
    pub died: Vec<usize>,
    /// Falsified tests that passed, by their index.
    pub survived: Vec<usize>,
    /// Falsified tests that the run shows neither as failed nor as passed, although it shows others: it stopped early.
    pub missing: Vec<usize>,
    /// Failed tests that were not falsified.
    pub others: Vec<String>,
}

/// The names of the tests of each file.
pub type TestsByFile = BTreeMap<String, BTreeSet<String>>;

/// Lines about a failed test that the parser of whole runs does not use, because they repeat others.
const FAILED_LINES: [&str; 8] = [
    // A file that pytest could not load.
    r"^ERROR (?<id>\S+\.py)\b",
    // unittest
    r"^(?:FAIL|ERROR): (?<id>\S+ \([\w.]+\))",
    // jest
    r"^\s*● (?<id>.+)$",
    // vitest
    r"^\s*(?:FAIL|×|❯)\s+\S+\s+>\s+(?<id>.+)$",
    // mocha's list of failures, and RSpec's
    r"^\s+\d+\) (?<id>.+?):?$",
    r"^rspec \S+ # (?<id>.+)$",
    // Gradle, Maven, xUnit
    r"^(?<id>\S+ > \S.*?) FAILED",
    r"^\[ERROR\]\s+(?<id>[\w.$]+)(?::\d+|\s|$)",
];

/// The ids of the tests that a run reports as failed, from its streams.
#[must_use]
pub fn failed_test_ids(stdout: &str, stderr: &str) -> BTreeSet<String> {
    static EACH: LazyLock<[Regex; 8]> =
        LazyLock::new(|| FAILED_LINES.map(|line| Regex::new(line).expect("the patterns are constants")));
    static TITLE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\s{5,}(?<id>\S.*?):$").expect("the pattern is a constant"));
    let seen = observed_tests::read_observed_tests(stdout, stderr);
    let mut ids: BTreeSet<String> = seen
        .tests
        .into_iter()
        .filter(|test| test.end == TestOutcome::Failed && !test.id.is_empty())
        .map(|test| test.id)
        .collect();
    for line in stdout.lines().chain(stderr.lines()) {
        let found = EACH.iter().chain([&*TITLE]).find_map(|shape| shape.captures(line));
        ids.extend(found.map(|found| found["id"].trim().to_owned()));
    }
    ids
}

/// Whether a report names this test or its whole file among the failed ones.
#[must_use]
pub fn is_reported_failed(failed: &BTreeSet<String>, path: &str, name: &str) -> bool {
    is_file_failed(failed, path) || failed.iter().any(|id| names_test(id, name))
}

/// Whether a report names this falsified test or its whole file among the failed ones, and not a test of the same name in
/// another file.
#[must_use]
pub fn is_own_failure(failed: &BTreeSet<String>, canary: &TestCanary, all: &TestsByFile) -> bool {
    let is_own = |id: &String| names_test(id, &canary.name) && !is_of_another_file(id, canary, all);
    is_file_failed(failed, &canary.path) || failed.iter().any(is_own)
}

/// Whether a report names a whole file as failed, as pytest does with one that it cannot load.
#[must_use]
pub fn is_file_failed(failed: &BTreeSet<String>, path: &str) -> bool {
    let module = path.rsplit_once('.').map_or(path, |(stem, _)| stem).replace('/', ".");
    failed.iter().any(|id| {
        id == path
            || id.split([' ', '(']).any(|part| part == module || part.ends_with(&format!("_FailedTest.{module}")))
    })
}

/// Whether an id of a report names a test: the name is its last part, before any parameters.
#[must_use]
pub fn names_test(id: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    id.match_indices(name).any(|(at, _)| {
        let before = id[..at].chars().next_back().is_none_or(|c| !is_word(c) || !name.starts_with(is_word));
        let rest = &id[at + name.len()..];
        let after = rest.chars().next().is_none_or(|c| !is_word(c));
        // A name in the middle is the module of another test, except before parameters.
        let is_last = rest.is_empty()
            || ["[", "(", " (", " [", "/", "#", ")", ":"].iter().any(|mark| rest.starts_with(mark))
                && !rest.starts_with("::");
        before && after && is_last
    })
}

/// Compares the ids of a run with the tests that were falsified for it. `passed` is empty if the run does not show passed
/// tests; then a test that did not fail has survived. `all` are the tests of every file.
#[must_use]
pub fn judge_canaries(
    canaries: &[TestCanary],
    failed: &BTreeSet<String>,
    passed: &BTreeSet<String>,
    all: &TestsByFile,
) -> CanaryReport {
    let mut report = CanaryReport::default();
    let is_own = |id: &str, canary: &TestCanary| names_test(id, &canary.name) && !is_of_another_file(id, canary, all);
    for (at, canary) in canaries.iter().enumerate() {
        let is_in = |ids: &BTreeSet<String>| ids.iter().any(|id| is_own(id, canary));
        let list = match (is_in(failed), passed.is_empty() || is_in(passed)) {
            (true, _) => &mut report.died,
            (false, true) => &mut report.survived,
            (false, false) => &mut report.missing,
        };
        list.push(at);
    }
    let is_falsified = |id: &String| canaries.iter().any(|canary| is_own(id, canary));
    let is_test = |id: &String| all.values().flatten().any(|name| names_test(id, name));
    report.others = failed.iter().filter(|id| !is_falsified(id) && is_test(id)).cloned().collect();
    report
}

/// Whether an id is about a test of the same name in another file: it names that file and not the one of this test. Two
/// modules often have tests of one name, and a platform may compile only one of them.
fn is_of_another_file(id: &str, canary: &TestCanary, all: &TestsByFile) -> bool {
    // The words of a test's own name, often a sentence, say nothing about its file.
    let place = id.replace(canary.name.as_str(), " ");
    let names_file =
        |path: &str| place.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == stem(path));
    let mut others = all.iter().filter(|(path, names)| **path != canary.path && names.contains(&canary.name));
    others.any(|(path, _)| names_file(path)) && !names_file(&canary.path)
}

/// The word by which ids name a file: its name without endings, or its folder if the name says nothing.
fn stem(path: &str) -> &str {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or(path);
    let stem = name.split('.').next().unwrap_or(name);
    let is_plain = matches!(stem, "mod" | "lib" | "index" | "__init__");
    parts.next().filter(|_| is_plain).unwrap_or(stem)
}
