//! The dispatcher: which loop starts when, and what becomes of every due moment.
//!
//! It decides and performs nothing: `now` is an argument, what is to be done comes back as [`Command`]s, and what must
//! survive a crash is in them. A dispatcher that is thrown away and made anew from what was kept goes on as if nothing
//! had happened, except that occurrences that waited are found again. Finding due moments is [`crate::cadence`]'s, and
//! starting rounds is the engine's.

mod entry;
mod message;
mod of_spec;
mod receipt;
mod standing;
mod why;
mod why_text;

pub use entry::{Entry, Limits, LoopKey};
pub use message::{Command, End, Input, Notice, Signal, Start};
pub use receipt::{Fate, Receipt, occurrence};
pub use standing::{Frozen, Paused, Standing, Wait};
pub use why::{Hold, Holder, SlotLimit, Why};

/// Decides what starts when; see the module.
#[derive(Debug)]
pub struct Dispatcher {
    limits: Limits,
    standings: Vec<Standing>,
    pending: Vec<Signal>,
    frozen: Option<Frozen>,
    seen_ms: i64,
}

impl Dispatcher {
    /// A dispatcher that goes on from what the store has: where loops stand, which signals nobody took, whether
    /// everything is stopped, and the last recorded moment.
    #[must_use]
    pub fn new(
        limits: Limits,
        standings: Vec<Standing>,
        pending: Vec<Signal>,
        frozen: Option<Frozen>,
        last_seen_ms: i64,
    ) -> Self {
        Self { limits, standings, pending, frozen, seen_ms: last_seen_ms }
    }

    /// Lets time pass to `now_ms`, takes the input in, and says what is to be done.
    pub fn step(&mut self, now_ms: i64, input: Input) -> Vec<Command> {
        self.seen_ms = self.seen_ms.max(now_ms);
        let _ = (&self.limits, &self.standings, &self.pending, &self.frozen, input);
        Vec::new()
    }

    /// When [`Input::Wake`] is wanted next; never, when only an input can change anything.
    #[must_use]
    pub fn next_wake(&self) -> Option<i64> {
        None
    }

    /// Why a loop is or is not running.
    #[must_use]
    pub fn explain(&self, key: &LoopKey, now_ms: i64) -> Why {
        let _ = (key, now_ms);
        Why::Unknown
    }

    /// What keeps a round from being started by hand: a round of the same loop, or a lock. Limits do not.
    #[must_use]
    pub fn hindrance(&self, key: &LoopKey, now_ms: i64) -> Option<Why> {
        let _ = (key, now_ms);
        None
    }
}
