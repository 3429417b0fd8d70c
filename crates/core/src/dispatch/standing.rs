//! The state of a loop between two rounds: one row of `schedules`, which must survive a restart.

use super::LoopKey;

/// The state of a loop. Every due time at or before the mark has its receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopStanding {
    /// The loop.
    pub key: LoopKey,
    /// The fingerprint of the cadence that the mark belongs to; empty if the loop was removed.
    pub fingerprint: String,
    /// The high-water mark.
    pub mark_ms: i64,
    /// Whether and why the loop starts nothing by itself.
    pub paused: Option<LoopPause>,
    /// Rounds in a row that failed.
    pub streak: u32,
    /// How often in a row the last rounds failed alike, and the signature. Only the dispatcher reads it.
    pub signature: Option<String>,
    /// Until when it backs off.
    pub wait: Option<LoopDelay>,
}

impl LoopStanding {
    /// The standing of a new loop: due times before the mark are not caught up.
    #[must_use]
    pub fn new(key: LoopKey, fingerprint: &str, mark_ms: i64) -> Self {
        Self { key, fingerprint: fingerprint.to_owned(), mark_ms, paused: None, streak: 0, signature: None, wait: None }
    }
}

/// A loop that starts nothing until a person resumes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopPause {
    /// Since when.
    pub since_ms: i64,
    /// The user who paused it; `breaker` if repeated failures did.
    pub by: String,
    /// Why.
    pub why: String,
}

/// A loop that starts nothing before a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDelay {
    /// Until when.
    pub until_ms: i64,
    /// Why.
    pub why: String,
}

/// Everything is stopped, also after a restart, until a person thaws it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetFreeze {
    /// Since when.
    pub since_ms: i64,
    /// The user or component that stopped it.
    pub by: String,
    /// Why.
    pub why: String,
}
