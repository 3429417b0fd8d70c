//! The inputs and the commands of the dispatcher.

use super::{ConcurrencyLimits, FleetMember, LoopEntry, LoopKey, LoopStanding, OccurrenceReceipt, RoundClaims};
use crate::outcome::RoundOutcome;
use std::sync::Arc;

/// An event for the dispatcher. Every input also advances time to its `now`.
#[derive(Debug, Clone)]
pub enum DispatchInput {
    /// The moment of [`super::Dispatcher::next_wake`] has come, or a caller asks for a check.
    Wake,
    /// All loops, at the first load and at every reload.
    Loops(Vec<LoopEntry>),
    /// New concurrency limits. Running rounds continue.
    Limits(ConcurrencyLimits),
    /// The workers as they are now.
    Members(Vec<FleetMember>),
    /// An external event occurred; the store has recorded it and confirmed that it is new.
    Signal(TriggerSignal),
    /// A round that an earlier engine started continues. These inputs come before the first [`DispatchInput::Loops`].
    Occupied {
        /// Its loop.
        key: LoopKey,
        /// The round.
        round: String,
        /// The items it works on, as far as they are known.
        items: Vec<Arc<str>>,
    },
    /// A person starts a round. It brings its own claims, because its loop may not be loaded or its file may be newer.
    /// The caller has checked [`super::Dispatcher::manual_start_blocker`] first.
    Admitted {
        /// Its loop.
        key: LoopKey,
        /// The round.
        round: String,
        /// The resources it takes.
        claims: RoundClaims,
    },
    /// Another round of the loop is open on record. It takes the loop's place as soon as the current round ends, before
    /// the loop starts anything else. It continues when [`super::Dispatcher::resume_blocker`] names it.
    Successor {
        /// Its loop.
        key: LoopKey,
        /// The round.
        round: String,
        /// The items it works on, as far as they are known.
        items: Vec<Arc<str>>,
    },
    /// The probe of a start found these items. The answer is [`DispatchCommand::Granted`] or
    /// [`DispatchCommand::Withheld`].
    Claim {
        /// The start.
        ticket: u64,
        /// The items it found.
        items: Vec<Arc<str>>,
    },
    /// A start has become a round: its receipt and its mark are durable.
    StartSucceeded {
        /// The start.
        ticket: u64,
        /// The round.
        round: String,
    },
    /// A start has not become a round.
    StartFailed {
        /// The start.
        ticket: u64,
        /// Why, for people.
        why: String,
        /// When to retry; if `None`, the occurrence has failed.
        retry_ms: Option<i64>,
    },
    /// A start waits for a place outside, such as its forge. It is tried again any number of times: the occurrence and
    /// its items stay.
    StartDelayed {
        /// The start.
        ticket: u64,
        /// When to retry.
        retry_ms: i64,
    },
    /// The probe of a start found nothing to do.
    NoWork {
        /// The start.
        ticket: u64,
    },
    /// The forge has as many open pull requests of a start's loop as the loop may have, or more.
    TooManyOpen {
        /// The start.
        ticket: u64,
        /// How many are open.
        open: u32,
    },
    /// The store already has a receipt for the occurrence of a start: another process wrote it, or a person accepted a
    /// clock that was set back.
    AlreadyReceipted {
        /// The start.
        ticket: u64,
    },
    /// A round ended.
    Ended {
        /// Its loop.
        key: LoopKey,
        /// The round.
        round: String,
        /// Its outcome.
        end: RoundEnd,
    },
    /// The number of open proposals of a loop has changed.
    Proposals {
        /// The loop.
        key: LoopKey,
        /// The number of open proposals.
        open: u32,
    },
    /// From now on the loop starts nothing by itself.
    Pause {
        /// The loop.
        key: LoopKey,
        /// The user or component that asked for it.
        by: String,
        /// Why.
        why: String,
    },
    /// The loop starts by itself again; its failures are cleared.
    Resume {
        /// The loop.
        key: LoopKey,
    },
    /// The global stop: running rounds are cancelled, nothing starts.
    Freeze {
        /// The user or component that asked for it.
        by: String,
        /// Why.
        why: String,
    },
    /// Ends the global stop. A clock that was not trusted is accepted.
    Thaw,
    /// This process starts nothing more; the next process finds the pending occurrences again.
    Drain,
}

/// An external event that makes a loop due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerSignal {
    /// The loop.
    pub key: LoopKey,
    /// The occurrence's key, unique for the loop.
    pub occurrence: String,
    /// The event as text: `webhook github.push`.
    pub trigger: Arc<str>,
    /// When it arrived.
    pub at_ms: i64,
    /// The item it is about; signals without one become one round together.
    pub item: Option<Arc<str>>,
}

/// The part of a round's end that the next round depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundEnd {
    /// The outcome.
    pub outcome: RoundOutcome,
    /// Equal for failures that are the same failure.
    pub signature: Option<String>,
    /// When a retry makes sense, if a provider's reset or a new budget day determines it.
    pub retry_at_ms: Option<i64>,
    /// How many proposals of the loop are open now.
    pub open_proposals: u32,
}

/// An instruction to the engine. Commands are performed in order.
#[expect(clippy::large_enum_variant, reason = "a handful of them lives for the length of a step")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DispatchCommand {
    /// Rows to write in one transaction before any later command is performed. If the write fails, the later commands
    /// must not be performed either: discard the dispatcher and rebuild it from the store.
    Persist {
        /// The outcomes of occurrences.
        receipts: Vec<OccurrenceReceipt>,
        /// The new standings of loops. A mark never moves back while the fingerprint stays the same: a start may be on
        /// record whose success was not reported yet. It has moved the mark, and writing a pause must not undo that.
        standings: Vec<LoopStanding>,
        /// Signals that this resolves.
        taken: Vec<TriggerSignal>,
    },
    /// Start a round, or answer with [`DispatchInput::StartFailed`], [`DispatchInput::NoWork`] or
    /// [`DispatchInput::AlreadyReceipted`].
    Start(RoundStart),
    /// The start may continue with these of the items that it claimed.
    Granted {
        /// The start.
        ticket: u64,
        /// The items that no other round works on.
        items: Vec<Arc<str>>,
    },
    /// Other rounds work on all items that the start claimed. The start is over and is repeated when one of them is
    /// free.
    Withheld {
        /// The start.
        ticket: u64,
    },
    /// End the running round. Its end is reported as usual.
    Cancel {
        /// Its loop.
        key: LoopKey,
        /// The round.
        round: String,
        /// Why, for people.
        why: String,
    },
    /// Ask a person, in the inbox.
    AskPerson {
        /// The loop in question.
        key: LoopKey,
        /// The text of the question.
        why: String,
    },
    /// Publish once, on the event stream.
    Note(SchedulerNote),
}

/// A round to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundStart {
    /// Identifies this start in the answers; one dispatcher never uses it twice.
    pub ticket: u64,
    /// The loop.
    pub key: LoopKey,
    /// The `started` receipt, to be written together with the round's start, with its round filled in.
    pub receipt: OccurrenceReceipt,
    /// The loop's standing once the round has started. Write only its mark with the start: a pause that was stored
    /// after this command is newer than the other fields, and the start must not undo it.
    pub standing: LoopStanding,
    /// The signals that the round consumes, to be marked as taken together with the start.
    pub signals: Vec<TriggerSignal>,
    /// The items that the round works on.
    pub items: Vec<Arc<str>>,
}

/// A note for people, published on the event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchedulerNote {
    /// The scheduler did not wake for a while: the machine was suspended, or the clock was set forward.
    Gap {
        /// When the wake-up was due.
        expected_ms: i64,
        /// When it came.
        now_ms: i64,
    },
    /// The clock is far behind the last recorded moment: nothing is scheduled until it is right.
    ClockBehind {
        /// The time by the clock.
        now_ms: i64,
        /// The last recorded moment.
        seen_ms: i64,
    },
    /// The clock is trusted again.
    ClockRight {
        /// The time by the clock.
        now_ms: i64,
    },
    /// A provider reported a limit.
    RateLimited {
        /// The loop that hit the limit.
        key: LoopKey,
        /// Until when the loop waits.
        until_ms: i64,
    },
    /// A round has exceeded its time limit.
    Stalled {
        /// Its loop.
        key: LoopKey,
        /// The round, if it has started.
        round: Option<String>,
        /// Since when it runs.
        since_ms: i64,
    },
}
