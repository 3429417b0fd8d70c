//! Why a loop is or is not running, as data; the words for people are `why_text`'s.

use serde::Serialize;

/// Why a loop is or is not running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum LoopExplanation {
    /// No loop of that name is registered.
    Unknown,
    /// A round runs.
    Running {
        /// The round; none while it is being born.
        round: Option<String>,
        /// Since when.
        since_ms: i64,
        /// When its own limit ends it.
        until_ms: Option<i64>,
        /// How many occurrences wait for its end.
        queued: usize,
    },
    /// Everything is stopped.
    Stopped {
        /// Since when.
        since_ms: i64,
        /// Who did it.
        by: String,
        /// Why.
        reason: String,
    },
    /// The loop is paused.
    Paused {
        /// Since when.
        since_ms: i64,
        /// Who did it.
        by: String,
        /// Why.
        reason: String,
    },
    /// The process is about to end and starts nothing more.
    Draining,
    /// The clock is long before the last recorded moment.
    ClockUntrusted {
        /// What the clock says.
        now_ms: i64,
        /// The last recorded moment.
        seen_ms: i64,
    },
    /// It is due and something holds it up.
    Waiting {
        /// Since when.
        since_ms: i64,
        /// How many occurrences wait.
        queued: usize,
        /// For what.
        on: StartBlocker,
    },
    /// It backs off.
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
    /// As many proposals are open as it may have.
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
        /// When it starts: later by its jitter.
        start_ms: i64,
        /// By which cadence.
        cadence: String,
        /// Whether that moment lies in quiet hours, so that it will be skipped.
        quiet_until_ms: Option<i64>,
    },
    /// It has no cadence and waits for an event.
    Listening {
        /// The events it hears.
        events: Vec<String>,
    },
    /// Its cadence has come to its end.
    Over,
    /// It has no cadence and hears nothing: it runs by hand only.
    Manual,
}

/// What holds up a loop that is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "for", rename_all = "kebab-case")]
pub enum StartBlocker {
    /// Slots of a limit are all taken.
    Slot {
        /// Which limit.
        limit: SlotLimit,
        /// How many slots it has.
        slots: usize,
        /// Who holds them, as many as are worth telling.
        holders: Vec<ResourceHolder>,
    },
    /// A lock is taken.
    Lock {
        /// Its name.
        name: String,
        /// The name of the lock that is held: another, where one path is below the other.
        held: String,
        /// Who holds it.
        holder: ResourceHolder,
    },
    /// What it needs is kept for a loop that has waited for very long.
    Turn {
        /// The loop that goes first.
        holder: String,
    },
    /// A start could not be made and is tried again.
    Retry {
        /// When.
        at_ms: i64,
    },
    /// Nothing any more: it starts with the next look.
    Nothing,
}

/// A limit with slots.
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

/// A round that holds something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResourceHolder {
    /// The loop.
    pub r#loop: String,
    /// The repository.
    pub repo: String,
    /// The round; none while it is being born.
    pub round: Option<String>,
    /// Since when.
    pub since_ms: i64,
    /// When its own limit ends it at the latest.
    pub expires_ms: Option<i64>,
}

impl LoopExplanation {
    /// The loop's status, in the words of the contract.
    #[must_use]
    pub fn status_word(&self) -> &'static str {
        match self {
            Self::Running { .. } => "running",
            Self::Stopped { .. } | Self::Draining => "stopped",
            Self::Paused { .. } => "paused",
            Self::Waiting { on: StartBlocker::Nothing, .. } => "due",
            Self::Waiting { .. } | Self::Quiet { .. } | Self::OpenMax { .. } | Self::ClockUntrusted { .. } => "waiting",
            Self::BackingOff { .. } => "cooling-down",
            Self::Unknown => "invalid",
            Self::Next { .. } | Self::Listening { .. } | Self::Over | Self::Manual => "idle",
        }
    }

    /// The moment at which something starts next, as far as it is known.
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
