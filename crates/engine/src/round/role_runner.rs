//! The role runner: the one way in which the agent of a role starts, runs, is billed and ends. The stage of the role
//! provides the input of a start and reads its output.
//!
//! [`RoleRunner::start`] records the start with its reservation. [`RoleRunner::finish`] borrows the round only for
//! reading, so that several started roles can run side by side; the stage then records each end.

use super::context::RoundContext;
use super::cost::{self, StartCost};
use super::isolate::RoundSandbox;
use super::journal::RoundJournal;
use super::money::{self, RoundBudget};
use super::transcript::AgentTranscript;
use super::{StageError, error_chain};
use crate::agents::providers::ProviderChoice;
use crate::agents::{Agent, AgentError, AgentInvocation, AgentLimits, AgentOutcome, VerdictSink};
use crate::clock;
use crate::proc::{CancelToken, RunEnd, TreeCookie};
use crate::sandbox_view::{self, ProgramFolders, RolePaths, SandboxView};
use crate::workspace::CheckoutFiles;
use loopwright_core::BoxFuture;
use loopwright_core::budget::{AgentUsage, BudgetLimit, Reservation};
use loopwright_core::prompt::VerdictChannel;
use loopwright_core::round::{AgentEnd, Event, RoleEnded, RoleResult, RoleStarted, Round};
use loopwright_core::spec::{AgentSpec, Role};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The longest time that an agent may take to return after its limit, or after a stop.
const OVERDUE: Duration = Duration::from_secs(10);

/// The agent of a role's chain that is tried next.
pub(super) struct RoleTurn {
    pub(super) role: Role,
    pub(super) agent: Arc<dyn Agent>,
    /// Its position in the chain, and the number of agents after it.
    place: u32,
    left: u32,
    /// Its spec in the loop file; `None` for an embedder's own agent.
    pub(super) spec: Option<AgentSpec>,
}

impl RoleTurn {
    /// The agent that is next in a role's chain.
    pub(super) fn next(cx: &RoundContext<'_>, round: &Round, role: Role) -> Result<Self, StageError> {
        let place = round.facts().provider_waits.chain_position(role);
        let at = usize::try_from(place).unwrap_or(usize::MAX);
        let mut chain = cx.bind.agents.chain(role).iter().skip(at);
        let Some(agent) = chain.next() else {
            let text = format!("the loop has no {} to start", role.word());
            return Err(StageError::failed(round.phase().stage(), "agent-unusable", text));
        };
        let left = u32::try_from(chain.count()).unwrap_or(u32::MAX);
        let spec = round.facts().started.spec.chain(role).into_iter().nth(at);
        Ok(Self { role, agent: Arc::clone(agent), place, left, spec })
    }

    /// An agent whose answer the engine reads gives its verdict as its last message; any other writes a file.
    pub(super) fn answer_way(&self) -> VerdictChannel {
        if self.agent.capabilities().answers { VerdictChannel::Message } else { VerdictChannel::File }
    }
}

/// The folders that one start sees.
pub(super) struct RoleView {
    /// The files of the repository, and whether the role may change them.
    pub(super) files: CheckoutFiles,
    pub(super) access: FileAccess,
    /// The folder for the state file.
    pub(super) root: PathBuf,
    pub(super) outbox: PathBuf,
    pub(super) home: PathBuf,
    pub(super) tmp: PathBuf,
    /// The sealed items, for a role that judges them.
    pub(super) items: Option<PathBuf>,
    /// The folder for the verdict.
    pub(super) sink: Option<PathBuf>,
}

/// The access of a role to the files it sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileAccess {
    /// Change them, as far as the level allows.
    ByLevel,
    /// Only read them.
    ReadOnly,
}

/// The input of one start of a role.
pub(super) struct RoleCall {
    pub(super) turn: RoleTurn,
    pub(super) attempt: u32,
    /// The name of its transcript.
    pub(super) name: String,
    pub(super) prompt: String,
    pub(super) view: RoleView,
    pub(super) verdict: Option<VerdictSink>,
}

/// A start that is on record.
pub(super) struct StartedRole {
    turn: RoleTurn,
    name: String,
    reserved: Reservation,
    invocation: AgentInvocation,
}

/// The result of a start, whose whole process tree is dead.
pub(super) struct RoleRun {
    /// The agent's outcome; `None` if it could not run.
    pub(super) outcome: Option<AgentOutcome>,
    end: AgentEnd,
    cost: StartCost,
    transcript: Option<String>,
    attempt: u32,
    cookie: String,
}

impl RoleRun {
    /// The event of its end, with the stage's result.
    pub(super) fn ended(self, result: RoleResult) -> Event {
        Event::RoleEnded(Box::new(RoleEnded {
            attempt: self.attempt,
            cookie: Some(self.cookie),
            end: self.end,
            spend: self.cost.spend,
            models: self.cost.models,
            counted: self.cost.counted,
            transcript: self.transcript,
            result,
        }))
    }
}

/// Starts the agents of one round.
pub(super) struct RoleRunner<'r, 'a> {
    pub(super) cx: &'r RoundContext<'a>,
    pub(super) journal: &'r mut RoundJournal,
    pub(super) budget: &'r mut RoundBudget,
    pub(super) sandbox: &'r RoundSandbox,
}

impl RoleRunner<'_, '_> {
    /// Starts a role's agent, waits until its whole process tree is dead, and counts its cost.
    pub(super) async fn run(mut self, call: RoleCall) -> Result<RoleRun, StageError> {
        let started = self.start(call).await?;
        self.finish(started).await
    }

    /// Records the start with its reservation; nothing runs yet.
    async fn start(&mut self, call: RoleCall) -> Result<StartedRole, StageError> {
        self.ensure_no_global_stop().await?;
        let facts = self.journal.facts();
        let reserved = money::reservation(&facts.started.spec);
        let mut role = self.prepare(call, reserved, self.budget.agent_limits(facts))?;
        let StartedRole { turn, invocation, .. } = &role;
        let day = clock::day(self.cx.engine.now_ms());
        let started = RoleStarted {
            role: turn.role,
            attempt: invocation.attempt,
            agent: turn.agent.name().to_owned(),
            version: turn.agent.version().map(str::to_owned),
            model: invocation.model.clone(),
            cookie: invocation.cookie.as_str().to_owned(),
            reserved,
            day: Some(day.clone()),
            nonce: invocation.verdict.as_ref().map(|verdict| verdict.nonce.clone()),
            place: turn.place,
            left: turn.left,
        };
        role.invocation.limits.meter = self.budget.record_start(self.cx, self.journal, started, day).await?;
        cost::bound_grant(&role.invocation);
        Ok(role)
    }

    /// No agent starts while everything is stopped, whichever process runs the round.
    async fn ensure_no_global_stop(&self) -> Result<(), StageError> {
        let Some(stop) = self.cx.engine.global_stop().await.map_err(StageError::Fatal)? else { return Ok(()) };
        self.cx.cancel.cancel_because(&format!("everything is stopped by {}: {}", stop.by, stop.why));
        Err(StageError::Stopped)
    }

    fn prepare(&self, call: RoleCall, reserved: Reservation, limits: AgentLimits) -> Result<StartedRole, StageError> {
        let RoleCall { turn, attempt, name, prompt, view, verdict } = call;
        let (cx, round) = (self.cx, self.journal.round());
        let state_file = self.write_state_file(&view.root, turn.role)?;
        let sandbox_view = self.view_of(&view, &state_file);
        let spec = turn.spec.as_ref();
        let invocation = AgentInvocation {
            role: turn.role,
            loop_name: cx.key.name.to_string(),
            round: cx.id.clone(),
            attempt,
            prompt,
            workspace: sandbox_view::host_folder(&view.files).to_owned(),
            outbox: view.outbox,
            state_file,
            items: view.items,
            home: view.home,
            tmp: view.tmp,
            verdict,
            model: spec.and_then(|spec| spec.model.clone()),
            tools: spec.map(|spec| spec.tools.clone()).unwrap_or_default(),
            endpoints: cost::endpoints(cx, &self.sandbox.routes, round.phase().stage(), &turn)?,
            prices: Arc::clone(&cx.engine.settings.prices),
            limits,
            cookie: TreeCookie::new(&cx.cookie()),
            view: sandbox_view,
        };
        Ok(StartedRole { turn, name, reserved, invocation })
    }

    fn view_of(&self, view: &RoleView, state: &Path) -> SandboxView {
        let folders = ProgramFolders { files: &view.files, home: &view.home, tmp: &view.tmp };
        let (items, sink) = (view.items.as_deref(), view.sink.as_deref());
        let paths = RolePaths { outbox: &view.outbox, state, items, sink };
        match view.access {
            FileAccess::ByLevel => self.sandbox.views.maker(folders, paths, self.journal.facts().started.spec.level),
            FileAccess::ReadOnly => self.sandbox.views.reader(folders, paths),
        }
    }

    /// Writes the loop's memory for a role to read, again for each start. A checker gets no history, because that may
    /// hold a maker's text from earlier rounds.
    fn write_state_file(&self, folder: &Path, role: Role) -> Result<PathBuf, StageError> {
        let facts = self.journal.facts();
        let history = if role == Role::Maker { facts.history.as_slice() } else { &[] };
        let memory = if role == Role::Maker { facts.memory.as_slice() } else { &[] };
        let state = serde_json::json!({
            "schema": 1, "loop": facts.started.spec.name, "round": facts.started.round,
            "item": facts.items.first(), "items": facts.items, "history": history, "memory": memory,
        });
        let path = folder.join("state.json");
        let written = self.cx.engine.state_dir.write_ephemeral(&path, state.to_string().as_bytes());
        written.map_err(|error| StageError::broke(self.journal.round().phase().stage(), "state-file", &error))?;
        Ok(path)
    }

    /// Runs a started agent to its end.
    async fn finish(&self, started: StartedRole) -> Result<RoleRun, StageError> {
        let StartedRole { turn, name, reserved, invocation } = started;
        let (outcome, transcript, wall_ms) = self.invoke(&turn, &invocation, &name).await;
        let cost = cost::cost_of(&outcome, &invocation, reserved, wall_ms);
        let end = end_of(&outcome, self.cx.engine.now_ms())?;
        let (attempt, cookie) = (invocation.attempt, invocation.cookie.as_str().to_owned());
        let end = self.budget.explain_end(self.journal.facts(), end, cost.spend.amount(), &cookie);
        Ok(RoleRun { outcome: outcome.ok(), end, cost, transcript, attempt, cookie })
    }

    /// An agent needs a key for its model or its own sign-in; without either it is not started.
    fn signed_in(&self, turn: &RoleTurn, invocation: &AgentInvocation) -> Result<(), AgentError> {
        // An agent that was not found reports that itself, and needs no key for it.
        let Some(agent) = turn.spec.as_ref().filter(|_| turn.agent.capabilities().proxy) else { return Ok(()) };
        let (asks, name) = (ProviderChoice::for_spec(agent), agent.agent.word());
        if !asks.is_unmet_by(&self.cx.engine.provider_names()) || invocation.endpoints.login.is_some() {
            return Ok(());
        }
        let what = match self.cx.engine.login(agent) {
            Some(_) => format!("the own sign-in of `{name}` cannot be read: sign in with it once, manually"),
            None => format!("agent `{name}` has no key for its model provider: {}", asks.remedy()),
        };
        Err(AgentError::Unavailable { what, hint: String::new() })
    }

    async fn invoke(
        &self,
        turn: &RoleTurn,
        invocation: &AgentInvocation,
        name: &str,
    ) -> (Result<AgentOutcome, AgentError>, Option<String>, u64) {
        if let Err(error) = self.signed_in(turn, invocation) {
            return (Err(error), None, 0);
        }
        let folder = self.cx.engine.state_dir.transcripts(&invocation.round);
        let publish = |kind| self.cx.publish(kind);
        let mut log = AgentTranscript::open(&folder, invocation.role, name, &publish, &self.cx.scanner);
        let begun = Instant::now();
        let mut started = |_: &crate::proc::StartedProcess| ();
        let stop = CancelToken::new();
        let work = turn.agent.invoke(invocation, &self.cx.engine.proc, &mut log, &stop, &mut started);
        let work = unless_overdue(work, &invocation.limits, &stop);
        let outcome = cost::unless_over(self.cx.cancel, work, &invocation.endpoints, &stop).await;
        let wall_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        (outcome, log.finish(), wall_ms)
    }
}

/// Waits for an agent, with a limit. Adapters enforce their limits themselves and return well before this. An
/// embedder's adapter that does not return is abandoned: its future is dropped with everything it holds.
async fn unless_overdue(
    work: BoxFuture<'_, Result<AgentOutcome, AgentError>>,
    limits: &AgentLimits,
    cancel: &CancelToken,
) -> Result<AgentOutcome, AgentError> {
    let left_behind = |how| AgentOutcome { how, exit: None, ..AgentOutcome::in_process(0, "", AgentUsage::Unknown) };
    let longest = limits.wall.unwrap_or(Duration::MAX).saturating_add(OVERDUE);
    let stopped = async {
        cancel.cancelled().await;
        timeout(OVERDUE, std::future::pending::<()>()).await
    };
    tokio::select! {
        biased;
        outcome = timeout(longest, work) => outcome.unwrap_or_else(|_| Ok(left_behind(RunEnd::Wall))),
        _ = stopped => Ok(left_behind(RunEnd::Cancelled)),
    }
}

/// The end of a start as the round records it.
fn end_of(outcome: &Result<AgentOutcome, AgentError>, at_ms: i64) -> Result<AgentEnd, StageError> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return Ok(AgentEnd::Unusable { text: error_chain(error) }),
    };
    // An agent reports a provider problem itself; it may still exit with code zero, or wait without output.
    let by_itself =
        matches!(outcome.how, RunEnd::Exited(_) | RunEnd::Signaled(_) | RunEnd::Finished | RunEnd::Idle | RunEnd::Wall);
    if let (true, Some(trouble)) = (by_itself, &outcome.self_report.trouble) {
        return Ok(AgentEnd::Provider { trouble: trouble.clone(), at_ms });
    }
    let term = if outcome.term_ignored { "; it ignored SIGTERM and was killed" } else { "" };
    let limit = |limit, text: &str| AgentEnd::Limit { limit, text: format!("{text}{term}") };
    Ok(match outcome.how {
        RunEnd::Exited(_) | RunEnd::Finished if outcome.limit.is_some() => {
            limit(outcome.limit.unwrap_or(BudgetLimit::Total), "it reached its own limit")
        }
        RunEnd::Exited(code) => AgentEnd::Exited { code },
        // It had sent its last message, and reported no problem.
        RunEnd::Finished => AgentEnd::Exited { code: 0 },
        RunEnd::Signaled(signal) => AgentEnd::Signaled { signal },
        RunEnd::Idle => limit(BudgetLimit::Idle, "no output for too long"),
        RunEnd::Wall => limit(BudgetLimit::Wall, "it took too long"),
        RunEnd::Flood => limit(BudgetLimit::Flood, "it printed more than is read"),
        RunEnd::Disk => limit(BudgetLimit::Disk, "it filled the disk"),
        RunEnd::Stopped => limit(outcome.limit.unwrap_or(BudgetLimit::Total), "its ceiling was passed"),
        RunEnd::Cancelled => return Err(StageError::Stopped),
    })
}
