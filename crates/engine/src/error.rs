//! Errors that stop the engine itself. A failure of a single round is an event and an outcome.

use crate::git::GitError;
use crate::state_dir::StateFileError;
use crate::store::StoreError;
use crate::workspace::WorkspaceError;
use loopwright_core::round::{Refusal, StepError, UnexpectedEvent};

/// The reason why an engine call failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of the state directory could not be written or read.
    #[error(transparent)]
    Place(#[from] StateFileError),
    /// Git failed before a round existed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The workspaces of a repository could not be opened.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The gates could not be resolved or run.
    #[error(transparent)]
    Gates(#[from] crate::gates::GatesError),
    /// The loop needs something that this build cannot do.
    #[error("loop `{name}` cannot run here: {}", why.join("; "))]
    NotRunnable {
        /// The loop.
        name: String,
        /// The unsupported parts of its spec.
        why: Vec<String>,
    },
    /// The loop has as many open pull requests as it may have.
    #[error("loop `{loop_name}` has {open} open pull requests, and `open_max` is {open_max}")]
    TooManyOpen {
        /// The loop.
        loop_name: String,
        /// The number open on the forge.
        open: u32,
        /// The number allowed.
        open_max: u32,
    },
    /// The forge could not be read.
    #[error(transparent)]
    Forge(loopwright_core::forge::ForgeError),
    /// No round or question has that id.
    #[error("no round or question `{0}`")]
    Unknown(String),
    /// Several rounds have ids that start with this one.
    #[error("`{id}` matches several rounds: {}", candidates.join(", "))]
    Ambiguous {
        /// The id that was given.
        id: String,
        /// The ids that it matches.
        candidates: Vec<String>,
    },
    /// A round of the loop is running, or its slot is taken.
    #[error("loop `{loop_name}` is busy: {why}")]
    Busy {
        /// The loop.
        loop_name: String,
        /// The reason.
        why: String,
    },
    /// The daemon reported an error.
    #[error("{0}")]
    Daemon(String),
    /// The answer does not match a waiting round.
    #[error("{0}")]
    Stale(String),
    /// The approval policy refuses a person's answer; the round still waits.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A suspended round cannot resume: its workspace no longer exists.
    #[error("the workspace of suspended round `{0}` no longer exists")]
    WorkGone(String),
    /// A recorded history that is not a valid round.
    #[error("the record of round `{round}` is inconsistent")]
    History {
        /// The round.
        round: String,
        /// The event that does not fit.
        #[source]
        source: UnexpectedEvent,
    },
    /// A recorded event that this build cannot read.
    #[error("the record of round `{round}` has an event this build cannot read: {why}")]
    Unreadable {
        /// The round.
        round: String,
        /// The decoding error.
        why: String,
    },
    /// Deliveries failed; they stay claimed or open, and the next engine resumes them.
    #[error("the deliveries of round `{round}` could not continue: {text}")]
    Unsent {
        /// The round.
        round: String,
        /// The error.
        text: String,
    },
    /// A change of a round could not be recorded; the next engine takes the round over.
    #[error("a change of round `{round}` could not be recorded: {text}")]
    Unrecorded {
        /// The round.
        round: String,
        /// The reason.
        text: String,
    },
    /// Processes of a dead engine could not be ended.
    #[error("end the processes that a dead engine left")]
    Sweep(#[source] loopwright_sandbox::SweepError),
    /// The round's network route could not be opened.
    #[error(transparent)]
    Egress(#[from] crate::egress::EgressError),
    /// The system's random source failed.
    #[error("read random bytes")]
    Random(#[source] std::io::Error),
}

impl EngineError {
    /// The error for a record that cannot be replayed. A recorded answer was accepted once, so a refusal means damage
    /// too.
    #[must_use]
    pub fn of_record(round: &str, error: StepError) -> Self {
        let round = round.to_owned();
        match error {
            StepError::Misfit(source) => Self::History { round, source },
            StepError::Refused(refusal) => Self::Unreadable { round, why: refusal.to_string() },
        }
    }

    /// A loop that cannot run here, with all its problems.
    pub(crate) fn not_runnable(name: &str, problems: &[impl ToString]) -> Self {
        Self::NotRunnable { name: name.to_owned(), why: problems.iter().map(ToString::to_string).collect() }
    }
}
