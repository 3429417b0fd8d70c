//! The round driver: performs what [`loopwright_core::round`] decides. One file per stage, with the stage's name in
//! core.
//!
//! The order never changes: the event is recorded with its rows in one transaction (`journal`), and only then is it
//! acted on. A stage gets the parts of the round that it needs and returns its event; the driver owns the parts.

mod attack;
mod bindings;
mod bounds;
mod brief;
mod check;
mod context;
mod cost;
mod gate;
mod isolate;
mod journal;
mod make;
mod memory;
mod money;
mod plan;
mod plant;
mod probe;
mod proposed;
mod prove;
mod rebase;
mod recall;
mod record;
mod recover;
mod role_runner;
pub(crate) mod rows;
mod seal;
mod send;
mod send_limits;
mod send_permit;
mod send_receiver;
mod send_restored;
mod signing;
mod sink_watch;
mod start;
mod transcript;
mod weakening;
mod works;

pub use loopwright_core::round::Refusal;

pub use bindings::{DeliveryOutlet, LoopBindings, RoleAgents};
pub(crate) use context::RoundCaller;
pub(crate) use money::has_room;
pub use recover::{RecordedRound, fold};
pub use send::delivery;
pub(crate) use send_permit::too_many_open;
pub(crate) use signing::sent_commit;
pub(crate) use start::RoundPlace;
pub(crate) use start::admission_request;
pub use start::{DueRecord, RunRequest, SignalNovelty, new_round_id};

use crate::daemon::LoopSlot;
use crate::error::EngineError;
use crate::events::EventKind;
use crate::live_rounds::LiveRoundGuard;
use crate::probe::ProbeResult;
use crate::store::{self, RoundRequestState, RowChange, StoreError, StorePatience};
use crate::workspace::WorkspaceError;
use context::RoundContext;
use gate::CandidateGates;
use isolate::RoundSandbox;
use journal::RoundJournal;
use loopwright_core::budget::BudgetLimit;
use loopwright_core::round::{
    Action, CeilingReached, Event, Phase, Round, RoundPaused, RoundStopped, Stage, StageFailed, StoppedBy,
};
use money::RoundBudget;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The longest time that one write of a round waits for a database server that is away.
const STORE_AWAY_MAX: Duration = Duration::from_secs(15 * 60);

/// One running round of this process: its parts, and the order in which its stages run.
pub(crate) struct RoundDriver<'a> {
    cx: RoundContext<'a>,
    journal: RoundJournal,
    budget: RoundBudget,
    sandbox: RoundSandbox,
    gates: CandidateGates,
    /// The result of a probe that ran before the round started.
    probe_result: Option<ProbeResult>,
    /// The round's hold on its loop's slot, if a daemon manages slots.
    _slot: Option<LoopSlot>,
    /// Keeps other callers of this process from running the round.
    live_guard: LiveRoundGuard,
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
    /// A person paused the round with this request, or its whole workflow, whose request stays.
    Paused { id: Option<String>, paused: RoundPaused },
}

impl From<StoreError> for StageError {
    fn from(error: StoreError) -> Self {
        Self::Fatal(error.into())
    }
}

impl StageError {
    fn broke(stage: Stage, code: &str, error: &dyn std::error::Error) -> Self {
        Self::failed(stage, code, bounds::text(&error_chain(error)))
    }

    fn failed(stage: Stage, code: &str, text: impl Into<String>) -> Self {
        Self::Broke(StageFailed { stage, code: code.to_owned(), text: text.into() })
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
    /// Performs actions until the round is at rest. Meanwhile the round waits for a database server that is away: its
    /// maker may have been paid.
    pub(crate) async fn drive(&mut self, actions: Vec<Action>) -> Result<(), EngineError> {
        self.live_guard.ends_by(self.cx.cancel);
        let (engine, key, id) = (self.cx.engine.clone(), self.cx.key.clone(), self.cx.id.clone());
        let tell = move |text| engine.publish(Some(key.clone()), Some(&id), EventKind::Warning(text));
        let patience = StorePatience { most: STORE_AWAY_MAX, cancel: self.cx.cancel.clone(), tell: Arc::new(tell) };
        store::patiently(patience, Box::pin(self.perform_all(actions))).await
    }

    async fn perform_all(&mut self, actions: Vec<Action>) -> Result<(), EngineError> {
        let mut queue = VecDeque::from(actions);
        while let Some(action) = queue.pop_front() {
            let next = match Box::pin(self.perform(action)).await {
                Ok(next) => next,
                Err(trouble) => self.trouble(trouble).await?,
            };
            queue.extend(next);
        }
        self.sandbox.discard(&self.cx, self.journal.round()).await;
        Ok(())
    }

    /// Performs one action, then applies its event. Deliveries record their events one by one and return the actions
    /// after the last.
    async fn perform(&mut self, action: Action) -> Result<Vec<Action>, StageError> {
        let Self { cx, journal, budget, sandbox, gates, .. } = self;
        if !matches!(action, Action::Send(_) | Action::Record | Action::AskHumanGate(_) | Action::Recall)
            && cx.cancel.is_cancelled()
        {
            return Err(StageError::Stopped);
        }
        let facts = journal.facts();
        // Boxed: the future of a round would otherwise have the size of its largest stage, on the stack of its caller.
        let event = match action {
            Action::Send(positions) => return Box::pin(send::send(cx, journal, budget, positions)).await,
            Action::Record => Box::pin(record::record(cx, journal.round(), sandbox)).await,
            Action::AskHumanGate(proposed) => {
                Event::Decided { decision: cx.bind.decide(recall::level_now(cx, facts).await?, &proposed) }
            }
            Action::Recall => Box::pin(recall::recall(cx, facts)).await?,
            Action::Probe => Box::pin(probe::probe(cx, facts, sandbox, budget, self.probe_result.take())).await?,
            Action::Isolate => Box::pin(sandbox.isolate(cx, facts, budget)).await?,
            Action::Baseline => Box::pin(gates.baseline(cx, facts, sandbox, budget)).await?,
            Action::Plan | Action::Make(_) if gates.is_withholding_due(facts, sandbox) => {
                Box::pin(gates.withhold(cx, facts, sandbox, budget)).await?;
                return Ok(vec![action]);
            }
            Action::Plan => Box::pin(plan::plan(cx, journal, budget, sandbox)).await?,
            Action::Make(feedback) => {
                Box::pin(make::make(cx, journal, budget, sandbox, gates, feedback.as_ref())).await?
            }
            Action::Wait { until_ms } => budget.wait(cx, facts, until_ms).await?,
            Action::Plant => Box::pin(plant::plant(cx, facts)).await?,
            Action::Seal => Box::pin(seal::seal(cx, facts, sandbox, gates)).await?,
            Action::Gate => Box::pin(gates.judge(cx, journal.round(), sandbox, budget)).await?,
            Action::Prove => Box::pin(prove::prove(cx, facts, sandbox, budget, gates)).await?,
            Action::Attack => return Box::pin(attack::attack(cx, journal, budget, sandbox)).await,
            Action::Reproduce => Box::pin(attack::reproduce(cx, facts, sandbox, budget, gates)).await?,
            Action::Check => Box::pin(check::check(cx, journal, budget, sandbox)).await?,
        };
        self.apply(event).await
    }

    /// Records an event with its rows, and settles the agents whose cost it brought.
    async fn apply(&mut self, event: Event) -> Result<Vec<Action>, StageError> {
        self.apply_with(event, Vec::new()).await
    }

    async fn apply_with(&mut self, event: Event, extra: Vec<RowChange>) -> Result<Vec<Action>, StageError> {
        let billed = self.journal.facts().bills.len();
        let actions = self.journal.apply(&self.cx, event, extra).await?;
        self.budget.settle(&self.journal.facts().bills[billed..]);
        Ok(actions)
    }

    /// Turns a stage error into an event. If it cannot be recorded, this engine's part of the round ends.
    async fn trouble(&mut self, trouble: StageError) -> Result<Vec<Action>, EngineError> {
        let round = self.cx.id.clone();
        let mut extra = Vec::new();
        let event = match trouble {
            StageError::Fatal(error) => return Err(error),
            // Deliveries end one by one: after a failure between them, the next engine resumes the rest.
            StageError::Broke(broke) if matches!(self.journal.round().phase(), Phase::Sending(_)) => {
                return Err(EngineError::Unsent { round, text: broke.text });
            }
            StageError::Broke(broke) => Event::Broke(broke),
            StageError::Stopped => Event::Stopped(match self.cx.cancel.why() {
                Some(why) => RoundStopped { by: StoppedBy::Person, text: why.as_ref().to_owned() },
                None => RoundStopped { by: StoppedBy::Signal, text: "stopped by a signal".to_owned() },
            }),
            StageError::Ceiling(limit, text) => Event::Ceiling(CeilingReached { limit, text }),
            StageError::Paused { id, paused } => {
                extra.extend(id.map(|id| RowChange::RequestSettled { id, state: RoundRequestState::Applied }));
                Event::Paused(paused)
            }
        };
        self.apply_with(event, extra).await.map_err(|error| match error {
            StageError::Fatal(error) => error,
            StageError::Broke(StageFailed { text, .. }) => EngineError::Unrecorded { round, text },
            StageError::Stopped | StageError::Ceiling(..) | StageError::Paused { .. } => {
                let text = "recording a failure cannot itself be stopped or reach a ceiling".to_owned();
                EngineError::Unrecorded { round, text }
            }
        })
    }

    pub(crate) fn round(&self) -> &Round {
        self.journal.round()
    }

    /// The round at rest; a daemon on this engine is notified.
    pub(crate) async fn finish_at_rest(self) -> Round {
        let started = &self.round().facts().started;
        let declared = self.round().facts().lowered_from.unwrap_or(started.spec.level);
        // The next round decides this again, so a failure here only delays what people see.
        let _ = crate::autonomy::settle_level(self.cx.engine, &self.cx.key, declared, &started.spec_hash).await;
        if let Some(admission) = self.cx.engine.live_rounds.admission() {
            admission.on_round_at_rest(self.round()).await;
        }
        self.journal.into_round()
    }
}

/// A text cut to the length that one event may hold.
pub(crate) fn bounded(text: &str) -> String {
    bounds::text(text)
}

/// The end of the text of [`busy`]: the state passes, and the caller can try again.
pub(crate) const UNDER_WAY: &str = "is under way in this process";

/// The error for a second caller on one round.
pub(crate) fn busy(round: &str) -> EngineError {
    EngineError::Stale(format!("round `{round}` {UNDER_WAY}"))
}
