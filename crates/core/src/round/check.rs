//! Check: an independent verdict on the sealed candidate. The only place that makes the [`VerifiedCandidate`] token.

use super::approve;
use super::attack::PassedCandidate;
use super::attempts;
use super::calibrate;
use super::event::{AgentEnd, CheckerResult, RoleStarted, ShownChange, Stage};
use super::phase::AgentRun;
use super::provider_waits::{self, ResumePoint};
use super::{Action, Phase, Round, Step, UnexpectedEvent};
use crate::level::LoopLevel;
use crate::outcome::RoundOutcome;
use crate::spec::{CheckMode, Role};
use crate::verdict::Judgement;

/// Proof that gates, proof and attack passed and that a checker, or at L1 the loop's `check: none`, let the candidate
/// proceed.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifiedCandidate {
    passed: PassedCandidate,
    asks_for_human: Option<String>,
}

impl VerifiedCandidate {
    /// The candidate.
    #[must_use]
    pub fn candidate(&self) -> &str {
        self.passed.candidate()
    }

    /// Why the checker asks for a person's review, if it does.
    #[must_use]
    pub fn asks_for_human(&self) -> Option<&str> {
        self.asks_for_human.as_deref()
    }
}

/// The candidate passed everything that needs no opinion: a checker judges it, unless the loop switched the checker off.
pub(super) fn on_passed(round: Round, passed: PassedCandidate) -> Step {
    match round.facts.started.spec.check {
        CheckMode::Required => round.to(Phase::Checking(passed, AgentRun::Due), vec![Action::Check]),
        CheckMode::None => skip_check(round, passed),
    }
}

/// How often a checker is started for one candidate: once, and a second time if it left no usable verdict.
const TRIES: u32 = 2;

pub(super) fn on_checker_started(mut round: Round, started: RoleStarted) -> Result<Step, UnexpectedEvent> {
    if round.phase == Phase::Calibrating(AgentRun::Due) && started.attempt == round.facts.attempt_number() {
        return Ok(calibrate::on_checker_started(round, started));
    }
    let Phase::Checking(passed, AgentRun::Due) = round.phase.clone() else {
        return Err(round.misfit("role-started", "no checker is due"));
    };
    if started.attempt != round.facts.attempt_number() {
        return Err(round.misfit("role-started", "a checker of another attempt is due"));
    }
    round.facts.attempt_mut().checker_tries += 1;
    round.facts.attempt_mut().checker_starts += 1;
    round.facts.running.push(started);
    Ok(round.to(Phase::Checking(passed, AgentRun::Started), Vec::new()))
}

pub(super) fn ended(
    mut round: Round,
    running: &RoleStarted,
    end: &AgentEnd,
    checked: CheckerResult,
) -> Result<Step, UnexpectedEvent> {
    if round.phase == Phase::Calibrating(AgentRun::Started) {
        return Ok(calibrate::ended(round, end, checked));
    }
    let Phase::Checking(passed, AgentRun::Started) = round.phase.clone() else {
        return Err(round.misfit("role-ended", "no checker runs"));
    };
    let unusable = unusable(end);
    // The output of a checker that did not end well is not a verdict, in reports either.
    round.facts.attempt_mut().judgement = unusable.is_none().then(|| checked.judgement.clone());
    if is_hindered(end, running) {
        // The second try is only for unusable verdicts.
        let attempt = round.facts.attempt_mut();
        attempt.checker_tries = attempt.checker_tries.saturating_sub(1);
        return Ok(provider_waits::on_agent_blocked(round, ResumePoint::Check(passed), running, end));
    }
    round.facts.provider_waits.clear_blocked(Role::Checker);
    if let Some(limit) = round.facts.reached_limit() {
        return Ok(provider_waits::ceiling_passed(round, ResumePoint::Check(passed), limit));
    }
    match unusable {
        Some(text) => Ok(try_again(round, passed, "checker-failed", text)),
        None => Ok(judged(round, passed, checked.judgement, checked.shown)),
    }
}

/// Whether a provider blocked the checker, or the checker cannot run and another one of the chain can.
fn is_hindered(end: &AgentEnd, running: &RoleStarted) -> bool {
    match end {
        AgentEnd::Provider { .. } => true,
        AgentEnd::Unusable { .. } => running.left > 0,
        AgentEnd::Exited { .. } | AgentEnd::Signaled { .. } | AgentEnd::Limit { .. } => false,
    }
}

/// A checker that did not exit with zero gives no verdict, whatever its sink contains.
fn unusable(end: &AgentEnd) -> Option<String> {
    match end {
        AgentEnd::Exited { code: 0 } => None,
        AgentEnd::Exited { code } => Some(format!("the checker exited with {code}")),
        AgentEnd::Signaled { signal } => Some(format!("the checker died by signal {signal}")),
        AgentEnd::Limit { limit, .. } => Some(format!("the checker ran out of {}", limit.label())),
        AgentEnd::Unusable { text } => Some(text.clone()),
        AgentEnd::Provider { trouble, .. } => Some(format!("{}: {}", trouble.kind.word(), trouble.text)),
    }
}

/// A pass by a checker that did not see the whole change is not enough: a person has to review it.
fn judged(round: Round, passed: PassedCandidate, judgement: Judgement, shown: ShownChange) -> Step {
    match judgement {
        Judgement::Pass { .. } if shown == ShownChange::Part => {
            let why = "the checker could not see all of the change: it was too long, or not text".to_owned();
            approve::on_verified(round, VerifiedCandidate { passed, asks_for_human: Some(why) })
        }
        Judgement::Pass { .. } => {
            let asks_for_human = passed.asks_for_human().map(str::to_owned);
            approve::on_verified(round, VerifiedCandidate { passed, asks_for_human })
        }
        Judgement::Escalate { reasons, .. } => {
            approve::on_verified(round, VerifiedCandidate { passed, asks_for_human: Some(reasons.join("; ")) })
        }
        Judgement::Fail { reasons, .. } => failed(round, &reasons),
        Judgement::Malformed { why } => try_again(round, passed, "malformed-verdict", why),
        Judgement::Missing => try_again(round, passed, "no-verdict", "the checker left no verdict".to_owned()),
        Judgement::Forged { why } => round.end(RoundOutcome::Refused, Stage::Check, "forged-verdict", why),
    }
}

/// At L1 a checker's rejection is final: the report is kept and marked.
fn failed(round: Round, reasons: &[String]) -> Step {
    let text = if reasons.is_empty() { "the checker rejected the candidate".to_owned() } else { reasons.join("; ") };
    if round.facts.started.spec.level == LoopLevel::L1Report {
        return round.end(RoundOutcome::Rejected, Stage::Check, "checker-rejected", text);
    }
    attempts::reject(round, Stage::Check, "checker-rejected", text.clone(), text)
}

fn try_again(mut round: Round, passed: PassedCandidate, code: &str, text: String) -> Step {
    let tries = round.facts.attempt().map_or(TRIES, |attempt| attempt.checker_tries);
    if tries >= TRIES {
        return round.end(RoundOutcome::Failed, Stage::Check, code, text);
    }
    round.facts.add_reason(Stage::Check, code, format!("{text}; asking again"));
    round.to(Phase::Checking(passed, AgentRun::Due), vec![Action::Check])
}

/// The loop switched its checker off. Only L1 may do this, and only a report leaves there.
fn skip_check(mut round: Round, passed: PassedCandidate) -> Step {
    if round.facts.started.spec.level != LoopLevel::L1Report {
        let text = "only a loop at L1 may run without a checker";
        return round.end(RoundOutcome::Refused, Stage::Check, "unchecked", text);
    }
    round.facts.add_reason(Stage::Check, "unchecked", "check: none; no checker looked at this");
    let asks_for_human = passed.asks_for_human().map(str::to_owned);
    approve::on_verified(round, VerifiedCandidate { passed, asks_for_human })
}
