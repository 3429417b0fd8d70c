//! Attack: attackers look for holes in the sealed candidate, in parallel and without seeing each other. Findings block
//! the candidate only if the engine reproduced them. The only place that makes the [`PassedCandidate`] token.

use super::attempts;
use super::event::{AgentEnd, RoleStarted, Stage};
use super::goal_event::{AttackFinished, AttackerResult, ReproductionEnd, ReproductionResult};
use super::prove::ProvenCandidate;
use super::provider_waits::{self, ResumePoint};
use super::{Action, Phase, Round, RoundFacts, Step, UnexpectedEvent, check};
use crate::attack::{AttackFinding, FindingSeverity, FindingsReading, MergedFinding, merge_findings};
use crate::outcome::RoundOutcome;
use crate::spec::Role;

/// How often an attacker is started for one candidate: once, and a second time if it left no usable findings.
const TRIES: u32 = 2;
/// The most regression checks of a round; further reproduced findings still block their own attempt.
const REGRESSIONS_MAX: usize = 20;

/// Proof that every gate passed, that the application works if the loop declares a prover, and that no reproduced
/// finding of declared attackers is open. Only this module can make one.
#[derive(Debug, Clone, PartialEq)]
pub struct PassedCandidate {
    proven: ProvenCandidate,
    asks_for_human: Option<String>,
}

impl PassedCandidate {
    /// The candidate that passed.
    #[must_use]
    pub fn candidate(&self) -> &str {
        self.proven.candidate()
    }

    /// Why a person has to review it, if an attacker gave no answer.
    #[must_use]
    pub fn asks_for_human(&self) -> Option<&str> {
        self.asks_for_human.as_deref()
    }
}

/// One attacker of an attempt.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AttackerRun {
    /// Its role, as the loop file names it.
    pub role: String,
    /// How often it was started.
    pub starts: u32,
    /// How many of these starts count: a start that a provider blocked does not.
    tries: u32,
    /// Its findings, once it has answered.
    pub findings: Option<Vec<AttackFinding>>,
    /// Why it gave no answer, or not a complete one.
    pub trouble: Option<String>,
    /// The start that a provider blocked, until the barrier.
    blocked: Option<Box<(RoleStarted, AgentEnd)>>,
}

impl AttackerRun {
    fn describe_trouble(&self) -> Option<String> {
        let silent = self.findings.is_none().then_some("it gave no answer");
        Some(format!("attacker `{}`: {}", self.role, self.trouble.as_deref().or(silent)?))
    }

    fn is_due(&self) -> bool {
        self.findings.is_none() && self.tries < TRIES
    }
}

/// A merged finding with the engine's own judgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedFinding {
    /// The finding.
    pub finding: MergedFinding,
    /// The severity that counts: a blocking finding that was not reproduced is demoted.
    pub severity: FindingSeverity,
    /// The result of its reproduction, if it ran.
    pub reproduction: Option<ReproductionResult>,
}

impl JudgedFinding {
    /// Whether the engine reproduced it.
    #[must_use]
    pub fn is_reproduced(&self) -> bool {
        self.reproduction.as_ref().is_some_and(|result| result.end == ReproductionEnd::Reproduced)
    }

    /// Whether it blocks the candidate.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.severity.is_blocking() && self.is_reproduced()
    }
}

/// A reproduced finding: its reproduction is a gate of every later attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegressionCheck {
    /// The gate's name.
    pub gate: String,
    /// The finding's key.
    pub key: String,
    /// The finding's title.
    pub title: String,
    /// The script.
    pub script: String,
}

impl RoundFacts {
    /// The roles of the attackers that have to be started now.
    #[must_use]
    pub fn attackers_due(&self) -> Vec<String> {
        let runs = self.attempt().map(|attempt| attempt.attackers.as_slice()).unwrap_or_default();
        runs.iter().filter(|run| run.is_due()).map(|run| run.role.clone()).collect()
    }

    /// The findings of the current attempt, merged and ordered.
    #[must_use]
    pub fn merged_findings(&self) -> Vec<MergedFinding> {
        let runs = self.attempt().map(|attempt| attempt.attackers.as_slice()).unwrap_or_default();
        merge_findings(runs.iter().map(|run| (run.role.as_str(), run.findings.as_deref().unwrap_or_default())))
    }

    /// The findings whose reproductions the engine has to run.
    #[must_use]
    pub fn reproductions_due(&self) -> Vec<MergedFinding> {
        let needs = |finding: &MergedFinding| finding.severity.is_blocking() && finding.reproduction.is_some();
        self.merged_findings().into_iter().filter(needs).collect()
    }
}

/// The application works: attacks the candidate, if the loop declares attackers.
pub(super) fn on_proven(mut round: Round, proven: ProvenCandidate) -> Step {
    let Some(attack) = &round.facts.started.spec.attack else {
        return check::on_passed(round, PassedCandidate { proven, asks_for_human: None });
    };
    let runs = attack.roles.iter().map(|role| AttackerRun { role: role.name().to_owned(), ..AttackerRun::default() });
    round.facts.attempt_mut().attackers = runs.collect();
    round.to(Phase::Attacking(proven), vec![Action::Attack])
}

pub(super) fn on_attacker_started(mut round: Round, started: RoleStarted) -> Result<Step, UnexpectedEvent> {
    let is_due = matches!(round.phase, Phase::Attacking(_)) && started.attempt == round.facts.attempt_number();
    let runs_already = round.facts.running.iter().any(|one| one.role == Role::Attacker && one.part == started.part);
    let run = started.part.as_deref().and_then(|part| round.facts.attacker_mut(part)).filter(|run| run.is_due());
    let Some(run) = run.filter(|_| is_due && !runs_already) else {
        return Err(round.misfit("role-started", "no such attacker is due"));
    };
    run.starts += 1;
    run.tries += 1;
    let phase = round.phase.clone();
    round.facts.running.push(started);
    Ok(round.to(phase, Vec::new()))
}

pub(super) fn ended(
    mut round: Round,
    running: &RoleStarted,
    end: AgentEnd,
    result: AttackerResult,
) -> Result<Step, UnexpectedEvent> {
    let Phase::Attacking(proven) = round.phase.clone() else {
        return Err(round.misfit("role-ended", "no attacker runs"));
    };
    let Some(run) = running.part.as_deref().and_then(|part| round.facts.attacker_mut(part)) else {
        return Err(round.misfit("role-ended", "no such attacker is declared"));
    };
    if let FindingsReading::Forged { why } = result.findings {
        return Ok(round.end(RoundOutcome::Refused, Stage::Attack, "forged-findings", why));
    }
    answered(run, running, end, result.findings);
    if round.facts.running.iter().any(|one| one.role == Role::Attacker) {
        return Ok(round.to(Phase::Attacking(proven), Vec::new()));
    }
    Ok(barrier(round, proven))
}

/// The findings of an attacker that did not finish are kept; without findings, an attacker that did not end well has
/// not answered.
fn answered(run: &mut AttackerRun, running: &RoleStarted, end: AgentEnd, reading: FindingsReading) {
    let is_blocked = match &end {
        AgentEnd::Provider { .. } => true,
        AgentEnd::Unusable { .. } => running.left > 0,
        AgentEnd::Exited { .. } | AgentEnd::Signaled { .. } | AgentEnd::Limit { .. } => false,
    };
    if is_blocked {
        run.tries = run.tries.saturating_sub(1);
        run.blocked = Some(Box::new((running.clone(), end)));
        return;
    }
    let ended_badly = match &end {
        AgentEnd::Exited { code: 0 } => None,
        AgentEnd::Exited { code } => Some(format!("it exited with {code}")),
        AgentEnd::Signaled { signal } => Some(format!("it died by signal {signal}")),
        AgentEnd::Limit { limit, .. } => Some(format!("it ran out of {}", limit.label())),
        AgentEnd::Unusable { text } => Some(text.clone()),
        AgentEnd::Provider { trouble, .. } => Some(trouble.text.clone()),
    };
    let (findings, unread) = match reading {
        FindingsReading::Findings { findings } if ended_badly.is_none() || !findings.is_empty() => {
            (Some(findings), None)
        }
        FindingsReading::Findings { .. } => (None, None),
        FindingsReading::Malformed { why } => (None, Some(format!("its findings are malformed: {why}"))),
        FindingsReading::Missing | FindingsReading::Forged { .. } => (None, Some("it left no findings".to_owned())),
    };
    run.findings = findings;
    run.trouble = ended_badly.or(unread);
}

/// Every started attacker has ended.
fn barrier(mut round: Round, proven: ProvenCandidate) -> Step {
    let blocked = round.facts.attempt_mut().attackers.iter_mut().find_map(|run| run.blocked.take());
    if let Some(blocked) = blocked {
        for run in &mut round.facts.attempt_mut().attackers {
            run.blocked = None;
        }
        let (running, end) = *blocked;
        return provider_waits::on_agent_blocked(round, ResumePoint::Attack(proven), &running, &end);
    }
    round.facts.provider_waits.clear_blocked(Role::Attacker);
    if let Some(limit) = round.facts.reached_limit() {
        return provider_waits::ceiling_passed(round, ResumePoint::Attack(proven), limit);
    }
    if !round.facts.attackers_due().is_empty() {
        return round.to(Phase::Attacking(proven), vec![Action::Attack]);
    }
    round.to(Phase::Reproducing(proven), vec![Action::Reproduce])
}

pub(super) fn on_attacked(mut round: Round, attacked: AttackFinished) -> Result<Step, UnexpectedEvent> {
    let Phase::Reproducing(proven) = round.phase.clone() else {
        return Err(round.misfit("attacked", "no reproduction runs"));
    };
    if attacked.attempt != round.facts.attempt_number() {
        return Err(round.misfit("attacked", "it belongs to another attempt"));
    }
    let due = round.facts.reproductions_due();
    let results = |key: &str| attacked.reproductions.iter().filter(|result| result.key == key).count();
    if let Some(missing) = due.iter().find(|finding| results(&finding.key) != 1) {
        let text = format!("the reproduction of `{}` has no result", missing.title);
        return Ok(round.end(RoundOutcome::Failed, Stage::Attack, "reproduction-missing", text));
    }
    let merged = round.facts.merged_findings();
    let judged: Vec<_> = merged.into_iter().map(|finding| judge(finding, &attacked.reproductions)).collect();
    round.facts.keep_regressions(&judged);
    round.facts.attempt_mut().judged = judged;
    Ok(decide(round, proven))
}

fn judge(mut finding: MergedFinding, results: &[ReproductionResult]) -> JudgedFinding {
    let reproduction = results.iter().find(|result| result.key == finding.key).cloned();
    // The result names its script.
    let tried = reproduction.as_ref().and_then(|result| finding.scripts().nth(result.script)).map(str::to_owned);
    finding.reproduction = tried.or(finding.reproduction);
    let mut judged = JudgedFinding { severity: finding.severity, finding, reproduction };
    if judged.severity.is_blocking() && !judged.is_reproduced() {
        judged.severity = FindingSeverity::Medium;
    }
    judged
}

fn decide(mut round: Round, proven: ProvenCandidate) -> Step {
    let judged = round.facts.attempt_mut().judged.clone();
    let open: Vec<_> = judged.iter().filter(|finding| finding.is_open()).collect();
    if !open.is_empty() {
        let line = |finding: &&JudgedFinding| {
            format!("{} at {}: {}", finding.severity, finding.finding.place(), finding.finding.title)
        };
        let text = open.iter().map(line).collect::<Vec<_>>().join("; ");
        let keys: Vec<_> = open.iter().map(|finding| finding.finding.key.as_str()).collect();
        let signature = format!("findings:{}", keys.join(","));
        return attempts::reject(round, Stage::Attack, "finding-open", text, signature);
    }
    let demoted = judged.iter().filter(|one| one.severity != one.finding.severity).count();
    if demoted > 0 {
        let text = format!("{demoted} findings were not reproduced and count as medium");
        round.facts.add_reason(Stage::Attack, "findings-demoted", text);
    }
    let runs = round.facts.attempt_mut().attackers.clone();
    let troubled: Vec<_> = runs.iter().filter_map(AttackerRun::describe_trouble).collect();
    for text in &troubled {
        round.facts.add_reason(Stage::Attack, "attacker-incomplete", text.clone());
    }
    let silent = runs.iter().any(|run| run.findings.is_none());
    let asks_for_human = silent.then(|| format!("not every attacker answered: {}", troubled.join("; ")));
    check::on_passed(round, PassedCandidate { proven, asks_for_human })
}

impl RoundFacts {
    fn attacker_mut(&mut self, role: &str) -> Option<&mut AttackerRun> {
        self.attempts.last_mut()?.attackers.iter_mut().find(|run| run.role == role)
    }

    /// Reproduced findings become gates of the later attempts.
    fn keep_regressions(&mut self, judged: &[JudgedFinding]) {
        for finding in judged.iter().filter(|finding| finding.is_open()) {
            let known = self.regressions.iter().any(|check| check.key == finding.finding.key);
            let script = finding.finding.reproduction.clone();
            let Some(script) = script.filter(|_| !known && self.regressions.len() < REGRESSIONS_MAX) else { continue };
            let (key, title) = (finding.finding.key.clone(), finding.finding.title.clone());
            self.regressions.push(RegressionCheck { gate: format!("regression-{key}"), key, title, script });
        }
    }
}
