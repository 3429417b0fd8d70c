//! The outcome of a due time: one word and one reason, for one occurrence or for a run of them with the same outcome.

use super::LoopKey;
use crate::words::worded;
use std::sync::Arc;

/// The outcome of an occurrence. Each occurrence ends in exactly one receipt; a pending one has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OccurrenceReceipt {
    /// The loop.
    pub key: LoopKey,
    /// The occurrence's key: `due:<moment>`, or the key of the signal.
    pub occurrence: String,
    /// When it was due; of a run, the first of them.
    pub due_ms: i64,
    /// The trigger: the cadence as written, or the event as text.
    pub trigger: Arc<str>,
    /// Its outcome.
    pub fate: OccurrenceOutcome,
    /// Why, for people.
    pub reason: String,
    /// The round that was started; the engine fills it in when the round starts.
    pub round: Option<String>,
    /// How many occurrences this covers.
    pub count: u64,
    /// The due time of the last of them, if there are several.
    pub through_ms: Option<i64>,
    /// When this was decided.
    pub at_ms: i64,
}

impl OccurrenceReceipt {
    /// The receipt of one occurrence that no round is known for.
    pub(super) fn new(
        (key, occurrence): (&LoopKey, String),
        (due_ms, trigger): (i64, &Arc<str>),
        (fate, reason): (OccurrenceOutcome, String),
        at_ms: i64,
    ) -> Self {
        let (key, trigger) = (key.clone(), Arc::clone(trigger));
        Self { key, occurrence, due_ms, trigger, fate, reason, round: None, count: 1, through_ms: None, at_ms }
    }
}

worded! {
    /// The outcome of an occurrence, as one word.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum OccurrenceOutcome {
        /// A round was started.
        Started = "started",
        /// A later occurrence replaces it.
        Coalesced = "coalesced",
        /// It was due while no scheduler was running, or did not fit in a full queue.
        Missed = "missed",
        /// A round of the loop was still running.
        Overlap = "overlap",
        /// It was due in quiet hours.
        Quiet = "quiet",
        /// The loop was paused.
        Paused = "paused",
        /// Everything was stopped, or the loop was removed.
        Stopped = "stopped",
        /// The probe found nothing to do.
        NoWork = "no-work",
        /// The loop had as many open proposals as it may have.
        OpenMax = "open-max",
        /// The loop was backing off.
        Backoff = "backoff",
        /// It could not be started.
        Failed = "failed",
    }
}

/// The key of a due time: `due:2026-11-15T02:30:00Z`.
#[must_use]
pub fn occurrence_key(at_ms: i64) -> String {
    format!("due:{}", format_moment(at_ms))
}

/// A moment for people and keys, in UTC.
pub(super) fn format_moment(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}
