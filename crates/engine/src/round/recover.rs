//! Recover: opens a recorded round again, to resume it or to apply a person's answer to it.

use super::context::{RoundCaller, RoundContext};
use super::gate::CandidateGates;
use super::isolate::RoundSandbox;
use super::journal::RoundJournal;
use super::money::RoundBudget;
use super::{RoundDriver, StageError};
use crate::daemon::LoopSlot;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::{ObjectFormat, UserRepo};
use crate::live_rounds::LiveRoundGuard;
use crate::store::StoredEvent;
use crate::workspace::{Workspace, WorkspaceError, Workspaces};
use loopwright_core::round::{Action, Event, Phase, Round, Stage};
use std::path::{Path, PathBuf};

/// A round folded from its record.
pub struct RecordedRound {
    /// The round.
    pub round: Round,
    /// The actions that were open at the end of the record.
    pub actions: Vec<Action>,
    /// The number of its events.
    pub index: i64,
    /// When it started.
    pub started_ms: i64,
}

/// Folds stored events into a round.
///
/// # Errors
/// When an event cannot be read or does not fit.
pub fn fold(id: &str, events: &[StoredEvent]) -> Result<RecordedRound, EngineError> {
    let mut parsed = Vec::with_capacity(events.len());
    for event in events {
        let unreadable =
            |error: serde_json::Error| EngineError::Unreadable { round: id.to_owned(), why: error.to_string() };
        parsed.push(serde_json::from_str::<Event>(&event.body).map_err(unreadable)?);
    }
    let folded = Round::replay(parsed).map_err(|error| EngineError::of_record(id, error))?;
    let started_ms = events.first().map_or(0, |event| event.at_ms);
    let index = i64::try_from(events.len()).unwrap_or(i64::MAX);
    Ok(RecordedRound { round: folded.round, actions: folded.actions, index, started_ms })
}

/// A stand-in from the record for a repository that is not at its path any more.
fn gone(round: &Round) -> UserRepo {
    let facts = round.facts();
    let work_tree = PathBuf::from(&facts.started.repo_path);
    let is_long = facts.base.as_ref().is_some_and(|base| base.len() == 64);
    UserRepo {
        git_dir: work_tree.join(".git"),
        common_dir: work_tree.join(".git"),
        work_tree,
        id: facts.started.repo.clone(),
        format: if is_long { ObjectFormat::Sha256 } else { ObjectFormat::Sha1 },
    }
}

impl<'a> RoundDriver<'a> {
    pub(crate) async fn reopen(
        engine: &'a Engine,
        caller: RoundCaller<'a>,
        recorded: RecordedRound,
        live_guard: LiveRoundGuard,
        slot_hold: Option<LoopSlot>,
    ) -> Result<Self, EngineError> {
        let started = &recorded.round.facts().started;
        let repo = match engine.git.discover(Path::new(&started.repo_path)).await {
            Ok(repo) if repo.id == started.repo => repo,
            // It moved, or its path belongs to another repository now. The sealed commits are in the engine's own
            // repository, so the round continues as far as they suffice; a step that needs the user's repository fails.
            Ok(_) | Err(_) => gone(&recorded.round),
        };
        let workspaces = engine.workspaces(repo).await?;
        let workspace = kept_workspace(&workspaces, &recorded.round)?;
        let cx = RoundContext::new(engine, caller, started, recorded.started_ms, workspaces, None);
        // The round keeps its boundary or fails: it never resumes with a weaker one.
        let sandbox = RoundSandbox::open(&cx, started, workspace).await?;
        Ok(Self {
            cx,
            journal: RoundJournal::new(recorded.round, recorded.index),
            budget: RoundBudget::new(),
            sandbox,
            gates: CandidateGates::default(),
            probe_result: None,
            _slot: slot_hold,
            live_guard,
        })
    }

    /// Applies an event and performs the actions that follow, up to the next rest.
    pub(crate) async fn answered(&mut self, event: Event) -> Result<(), EngineError> {
        if matches!(event, Event::Resumed(_)) && self.sandbox.workspace(Stage::Make).is_err() {
            return Err(EngineError::WorkGone(self.cx.id.clone()));
        }
        let actions = match self.apply(event).await {
            Ok(actions) => actions,
            Err(StageError::Fatal(error @ EngineError::Refused(_))) => return Err(error),
            Err(StageError::Fatal(EngineError::History { source, .. })) => {
                return Err(EngineError::Stale(source.to_string()));
            }
            Err(trouble) => self.trouble(trouble).await?,
        };
        Box::pin(self.drive(actions)).await
    }
}

/// The workspace that the last engine left; `None` in a phase that creates it again.
fn kept_workspace(spaces: &Workspaces, round: &Round) -> Result<Option<Workspace>, WorkspaceError> {
    let is_made_again =
        matches!(round.phase(), Phase::Recalling | Phase::Probing | Phase::Isolating | Phase::Baselining);
    if is_made_again { Ok(None) } else { spaces.reopen(&round.facts().started.round) }
}
