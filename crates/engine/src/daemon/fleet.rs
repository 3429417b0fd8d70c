//! What the daemon runs: the loops there are, and what a round of one needs. Brought from outside, because where loop files
//! are and which agents this machine has is the command line's or the embedder's to know.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::UserRepo;
use crate::probe::Work;
use crate::proc::Cancel;
use crate::round::{Bindings, RunRequest};
use crate::takeover::Rebind;
use loopwright_core::BoxFuture;
use loopwright_core::dispatch::{Entry, Limits, LoopKey};
use std::sync::Arc;

/// The loops of a daemon.
pub trait Fleet: Rebind {
    /// All loops as their files are now. A file that broke keeps its last good form, or its loop is left out: one broken file
    /// is no error here.
    fn load(&self) -> BoxFuture<'_, Result<Loops, EngineError>>;

    /// What a round of a loop needs, read at its due moment: agents, request, and the engine as it is told for the loop's
    /// repository. The daemon fills in what made the loop due. Nothing slow belongs here: the moment passes meanwhile.
    ///
    /// An error is the loop's alone: its occurrence gets the receipt `failed` with the error's text.
    fn prepare<'a>(&'a self, engine: &'a Engine, key: &'a LoopKey) -> BoxFuture<'a, Result<Prepared, EngineError>>;
}

/// All loops there are.
#[derive(Debug, Clone, Default)]
pub struct Loops {
    /// The loops.
    pub entries: Vec<Entry>,
    /// Which loop is due when a round of another loop of its repository ended: the follower, and the name of the one it
    /// follows.
    pub after: Vec<(LoopKey, Arc<str>)>,
    /// How much may run at once from now on; as before, when absent.
    pub limits: Option<Limits>,
}

impl From<Vec<Entry>> for Loops {
    fn from(entries: Vec<Entry>) -> Self {
        Self { entries, ..Self::default() }
    }
}

/// What a due loop comes to.
pub enum Prepared {
    /// A round.
    Round(Box<Ready>),
    /// There is nothing to do; the occurrence gets the receipt `no-work`.
    NoWork,
}

/// A round that can start.
pub struct Ready {
    /// The daemon's engine, or the same lent with the settings of the loop's repository.
    pub engine: Engine,
    /// Its agents.
    pub bind: Bindings,
    /// The request; trigger, occurrence, item and due are the daemon's to fill in.
    pub request: RunRequest,
}

impl Ready {
    /// Asks the loop's probe, if it has one, before there is a round: "no work" then costs a receipt and nothing else.
    ///
    /// # Errors
    /// When the store, git or the repository's workspaces cannot be used. A probe that broke is no error here: the round
    /// records how.
    pub async fn probed(self, repo: &UserRepo) -> Result<Prepared, EngineError> {
        if self.request.spec.on.probe.is_none() {
            return Ok(self.into());
        }
        // Whoever drops the asking ends it.
        let found = self.engine.probe_only(&self.request.spec, repo, &Cancel::new()).await?;
        Ok(self.with_work(found))
    }

    /// What is to be done about what a probe found.
    #[must_use]
    pub fn with_work(mut self, work: Work) -> Prepared {
        match work {
            Work::None => Prepared::NoWork,
            work => {
                self.request.found = Some(work);
                self.into()
            }
        }
    }
}

impl From<Ready> for Prepared {
    fn from(ready: Ready) -> Self {
        Self::Round(Box::new(ready))
    }
}
