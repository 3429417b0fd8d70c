//! Recover: a new engine takes over the rounds of a dead one. It ends their process trees first; then each round
//! resumes from its record or ends as interrupted. People's answers use the same path.

use super::bindings::LoopBindings;
use super::start::admission_request;
use super::{RoundDriver, StageError, isolate, journal};
use crate::daemon::LoopSlot;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::{ObjectFormat, UserRepo};
use crate::live_rounds::{ItemSelection, LiveRoundGuard, RoundStarter};
use crate::proc::CancelToken;
use crate::store::{LeaseNeeds, LeaseRequest, RoundRow, StoreError, StoreErrorKind, StoredEvent};
use crate::workspace::{Workspace, WorkspaceError, Workspaces};
use loopwright_core::round::{Action, Event, Phase, Round};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tokio::time::Instant;

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

impl Engine {
    /// Reads a round from its record.
    ///
    /// # Errors
    /// When there is no record, or it is inconsistent.
    pub async fn load_round(&self, id: &str) -> Result<RecordedRound, EngineError> {
        let events = self.store.events(id).await?;
        if events.is_empty() {
            return Err(EngineError::Unknown(id.to_owned()));
        }
        fold(id, &events)
    }

    /// Ends every process tree that rounds of a dead engine left, and returns the rounds that must be resumed. Running
    /// rounds of this process or of another one are not among them.
    ///
    /// # Errors
    /// When the store or the process table cannot be read.
    pub async fn collect_abandoned(&self) -> Result<Vec<RoundRow>, EngineError> {
        let open = self.store.open_rounds().await?;
        let mut left: Vec<_> = open.into_iter().filter(|row| !row.phase.is_at_rest()).collect();
        if left.is_empty() {
            return Ok(left);
        }
        let elsewhere = self.leases_elsewhere().await?;
        left.retain(|row| !elsewhere.iter().any(|lease| lease.name == row.id));
        let mut abandoned = Vec::new();
        for row in left {
            // The first caller to register it, in this process or another, recovers it.
            let Some(_here) = self.live_rounds.register(&row.id) else { continue };
            if self.sweep_left(&row).await? {
                abandoned.push(row);
            }
        }
        Ok(abandoned)
    }

    /// Ends the leftover processes of a dead engine's round. Returns false if another process has resumed the round.
    async fn sweep_left(&self, row: &RoundRow) -> Result<bool, EngineError> {
        let request = LeaseRequest {
            name: row.id.clone(),
            repo: row.repo.clone(),
            loop_name: row.loop_name.clone(),
            needs: LeaseNeeds::Nothing,
        };
        match self.take(request).await {
            Ok(()) => {}
            Err(StoreError { kind: StoreErrorKind::Held(_), .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let swept = loopwright_sandbox::sweep(&format!("lw-{}", row.id)).map_err(EngineError::Sweep);
        self.store.release(&row.id).await?;
        swept.map(|_| true)
    }

    /// Resumes an abandoned round and runs it until it is at rest.
    ///
    /// # Errors
    /// When its record cannot be read or written.
    pub async fn resume(&self, id: &str, bind: &LoopBindings, cancel: &CancelToken) -> Result<Round, EngineError> {
        self.apply_answer(id, Event::Recovered, bind, cancel).await
    }

    /// Applies an event from outside to a recorded round and performs what follows.
    pub(crate) async fn apply_answer(
        &self,
        id: &str,
        event: Event,
        bind: &LoopBindings,
        cancel: &CancelToken,
    ) -> Result<Round, EngineError> {
        self.apply_answer_as(id, event, bind, cancel, RoundStarter::Manual).await
    }

    /// The same, for the daemon or for a manual start.
    pub(crate) async fn apply_answer_as(
        &self,
        id: &str,
        event: Event,
        bind: &LoopBindings,
        cancel: &CancelToken,
        by: RoundStarter,
    ) -> Result<Round, EngineError> {
        let here = self.live_rounds.register(id).ok_or_else(|| super::busy(id))?;
        let recorded = self.load_round(id).await?;
        let stay = self.admit_recorded(&recorded.round, &event, cancel, by).await?;
        let (started, items) = (&recorded.round.facts().started, &recorded.round.facts().items);
        let keys: Vec<_> = items.iter().map(|item| item.key.as_str().into()).collect();
        let needs = if goes_on(&event) { self.needs(by, started, &keys) } else { LeaseNeeds::Nothing };
        self.lease_round(started, needs).await?;
        // From here on no other process writes about the round; this reads the events that were written in the
        // meantime.
        let answered = self.answer_leased(id, event, bind, cancel, here, stay).await;
        if answered.is_err() {
            self.give_back(id).await;
        }
        answered
    }

    async fn answer_leased(
        &self,
        id: &str,
        event: Event,
        bind: &LoopBindings,
        cancel: &CancelToken,
        here: LiveRoundGuard,
        stay: Option<LoopSlot>,
    ) -> Result<Round, EngineError> {
        if matches!(event, Event::Recovered | Event::Broke(_)) {
            loopwright_sandbox::sweep(&format!("lw-{id}")).map_err(EngineError::Sweep)?;
        }
        let recorded = self.load_round(id).await?;
        let mut run = RoundDriver::reopen(self, bind, recorded, cancel, here, stay).await?;
        if matches!(event, Event::Resumed(_)) && run.workspace.is_none() {
            return Err(EngineError::WorkGone(id.to_owned()));
        }
        let is_placed = goes_on(&event) || matches!(event, Event::Broke(_));
        match run.answered(event).await {
            Err(error) if !is_placed && !matches!(error, EngineError::Stale(_) | EngineError::Refused(_)) => {
                // It has no slot whose release would report it, so a daemon is asked to resume it.
                if let Some(porter) = self.live_rounds.admission() {
                    porter.on_round_left_open(&run.round.facts().started);
                }
                Err(error)
            }
            Err(error) => Err(error),
            Ok(()) => Ok(run.finish_at_rest().await),
        }
    }

    /// A round that resumes needs its loop's slot, as a new one does; an answer to a round at rest only ends it.
    async fn admit_recorded(
        &self,
        round: &Round,
        event: &Event,
        cancel: &CancelToken,
        by: RoundStarter,
    ) -> Result<Option<LoopSlot>, EngineError> {
        if !goes_on(event) {
            return Ok(None);
        }
        let arrival = admission_request(&round.facts().started, &round.facts().items, ItemSelection::All);
        Ok(self.admit(by, arrival, cancel).await?.slot)
    }
}

/// Whether a round resumes on this event, and needs its loop's slot for that.
fn goes_on(event: &Event) -> bool {
    matches!(event, Event::Recovered | Event::Resumed(_))
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

impl RoundDriver<'_> {
    /// Applies an event and performs the actions that follow, up to the next rest.
    async fn answered(&mut self, event: Event) -> Result<(), EngineError> {
        let actions = match self.apply(event, Vec::new()).await {
            Ok(actions) => actions,
            Err(StageError::Fatal(error @ EngineError::Refused(_))) => return Err(error),
            Err(StageError::Fatal(EngineError::History { source, .. })) => {
                return Err(EngineError::Stale(source.to_string()));
            }
            Err(trouble) => self.trouble(trouble).await?,
        };
        self.drive(actions).await?;
        self.discard_workspace().await;
        Ok(())
    }
}

impl<'a> RoundDriver<'a> {
    async fn reopen(
        engine: &'a Engine,
        bind: &'a LoopBindings,
        recorded: RecordedRound,
        cancel: &'a CancelToken,
        here: LiveRoundGuard,
        stay: Option<LoopSlot>,
    ) -> Result<Self, EngineError> {
        let started = &recorded.round.facts().started;
        let repo = match engine.git.discover(Path::new(&started.repo_path)).await {
            Ok(repo) if repo.id == started.repo => repo,
            // It moved, or its path belongs to another repository now. The sealed commits are in the engine's own
            // repository, so the round continues as far as they suffice; a step that needs the user's repository fails.
            Ok(_) | Err(_) => gone(&recorded.round),
        };
        let spaces = engine.workspaces(repo.clone()).await?;
        // The round keeps its boundary or fails: it never resumes with a weaker one.
        let method = isolate::method(engine, bind, &started.boundary).await;
        let rooms = engine.sandbox_views(&started.boundary, &repo, &started.spec)?.with_method(method);
        let ways = engine.open_routes(&started.round, &rooms, &started.spec)?;
        let workspace = kept_workspace(&spaces, &recorded.round)?;
        let failures = journal::failures(engine, recorded.round.facts()).await?;
        Ok(Self {
            engine,
            bind,
            cancel,
            repo,
            workspaces: spaces,
            views: rooms.with_routes(&ways),
            routes: ways,
            scanner: engine.settings.known_secrets.scanner(&recorded.round.facts().started.spec.secrets),
            is_warm: false,
            workspace,
            resolved: None,
            heldout: None,
            baseline: None,
            sealed: None,
            head: None,
            probe_result: None,
            index: recorded.index,
            started_ms: recorded.started_ms,
            round: recorded.round,
            failures,
            begun: Instant::now(),
            seats: BTreeMap::new(),
            _slot: stay,
            _live_guard: here,
        })
    }
}

/// The workspace that the last engine left; `None` in a phase that creates it again.
fn kept_workspace(spaces: &Workspaces, round: &Round) -> Result<Option<Workspace>, WorkspaceError> {
    match round.phase() {
        Phase::Recalling | Phase::Probing | Phase::Isolating | Phase::Baselining => Ok(None),
        Phase::Making(_)
        | Phase::Held(..)
        | Phase::Suspended(..)
        | Phase::Sealing
        | Phase::Gating
        | Phase::Checking(..)
        | Phase::Approving(_)
        | Phase::Waiting(_)
        | Phase::Doubting(_)
        | Phase::Sending(_)
        | Phase::Recording(_)
        | Phase::Ended(_) => spaces.reopen(&round.facts().started.round),
    }
}
