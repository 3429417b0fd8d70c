//! The round driver: performs what [`loopwright_core::round`] decides. One file per stage, with the stage's name in
//! core.
//!
//! The order never changes: the event is recorded with its rows in one transaction, and only then is it acted on.

mod approve;
mod bindings;
mod bounds;
mod brief;
mod check;
mod cost;
mod due;
mod gate;
mod guard;
mod isolate;
pub(crate) mod journal;
mod make;
mod memory;
mod money;
mod probe;
mod proposed;
mod recall;
mod record;
mod recover;
mod role_runner;
mod seal;
mod send;
mod send_limits;
mod start;
mod transcript;
mod wait;

pub use loopwright_core::round::Refusal;

pub use bindings::{DeliveryOutlet, LoopBindings, RoleAgents};
pub use due::{DueRecord, SignalNovelty};
pub use recover::{RecordedRound, fold};
pub use send::delivery;
pub use start::RunRequest;

use crate::budget_meter::MeterSlot;
use crate::egress::EgressRoutes;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::events::EventKind;
use crate::gates::{CandidateFacts, GateBaseline, HeldoutChecks, ResolvedGates};
use crate::git::{RoundBase, UserRepo};
use crate::live_rounds::{LiveRoundGuard, LoopSlotHold};
use crate::probe::ProbeResult;
use crate::proc::CancelToken;
use crate::sandbox_view::SandboxViews;
use crate::store::{NewEvent, RowChange, StoreBatch, StoreError, StoreErrorKind};
use crate::workspace::{SealedTree, Workspace, WorkspaceError, Workspaces};
use journal::StepTiming;
use loopwright_core::budget::BudgetLimit;
use loopwright_core::dispatch::LoopKey;
use loopwright_core::network::NetworkTraffic;
use loopwright_core::outcome::RoundOutcome as Outcome;
use loopwright_core::round::{
    Action, AnswerWindow, CeilingReached, Event, Phase, Round, RoundRecorded, RoundStopped, Stage, StageFailed, Step,
    StepError, StoppedBy, step,
};
use loopwright_core::secrets::SecretScanner;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// One running round of this process.
pub(crate) struct RoundDriver<'a> {
    engine: &'a Engine,
    bind: &'a LoopBindings,
    cancel: &'a CancelToken,
    repo: UserRepo,
    workspaces: Workspaces,
    /// The sandbox views of every start of this round.
    views: SandboxViews,
    /// Its network routes.
    routes: EgressRoutes,
    /// Finds secrets, which must not be recorded or sent.
    scanner: SecretScanner,
    /// Whether the views include the output of the loop's set-up.
    is_warm: bool,
    workspace: Option<Workspace>,
    /// Gate programs, found before the maker ran.
    resolved: Option<ResolvedGates>,
    /// Held-out checks, read before the maker ran; read again after a restart.
    heldout: Option<HeldoutChecks>,
    /// The last seal and its facts, for the gates; read again after a restart.
    sealed: Option<(SealedTree, CandidateFacts)>,
    /// The base when the round began: the checked-out or the named commit. A resumed round has its base on record.
    head: Option<RoundBase>,
    /// The result of a probe that ran before the round started.
    probe_result: Option<ProbeResult>,
    baseline: Option<GateBaseline>,
    round: Round,
    /// The number of recorded events of this round.
    index: i64,
    started_ms: i64,
    failures: journal::ItemFailures,
    begun: Instant,
    /// The meter slots of running agents, by their cookies.
    seats: BTreeMap<String, MeterSlot>,
    /// The round's hold on its loop's slot, if a daemon manages slots.
    _slot_hold: Option<Box<dyn LoopSlotHold>>,
    /// Keeps other callers of this process from running the round.
    _live_guard: LiveRoundGuard,
}

/// Why a stage did not produce its event.
#[derive(Debug)]
pub(crate) enum StageError {
    /// The record itself cannot be written: nothing more may be done; the next engine takes over.
    Fatal(EngineError),
    /// The stage failed; the round records the failure.
    Broke(StageFailed),
    /// The round was stopped.
    Stopped,
    /// A ceiling has no room for an agent.
    Ceiling(BudgetLimit, String),
}

impl From<StoreError> for StageError {
    fn from(error: StoreError) -> Self {
        Self::Fatal(error.into())
    }
}

impl StageError {
    fn broke(stage: Stage, code: &str, error: &dyn std::error::Error) -> Self {
        Self::Broke(StageFailed { stage, code: code.to_owned(), text: bounds::text(&error_chain(error)) })
    }
}

/// An error with its causes in one line.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn workspace_trouble(stage: Stage) -> impl Fn(WorkspaceError) -> StageError {
    move |error| StageError::broke(stage, "workspace", &error)
}

impl RoundDriver<'_> {
    /// Performs actions until the round is at rest.
    pub(crate) async fn drive(&mut self, actions: Vec<Action>) -> Result<(), EngineError> {
        let mut queue = VecDeque::from(actions);
        while let Some(action) = queue.pop_front() {
            let next = match self.perform(action).await {
                Ok(next) => next,
                Err(trouble) => self.trouble(trouble).await?,
            };
            queue.extend(next);
        }
        Ok(())
    }

    /// Performs one action, then applies its event. Deliveries record their events one by one and return the actions
    /// after the last.
    async fn perform(&mut self, action: Action) -> Result<Vec<Action>, StageError> {
        let event = match action {
            Action::Send(positions) => return self.send(positions).await,
            Action::Record => self.record().await,
            Action::AskHumanGate(proposed) => self.ask_human(&proposed),
            Action::Recall => self.recall().await?,
            Action::Probe => self.unless_stopped()?.probe().await?,
            Action::Isolate => self.unless_stopped()?.isolate().await?,
            Action::Baseline => self.unless_stopped()?.baseline().await?,
            Action::Make(feedback) => self.unless_stopped()?.make(feedback.as_ref()).await?,
            Action::Wait { until_ms } => self.unless_stopped()?.wait(until_ms).await?,
            Action::Seal => self.unless_stopped()?.seal().await?,
            Action::Gate => self.unless_stopped()?.gate().await?,
            Action::Check => self.unless_stopped()?.check().await?,
        };
        self.apply(event, Vec::new()).await
    }

    fn unless_stopped(&mut self) -> Result<&mut Self, StageError> {
        if self.cancel.is_cancelled() { Err(StageError::Stopped) } else { Ok(self) }
    }

    /// Turns a stage error into an event. If it cannot be recorded, this engine's part of the round ends.
    async fn trouble(&mut self, trouble: StageError) -> Result<Vec<Action>, EngineError> {
        let event = match trouble {
            StageError::Fatal(error) => return Err(error),
            // Deliveries end one by one: after a failure between them, the next engine resumes the rest.
            StageError::Broke(broke) if matches!(self.round.phase(), Phase::Sending(_)) => {
                return Err(EngineError::Unsent { round: self.id().to_owned(), text: broke.text });
            }
            StageError::Broke(broke) => Event::Broke(broke),
            StageError::Stopped => Event::Stopped(match self.cancel.why() {
                Some(why) => RoundStopped { by: StoppedBy::Person, text: why.as_ref().to_owned() },
                None => RoundStopped { by: StoppedBy::Signal, text: "stopped by a signal".to_owned() },
            }),
            StageError::Ceiling(limit, text) => Event::Ceiling(CeilingReached { limit, text }),
        };
        match self.apply(event, Vec::new()).await {
            Ok(actions) => Ok(actions),
            Err(StageError::Fatal(error)) => Err(error),
            Err(StageError::Broke(StageFailed { text, .. })) => {
                Err(EngineError::Unrecorded { round: self.id().to_owned(), text })
            }
            Err(StageError::Stopped | StageError::Ceiling(..)) => {
                let text = "recording a failure cannot itself be stopped or reach a ceiling".to_owned();
                Err(EngineError::Unrecorded { round: self.id().to_owned(), text })
            }
        }
    }

    /// Decides the step for an event, records both in one transaction, and only then continues.
    pub(crate) async fn apply(&mut self, event: Event, extra: Vec<RowChange>) -> Result<Vec<Action>, StageError> {
        let event = self.redact_event(event)?;
        let Step { round, actions } = step(&self.round, event.clone()).map_err(|error| self.not_accepted(error))?;
        bounds::fits(&event, self.round.phase().stage())?;
        let when = self.when();
        let mut changes = extra;
        changes.extend(journal::changes(Some(&self.round), &round, &event, &when));
        changes.extend(self.followers_told(&round, when.now_ms).await?);
        changes.extend(crate::daemon::signals_again(&round, when.now_ms, |item| !journal::is_given_up(&when, item)));
        if round.is_at_rest() && actions.is_empty() {
            changes.push(RowChange::LeaseEnd);
        }
        self.write(&event, changes, when.now_ms).await?;
        let bills = self.round.facts().bills.len();
        self.round = round;
        self.settle_seats(bills);
        let (phase, level) = (self.round.phase().word(), self.spec().level);
        self.publish(EventKind::Recorded { index: self.index, event: event.kind(), phase, level });
        Ok(actions)
    }

    async fn write(&mut self, event: &Event, changes: Vec<RowChange>, at_ms: i64) -> Result<(), StageError> {
        let batch = StoreBatch {
            round: self.id().to_owned(),
            expect_index: self.index,
            at_ms,
            events: vec![recorded_event(event)],
            changes,
        };
        match self.engine.append(batch).await {
            Ok(index) => self.index = index,
            Err(StoreError { kind: StoreErrorKind::OverCeiling { full, spend, .. }, .. }) => {
                return Err(self.ceiling_error(&full, &spend));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn not_accepted(&self, error: StepError) -> StageError {
        StageError::Fatal(match error {
            StepError::Misfit(source) => EngineError::History { round: self.id().to_owned(), source },
            StepError::Refused(refusal) => EngineError::Refused(refusal),
        })
    }

    fn when(&self) -> StepTiming {
        let now_ms = self.engine.now_ms();
        let wait = i64::try_from(self.engine.settings.approval.as_millis()).unwrap_or(i64::MAX);
        StepTiming {
            now_ms,
            started_ms: self.started_ms,
            expires_ms: now_ms.saturating_add(wait),
            failures: Arc::clone(&self.failures),
        }
    }

    pub(crate) fn round(&self) -> &Round {
        &self.round
    }

    /// The round at rest; a daemon on this engine is notified.
    pub(crate) async fn finish_at_rest(&mut self) -> Round {
        if let Some(porter) = self.engine.live_rounds.admission() {
            porter.on_round_at_rest(&self.round).await;
        }
        self.round.clone()
    }

    /// The signals for loops that follow this one, written with the end itself.
    async fn followers_told(&self, round: &Round, now_ms: i64) -> Result<Vec<RowChange>, StoreError> {
        let started = &round.facts().started;
        let porter = self.engine.live_rounds.admission().filter(|_| matches!(round.phase(), Phase::Ended(_)));
        let followers = porter.map(|porter| porter.followers(&started.repo, &started.spec.name)).unwrap_or_default();
        crate::daemon::follower_signals(self.engine.store.as_ref(), &followers, round, now_ms).await
    }

    fn id(&self) -> &str {
        &self.round.facts().started.round
    }

    fn spec(&self) -> &loopwright_core::spec::LoopSpec {
        &self.round.facts().started.spec
    }

    fn stage(&self, stage: Stage, text: impl Into<String>) {
        self.publish(EventKind::Stage { stage, text: text.into() });
    }

    /// Publishes an event about this round.
    fn publish(&self, kind: EventKind) {
        publish(self.engine, &self.round, kind);
    }

    /// The rest of the round's wall time.
    fn wall_left(&self) -> Option<Duration> {
        let spec = self.spec();
        let whole = spec.timeout.or(spec.budget.round.wall)?.duration();
        Some(whole.saturating_sub(self.begun.elapsed()).max(Duration::from_millis(1)))
    }

    /// No agent starts once the round's wall time is used up.
    fn has_time(&self) -> Result<(), StageError> {
        let spec = self.spec();
        let whole = spec.timeout.or(spec.budget.round.wall);
        match whole.filter(|whole| self.begun.elapsed() >= whole.duration()) {
            Some(whole) => {
                let text = format!("the round's wall time of {whole} is used up; raise `budget.round.wall`");
                Err(StageError::Ceiling(BudgetLimit::Wall, text))
            }
            None => Ok(()),
        }
    }

    fn workspace(&self, stage: Stage) -> Result<&Workspace, StageError> {
        self.workspace.as_ref().ok_or_else(|| {
            StageError::Broke(StageFailed {
                stage,
                code: "workspace".to_owned(),
                text: "the round's workspace is gone".to_owned(),
            })
        })
    }

    /// A round whose record is complete does not need its workspace any more.
    pub(crate) async fn discard_workspace(&mut self) {
        let Phase::Ended(outcome) = *self.round.phase() else { return };
        match self.workspace.take() {
            Some(workspace) if self.met_secrets() => {
                // A workspace with secrets is removed now, not in the background.
                let _ = tokio::task::spawn_blocking(move || crate::workspace::remove_left(&workspace.root)).await;
            }
            Some(workspace) if leaves_outputs(outcome) => {
                // Without them the next round starts cold, which only costs time.
                let _ = self.workspaces.store_warm_outputs(&self.spec().name, &workspace).await;
            }
            Some(_) | None => {}
        }
        // The next start finds and removes leftovers, so a failure here loses nothing.
        let _ = self.workspaces.discard(self.id()).await;
    }
}

/// Whether the maker of a round with this outcome ended by itself, so that its build outputs are complete.
fn leaves_outputs(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Shipped
        | Outcome::Reported
        | Outcome::NothingToDo
        | Outcome::Rejected
        | Outcome::Plateaued
        | Outcome::Cannot
        | Outcome::Empty => true,
        Outcome::Escalated
        | Outcome::OverBudget
        | Outcome::RateLimited
        | Outcome::Refused
        | Outcome::Failed
        | Outcome::Interrupted
        | Outcome::Cancelled => false,
    }
}

/// Publishes an event about a round.
fn publish(engine: &Engine, round: &Round, kind: EventKind) {
    let started = &round.facts().started;
    let key = LoopKey::new(&started.repo, &started.spec.name);
    engine.publish(Some(key), Some(&started.round), kind);
}

/// A text cut to the length that one event may hold.
pub(crate) fn bounded(text: &str) -> String {
    bounds::text(text)
}

/// The error for a second caller on one round.
fn busy(round: &str) -> EngineError {
    EngineError::Stale(format!("round `{round}` is under way in this process"))
}

/// An event in the journal's format.
pub(crate) fn recorded_event(event: &Event) -> NewEvent {
    let body = serde_json::to_string(event).expect("events hold only strings, numbers, lists and maps with text keys");
    NewEvent { kind: event.kind().to_owned(), body }
}

/// The report could not be written: the round still ends, and its record is complete.
fn unreported(network: NetworkTraffic, window: Option<AnswerWindow>) -> Event {
    Event::Recorded(RoundRecorded { report: None, network, window })
}
