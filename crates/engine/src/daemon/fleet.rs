//! What the daemon runs: the loops there are, and what a round of one needs. Brought from outside, because where loop files
//! are and which agents this machine has is the command line's or the embedder's to know.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::UserRepo;
use crate::probe::ProbeResult;
use crate::proc::CancelToken;
use crate::round::{LoopBindings, RunRequest};
use crate::takeover::RoundBinder;
use loopwright_core::BoxFuture;
use loopwright_core::dispatch::{ConcurrencyLimits, LoopEntry, LoopKey};
use std::sync::Arc;

/// The loops of a daemon.
pub trait LoopFleet: RoundBinder {
    /// All loops as their files are now. A file that broke keeps its last good form, or its loop is left out: one broken file
    /// is no error here.
    fn load(&self) -> BoxFuture<'_, Result<FleetLoops, EngineError>>;

    /// What a round of a loop needs, read at its due moment: agents, request, and the engine as it is told for the loop's
    /// repository. The daemon fills in what made the loop due. Nothing slow belongs here: the moment passes meanwhile.
    ///
    /// An error is the loop's alone: its occurrence gets the receipt `failed` with the error's text.
    fn prepare<'a>(&'a self, engine: &'a Engine, key: &'a LoopKey)
    -> BoxFuture<'a, Result<PreparedStart, EngineError>>;
}

/// All loops there are.
#[derive(Debug, Clone, Default)]
pub struct FleetLoops {
    /// The loops.
    pub entries: Vec<LoopEntry>,
    /// Which loop is due when a round of another loop of its repository ended: the follower, and the name of the one it
    /// follows.
    pub after: Vec<(LoopKey, Arc<str>)>,
    /// How much may run at once from now on; as before, when absent.
    pub limits: Option<ConcurrencyLimits>,
}

impl From<Vec<LoopEntry>> for FleetLoops {
    fn from(entries: Vec<LoopEntry>) -> Self {
        Self { entries, ..Self::default() }
    }
}

/// What a due loop comes to.
pub enum PreparedStart {
    /// A round.
    Round(Box<ReadyRound>),
    /// There is nothing to do; the occurrence gets the receipt `no-work`.
    NoWork,
}

/// A round that can start.
pub struct ReadyRound {
    /// The daemon's engine, or the same lent with the settings of the loop's repository.
    pub engine: Engine,
    /// Its agents.
    pub bind: LoopBindings,
    /// The request; trigger, occurrence, item and due are the daemon's to fill in.
    pub request: RunRequest,
}

impl ReadyRound {
    /// Asks the loop's probe, if it has one, before there is a round: "no work" then costs a receipt and nothing else.
    ///
    /// # Errors
    /// When the store, git or the repository's workspaces cannot be used. A probe that broke is no error here: the round
    /// records how.
    pub async fn run_probe(self, repo: &UserRepo) -> Result<PreparedStart, EngineError> {
        if self.request.spec.on.probe.is_none() {
            return Ok(self.into());
        }
        // Whoever drops the asking ends it.
        let found = self.engine.probe_only(&self.request.spec, repo, &CancelToken::new()).await?;
        Ok(self.with_probe_result(found))
    }

    /// What is to be done about what a probe found.
    #[must_use]
    pub fn with_probe_result(mut self, work: ProbeResult) -> PreparedStart {
        match work {
            ProbeResult::None => PreparedStart::NoWork,
            work => {
                self.request.probe_result = Some(work);
                self.into()
            }
        }
    }
}

impl From<ReadyRound> for PreparedStart {
    fn from(ready: ReadyRound) -> Self {
        Self::Round(Box::new(ready))
    }
}
