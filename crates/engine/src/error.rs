//! What can stop the engine itself, as opposed to a round: a round's own trouble is an event and an outcome.

use crate::git::GitError;
use crate::state_dir::StateFileError;
use crate::store::StoreError;
use crate::workspace::WorkspaceError;
use loopwright_core::round::{Refusal, StepError, UnexpectedEvent};

/// Why the engine could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of ours could not be written or read.
    #[error(transparent)]
    Place(#[from] StateFileError),
    /// Git said no before there was a round.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The workspaces of a repository could not be opened.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The gates could not be looked at.
    #[error(transparent)]
    Gates(#[from] crate::gates::GatesError),
    /// The loop asks for what this build cannot do.
    #[error("loop `{name}` cannot run here: {}", why.join("; "))]
    NotRunnable {
        /// The loop.
        name: String,
        /// What is asked.
        why: Vec<String>,
    },
    /// The loop has as many open pull requests as it may have.
    #[error("loop `{loop_name}` has {open} open pull requests, and `open_max` is {open_max}")]
    TooManyOpen {
        /// The loop.
        loop_name: String,
        /// How many are open on the forge.
        open: u32,
        /// How many may be.
        open_max: u32,
    },
    /// The forge could not be read.
    #[error(transparent)]
    Forge(loopwright_core::forge::ForgeError),
    /// No round or question has that id.
    #[error("nothing is called `{0}`")]
    Unknown(String),
    /// Several rounds start with that id.
    #[error("`{id}` is short for several rounds: {}", candidates.join(", "))]
    Ambiguous {
        /// What was asked.
        id: String,
        /// What it may mean.
        candidates: Vec<String>,
    },
    /// A round of the loop is under way, or something else has its place.
    #[error("loop `{loop_name}` is busy: {why}")]
    Busy {
        /// The loop.
        loop_name: String,
        /// What it is busy with.
        why: String,
    },
    /// The daemon cannot do it.
    #[error("{0}")]
    Daemon(String),
    /// An answer that does not fit what waits.
    #[error("{0}")]
    Stale(String),
    /// The approval policy refuses a person's answer; the round still waits.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A suspended round cannot go on: its workspace is not there any more.
    #[error("the work that was kept of round `{0}` is gone")]
    WorkGone(String),
    /// A recorded history that is not a round's.
    #[error("the record of round `{round}` does not fit together")]
    History {
        /// The round.
        round: String,
        /// Where it does not fit.
        #[source]
        source: UnexpectedEvent,
    },
    /// A recorded event that this build cannot read.
    #[error("the record of round `{round}` has an event this build cannot read: {why}")]
    Unreadable {
        /// The round.
        round: String,
        /// What is wrong.
        why: String,
    },
    /// Deliveries could not go on; they stay claimed or open, and the next engine takes them up.
    #[error("the deliveries of round `{round}` could not go on: {text}")]
    Unsent {
        /// The round.
        round: String,
        /// What broke.
        text: String,
    },
    /// What happened to a round could not be recorded; the next engine takes it over.
    #[error("what happened to round `{round}` could not be recorded: {text}")]
    Unrecorded {
        /// The round.
        round: String,
        /// Why not.
        text: String,
    },
    /// What a dead engine left could not be ended.
    #[error("end the processes that a dead engine left")]
    Sweep(#[source] loopwright_sandbox::SweepError),
    /// The round's way to the network could not be opened.
    #[error(transparent)]
    Egress(#[from] crate::egress::EgressError),
    /// The random source of the system is not there.
    #[error("read random bytes")]
    Random(#[source] std::io::Error),
}

impl EngineError {
    /// The error of a record that cannot be folded. An answer that is on record was accepted once, so a refusal is damage too.
    #[must_use]
    pub fn of_record(round: &str, error: StepError) -> Self {
        let round = round.to_owned();
        match error {
            StepError::Misfit(source) => Self::History { round, source },
            StepError::Refused(refusal) => Self::Unreadable { round, why: refusal.to_string() },
        }
    }
}
