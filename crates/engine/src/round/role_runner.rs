//! The role runner: the one way in which the agent of a role starts, runs, is billed and ends. The stage of the role
//! provides the input of a start and reads its output.
//!
//! [`RoleRunner::start`] records the start with its reservation. [`RoleRunner::finish`] borrows the round only for
//! reading, so that several started roles can run side by side; the stage then records each end.

use super::context::RoundContext;
use super::cost::{self, StartCost};
use super::isolate::RoundSandbox;
use super::journal::RoundJournal;
use super::money::{self, RoundBudget, SpendDays};
use super::transcript::AgentTranscript;
use super::{StageError, error_chain};
use crate::agents::providers::ProviderChoice;
use crate::agents::{Agent, AgentError, AgentInvocation, AgentLimits, AgentOutcome, VerdictSink, mcp_servers};
use crate::proc::{CancelToken, RunEnd, TreeCookie};
use crate::sandbox_view::{self, ProgramFolders, RolePaths, SandboxView};
use crate::store::{RoundRequestKind, RoundRequestRow, RoundRequestState, RowChange};
use crate::workspace::CheckoutFiles;
use loopwright_core::BoxFuture;
use loopwright_core::budget::{AgentUsage, BudgetLimit, Reservation};
use loopwright_core::prompt::{VerdictChannel, with_steers};
use loopwright_core::provider::{AgentStop, ProviderExchange, ProviderTrouble, judge_exchanges};
use loopwright_core::round::{AgentEnd, Event, PersonSteer, RoleEnded, RoleResult, RoleStarted, Round, RoundPaused};
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
    /// The folder for a planner's files.
    pub(super) plan: Option<PathBuf>,
    /// The phase of a maker, from 1.
    pub(super) phase: Option<u32>,
    /// The role of an attacker in the loop file.
    pub(super) attack_role: Option<String>,
    /// The time limit of this start alone.
    pub(super) wall: Option<Duration>,
}

impl RoleCall {
    pub(super) fn new(turn: RoleTurn, attempt: u32, name: String, prompt: String, view: RoleView) -> Self {
        let (verdict, plan, phase, attack_role, wall) = (None, None, None, None, None);
        Self { turn, attempt, name, prompt, view, verdict, plan, phase, attack_role, wall }
    }
}

/// A start that is on record.
pub(super) struct StartedRole {
    turn: RoleTurn,
    name: String,
    reserved: Reservation,
    invocation: AgentInvocation,
}

/// A start whose whole process tree is dead, before its cost is counted.
pub(super) struct EndedStart {
    outcome: Result<AgentOutcome, AgentError>,
    transcript: Option<String>,
    wall_ms: u64,
    reserved: Reservation,
    invocation: AgentInvocation,
    spec: Option<AgentSpec>,
    /// Its exchanges with its providers, as the proxy saw them.
    exchanges: Vec<ProviderExchange>,
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
            refused_calls: self.outcome.as_ref().map_or(0, |outcome| outcome.self_report.refused_calls),
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
    pub(super) async fn start(&mut self, call: RoleCall) -> Result<StartedRole, StageError> {
        self.ensure_no_global_stop().await?;
        self.apply_requests().await?;
        let present = money::PresentBudget::read(self.cx.engine, self.journal.facts());
        let reserved = cost::reservation(self.cx, &present.facts.started.spec, &call.turn);
        let limits = self.budget.agent_limits(&present.facts, call.turn.role, call.attempt);
        let mut role = self.prepare(call, reserved, limits)?;
        let StartedRole { turn, invocation, .. } = &role;
        let days = SpendDays::at(self.cx.engine, &present.facts.started.spec, self.cx.engine.now_ms());
        let started = RoleStarted {
            role: turn.role,
            attempt: invocation.attempt,
            part: invocation.attack_role.clone(),
            agent: turn.agent.name().to_owned(),
            version: turn.agent.version().map(str::to_owned),
            model: invocation.model.clone(),
            cookie: invocation.cookie.as_str().to_owned(),
            reserved,
            day: Some(days.day.clone()),
            loop_day: (days.own_day != days.day).then(|| days.own_day.clone()),
            nonce: invocation.verdict.as_ref().map(|verdict| verdict.nonce.clone()),
            place: turn.place,
            left: turn.left,
        };
        role.invocation.limits.meter = self.budget.record_start(self.cx, self.journal, started, days).await?;
        cost::bound_grant(&role.invocation);
        Ok(role)
    }

    /// No agent starts while everything is stopped, whichever process runs the round.
    async fn ensure_no_global_stop(&self) -> Result<(), StageError> {
        let Some(stop) = self.cx.engine.global_stop().await.map_err(StageError::Fatal)? else { return Ok(()) };
        self.cx.cancel.cancel_because(&format!("everything is stopped by {}: {}", stop.by, stop.why));
        Err(StageError::Stopped)
    }

    /// Applies the requests of people since the last start: their words are in the brief of this agent, and a pause comes
    /// before it. While other agents of the round run, requests wait for the next start.
    async fn apply_requests(&mut self) -> Result<(), StageError> {
        for request in self.requests().await? {
            if !self.journal.round().is_agent_due() {
                return Ok(());
            }
            let RoundRequestRow { id, round, kind, actor, text, .. } = request;
            // A request to the whole workflow stays: it is for each of its rounds.
            let id = (round == self.cx.id).then_some(id);
            match kind {
                RoundRequestKind::Steer => {
                    let settled = id.map(|id| RowChange::RequestSettled { id, state: RoundRequestState::Applied });
                    let event = Event::Steered(PersonSteer { actor, text });
                    // The same agent stays due, and this start is it.
                    self.journal.apply(self.cx, event, settled.into_iter().collect()).await?;
                }
                RoundRequestKind::Stop => {
                    // The watch over the store settles it, as it does while an agent runs.
                    self.cx.cancel.cancel_because(&format!("{text} by {actor}"));
                    return Err(StageError::Stopped);
                }
                RoundRequestKind::Pause => {
                    return Err(StageError::Paused { id, paused: RoundPaused { actor, why: text } });
                }
            }
        }
        Ok(())
    }

    /// The requests to this round that wait, and those to its workflow that it does not have yet.
    async fn requests(&self) -> Result<Vec<RoundRequestRow>, StageError> {
        let store = &self.cx.engine.store;
        let mut requests = store.pending_requests(&self.cx.id).await?;
        let facts = self.journal.round().facts();
        if let Some(place) = &facts.started.workflow {
            let is_known = |request: &RoundRequestRow| {
                let has = |steer: &PersonSteer| steer.actor == request.actor && steer.text == request.text;
                request.kind == RoundRequestKind::Steer && facts.steers.iter().any(has)
            };
            let of_workflow = store.pending_requests(&place.id).await?;
            requests.extend(of_workflow.into_iter().filter(|request| !is_known(request)));
        }
        Ok(requests)
    }

    fn prepare(&self, call: RoleCall, reserved: Reservation, limits: AgentLimits) -> Result<StartedRole, StageError> {
        let RoleCall { turn, attempt, name, prompt, view, verdict, plan, phase, attack_role, wall } = call;
        let limits = AgentLimits { wall: [limits.wall, wall].into_iter().flatten().min(), ..limits };
        let (cx, round) = (self.cx, self.journal.round());
        let state_file = self.write_state_file(&view.root, turn.role)?;
        let sandbox_view = self.view_of(&view, &state_file);
        let spec = turn.spec.as_ref();
        let endpoints = cost::endpoints(cx, &self.sandbox.routes, round.phase().stage(), &turn)?;
        let invocation = AgentInvocation {
            role: turn.role,
            loop_name: cx.key.name.to_string(),
            round: cx.id.clone(),
            attempt,
            phase,
            attack_role,
            prompt: with_steers(prompt, &round.facts().steers),
            workspace: sandbox_view::host_folder(&view.files).to_owned(),
            outbox: view.outbox,
            state_file,
            items: view.items,
            home: view.home,
            tmp: view.tmp,
            verdict,
            plan,
            model: spec.and_then(|spec| spec.model.clone()),
            tools: spec.map(|spec| spec.tools.clone()).unwrap_or_default(),
            mcp_servers: spec.map(|spec| cx.engine.mcp_servers_of(spec)).unwrap_or_default(),
            options: spec.map(|spec| cx.engine.options_of(spec.agent)).unwrap_or_default(),
            prices: cost::prices(cx, &endpoints),
            endpoints,
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

    /// Writes the loop's memory for a role to read, again for each start. Only a maker gets the history, because that
    /// may hold a maker's text from earlier rounds.
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
    pub(super) async fn finish(&self, started: StartedRole) -> Result<RoleRun, StageError> {
        self.conclude(run_started(self.cx, started).await)
    }

    /// Counts the cost of an agent whose process tree is dead.
    pub(super) fn conclude(&self, ended: EndedStart) -> Result<RoleRun, StageError> {
        let EndedStart { outcome, transcript, wall_ms, reserved, invocation, spec, exchanges } = ended;
        let share = cost::StartShare { reserved, most: money::reservation(&self.journal.facts().started.spec) };
        let cost = cost::cost_of(&outcome, spec.as_ref(), &invocation, share, wall_ms);
        let end = end_of(&outcome, &exchanges, self.cx.engine.now_ms())?;
        let (attempt, cookie) = (invocation.attempt, invocation.cookie.as_str().to_owned());
        let (facts, role) = (self.journal.facts(), invocation.role);
        let end = self.budget.explain_end(facts, role, end, cost.spend.amount(), &cookie);
        Ok(RoleRun { outcome: outcome.ok(), end, cost, transcript, attempt, cookie })
    }
}

/// Runs a started agent to its end. It borrows neither the record nor the budget, so that several agents can run at
/// once while the end of one is recorded.
pub(super) async fn run_started(cx: &RoundContext<'_>, started: StartedRole) -> EndedStart {
    let StartedRole { turn, name, reserved, invocation } = started;
    let (outcome, transcript, wall_ms) = invoke(cx, &turn, &invocation, &name).await;
    let exchanges = cost::exchanges_of(&invocation);
    EndedStart { outcome, transcript, wall_ms, reserved, invocation, spec: turn.spec, exchanges }
}

/// An agent needs a key for its model or its own sign-in; without either it is not started.
fn signed_in(cx: &RoundContext<'_>, turn: &RoleTurn, invocation: &AgentInvocation) -> Result<(), AgentError> {
    // An agent that was not found reports that itself, and needs no key for it.
    let Some(agent) = turn.spec.as_ref().filter(|_| turn.agent.capabilities().proxy) else { return Ok(()) };
    let (asks, name) = (ProviderChoice::for_spec(agent), agent.agent.word());
    if !asks.is_unmet_by(&cx.engine.provider_names()) || invocation.endpoints.login.is_some() {
        return Ok(());
    }
    let what = match cx.engine.login(agent) {
        Some(_) => format!("the own sign-in of `{name}` cannot be read: sign in with it once, manually"),
        None => format!("agent `{name}` has no key for its model provider: {}", asks.remedy()),
    };
    Err(AgentError::Unavailable { what, hint: String::new() })
}

/// An agent that lacks a server which the loop names is not started.
fn with_servers(turn: &RoleTurn, invocation: &AgentInvocation) -> Result<(), AgentError> {
    let named = turn.spec.iter().flat_map(|agent| &agent.mcp_servers);
    let mut lacks = named.filter(|name| invocation.mcp_servers.iter().all(|server| server.name != **name));
    lacks.next().map_or(Ok(()), |name| Err(mcp_servers::unknown_error(name)))
}

async fn invoke(
    cx: &RoundContext<'_>,
    turn: &RoleTurn,
    invocation: &AgentInvocation,
    name: &str,
) -> (Result<AgentOutcome, AgentError>, Option<String>, u64) {
    if let Err(error) = with_servers(turn, invocation).and_then(|()| signed_in(cx, turn, invocation)) {
        return (Err(error), None, 0);
    }
    let folder = cx.engine.state_dir.transcripts(&invocation.round);
    let publish = |kind| cx.publish(kind);
    let mut log = AgentTranscript::open(&folder, invocation.role, name, &publish, &cx.scanner);
    let begun = Instant::now();
    let mut started = |_: &crate::proc::StartedProcess| ();
    let stop = CancelToken::new();
    let work = turn.agent.invoke(invocation, &cx.engine.proc, &mut log, &stop, &mut started);
    let work = unless_overdue(work, &invocation.limits, &stop);
    let outcome = cost::unless_over(cx.cancel, work, &invocation.endpoints, &stop).await;
    let wall_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    (outcome, log.finish(), wall_ms)
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

/// The trouble with a provider that ended a start. The proxy's record decides; the agent's own words are a second
/// opinion, for an agent that did not use the proxy, or whose last answer was good.
fn trouble_of(outcome: &AgentOutcome, exchanges: &[ProviderExchange], at_ms: i64) -> Option<ProviderTrouble> {
    let stop = match outcome.how {
        RunEnd::Exited(_) | RunEnd::Signaled(_) | RunEnd::Finished | RunEnd::Idle => AgentStop::Quiet,
        RunEnd::Wall => AgentStop::Wall,
        RunEnd::Flood | RunEnd::Disk | RunEnd::Stopped | RunEnd::Cancelled => return None,
    };
    judge_exchanges(exchanges, stop, at_ms).or_else(|| outcome.self_report.trouble.clone())
}

/// The end of a start as the round records it.
fn end_of(
    outcome: &Result<AgentOutcome, AgentError>,
    exchanges: &[ProviderExchange],
    at_ms: i64,
) -> Result<AgentEnd, StageError> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return Ok(AgentEnd::Unusable { text: error_chain(error) }),
    };
    if let Some(trouble) = trouble_of(outcome, exchanges, at_ms) {
        return Ok(AgentEnd::Provider { trouble, at_ms });
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
        RunEnd::Stopped if outcome.limit == Some(BudgetLimit::Repetition) => {
            limit(BudgetLimit::Repetition, "it repeated itself again and again")
        }
        RunEnd::Stopped => limit(outcome.limit.unwrap_or(BudgetLimit::Total), "its ceiling was passed"),
        RunEnd::Cancelled => return Err(StageError::Stopped),
    })
}
