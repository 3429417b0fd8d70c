//! A stand-in for the cadence until it lands here: the same names, nothing is ever due.

use crate::spec::Triggers;
use std::sync::Arc;

/// Nothing is ever due.
#[derive(Debug, Clone)]
pub struct Schedule;

/// A due moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The nominal moment.
    pub at_ms: i64,
    /// The moment with the loop's jitter.
    pub start_ms: i64,
    /// As written.
    pub cadence: Arc<str>,
    /// Moved out of a gap.
    pub shifted: bool,
}

/// Due moments of a span of time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Between {
    /// The last of them.
    pub kept: Vec<Due>,
    /// How many came before.
    pub earlier: u64,
    /// The first of those.
    pub earlier_from_ms: Option<i64>,
    /// The last of those.
    pub earlier_through_ms: Option<i64>,
}

/// Why a cadence cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CadenceProblem {
    /// What is wrong.
    pub text: String,
    /// What to write instead.
    pub hint: String,
}

impl Schedule {
    /// Compiles the cadences of a loop.
    ///
    /// # Errors
    /// When a cadence cannot be.
    pub fn of(_on: &Triggers, _key: &str, _system_zone: &str) -> Result<Self, CadenceProblem> {
        Ok(Self)
    }

    /// Whether anything is ever due.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        false
    }

    /// The next due moment.
    #[must_use]
    pub fn next_after(&self, _after_ms: i64) -> Option<Due> {
        None
    }

    /// The due moments of a span.
    #[must_use]
    pub fn between(&self, _after_ms: i64, _upto_ms: i64, _keep: usize) -> Between {
        Between::default()
    }

    /// When the quiet hours around a moment end.
    #[must_use]
    pub fn quiet_until(&self, _at_ms: i64) -> Option<i64> {
        None
    }

    /// Changes with the cadence.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        ""
    }

    /// The cadence for people.
    #[must_use]
    pub fn describe(&self) -> String {
        String::new()
    }
}
