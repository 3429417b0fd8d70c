//! What the daemon tells. For people's eyes, logs and tests: nothing is decided from it, and losing it loses nothing.

use super::Begun;
use crate::takeover::Taken;
use loopwright_core::dispatch::{LoopKey, Notice, Receipt};
use loopwright_core::outcome::RoundOutcome;

/// Hears what the daemon tells.
pub trait Told: Send + Sync {
    /// Called for each piece of news, in order. It must not block.
    fn tell(&self, news: &News);
}

/// Hears nothing.
impl Told for () {
    fn tell(&self, _: &News) {}
}

/// One thing worth telling.
#[derive(Debug)]
#[non_exhaustive]
pub enum News {
    /// The daemon is at work.
    Up {
        /// How many loops it has.
        loops: usize,
        /// How many rounds of a dead engine go on.
        taken_over: usize,
    },
    /// The loops were read again.
    Loaded {
        /// How many there are.
        loops: usize,
    },
    /// The loops could not be read; those from before are kept.
    Unloaded {
        /// Why.
        why: String,
    },
    /// A due loop is being started.
    Starting {
        /// Which.
        key: LoopKey,
        /// The occurrence.
        occurrence: String,
    },
    /// A round was born, and is on record with its receipt.
    Started {
        /// Of which loop.
        key: LoopKey,
        /// The round.
        round: String,
        /// The occurrence.
        occurrence: String,
    },
    /// A due loop could not be started.
    NotStarted {
        /// Which.
        key: LoopKey,
        /// Why.
        why: String,
        /// When it is tried again; without, the occurrence has failed.
        again_ms: Option<i64>,
    },
    /// An occurrence had its receipt already: it is done, and not done twice.
    Known {
        /// Of which loop.
        key: LoopKey,
        /// The occurrence.
        occurrence: String,
    },
    /// A round came to rest.
    Ended {
        /// Of which loop.
        key: LoopKey,
        /// The round.
        round: String,
        /// How it ended or stands; none when only its place was given back.
        outcome: Option<RoundOutcome>,
        /// Who began it.
        begun: Begun,
    },
    /// The code of a round or of an agent in this process panicked; the round fails, everything else goes on.
    Panicked {
        /// Of which loop.
        key: LoopKey,
        /// The round, if it was on record.
        round: Option<String>,
        /// What it said.
        text: String,
    },
    /// A round cannot go on for now; it is taken up again.
    Parked {
        /// Of which loop.
        key: LoopKey,
        /// The round.
        round: String,
        /// Why.
        why: String,
        /// When it is taken up again.
        again_ms: i64,
    },
    /// A round is asked to end.
    Cancelling {
        /// Of which loop.
        key: LoopKey,
        /// The round.
        round: String,
        /// Why.
        why: String,
    },
    /// A recorded round was taken over.
    Taken(Taken),
    /// Receipts are durable.
    Kept {
        /// What became of occurrences that started nothing.
        receipts: Vec<Receipt>,
    },
    /// What was decided could not be written; it is tried again, and nothing that depends on it is done before.
    Unkept {
        /// Why.
        why: String,
        /// When it is tried again.
        again_ms: i64,
    },
    /// A person is asked, in the inbox.
    Asked {
        /// About which loop.
        key: LoopKey,
        /// What.
        why: String,
    },
    /// A loop would have made another one due, but the chain of rounds that led here is too long.
    TooDeep {
        /// The loop that ended.
        key: LoopKey,
        /// The loop that is not started.
        follower: LoopKey,
        /// How many rounds follow one another already.
        depth: u32,
    },
    /// What the dispatcher says.
    Said(Notice),
    /// Something takes longer than it should.
    Stalled {
        /// What.
        what: &'static str,
        /// For how long by now, in milliseconds.
        for_ms: u64,
        /// What waits for it.
        state: String,
    },
    /// Everything is stopped.
    Frozen {
        /// By whom.
        by: String,
        /// Why.
        why: String,
    },
    /// The global stop is over.
    Thawed,
    /// Nothing new starts any more.
    Draining {
        /// How many rounds are under way.
        running: usize,
        /// When they are cancelled.
        until_ms: i64,
    },
    /// Another engine has the store: everything here ends at once.
    Fenced {
        /// What the store said.
        why: String,
    },
    /// There is nothing to do before a moment, or before something happens.
    Sleeps {
        /// The moment.
        until_ms: Option<i64>,
        /// When a loop is due or may start next.
        due_ms: Option<i64>,
    },
}
