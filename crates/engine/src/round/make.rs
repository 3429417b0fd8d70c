//! Make: starts the maker, waits until its whole tree is dead, and reads what it staged. Its words are kept as a claim.

use super::cost::Cost;
use super::transcript::Transcript;
use super::{Run, Trouble, bounds};
use crate::agents::providers::Asks;
use crate::agents::{Agent, AgentError, AgentLimits, AgentOutcome, Invocation};
use crate::proc::{Cancel, Cookie, How};
use crate::room::{Papers, Seat};
use crate::staging;
use crate::workspace::Workspace;
use loopwright_core::BoxFuture;
use loopwright_core::budget::{BudgetLimit, Usage};
use loopwright_core::memory::{self, Notes};
use loopwright_core::outbox::{self, Entry, StagedFile};
use loopwright_core::prompt::AnswerWay;
use loopwright_core::round::{AgentEnd, AgentRun, AgentStarted, Broke, Event, Feedback, Made, Phase, Stage, Staged};
use loopwright_core::spec::{AgentSpec, Role};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long after its limit, or after a stop, an agent may take to come back.
const OVERDUE: Duration = Duration::from_secs(10);
/// Characters of the maker's last words that are recorded.
const TEXT_MAX: usize = 64 << 10;

/// The request's text in the workspace, and how much of base's own file of that name is looked at.
const PR_BODY: &str = "PR_BODY.md";
const PR_BODY_MAX: usize = 1 << 20;

/// One of a role's agents, whose turn it is.
pub(super) struct Turn {
    pub(super) agent: Arc<dyn Agent>,
    /// Its place in the chain, and how many come after it.
    pub(super) place: u32,
    pub(super) left: u32,
    /// What the loop says of it; nothing of an embedder's own.
    pub(super) spec: Option<AgentSpec>,
}

impl Turn {
    pub(super) fn model(&self) -> Option<String> {
        self.spec.as_ref().and_then(|spec| spec.model.clone())
    }

    /// An agent that is listened to gives its verdict as its last message; any other writes a file.
    pub(super) fn answer_way(&self) -> AnswerWay {
        if self.agent.capabilities().answers { AnswerWay::Message } else { AnswerWay::File }
    }

    pub(super) fn tools(&self) -> Vec<String> {
        self.spec.as_ref().map(|spec| spec.tools.clone()).unwrap_or_default()
    }
}

impl Run<'_> {
    pub(super) async fn make(&mut self, feedback: Option<&Feedback>) -> Result<Event, Trouble> {
        self.has_time()?;
        let again = *self.round.phase() == Phase::Making(AgentRun::Again);
        let attempt = self.round.facts().attempt_number() + u32::from(!again);
        let turn = self.turn(Role::Maker)?;
        let on = if again { ", on what is there" } else { "" };
        self.stage(Stage::Make, format!("attempt {attempt} with {}{on}", turn.agent.name()));
        // Gate programs are found before a maker can put others in their place.
        self.resolve_gates().await?;
        let workspace = self.workspace(Stage::Make)?.clone();
        self.warm(&workspace.base, Stage::Make).await?;
        staging::clear(&workspace.outbox).map_err(|error| Trouble::broke(Stage::Make, "outbox", &error))?;
        let mut invocation = self.maker_invocation(attempt, &turn, feedback).await?;
        let (reserved, day) = (self.reservation(), self.today());
        let started = AgentStarted {
            attempt,
            agent: turn.agent.name().to_owned(),
            version: turn.agent.version().map(str::to_owned),
            model: invocation.model.clone(),
            cookie: invocation.cookie.as_str().to_owned(),
            reserved,
            day: Some(day.clone()),
            nonce: None,
            place: turn.place,
            left: turn.left,
        };
        self.start_agent(Event::MakerStarted(started), reserved, day).await?;
        self.hold(&mut invocation);
        let starts = self.round.facts().attempt().map_or(1, |attempt| attempt.starts);
        let name = if starts > 1 { format!("maker-{attempt}-{starts}") } else { format!("maker-{attempt}") };
        let (outcome, transcript, wall_ms) = self.invoke(&turn, &invocation, &name).await;
        let body = self.spaces.engine().read_blob(&workspace.base, PR_BODY, PR_BODY_MAX).await;
        let body = body.map_err(|error| Trouble::broke(Stage::Make, "outbox", &error))?;
        let files = staging::read(&workspace.outbox, &workspace.dir, body.as_deref());
        let files = files.map_err(|error| Trouble::broke(Stage::Make, "outbox", &error))?;
        let cost = self.cost_of(&outcome, &invocation, reserved, wall_ms);
        let mut left = self.left_by(outcome, &files, transcript, cost, attempt)?;
        left.secrets = self.secrets_in(&files, &left);
        Ok(Event::Made(Box::new(left)))
    }

    async fn maker_invocation(
        &self,
        attempt: u32,
        turn: &Turn,
        feedback: Option<&Feedback>,
    ) -> Result<Invocation, Trouble> {
        let workspace = self.workspace(Stage::Make)?;
        let state_file = self.write_state_file(workspace, Role::Maker)?;
        let seat = Seat { files: &workspace.files, home: &workspace.home, tmp: &workspace.tmp };
        let papers = Papers { outbox: &workspace.outbox, state: &state_file, items: None, sink: None };
        let room = self.rooms.maker(seat, papers, self.spec().level);
        Ok(Invocation {
            role: Role::Maker,
            loop_name: self.spec().name.clone(),
            round: self.id().to_owned(),
            attempt,
            prompt: self.maker_brief(attempt, feedback).await?,
            workspace: workspace.dir.clone(),
            outbox: workspace.outbox.clone(),
            state_file,
            items: None,
            home: workspace.home.clone(),
            tmp: workspace.tmp.clone(),
            verdict: None,
            model: turn.model(),
            tools: turn.tools(),
            endpoints: self.endpoints(turn)?,
            prices: Arc::clone(&self.engine.settings.prices),
            limits: self.agent_limits(),
            cookie: Cookie::new(&format!("lw-{}", self.id())),
            room,
        })
    }

    /// Whose turn it is to play a role, and with what.
    pub(super) fn turn(&self, role: Role) -> Result<Turn, Trouble> {
        let place = self.round.facts().patience.place(role);
        let at = usize::try_from(place).unwrap_or(usize::MAX);
        let mut chain = self.bind.chain(role).skip(at);
        let Some(agent) = chain.next() else {
            let (stage, code) = (self.round.phase().stage(), "agent-unusable".to_owned());
            let text = format!("the loop has no {} to start", role.word());
            return Err(Trouble::Broke(Broke { stage, code, text }));
        };
        let left = u32::try_from(chain.count()).unwrap_or(u32::MAX);
        let spec = self.spec().chain(role).into_iter().nth(at);
        Ok(Turn { agent: Arc::clone(agent), place, left, spec })
    }

    /// What the loop remembers, for a role to read; written anew for each start.
    /// A checker gets no history: a maker's own words from earlier rounds may stand in it.
    pub(super) fn write_state_file(&self, workspace: &Workspace, role: Role) -> Result<PathBuf, Trouble> {
        let facts = self.round.facts();
        let history = if role == Role::Maker { facts.history.as_slice() } else { &[] };
        let memory = if role == Role::Maker { facts.memory.as_slice() } else { &[] };
        let state = serde_json::json!({
            "schema": 1, "loop": facts.started.spec.name, "round": facts.started.round,
            "item": facts.items.first(), "items": facts.items, "history": history, "memory": memory,
        });
        let path = workspace.root.join("state.json");
        let written = self.engine.places.lay_out(&path, state.to_string().as_bytes());
        written.map_err(|error| Trouble::broke(Stage::Make, "state-file", &error))?;
        Ok(path)
    }

    /// Who plays a role asks its model by a key or by its own sign-in; with neither it is not started.
    fn signed_in(&self, turn: &Turn, invocation: &Invocation) -> Result<(), AgentError> {
        // One that was not found says so itself, and needs no key for it.
        let Some(agent) = turn.spec.as_ref().filter(|_| turn.agent.capabilities().proxy) else { return Ok(()) };
        let (asks, name) = (Asks::of_spec(agent), agent.agent.word());
        if !asks.lacks(&self.engine.provider_names()) || invocation.endpoints.login.is_some() {
            return Ok(());
        }
        let what = match self.engine.login(agent) {
            Some(_) => format!("the own sign-in of `{name}` cannot be read: sign in with it once, by hand"),
            None => format!("agent `{name}` has no key for its model provider: {}", asks.remedy()),
        };
        Err(AgentError::Unavailable { what, hint: String::new() })
    }

    pub(super) async fn invoke(
        &self,
        turn: &Turn,
        invocation: &Invocation,
        name: &str,
    ) -> (Result<AgentOutcome, AgentError>, Option<String>, u64) {
        if let Err(error) = self.signed_in(turn, invocation) {
            return (Err(error), None, 0);
        }
        let folder = self.engine.places.transcripts(self.id());
        let publish = |kind| self.publish(kind);
        let mut log = Transcript::open(&folder, invocation.role, name, &publish, &self.scanner);
        let begun = Instant::now();
        let mut started = |_: &crate::proc::Started| ();
        let stop = Cancel::new();
        let work = turn.agent.invoke(invocation, &self.engine.proc, &mut log, &stop, &mut started);
        let work = unless_overdue(work, &invocation.limits, &stop);
        let outcome = self.unless_over(work, &invocation.endpoints, &stop).await;
        let wall_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        (outcome, log.finish(), wall_ms)
    }

    fn left_by(
        &self,
        outcome: Result<AgentOutcome, AgentError>,
        files: &[StagedFile],
        transcript: Option<String>,
        cost: Cost,
        attempt: u32,
    ) -> Result<Made, Trouble> {
        let end = self.explained(end_of(&outcome, self.engine.now_ms())?, cost.spend.amount());
        let (text, survivors) = match &outcome {
            Ok(outcome) => (outcome.text.chars().take(TEXT_MAX).collect(), u32::from(outcome.leaky)),
            Err(_) => (String::new(), 0),
        };
        let (notes, files) = notes_in(files);
        let staged = outbox::parse_batch(&files);
        let staged = staged.and_then(|items| outbox::permit(items, self.spec(), self.spec().level));
        let staged = staged.map_err(|refused| refused.problems).and_then(bounds::recordable);
        Ok(Made {
            attempt,
            end,
            spend: cost.spend,
            models: cost.models,
            counted: cost.counted,
            text,
            cannot: outbox::cannot(&files),
            staged: match staged {
                Ok(items) => Staged::Items { items },
                Err(problems) => Staged::Refused {
                    problems: bounds::list(problems.iter().map(|problem| format!("{}: {}", problem.name, problem.why))),
                },
            },
            secrets: Vec::new(),
            transcript,
            survivors,
            notes,
        })
    }
}

/// What a role wants remembered, and the rest of what it staged. Anything but a file of that name is left to the parser.
fn notes_in(files: &[StagedFile]) -> (Notes, Vec<StagedFile>) {
    let is_memory = |file: &&StagedFile| file.name == memory::FILE && file.entry == Entry::Regular;
    let notes = files.iter().find(is_memory).map(|file| memory::read(&file.bytes)).unwrap_or_default();
    (notes, files.iter().filter(|file| !is_memory(file)).cloned().collect())
}

/// Waits for an agent, but not for ever. Adapters keep their limits themselves and are back well before this; one of an
/// embedder's that does not is left behind, and with its future goes whatever it held.
async fn unless_overdue(
    work: BoxFuture<'_, Result<AgentOutcome, AgentError>>,
    limits: &AgentLimits,
    cancel: &Cancel,
) -> Result<AgentOutcome, AgentError> {
    let left_behind = |how| AgentOutcome { how, exit: None, ..AgentOutcome::in_process(0, "", Usage::Unknown) };
    let longest = limits.wall.unwrap_or(Duration::MAX).saturating_add(OVERDUE);
    let stopped = async {
        cancel.cancelled().await;
        timeout(OVERDUE, std::future::pending::<()>()).await
    };
    tokio::select! {
        biased;
        outcome = timeout(longest, work) => outcome.unwrap_or_else(|_| Ok(left_behind(How::Wall))),
        _ = stopped => Ok(left_behind(How::Cancelled)),
    }
}

/// How a start ended, in the round's words.
pub(super) fn end_of(outcome: &Result<AgentOutcome, AgentError>, at_ms: i64) -> Result<AgentEnd, Trouble> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return Ok(AgentEnd::Unusable { text: super::chain(error) }),
    };
    // An agent that was kept from its work says so itself; its exit code may be zero all the same, or it waits in silence.
    let by_itself = matches!(outcome.how, How::Exited(_) | How::Signaled(_) | How::Finished | How::Idle | How::Wall);
    if let (true, Some(trouble)) = (by_itself, &outcome.told.trouble) {
        return Ok(AgentEnd::Provider { trouble: trouble.clone(), at_ms });
    }
    let term = if outcome.term_ignored { "; it ignored SIGTERM and was killed" } else { "" };
    let limit = |limit, text: &str| AgentEnd::Limit { limit, text: format!("{text}{term}") };
    Ok(match outcome.how {
        How::Exited(_) | How::Finished if outcome.limit.is_some() => {
            limit(outcome.limit.unwrap_or(BudgetLimit::Total), "it met its own limit")
        }
        How::Exited(code) => AgentEnd::Exited { code },
        // It had said its last, and what it said was no trouble.
        How::Finished => AgentEnd::Exited { code: 0 },
        How::Signaled(signal) => AgentEnd::Signaled { signal },
        How::Idle => limit(BudgetLimit::Idle, "no output for too long"),
        How::Wall => limit(BudgetLimit::Wall, "it took too long"),
        How::Flood => limit(BudgetLimit::Flood, "it printed more than is read"),
        How::Disk => limit(BudgetLimit::Disk, "it filled the disk"),
        How::Stopped => limit(outcome.limit.unwrap_or(BudgetLimit::Total), "its ceiling was passed"),
        How::Cancelled => return Err(Trouble::Stopped),
    })
}
