//! Why a loop is or is not running, as data; `explanation_text` has the words for people.

use serde::Serialize;

/// Why a loop is or is not running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum LoopExplanation {
    /// No loop of that name is registered.
    Unknown,
    /// A round is running.
    Running {
        /// The round; `None` while it is starting.
        round: Option<String>,
        /// Since when.
        since_ms: i64,
        /// When its time limit ends it.
        until_ms: Option<i64>,
        /// How many occurrences wait for its end.
        queued: usize,
    },
    /// Everything is stopped.
    Stopped {
        /// Since when.
        since_ms: i64,
        /// The user or component that stopped it.
        by: String,
        /// Why.
        reason: String,
    },
    /// The loop is paused.
    Paused {
        /// Since when.
        since_ms: i64,
        /// The user or component that paused it.
        by: String,
        /// Why.
        reason: String,
    },
    /// The process is shutting down and starts nothing more.
    Draining,
    /// The clock is long before the last recorded moment.
    ClockUntrusted {
        /// The time by the clock.
        now_ms: i64,
        /// The last recorded moment.
        seen_ms: i64,
    },
    /// It is due, but blocked.
    Waiting {
        /// Since when.
        since_ms: i64,
        /// How many occurrences wait.
        queued: usize,
        /// The blocker.
        on: StartBlocker,
    },
    /// It is backing off.
    BackingOff {
        /// Until when.
        until_ms: i64,
        /// Why.
        reason: String,
        /// When it is due after that.
        next_ms: Option<i64>,
    },
    /// It is due and waits for the end of quiet hours.
    Quiet {
        /// Until when.
        until_ms: i64,
        /// How many occurrences wait.
        queued: usize,
    },
    /// It has as many open proposals as it may have.
    OpenMax {
        /// How many are open.
        open: u32,
        /// How many may be.
        open_max: u32,
    },
    /// It is due later.
    Next {
        /// When.
        due_ms: i64,
        /// When it starts: the due time plus its jitter.
        start_ms: i64,
        /// The cadence that makes it due.
        cadence: String,
        /// The end of the quiet hours if that moment is inside them, so that it will be skipped.
        quiet_until_ms: Option<i64>,
    },
    /// It has no cadence and waits for an event.
    Listening {
        /// The events that trigger it.
        events: Vec<String>,
    },
    /// Its cadence has ended.
    Over,
    /// It has no cadence and no event triggers: it runs only when started manually.
    Manual,
}

/// The reason why a loop that is due does not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "for", rename_all = "kebab-case")]
pub enum StartBlocker {
    /// All slots of a limit are taken.
    Slot {
        /// Which limit.
        limit: SlotLimit,
        /// How many slots it has.
        slots: usize,
        /// The rounds that hold them, limited to the first few.
        holders: Vec<ResourceHolder>,
    },
    /// A lock is taken.
    Lock {
        /// The name of the lock that the loop needs.
        name: String,
        /// The name of the lock that is held. It differs when one path is below the other.
        held: String,
        /// The round that holds it.
        holder: ResourceHolder,
    },
    /// The resource is reserved for a loop that has waited very long.
    Turn {
        /// The loop that goes first.
        holder: String,
    },
    /// A start failed and is retried.
    Retry {
        /// When.
        at_ms: i64,
    },
    /// Nothing blocks it any more: it starts at the next wake-up.
    Nothing,
}

/// A limit on slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "limit", content = "of", rename_all = "kebab-case")]
pub enum SlotLimit {
    /// On all rounds.
    Total,
    /// On rounds of a repository.
    Repository(String),
    /// On rounds with an agent.
    Agent(String),
}

/// A round that holds a slot or a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResourceHolder {
    /// The loop.
    pub r#loop: String,
    /// The repository.
    pub repo: String,
    /// The round; `None` while it is starting.
    pub round: Option<String>,
    /// Since when.
    pub since_ms: i64,
    /// When its time limit ends it at the latest.
    pub expires_ms: Option<i64>,
}

impl LoopExplanation {
    /// The time of the next start, as far as it is known.
    #[must_use]
    pub fn next_ms(&self) -> Option<i64> {
        match self {
            Self::Next { start_ms, .. } => Some(*start_ms),
            Self::BackingOff { next_ms, .. } => *next_ms,
            Self::Quiet { until_ms, .. } => Some(*until_ms),
            Self::Waiting { on: StartBlocker::Retry { at_ms }, .. } => Some(*at_ms),
            _ => None,
        }
    }
}
