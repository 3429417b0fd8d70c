//! What a mechanical gate means: its result, and the pure judgement of everything a gate can look at.
//!
//! Nothing here runs a command or reads a file; `loopwright::gates` in the engine does, and hands over what it saw.

pub mod added_lines;
pub mod diff;
pub mod excerpt;
pub mod expect;
pub mod heldout;
pub mod junit;
pub mod length;
pub mod lint;
pub mod markers;
pub mod observed_tests;
pub mod parse;
pub mod runner;
pub mod score;
mod signature;

use crate::words::worded;
pub use signature::signature;

use serde::{Deserialize, Serialize};

worded! {
    /// How a gate ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum GateStatus {
        /// It said yes.
        Passed = "passed",
        /// It said no.
        Rejected = "rejected",
        /// It could not say: a missing program, a broken disk.
        Failed = "failed",
        /// It was not asked.
        Skipped = "skipped",
    }
}

/// What one gate said about one tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateResult {
    /// The gate's name.
    pub name: String,
    /// How it ended.
    pub status: GateStatus,
    /// The exit code, where a command ran to its end.
    pub exit: Option<i32>,
    /// Wall time.
    pub duration_ms: u64,
    /// Short facts a reader can check, such as `12 tests passed, base had 12`.
    pub evidence: Vec<String>,
    /// Why it did not pass, as a code: `exit`, `timeout`, `tests-missing`, `no-report` and so on.
    pub reason: Option<String>,
    /// The part of the output worth reading, capped, control characters escaped.
    pub excerpt: String,
    /// It failed first and passed when repeated.
    pub flaky: bool,
    /// It was seen to fail on base, so it can fail at all.
    pub red_before: bool,
    /// The maker edited files that decide this gate; base's were used, a human has to look.
    pub inputs_edited: bool,
    /// The number it measured.
    pub score: Option<f64>,
    /// How many tests were seen to pass.
    pub tests: Option<u64>,
}

impl GateResult {
    /// A result with nothing but a name and an end.
    #[must_use]
    pub fn new(name: impl Into<String>, status: GateStatus) -> Self {
        Self {
            name: name.into(),
            status,
            exit: None,
            duration_ms: 0,
            evidence: Vec::new(),
            reason: None,
            excerpt: String::new(),
            flaky: false,
            red_before: false,
            inputs_edited: false,
            score: None,
            tests: None,
        }
    }

    /// A result that follows from findings: passed when there are none.
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

    /// The same with a reason's code.
    #[must_use]
    pub fn with_reason(mut self, reason: &str) -> Self {
        self.reason = Some(reason.to_owned());
        self
    }

    /// Whether it said yes.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.status == GateStatus::Passed
    }
}

/// How many findings a result carries by name.
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
