//! What became of a due moment: one word, one reason, for one occurrence or for a run of them that ended alike.

use super::LoopKey;
use crate::words::worded;
use std::sync::Arc;

/// What became of an occurrence. Each ends in exactly one receipt; one that still waits has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OccurrenceReceipt {
    /// Of which loop.
    pub key: LoopKey,
    /// The occurrence's key: `due:<moment>`, or the key of the signal.
    pub occurrence: String,
    /// When it was due; of a run, the first of them.
    pub due_ms: i64,
    /// What made it due: the cadence as written, or the event in words.
    pub trigger: Arc<str>,
    /// What became of it.
    pub fate: OccurrenceOutcome,
    /// Why, for people.
    pub reason: String,
    /// The round that was started; the engine fills it in at birth.
    pub round: Option<String>,
    /// How many occurrences this covers.
    pub count: u64,
    /// The last of them, when there are several.
    pub through_ms: Option<i64>,
    /// When this was decided.
    pub at_ms: i64,
}

worded! {
    /// The word of a receipt.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum OccurrenceOutcome {
        /// A round was born.
        Started = "started",
        /// A later occurrence stands for it.
        Coalesced = "coalesced",
        /// It came while nobody looked, or fell out of a full line.
        Missed = "missed",
        /// A round of the loop was still running.
        Overlap = "overlap",
        /// It fell into quiet hours.
        Quiet = "quiet",
        /// The loop was paused.
        Paused = "paused",
        /// Everything was stopped, or the loop was taken away.
        Stopped = "stopped",
        /// The probe found nothing to do.
        NoWork = "no-work",
        /// As many proposals were open as the loop may have.
        OpenMax = "open-max",
        /// The loop was backing off.
        Backoff = "backoff",
        /// It could not be started.
        Failed = "failed",
    }
}

/// The key of a due moment: `due:2026-11-15T02:30:00Z`.
#[must_use]
pub fn occurrence_key(at_ms: i64) -> String {
    format!("due:{}", format_moment(at_ms))
}

/// A moment for people and keys, in UTC.
pub(super) fn format_moment(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}
