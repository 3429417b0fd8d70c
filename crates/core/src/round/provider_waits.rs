//! Provider waits: a provider or a ceiling blocks a role. The next agent of the chain continues, the round waits, or it
//! is suspended with its work kept. None of these uses up an attempt.
//!
//! | trouble | first | then | else |
//! |---|---|---|---|
//! | rate-limited, overloaded, server, network; the time is known | waits for the same agent, if the wait is short enough | the next agent | suspended as rate-limited |
//! | the same; the time is not known | retries the same agent twice, with back-off | the next agent | waits further, then suspended as rate-limited |
//! | auth, quota, bad-request, unclear, agent unavailable | | the next agent | failed |
//! | declined | | the next agent | cannot |
//! | context | | | failed, with the provider's numbers |
//! | a ceiling | | | suspended as over-budget |
//!
//! A wait is short enough if all waits of the round together stay within `provider_wait`. An earlier agent of the chain that
//! is available sooner than the blocked one is waited for instead. Rounds of versions that started the next agent at once
//! are read by that order.

use super::attack::PassedCandidate;
use super::event::{AgentEnd, RoleStarted, RoundResumed, Stage, agent_label};
use super::phase::AgentRun;
use super::prove::ProvenCandidate;
use super::{Action, Phase, Round, Step, UnexpectedEvent};
use crate::budget::{BudgetLimit, BudgetScope};
use crate::hash;
use crate::outcome::RoundOutcome;
use crate::provider::{ProviderTrouble, TroubleKind};
use crate::spec::{LoopSpec, Role};
use std::collections::BTreeMap;

/// The most waits of one round; a provider that only recovers for moments counts as unavailable.
const WAITS_MAX: u32 = 20;
/// The most retries of one agent after a delay that its provider did not name, if another agent could continue.
const RETRIES_MAX: u32 = 2;
/// The shortest wait.
const WAIT_MIN_MS: i64 = 1_000;
/// The most jitter if the provider named the time.
const JITTER_MAX_MS: u64 = 5_000;
/// The most characters of a provider's message in a reason.
const SAID_MAX: usize = 500;

/// The next step of a round that is resumed, with the proof that it may take it.
#[derive(Debug, Clone, PartialEq)]
pub enum ResumePoint {
    /// A planner.
    Plan,
    /// A maker for the next attempt.
    Make,
    /// A maker for the same attempt, on the files of the last one.
    MakeAgain,
    /// A maker for the next phase of the same attempt.
    MakeNext,
    /// The seal of the maker's files.
    Seal,
    /// The attackers that have not answered.
    Attack(ProvenCandidate),
    /// A checker.
    Check(PassedCandidate),
}

impl ResumePoint {
    /// The stage it belongs to.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self {
            Self::Plan => Stage::Plan,
            Self::Make | Self::MakeAgain | Self::MakeNext => Stage::Make,
            Self::Seal => Stage::Seal,
            Self::Attack(_) => Stage::Attack,
            Self::Check(_) => Stage::Check,
        }
    }

    pub(super) fn role(&self) -> Role {
        match self {
            Self::Plan => Role::Planner,
            Self::Make | Self::MakeAgain | Self::MakeNext | Self::Seal => Role::Maker,
            Self::Attack(_) => Role::Attacker,
            Self::Check(_) => Role::Checker,
        }
    }
}

/// A blocked agent of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedAgent {
    /// Its position in the chain.
    pub place: u32,
    /// When it may be tried again, in milliseconds since 1970; `None` if waiting alone does not help.
    pub ready_ms: Option<i64>,
}

/// A role's agents in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentChainState {
    /// The position of the current agent. A role stays with the agent that worked.
    pub place: u32,
    /// The agents that are known to be blocked.
    pub blocked: Vec<BlockedAgent>,
    /// Waits since an agent of this chain last worked.
    pub waits: u32,
}

impl AgentChainState {
    fn may_try(&self, place: u32, now_ms: i64) -> bool {
        let known = self.blocked.iter().find(|known| known.place == place);
        known.is_none_or(|known| known.ready_ms.is_some_and(|ready| ready <= now_ms))
    }

    fn note(&mut self, place: u32, ready_ms: Option<i64>) {
        self.blocked.retain(|known| known.place != place);
        self.blocked.push(BlockedAgent { place, ready_ms });
    }

    /// The agent that is available first.
    fn first_available(&self) -> Option<(i64, u32)> {
        self.blocked.iter().filter_map(|known| Some((known.ready_ms?, known.place))).min()
    }
}

/// The state of a round's providers, and how long it has waited and may wait.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProviderWaits {
    chains: BTreeMap<Role, AgentChainState>,
    /// Waits so far.
    pub waits: u32,
    /// Their total length, in milliseconds.
    pub waited_ms: u64,
    /// The most that total may be.
    pub wait_max_ms: u64,
    /// When a provider last reported trouble, in milliseconds since 1970.
    pub last_report_ms: i64,
    /// When a provider may be available again, in milliseconds since 1970.
    pub retry_at_ms: Option<i64>,
}

impl ProviderWaits {
    /// The state before any provider reported trouble.
    #[must_use]
    pub fn new(wait_max_ms: u64) -> Self {
        Self { wait_max_ms, ..Self::default() }
    }

    /// The position of the current agent in a role's chain, from zero.
    #[must_use]
    pub fn chain_position(&self, role: Role) -> u32 {
        self.chains.get(&role).map_or(0, |chain| chain.place)
    }

    fn chain(&mut self, role: Role) -> &mut AgentChainState {
        self.chains.entry(role).or_default()
    }

    /// Records that an agent of this role was not blocked.
    pub(super) fn clear_blocked(&mut self, role: Role) {
        let chain = self.chain(role);
        chain.waits = 0;
        let place = chain.place;
        chain.blocked.retain(|known| known.place != place);
    }
}

/// Handles an agent that was blocked.
pub(super) fn on_agent_blocked(mut round: Round, due: ResumePoint, running: &RoleStarted, end: &AgentEnd) -> Step {
    if let Some(limit) = round.facts.reached_limit() {
        return ceiling_passed(round, due, limit);
    }
    let (code, text, at_ms) = describe_end(running, end);
    let now_ms = round.facts.provider_waits.last_report_ms.max(at_ms);
    round.facts.provider_waits.last_report_ms = now_ms;
    let kind = kind(end);
    if kind == Some(TroubleKind::Context) {
        return fail(round, &due, code, text, kind);
    }
    let ready_ms = ready_ms(&mut round, &due, end);
    let waits = &mut round.facts.provider_waits;
    waits.chain(due.role()).note(running.place, ready_ms);
    let waits_first = round.facts.started.waits_first;
    let same = ready_ms.map(|ready_ms| Reset { ready_ms, place: running.place, now_ms });
    let retries = waits.chain(due.role()).waits;
    if same.is_some_and(|same| waits_first && is_worth_a_retry(retries, end) && waits.allows(&same))
        && let Some((ready_ms, place)) = waits.chain(due.role()).first_available()
    {
        // An earlier agent of the chain may be available sooner than the current one.
        return wait_or_suspend(round, due, Reset { ready_ms, place, now_ms }, code, &text);
    }
    let chain = waits.chain(due.role());
    let places = running.place.saturating_add(1)..=running.place.saturating_add(running.left);
    let next = places.into_iter().find(|place| chain.may_try(*place, now_ms));
    if let Some(next) = next {
        chain.place = next;
        let name = name(&round.facts.started.spec, due.role(), next);
        round.facts.add_reason(due.stage(), code, format!("{text}; continued with {name}"));
        return continue_from(round, due);
    }
    match chain.first_available() {
        Some((ready_ms, place)) => wait_or_suspend(round, due, Reset { ready_ms, place, now_ms }, code, &text),
        None => fail(round, &due, code, text, kind),
    }
}

/// The moment at which an agent of the chain is available again, and the current time.
struct Reset {
    ready_ms: i64,
    place: u32,
    now_ms: i64,
}

impl Reset {
    /// The end of the wait.
    fn until_ms(&self) -> i64 {
        self.ready_ms.max(self.now_ms.saturating_add(WAIT_MIN_MS))
    }

    /// The length of the wait.
    fn wait_ms(&self) -> u64 {
        u64::try_from(self.until_ms().saturating_sub(self.now_ms)).unwrap_or(0)
    }
}

impl ProviderWaits {
    /// Whether the round may wait that long. If the time of the trouble is not on record, the length of a wait is
    /// unknown.
    fn allows(&self, reset: &Reset) -> bool {
        let together_ms = self.waited_ms.saturating_add(reset.wait_ms());
        reset.now_ms > 0 && self.waits < WAITS_MAX && together_ms <= self.wait_max_ms
    }
}

/// Whether the blocked agent itself is tried again before the next one: as often as waits allow if its provider named
/// the time, otherwise a few times.
fn is_worth_a_retry(retries: u32, end: &AgentEnd) -> bool {
    let AgentEnd::Provider { trouble, .. } = end else { return false };
    trouble.retry_at_ms.is_some() || retries < RETRIES_MAX
}

/// No agent of the chain can work now, or the current one soon: waits if that is allowed and short enough, otherwise
/// suspends.
fn wait_or_suspend(mut round: Round, due: ResumePoint, reset: Reset, code: &str, text: &str) -> Step {
    let until_ms = reset.until_ms();
    let patience = &mut round.facts.provider_waits;
    patience.retry_at_ms = Some(until_ms);
    let (may_wait, together_ms) = (patience.allows(&reset), patience.waited_ms.saturating_add(reset.wait_ms()));
    let chain = patience.chain(due.role());
    chain.place = reset.place;
    if !may_wait {
        let text = format!("{text}; retry after {}", format_moment(until_ms));
        return suspend(round, RoundOutcome::RateLimited, due, code, text);
    }
    chain.waits += 1;
    patience.waits += 1;
    patience.waited_ms = together_ms;
    round.facts.add_reason(due.stage(), code, format!("{text}; waited until {}", format_moment(until_ms)));
    round.to(Phase::Held(due, until_ms), vec![Action::Wait { until_ms }])
}

/// The wait is over.
pub(super) fn on_wait_over(round: Round) -> Result<Step, UnexpectedEvent> {
    let Phase::Held(due, _) = round.phase.clone() else {
        return Err(round.misfit("waited", "it does not wait for a provider"));
    };
    Ok(continue_from(round, due))
}

/// A person resumes a suspended round, from where it stopped.
pub(super) fn on_resumed(mut round: Round, resumed: RoundResumed) -> Result<Step, UnexpectedEvent> {
    let Phase::Suspended(_, due) = round.phase.clone() else {
        return Err(round.misfit("resumed", "it is not suspended"));
    };
    let facts = &mut round.facts;
    facts.provider_waits = ProviderWaits::new(resumed.provider_wait_ms);
    facts.raised.tokens = facts.raised.tokens.saturating_add(resumed.raised.tokens);
    facts.raised.usd.0 = facts.raised.usd.0.saturating_add(resumed.raised.usd.0);
    facts.wall_before_ms = facts.spend.wall_ms;
    facts.add_reason(due.stage(), "resumed", format!("resumed by {}", resumed.actor));
    if let Some(limit) = facts.exhausted_limit().filter(|_| due != ResumePoint::Seal).or_else(|| facts.reached_limit())
    {
        let text = format!("the round's ceiling of {} still leaves no room; {}", limit.label(), remedy(&round, limit));
        return Ok(over_budget(round, due, "ceiling", text));
    }
    Ok(continue_from(round, due))
}

pub(super) fn continue_from(round: Round, due: ResumePoint) -> Step {
    let make = Action::Make(round.facts.feedback.clone());
    match due {
        ResumePoint::Plan => round.to(Phase::Planning(AgentRun::Due), vec![Action::Plan]),
        ResumePoint::Make => round.to(Phase::Making(AgentRun::Due), vec![make]),
        ResumePoint::MakeAgain => round.to(Phase::Making(AgentRun::Again), vec![make]),
        ResumePoint::MakeNext => round.to(Phase::Making(AgentRun::NextPhase), vec![make]),
        ResumePoint::Seal => round.to(Phase::Sealing, vec![Action::Seal]),
        ResumePoint::Attack(proven) if round.facts.attackers_due().is_empty() => {
            round.to(Phase::Reproducing(proven), vec![Action::Reproduce])
        }
        ResumePoint::Attack(proven) => round.to(Phase::Attacking(proven), vec![Action::Attack]),
        ResumePoint::Check(passed) => round.to(Phase::Checking(passed, AgentRun::Due), vec![Action::Check]),
    }
}

/// A ceiling was reached: the work is kept, and the round continues when a person raises the ceiling.
pub(super) fn over_budget(round: Round, due: ResumePoint, code: &str, text: String) -> Step {
    suspend(round, RoundOutcome::OverBudget, due, code, text)
}

/// A person paused the round: the work is kept, and the round continues when a person resumes it.
pub(super) fn pause(round: Round, due: ResumePoint, text: String) -> Step {
    suspend(round, RoundOutcome::Escalated, due, "paused", text)
}

/// A ceiling of the round itself was exceeded.
pub(super) fn ceiling_passed(round: Round, due: ResumePoint, limit: BudgetLimit) -> Step {
    let text = format!("the round's ceiling of {} was reached; {}", limit.label(), remedy(&round, limit));
    over_budget(round, due, "ceiling", text)
}

fn remedy(round: &Round, limit: BudgetLimit) -> String {
    let started = &round.facts.started;
    match limit.raise_option() {
        Some(option) => BudgetScope::Round.remedy(&started.spec.name, &started.round, option),
        None => "raise `budget.round` in the loop file for later rounds".to_owned(),
    }
}

/// A new engine found the round between two starts.
pub(super) fn suspend_left_round(round: Round, due: ResumePoint) -> Step {
    let outcome = round.facts.suspensions.last().copied().unwrap_or(RoundOutcome::RateLimited);
    suspend(
        round,
        outcome,
        due,
        "crash",
        "the engine ended between two starts of an agent; the work is kept".to_owned(),
    )
}

fn suspend(mut round: Round, outcome: RoundOutcome, due: ResumePoint, code: &str, text: String) -> Step {
    // A suspension between a maker and its seal belongs to the maker's stage.
    let stage = if due == ResumePoint::Seal { Stage::Make } else { due.stage() };
    round.facts.add_reason(stage, code, text);
    round.facts.charge_lost_agents();
    round.facts.suspensions.push(outcome);
    round.to(Phase::Suspended(outcome, due), vec![Action::Record])
}

fn fail(round: Round, due: &ResumePoint, code: &str, text: String, kind: Option<TroubleKind>) -> Step {
    let text = match kind {
        Some(kind) => format!("{text}; {}", kind.advice()),
        None => text,
    };
    let outcome = if kind == Some(TroubleKind::Declined) { RoundOutcome::Cannot } else { RoundOutcome::Failed };
    round.end(outcome, due.stage(), code, text)
}

fn kind(end: &AgentEnd) -> Option<TroubleKind> {
    if let AgentEnd::Provider { trouble, .. } = end { Some(trouble.kind) } else { None }
}

/// The code and the text for an end, and its time.
fn describe_end(running: &RoleStarted, end: &AgentEnd) -> (&'static str, String, i64) {
    match end {
        AgentEnd::Provider { trouble, at_ms } => {
            (trouble.kind.word(), format!("{}: {}", running.label(), describe_trouble(trouble)), *at_ms)
        }
        AgentEnd::Unusable { text } => ("agent-unusable", text.clone(), 0),
        AgentEnd::Exited { .. } | AgentEnd::Signaled { .. } | AgentEnd::Limit { .. } => {
            ("agent-unusable", format!("{}: no usable end", running.label()), 0)
        }
    }
}

fn describe_trouble(trouble: &ProviderTrouble) -> String {
    let until = trouble.retry_at_ms.map_or(String::new(), |at| format!(" until {}", format_moment(at)));
    let words: String = trouble.text.trim().chars().take(SAID_MAX).collect();
    let words = if words.is_empty() { words } else { format!(" ({words})") };
    format!("{}{until}{words}", trouble.kind.word())
}

/// When the blocked agent may be tried again, if waiting helps: the time that its provider named, otherwise after a
/// growing delay. The jitter keeps many rounds from starting in one instant. It derives from the round, so that a
/// record always folds to the same result.
fn ready_ms(round: &mut Round, due: &ResumePoint, end: &AgentEnd) -> Option<i64> {
    let AgentEnd::Provider { trouble, at_ms } = end else { return None };
    if !trouble.kind.is_temporary() {
        return None;
    }
    let waits = round.facts.provider_waits.waits;
    let again = round.facts.provider_waits.chain(due.role()).waits;
    let (from_ms, span_ms, most_ms) = match trouble.retry_at_ms {
        Some(at) => {
            let left_ms = u64::try_from(at.saturating_sub(*at_ms)).unwrap_or(0);
            (at, left_ms, JITTER_MAX_MS)
        }
        None => {
            let pause_ms = trouble.kind.back_off_ms(again);
            (at_ms.saturating_add(signed(pause_ms)), pause_ms, u64::MAX)
        }
    };
    let most_ms = (span_ms / 10).min(most_ms);
    Some(from_ms.saturating_add(signed(jitter_ms(&round.facts.started.round, waits, most_ms))))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn jitter_ms(round: &str, waits: u32, most_ms: u64) -> u64 {
    let hash = hash::hash_fields(&[b"loopwright jitter 1", round.as_bytes(), &waits.to_le_bytes()]);
    let number = u64::from_str_radix(hash.get(..12).unwrap_or("0"), 16).unwrap_or(0);
    number % most_ms.saturating_add(1)
}

/// The name of an agent of a chain before it was started.
fn name(spec: &LoopSpec, role: Role, place: u32) -> String {
    let declared = spec.chain(role).into_iter().nth(usize::try_from(place).unwrap_or(usize::MAX));
    declared
        .map_or_else(|| "the next agent".to_owned(), |agent| agent_label(agent.agent.word(), agent.model.as_deref()))
}

/// A moment as RFC 3339 in UTC, to the second.
pub(crate) fn format_moment(ms: i64) -> String {
    jiff::Timestamp::from_second(ms.div_euclid(1000)).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}
