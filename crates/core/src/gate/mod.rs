//! The meaning of mechanical gates: the result type, and the pure judgement of everything that a gate checks.
//!
//! Nothing here runs a command or reads a file; `loopwright::gates` in the engine does, and passes in what it observed.

pub mod added_lines;
pub mod diff;
pub mod excerpt;
pub mod expect;
mod failure_cause;
pub mod heldout;
pub mod junit;
pub mod length;
pub mod lint;
pub mod markers;
mod missing;
pub mod observed_tests;
pub mod parse;
mod read_only;
pub mod runner;
pub mod score;
pub mod selection;
mod signature;

use crate::words::worded;
pub use failure_cause::failure_cause;
pub use missing::{MissingDependency, missing_dependency};
pub use read_only::writes_read_only;
pub use signature::signature;

use serde::{Deserialize, Serialize};

worded! {
    /// The status of a gate.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum GateStatus {
        /// The gate accepted the candidate.
        Passed = "passed",
        /// The gate rejected the candidate.
        Rejected = "rejected",
        /// The gate could not decide: a missing program, a broken disk.
        Failed = "failed",
        /// The gate did not run.
        #[default]
        Skipped = "skipped",
    }
}

/// The result of one gate on one tree.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GateResult {
    /// The gate's name.
    pub name: String,
    /// Its status.
    pub status: GateStatus,
    /// The exit code, if a command ran to its end.
    pub exit: Option<i32>,
    /// The wall time.
    pub duration_ms: u64,
    /// Short facts a reader can check, such as `12 tests passed, base had 12`.
    pub evidence: Vec<String>,
    /// The reason why it did not pass, as a code: `exit`, `timeout`, `tests-missing`, `no-report` and so on.
    pub reason: Option<String>,
    /// The relevant part of the output, truncated, control characters escaped.
    pub excerpt: String,
    /// The gate failed first and passed when repeated.
    pub flaky: bool,
    /// The gate failed on base, so it can fail at all.
    pub red_before: bool,
    /// The maker edited files that decide this gate. The gate used base's files, and a person must check.
    pub inputs_edited: bool,
    /// The measured number.
    pub score: Option<f64>,
    /// The number of tests that passed.
    pub tests: Option<u64>,
    /// The falsified tests of this gate; `None` if it runs no tests or its canaries are off.
    #[serde(default)]
    pub canaries: Option<Box<CanaryCounts>>,
    /// Why a person must look although the gate passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Box<GateDoubt>>,
    /// Falsified tests failed also with the candidate's own files beside the tests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proven_as_sealed: bool,
}

/// The falsified tests of a gate. Each must fail.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CanaryCounts {
    /// Tests that were falsified.
    pub made: u64,
    /// Those that were reported as failed.
    pub died: u64,
    /// Those that still passed.
    pub survived: u64,
    /// Why there is none.
    pub why_none: Option<String>,
}

/// A reason for a person to look at a candidate whose gate passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateDoubt {
    /// The reason code.
    pub code: String,
    /// The reason in words.
    pub text: String,
}

impl GateResult {
    /// A result with only a name and a status.
    #[must_use]
    pub fn new(name: impl Into<String>, status: GateStatus) -> Self {
        Self { name: name.into(), status, ..Self::default() }
    }

    /// A result from findings: passed if there are none.
    #[must_use]
    pub fn from_findings(name: impl Into<String>, reason: &str, findings: &[String]) -> Self {
        if findings.is_empty() {
            return Self::new(name, GateStatus::Passed);
        }
        let mut result = Self::new(name, GateStatus::Rejected).with_reason(reason);
        result.evidence = findings.iter().take(FINDINGS_MAX).map(|text| excerpt::one_line(text)).collect();
        if findings.len() > FINDINGS_MAX {
            result.evidence.push(format!("and {} more", findings.len() - FINDINGS_MAX));
        }
        result.excerpt = excerpt::output_tail(result.evidence.join("\n").as_bytes());
        result
    }

    /// The same result with a reason code.
    #[must_use]
    pub fn with_reason(mut self, reason: &str) -> Self {
        self.reason = Some(reason.to_owned());
        self
    }

    /// Whether the gate passed.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.status == GateStatus::Passed
    }
}

/// The largest number of findings that a result lists.
const FINDINGS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_reads_back_as_it_was_written() {
        let mut result = GateResult::new("tests", GateStatus::Rejected).with_reason("exit");
        result.exit = Some(3);
        result.score = Some(1.5);
        let text = serde_json::to_string(&result).expect("a result is plain data");
        assert!(text.contains(r#""status":"rejected""#), "{text}");
        assert_eq!(serde_json::from_str::<GateResult>(&text).expect("it reads back"), result);
    }

    #[test]
    fn findings_reject_and_are_capped() {
        assert!(GateResult::from_findings("clean", "markers", &[]).is_passed());
        let many: Vec<String> = (0..30).map(|n| format!("a.rs:{n}: conflict")).collect();
        let result = GateResult::from_findings("clean", "markers", &many);
        assert_eq!(result.status, GateStatus::Rejected);
        assert_eq!(result.evidence.last().map(String::as_str), Some("and 10 more"));
    }
}
