//! The failure signature, by which the no-progress guard detects that two attempts failed in the same way.

use super::{GateResult, GateStatus};
use crate::hash;
use regex::Regex;
use std::sync::LazyLock;

/// The number of failing lines of one gate that count.
const LINES_MAX: usize = 3;

/// The parts that differ between two runs of the same failure: temporary paths, hashes, durations, numbers.
static NOISE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:/tmp|/var/folders|/private|/var/tmp|/dev/shm|/home|/root)/[^\s:'\x22)]*|0x[0-9a-fA-F]+|\b[0-9a-f]{7,64}\b|\d+(?:\.\d+)?(?:ms|us|µs|ns|s|m)?")
        .expect("the pattern is a constant")
});

/// Lines on which programs usually report errors.
static FAILING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:error|fail(?:ed|ure|ures)?|panicked|exception|assert\w*|not ok|expected|mismatch|fatal)\b|^E\s|Error\b|✖|✗|✕|^not ok")
        .expect("the pattern is a constant")
});

/// A stable signature of the gates that did not pass; empty if all passed.
///
/// The same failure on another machine, at another time, in another temporary folder has the same signature. Another
/// gate, another exit code or another failing line changes it.
#[must_use]
pub fn signature(results: &[GateResult]) -> String {
    let mut fields: Vec<String> = Vec::new();
    for result in results.iter().filter(|one| matches!(one.status, GateStatus::Rejected | GateStatus::Failed)) {
        fields.push(format!("{} {} {:?} {:?}", result.name, result.status, result.exit, result.reason));
        fields.extend(failing_lines(&result.excerpt));
    }
    if fields.is_empty() {
        return String::new();
    }
    let fields: Vec<&[u8]> = fields.iter().map(String::as_bytes).collect();
    hash::hash_fields(&fields)
}

fn failing_lines(excerpt: &str) -> Vec<String> {
    let said: Vec<&str> = excerpt.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let failing = said.iter().filter(|line| FAILING.is_match(line)).take(LINES_MAX);
    let mut lines: Vec<String> = failing.map(|line| normalise(line)).collect();
    if lines.is_empty() {
        lines.extend(said.last().map(|line| normalise(line)));
    }
    lines
}

fn normalise(line: &str) -> String {
    NOISE.replace_all(line, "#").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(name: &str, exit: i32, excerpt: &str) -> GateResult {
        let mut result = GateResult::new(name, GateStatus::Rejected).with_reason("exit");
        result.exit = Some(exit);
        result.excerpt = excerpt.to_owned();
        result
    }

    #[test]
    fn noise_does_not_change_the_signature() {
        let one = failing("tests", 1, "ran in 0.31s\nE assert 3 == 4 at /tmp/a1/x.py:12\n0xdeadbeef");
        let two = failing("tests", 1, "ran in 7.90s\nE assert 3 == 4 at /tmp/zz9/x.py:12\n0xfeedface");
        assert_eq!(signature(&[one]), signature(&[two]));
    }

    #[test]
    fn another_failure_has_another_signature() {
        let base = failing("tests", 1, "FAILED test_add");
        for other in [
            failing("tests", 1, "FAILED test_sub"),
            failing("lint", 1, "FAILED test_add"),
            failing("tests", 2, "FAILED test_add"),
        ] {
            assert_ne!(signature(std::slice::from_ref(&base)), signature(&[other]));
        }
    }

    #[test]
    fn passed_gates_do_not_count() {
        assert_eq!(signature(&[GateResult::new("a", GateStatus::Passed)]), "");
        let bad = failing("tests", 1, "error: x");
        let with = [GateResult::new("a", GateStatus::Passed), bad.clone()];
        assert_eq!(signature(&with), signature(&[bad]));
    }
}
