//! What goes into the dispatcher and what comes out of it.

use super::{ConcurrencyLimits, LoopEntry, LoopKey, LoopStanding, OccurrenceReceipt, RoundClaims};
use crate::outcome::RoundOutcome;
use std::sync::Arc;

/// What happened. Every input also lets time pass to its `now`.
#[derive(Debug, Clone)]
pub enum DispatchInput {
    /// The moment of [`super::Dispatcher::next_wake`] has come, or someone wants a look.
    Wake,
    /// All loops there are, at the first load and at every reload.
    Loops(Vec<LoopEntry>),
    /// How much may run at once from now on. What runs goes on.
    Limits(ConcurrencyLimits),
    /// Something outside happened; the store has it already and has seen that it is new.
    Signal(TriggerSignal),
    /// A round that an earlier engine began goes on. Those are told before the first [`DispatchInput::Loops`].
    Occupied {
        /// Of which loop.
        key: LoopKey,
        /// The round.
        round: String,
        /// The items that it is about, as far as they are known.
        items: Vec<Arc<str>>,
    },
    /// A round begins by hand. What it takes is its own: its loop may not be loaded, or its file may be newer.
    /// [`super::Dispatcher::manual_start_blocker`] was asked before.
    Admitted {
        /// Of which loop.
        key: LoopKey,
        /// The round.
        round: String,
        /// What it takes.
        claims: RoundClaims,
    },
    /// Another round of a loop is open on record and has its place as soon as the one that has it now ends, before anything
    /// else of the loop begins. It goes on when [`super::Dispatcher::resume_blocker`] names it.
    Successor {
        /// Of which loop.
        key: LoopKey,
        /// The round.
        round: String,
        /// The items that it is about, as far as they are known.
        items: Vec<Arc<str>>,
    },
    /// The probe of a start found these items. The answer is [`DispatchCommand::Granted`] or [`DispatchCommand::Withheld`].
    Claim {
        /// Which start.
        ticket: u64,
        /// What it found.
        items: Vec<Arc<str>>,
    },
    /// A start has become a round: its receipt and its mark are durable.
    StartSucceeded {
        /// Which start.
        ticket: u64,
        /// The round.
        round: String,
    },
    /// A start has not become a round.
    StartFailed {
        /// Which start.
        ticket: u64,
        /// Why, for people.
        why: String,
        /// When it is worth another try; without, the occurrence has failed.
        retry_ms: Option<i64>,
    },
    /// The probe of a start found nothing to do.
    NoWork {
        /// Which start.
        ticket: u64,
    },
    /// The forge has as many open pull requests of a start's loop as the loop may have, or more.
    TooManyOpen {
        /// Which start.
        ticket: u64,
        /// How many are open.
        open: u32,
    },
    /// The store has a receipt for the occurrence of a start already: another process, or a clock that was set back by
    /// a person's word.
    AlreadyReceipted {
        /// Which start.
        ticket: u64,
    },
    /// A round ended.
    Ended {
        /// Of which loop.
        key: LoopKey,
        /// The round.
        round: String,
        /// How.
        end: RoundEnd,
    },
    /// So many proposals of the loop are open now.
    Proposals {
        /// Of which loop.
        key: LoopKey,
        /// How many.
        open: u32,
    },
    /// Nothing of the loop starts by itself from now on.
    Pause {
        /// Which loop.
        key: LoopKey,
        /// Who says so.
        by: String,
        /// Why.
        why: String,
    },
    /// The loop starts by itself again; failures are forgotten.
    Resume {
        /// Which loop.
        key: LoopKey,
    },
    /// The global stop: running rounds are cancelled, nothing starts.
    Freeze {
        /// Who says so.
        by: String,
        /// Why.
        why: String,
    },
    /// The end of the global stop. A clock that was not trusted is taken as it is.
    Thaw,
    /// Nothing starts any more in this process; what waits is found again by the next one.
    Drain,
}

/// Something outside that makes a loop due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerSignal {
    /// Which loop.
    pub key: LoopKey,
    /// The occurrence's key, unique for the loop.
    pub occurrence: String,
    /// What it is, in words: `webhook github.push`.
    pub trigger: Arc<str>,
    /// When it came.
    pub at_ms: i64,
    /// The item it is about; signals without one become one round together.
    pub item: Option<Arc<str>>,
}

/// How a round ended, as far as the next one depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundEnd {
    /// The outcome.
    pub outcome: RoundOutcome,
    /// What failures have in common when they are the same failure.
    pub signature: Option<String>,
    /// When another try makes sense, where someone said so (a provider's reset, a new day of a budget).
    pub retry_at_ms: Option<i64>,
    /// How many proposals of the loop are open now.
    pub open_proposals: u32,
}

/// What is to be done, in this order.
#[expect(clippy::large_enum_variant, reason = "a handful of them lives for the length of a step")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DispatchCommand {
    /// Rows that are durable, in one transaction, before anything after it is done. When that cannot be, nothing after
    /// it may be done either: the dispatcher is thrown away and made anew from the store.
    Persist {
        /// What became of occurrences.
        receipts: Vec<OccurrenceReceipt>,
        /// Where loops stand now. A mark never goes back while the fingerprint stays: a birth that is on record and was
        /// not told yet has moved it, and a pause that is kept meanwhile must not undo that.
        standings: Vec<LoopStanding>,
        /// Signals that are settled by this.
        taken: Vec<TriggerSignal>,
    },
    /// A round is to be born, or [`DispatchInput::StartFailed`], [`DispatchInput::NoWork`] or [`DispatchInput::AlreadyReceipted`] to be said.
    Start(RoundStart),
    /// The start may go on with these of the items that it claimed.
    Granted {
        /// Which start.
        ticket: u64,
        /// The items on which nobody else works.
        items: Vec<Arc<str>>,
    },
    /// Others work on all items that the start claimed: it is over and comes again when one of them is free.
    Withheld {
        /// Which start.
        ticket: u64,
    },
    /// The running round is to end; its end is told as always.
    Cancel {
        /// Of which loop.
        key: LoopKey,
        /// The round.
        round: String,
        /// Why, for people.
        why: String,
    },
    /// A person is to be asked, in the inbox.
    AskPerson {
        /// About which loop.
        key: LoopKey,
        /// What.
        why: String,
    },
    /// Published once, on the event stream.
    Note(SchedulerNote),
}

/// A round to be born.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundStart {
    /// Names this start in the answers; never used twice by one dispatcher.
    pub ticket: u64,
    /// Of which loop.
    pub key: LoopKey,
    /// `started`, to be written with the birth, its round filled in.
    pub receipt: OccurrenceReceipt,
    /// Where the loop stands once the round is born. Only its mark is to be written with the birth: a pause that was kept
    /// after this start is newer than the other fields, and a birth must not undo it.
    pub standing: LoopStanding,
    /// The signals that the round takes, to be marked as taken with the birth.
    pub signals: Vec<TriggerSignal>,
    /// The items that the round is about.
    pub items: Vec<Arc<str>>,
}

/// Something that a person may want to know, published on the event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchedulerNote {
    /// Nobody looked for a while: the machine slept, or the clock was set forward.
    Gap {
        /// When the next look was due.
        expected_ms: i64,
        /// When it was.
        now_ms: i64,
    },
    /// The clock is long before the last recorded moment: nothing is scheduled until it is right.
    ClockBehind {
        /// What the clock says.
        now_ms: i64,
        /// The last recorded moment.
        seen_ms: i64,
    },
    /// The clock is trusted again.
    ClockRight {
        /// What the clock says.
        now_ms: i64,
    },
    /// A provider says later.
    RateLimited {
        /// The loop that met it.
        key: LoopKey,
        /// Until when the loop waits.
        until_ms: i64,
    },
    /// A round has outlived its own limit.
    Stalled {
        /// Of which loop.
        key: LoopKey,
        /// The round, if it has come so far.
        round: Option<String>,
        /// Since when it runs.
        since_ms: i64,
    },
}
