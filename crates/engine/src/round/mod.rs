//! The round, done: performs what [`loopwright_core::round`] decides. One file a stage, of the same name as its meaning.
//!
//! The order never changes: the event is recorded with its rows in one transaction, and only then is anything done about it.

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
mod money;
mod probe;
mod recall;
mod record;
mod recover;
mod remember;
mod role_runner;
mod seal;
mod send;
mod start;
mod transcript;
mod wait;

pub use loopwright_core::round::Refusal;

pub use bindings::{Bindings, Outlet, RoleAgents};
pub use due::{DueRecord, Heard};
pub use recover::{Recorded as RecordedRound, fold};
pub use send::delivery;
pub use start::RunRequest;

use crate::egress::Ways;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::events::EventKind;
use crate::gates::{Baseline, Facts, Heldouts, Resolved};
use crate::git::{Base, UserRepo};
use crate::live::{Here, Stay};
use crate::probe::Work;
use crate::proc::Cancel;
use crate::purse::Seat;
use crate::room::Rooms;
use crate::store::{Batch, Change, NewEvent, StoreError, StoreErrorKind};
use crate::workspace::{Sealed as SealedTree, Workspace, WorkspaceError, Workspaces};
use journal::When;
use loopwright_core::budget::BudgetLimit;
use loopwright_core::dispatch::LoopKey;
use loopwright_core::network::Traffic;
use loopwright_core::outcome::RoundOutcome as Outcome;
use loopwright_core::round::{
    Action, AnswerWindow, Broke, Ceiling, Event, Phase, Recorded, Round, Stage, Step, StepError, Stopped, StoppedBy,
    step,
};
use loopwright_core::secrets::Scanner;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// One round under way in this process.
pub(crate) struct Run<'a> {
    engine: &'a Engine,
    bind: &'a Bindings,
    cancel: &'a Cancel,
    repo: UserRepo,
    spaces: Workspaces,
    /// What every start of this round sees.
    rooms: Rooms,
    /// Its ways to the network.
    ways: Ways,
    /// Knows what may be kept and sent by nobody.
    scanner: Scanner,
    /// Whether they have what the loop's set-up made.
    is_warm: bool,
    workspace: Option<Workspace>,
    /// Gate programs, found before the maker ran.
    resolved: Option<Resolved>,
    /// Held-out checks, read before the maker ran; read again after a restart.
    heldout: Option<Heldouts>,
    /// What the comparing gates said about base.
    /// The last seal and what was read of it, for the gates; read again after a restart.
    sealed: Option<(SealedTree, Facts)>,
    /// What was checked out or named when the round began; a resumed round has its base on record.
    head: Option<Base>,
    /// What the probe said before there was a round.
    found: Option<Work>,
    baseline: Option<Baseline>,
    round: Round,
    /// How many events of this round are recorded.
    index: i64,
    started_ms: i64,
    failures: journal::Failures,
    begun: Instant,
    /// The places of running agents in the purse, by their cookies.
    seats: BTreeMap<String, Seat>,
    /// The round's place in its loop, where a daemon gives them out.
    _stay: Option<Box<dyn Stay>>,
    /// Keeps others of this process from the round.
    _here: Here,
}

/// Why a stage did not produce its event.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The record itself cannot be kept: nothing more may be done; the next engine takes over.
    Fatal(EngineError),
    /// The stage broke; the round says so.
    Broke(Broke),
    /// Somebody stopped it.
    Stopped,
    /// A ceiling leaves no room for an agent.
    Ceiling(BudgetLimit, String),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Fatal(error.into())
    }
}

impl Trouble {
    fn broke(stage: Stage, code: &str, error: &dyn std::error::Error) -> Self {
        Self::Broke(Broke { stage, code: code.to_owned(), text: bounds::text(&chain(error)) })
    }
}

/// An error with its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn workspace_trouble(stage: Stage) -> impl Fn(WorkspaceError) -> Trouble {
    move |error| Trouble::broke(stage, "workspace", &error)
}

impl Run<'_> {
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

    /// One action, then its event. Deliveries record their events one by one and return what follows the last.
    async fn perform(&mut self, action: Action) -> Result<Vec<Action>, Trouble> {
        let event = match action {
            Action::Send(positions) => return self.send(positions).await,
            Action::Record => self.record().await,
            Action::AskHumanGate(proposed) => self.ask(&proposed),
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

    fn unless_stopped(&mut self) -> Result<&mut Self, Trouble> {
        if self.cancel.is_cancelled() { Err(Trouble::Stopped) } else { Ok(self) }
    }

    /// Turns trouble into an event; what cannot be recorded ends this engine's part of the round.
    async fn trouble(&mut self, trouble: Trouble) -> Result<Vec<Action>, EngineError> {
        let event = match trouble {
            Trouble::Fatal(error) => return Err(error),
            // Deliveries end one by one: what broke between them is taken up again by the next engine.
            Trouble::Broke(broke) if matches!(self.round.phase(), Phase::Sending(_)) => {
                return Err(EngineError::Unsent { round: self.id().to_owned(), text: broke.text });
            }
            Trouble::Broke(broke) => Event::Broke(broke),
            Trouble::Stopped => Event::Stopped(match self.cancel.why() {
                Some(why) => Stopped { by: StoppedBy::Person, text: why.as_ref().to_owned() },
                None => Stopped { by: StoppedBy::Signal, text: "stopped by a signal".to_owned() },
            }),
            Trouble::Ceiling(limit, text) => Event::Ceiling(Ceiling { limit, text }),
        };
        match self.apply(event, Vec::new()).await {
            Ok(actions) => Ok(actions),
            Err(Trouble::Fatal(error)) => Err(error),
            Err(Trouble::Broke(Broke { text, .. })) => {
                Err(EngineError::Unrecorded { round: self.id().to_owned(), text })
            }
            Err(Trouble::Stopped | Trouble::Ceiling(..)) => {
                let text = "trouble cannot itself meet a stop or a ceiling".to_owned();
                Err(EngineError::Unrecorded { round: self.id().to_owned(), text })
            }
        }
    }

    /// Decides what an event means, records both in one transaction, and only then moves on.
    pub(crate) async fn apply(&mut self, event: Event, extra: Vec<Change>) -> Result<Vec<Action>, Trouble> {
        let event = self.clean(event)?;
        let Step { round, actions } = step(&self.round, event.clone()).map_err(|error| self.not_accepted(error))?;
        bounds::fits(&event, self.round.phase().stage())?;
        let when = self.when();
        let mut changes = extra;
        changes.extend(journal::changes(Some(&self.round), &round, &event, &when));
        changes.extend(self.followers_told(&round, when.now_ms).await?);
        changes.extend(crate::daemon::signals_again(&round, when.now_ms, |item| !journal::is_given_up(&when, item)));
        if round.is_at_rest() && actions.is_empty() {
            changes.push(Change::LeaseEnd);
        }
        self.write(&event, changes, when.now_ms).await?;
        let bills = self.round.facts().bills.len();
        self.round = round;
        self.settle_seats(bills);
        let (phase, level) = (self.round.phase().word(), self.spec().level);
        self.publish(EventKind::Recorded { index: self.index, event: event.kind(), phase, level });
        Ok(actions)
    }

    async fn write(&mut self, event: &Event, changes: Vec<Change>, at_ms: i64) -> Result<(), Trouble> {
        let batch = Batch {
            round: self.id().to_owned(),
            expect_index: self.index,
            at_ms,
            events: vec![recorded(event)],
            changes,
        };
        match self.engine.append(batch).await {
            Ok(index) => self.index = index,
            Err(StoreError { kind: StoreErrorKind::OverCeiling { full, spend, .. }, .. }) => {
                return Err(self.refused(&full, &spend));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn not_accepted(&self, error: StepError) -> Trouble {
        Trouble::Fatal(match error {
            StepError::Misfit(source) => EngineError::History { round: self.id().to_owned(), source },
            StepError::Refused(refusal) => EngineError::Refused(refusal),
        })
    }

    fn when(&self) -> When {
        let now_ms = self.engine.now_ms();
        let wait = i64::try_from(self.engine.settings.approval.as_millis()).unwrap_or(i64::MAX);
        When {
            now_ms,
            started_ms: self.started_ms,
            expires_ms: now_ms.saturating_add(wait),
            failures: Arc::clone(&self.failures),
        }
    }

    pub(crate) fn round(&self) -> &Round {
        &self.round
    }

    /// The round as it came to rest; a daemon on this engine is told how.
    pub(crate) async fn rested(&mut self) -> Round {
        if let Some(porter) = self.engine.live.porter() {
            porter.rested(&self.round).await;
        }
        self.round.clone()
    }

    /// What is written for loops that follow this one, with the end itself.
    async fn followers_told(&self, round: &Round, now_ms: i64) -> Result<Vec<Change>, StoreError> {
        let started = &round.facts().started;
        let porter = self.engine.live.porter().filter(|_| matches!(round.phase(), Phase::Ended(_)));
        let followers = porter.map(|porter| porter.followers(&started.repo, &started.spec.name)).unwrap_or_default();
        crate::daemon::signals(self.engine.store.as_ref(), &followers, round, now_ms).await
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

    /// What is left of the round's wall time.
    fn wall_left(&self) -> Option<Duration> {
        let spec = self.spec();
        let whole = spec.timeout.or(spec.budget.round.wall)?.duration();
        Some(whole.saturating_sub(self.begun.elapsed()).max(Duration::from_millis(1)))
    }

    /// No agent starts when the round's wall time is used up, whoever used it.
    fn has_time(&self) -> Result<(), Trouble> {
        let spec = self.spec();
        let whole = spec.timeout.or(spec.budget.round.wall);
        match whole.filter(|whole| self.begun.elapsed() >= whole.duration()) {
            Some(whole) => {
                let text = format!("the round's wall time of {whole} is used up; raise `budget.round.wall`");
                Err(Trouble::Ceiling(BudgetLimit::Wall, text))
            }
            None => Ok(()),
        }
    }

    fn workspace(&self, stage: Stage) -> Result<&Workspace, Trouble> {
        self.workspace.as_ref().ok_or_else(|| {
            Trouble::Broke(Broke {
                stage,
                code: "workspace".to_owned(),
                text: "the round's workspace is gone".to_owned(),
            })
        })
    }

    /// A round whose record is complete needs its workspace no more.
    pub(crate) async fn tidy(&mut self) {
        let Phase::Ended(outcome) = *self.round.phase() else { return };
        match self.workspace.take() {
            Some(workspace) if self.held_secrets() => {
                // What must not be kept is not left to the background either.
                let _ = tokio::task::spawn_blocking(move || crate::workspace::remove_left(&workspace.root)).await;
            }
            Some(workspace) if leaves_outputs(outcome) => {
                // Without them the next round starts cold, which costs it time and nothing else.
                let _ = self.spaces.keep_warm(&self.spec().name, &workspace).await;
            }
            Some(_) | None => {}
        }
        // Left-overs are found and removed at the next start, so a failure here loses nothing.
        let _ = self.spaces.discard(self.id()).await;
    }
}

/// Whether the maker of a round that ended so came to its own end, and what it built is whole.
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

/// Puts a note about a round on the event stream.
fn publish(engine: &Engine, round: &Round, kind: EventKind) {
    let started = &round.facts().started;
    let key = LoopKey::new(&started.repo, &started.spec.name);
    engine.publish(Some(key), Some(&started.round), kind);
}

/// A text cut to what one event takes of it.
pub(crate) fn bounded(text: &str) -> String {
    bounds::text(text)
}

/// The answer to a second hand on one round.
fn busy(round: &str) -> EngineError {
    EngineError::Stale(format!("round `{round}` is under way in this process"))
}

/// An event as the journal keeps it.
pub(crate) fn recorded(event: &Event) -> NewEvent {
    let body = serde_json::to_string(event).expect("events hold only strings, numbers, lists and maps with text keys");
    NewEvent { kind: event.kind().to_owned(), body }
}

/// The report could not be written: the round still ends, and its record is whole.
fn unreported(network: Traffic, window: Option<AnswerWindow>) -> Event {
    Event::Recorded(Recorded { report: None, network, window })
}
