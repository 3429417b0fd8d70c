//! The parts of a running round that never change: its engine, its bindings, its repository.

use super::{LoopBindings, StageError};
use crate::engine::Engine;
use crate::events::EventKind;
use crate::git::{EngineRepo, Oid, RoundBase, UserRepo};
use crate::live_rounds::RoundStarter;
use crate::proc::CancelToken;
use crate::workspace::Workspaces;
use loopwright_core::dispatch::LoopKey;
use loopwright_core::round::{RoundFacts, RoundStarted, Stage};
use loopwright_core::secrets::SecretScanner;

/// The caller that runs a round: with these bindings, until this token is cancelled.
#[derive(Clone, Copy)]
pub(crate) struct RoundCaller<'a> {
    pub(crate) bind: &'a LoopBindings,
    pub(crate) cancel: &'a CancelToken,
    pub(crate) by: RoundStarter,
}

impl<'a> RoundCaller<'a> {
    /// A command or an embedder.
    pub(crate) fn manual(bind: &'a LoopBindings, cancel: &'a CancelToken) -> Self {
        Self { bind, cancel, by: RoundStarter::Manual }
    }
}

/// The unchanging parts of one round. The spec is not among them: a budget can lower its level.
pub(super) struct RoundContext<'a> {
    pub(super) engine: &'a Engine,
    pub(super) bind: &'a LoopBindings,
    pub(super) cancel: &'a CancelToken,
    pub(super) id: String,
    pub(super) key: LoopKey,
    pub(super) started_ms: i64,
    pub(super) repo: UserRepo,
    pub(super) workspaces: Workspaces,
    /// The base when the round began: the checked-out or the named commit. A resumed round has its base on record.
    head: Option<RoundBase>,
    /// Finds secrets, which must not be recorded or sent.
    pub(super) scanner: SecretScanner,
}

impl<'a> RoundContext<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        caller: RoundCaller<'a>,
        started: &RoundStarted,
        started_ms: i64,
        workspaces: Workspaces,
        head: Option<RoundBase>,
    ) -> Self {
        Self {
            engine,
            bind: caller.bind,
            cancel: caller.cancel,
            id: started.round.clone(),
            key: LoopKey::new(&started.repo, &started.spec.name),
            started_ms,
            repo: workspaces.repo().clone(),
            workspaces,
            head,
            scanner: engine.settings.known_secrets.scanner(&started.spec.secrets),
        }
    }

    /// The engine's repository, with the round's base and its sealed commits.
    pub(super) fn objects(&self) -> &EngineRepo {
        self.workspaces.engine()
    }

    /// Marks the process trees of the round.
    pub(super) fn cookie(&self) -> String {
        format!("lw-{}", self.id)
    }

    pub(super) async fn head(&self, facts: &RoundFacts, stage: Stage) -> Result<RoundBase, StageError> {
        if let Some(head) = &self.head {
            return Ok(head.clone());
        }
        let head = self.engine.git.head(&self.repo, facts.started.spec.base.as_deref()).await;
        head.map_err(|error| StageError::broke(stage, "base", &error))
    }

    pub(super) fn stage(&self, stage: Stage, text: impl Into<String>) {
        self.publish(EventKind::Stage { stage, text: text.into() });
    }

    /// The last line of a running program. It is for display only, so it is cleaned and shortened.
    pub(super) fn program_line(&self, program: &str, line: &str) {
        let clean = self.scanner.clean_bytes(line.as_bytes());
        let line = String::from_utf8_lossy(&clean).chars().filter(|c| !c.is_control()).collect();
        self.publish(EventKind::ProgramLine { program: program.to_owned(), line });
    }

    /// Publishes an event about this round.
    pub(super) fn publish(&self, kind: EventKind) {
        self.engine.publish(Some(self.key.clone()), Some(&self.id), kind);
    }
}

/// The commit that the round's base is pinned to.
pub(super) fn pinned_base(facts: &RoundFacts) -> Result<Oid, StageError> {
    object_name(facts.base.as_deref())
}

/// An object name of the record.
pub(super) fn object_name(recorded: Option<&str>) -> Result<Oid, StageError> {
    recorded.unwrap_or_default().parse().map_err(|error| StageError::broke(Stage::Isolate, "base", &error))
}
