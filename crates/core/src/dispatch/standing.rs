//! Where a loop stands between two rounds: one row of `schedules`, as it must survive a restart.

use super::LoopKey;

/// Where a loop stands. Every due moment at or before the mark has its receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopStanding {
    /// Which loop.
    pub key: LoopKey,
    /// Of the cadence that the mark belongs to; empty when the loop was taken away.
    pub fingerprint: String,
    /// The high-water mark.
    pub mark_ms: i64,
    /// Whether and why nothing starts by itself.
    pub paused: Option<LoopPause>,
    /// Rounds in a row that failed.
    pub streak: u32,
    /// How the last rounds failed alike: how often in a row, and the signature. Only the dispatcher reads it.
    pub signature: Option<String>,
    /// Until when it backs off.
    pub wait: Option<LoopDelay>,
}

impl LoopStanding {
    /// A loop that is seen for the first time: nothing before the mark is made up for.
    #[must_use]
    pub fn new(key: LoopKey, fingerprint: &str, mark_ms: i64) -> Self {
        Self { key, fingerprint: fingerprint.to_owned(), mark_ms, paused: None, streak: 0, signature: None, wait: None }
    }
}

/// A loop that starts nothing until someone resumes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopPause {
    /// Since when.
    pub since_ms: i64,
    /// Who did it; `breaker` when the same failure did.
    pub by: String,
    /// Why.
    pub why: String,
}

/// A loop that starts nothing until a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDelay {
    /// Until when.
    pub until_ms: i64,
    /// Why.
    pub why: String,
}

/// Everything stands still, also after a restart, until someone thaws it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetFreeze {
    /// Since when.
    pub since_ms: i64,
    /// Who did it.
    pub by: String,
    /// Why.
    pub why: String,
}
