//! The daemon's loops, and the inputs of their rounds. The command line or the embedder provides them, because they
//! know where loop files are and which agents this machine has.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::gc::GcRetention;
use crate::git::UserRepo;
use crate::probe::{self, ProbeResult};
use crate::proc::CancelToken;
use crate::round::{LoopBindings, RunRequest};
use crate::takeover::RoundBinder;
use loopwright_core::BoxFuture;
use loopwright_core::config::SharedBudget;
use loopwright_core::dispatch::{ConcurrencyLimits, LoopEntry, LoopKey};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The loops of a daemon.
pub trait LoopFleet: RoundBinder {
    /// All loops as their files are now. An invalid file keeps its last valid version, or its loop is left out: one
    /// invalid file is no error here.
    fn load(&self) -> BoxFuture<'_, Result<FleetLoops, EngineError>>;

    /// The inputs of a loop's round, read when the loop is due: agents, request, and the engine with the settings of
    /// the loop's repository. The daemon adds the trigger. Slow work does not belong here, because it delays the start.
    ///
    /// An error is the loop's alone: its occurrence gets the receipt `failed` with the error's text.
    fn prepare<'a>(&'a self, engine: &'a Engine, key: &'a LoopKey)
    -> BoxFuture<'a, Result<PreparedStart, EngineError>>;

    /// The limits of the daily removal of old data at this time; without limits the daemon removes nothing. It is read
    /// before each pass.
    fn retention(&self, _now_ms: i64) -> Option<GcRetention> {
        None
    }
}

/// All loops of a daemon.
#[derive(Debug, Clone, Default)]
pub struct FleetLoops {
    /// The loops.
    pub entries: Vec<LoopEntry>,
    /// Pairs of a follower and the name of the loop that it follows, in the same repository. The follower is due when a
    /// round of that loop ends.
    pub after: Vec<(LoopKey, Arc<str>)>,
    /// The concurrency limits from now on; unchanged if absent.
    pub limits: Option<ConcurrencyLimits>,
    /// The ceilings that the loops of each repository share, by the repository's id.
    pub budgets: BTreeMap<Arc<str>, SharedBudget>,
}

impl From<Vec<LoopEntry>> for FleetLoops {
    fn from(entries: Vec<LoopEntry>) -> Self {
        Self { entries, ..Self::default() }
    }
}

/// The result of preparing a due loop.
pub enum PreparedStart {
    /// A round.
    Round(Box<ReadyRound>),
    /// There is nothing to do; the occurrence gets the receipt `no-work`.
    NoWork,
}

/// A round that can start.
pub struct ReadyRound {
    /// The daemon's engine, or a copy of it with the settings of the loop's repository.
    pub engine: Engine,
    /// Its agents.
    pub bind: LoopBindings,
    /// The request. The daemon sets trigger, occurrence, item and due time.
    pub request: RunRequest,
}

impl ReadyRound {
    /// Runs the loop's probe, if it has one, before there is a round. "No work" then costs one receipt and nothing
    /// else.
    ///
    /// # Errors
    /// When the store, git or the repository's workspaces cannot be used. A probe that failed is no error here: the
    /// round records the failure.
    pub async fn run_probe(self, repo: &UserRepo) -> Result<PreparedStart, EngineError> {
        if self.request.spec.on.probe.is_none() {
            return Ok(self.into());
        }
        // Dropping this future ends the probe.
        let found = probe::probe_only(&self.engine, &self.request.spec, repo, &CancelToken::new()).await?;
        Ok(self.with_probe_result(found))
    }

    /// The start that follows from the probe's result.
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
