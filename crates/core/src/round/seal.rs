//! Seal: the candidate is frozen. The findings here end the round or let it proceed to the gates.

use super::attempts;
use super::event::{AgentEnd, CandidateSealed, SealFindings, Stage};
use super::facts::{Attempt, PhaseSeal};
use super::phase::AgentRun;
use super::{Action, Phase, Round, Step, UnexpectedEvent};
use crate::level::LoopLevel;
use crate::outcome::RoundOutcome;
use crate::spec::ActionKind;

/// The code of a round whose change was proposed before.
pub const ALREADY_PROPOSED: &str = "already-proposed";

pub(super) fn on_sealed(mut round: Round, sealed: CandidateSealed) -> Result<Step, UnexpectedEvent> {
    if round.phase != Phase::Sealing || sealed.attempt != round.facts.attempt_number() {
        return Err(round.misfit("sealed", "nothing of that attempt is being sealed"));
    }
    round.facts.destination = sealed.destination;
    let attempt = round.facts.attempt_mut();
    attempt.tree = Some(sealed.tree);
    attempt.commit = Some(sealed.commit);
    attempt.candidate = Some(sealed.candidate);
    attempt.changes = sealed.changes;
    attempt.items = sealed.items;
    attempt.findings = sealed.findings;
    attempt.findings.secrets.extend(attempt.staged_secrets.iter().cloned());
    Ok(if round.facts.is_between_phases() { judge_phase(round) } else { judge_seal(round) })
}

/// The seal between two phases: what may never be sealed ends the round here, everything else is judged at the end.
fn judge_phase(mut round: Round) -> Step {
    let findings = round.facts.attempt_mut().findings.clone();
    if let Some((outcome, code, text)) = unsealable(&round, &findings).or_else(|| forbidden(&findings)) {
        return round.end(outcome, Stage::Seal, code, text);
    }
    if let Some(text) = bad_exit(&round) {
        return reject_bad_exit(round, text);
    }
    let title = round.facts.maker_phase(round.facts.attempt_number()).map(|(_, phase)| phase.title.clone());
    let attempt = round.facts.attempt_mut();
    attempt.phases.push(PhaseSeal {
        title: title.unwrap_or_default(),
        tree: attempt.tree.clone().unwrap_or_default(),
        commit: attempt.commit.clone().unwrap_or_default(),
        files: attempt.changes.len(),
    });
    // A phase is no candidate: nothing can be verified or sent from here.
    attempt.candidate = None;
    attempt.items.clear();
    round.to(Phase::Making(AgentRun::NextPhase), vec![Action::Make(None)])
}

fn judge_seal(mut round: Round) -> Step {
    let findings = round.facts.attempt_mut().findings.clone();
    if let Some((outcome, code, text)) = fatal(&round, &findings) {
        return round.end(outcome, Stage::Seal, code, text);
    }
    if let Some(text) = bad_exit(&round) {
        return reject_bad_exit(round, text);
    }
    if !findings.outside.is_empty() {
        let text = format!("changes outside the allowed paths: {}", findings.outside.join(", "));
        return attempts::reject(round, Stage::Seal, "outside-paths", text.clone(), text);
    }
    if let Some(why) = attempts::no_progress(&mut round) {
        return round.end(RoundOutcome::Plateaued, Stage::Seal, "no-progress", why);
    }
    round.to(Phase::Gating, vec![Action::Gate])
}

fn reject_bad_exit(round: Round, text: String) -> Step {
    if !round.facts.attempt().is_some_and(Attempt::has_change) {
        return round.end(RoundOutcome::Failed, Stage::Make, "maker-failed", format!("{text} and changed no file"));
    }
    attempts::reject(round, Stage::Make, "maker-failed", text.clone(), format!("exit:{text}"))
}

/// The findings that no further attempt may fix, in the order of the checks.
fn fatal(round: &Round, findings: &SealFindings) -> Option<SealEnd> {
    let attempt = round.facts.attempt()?;
    if let Some(end) = unsealable(round, findings) {
        return Some(end);
    }
    if !attempt.has_change() && attempt.items.is_empty() {
        return Some(nothing_left(attempt.end.as_ref()));
    }
    if let Some(end) = forbidden(findings) {
        return Some(end);
    }
    if let Some(text) = &findings.proposed_before {
        return Some((RoundOutcome::NothingToDo, ALREADY_PROPOSED, text.clone()));
    }
    let spec = &round.facts.started.spec;
    let ships_tree = spec.outputs(ActionKind::PullRequest) || spec.outputs(ActionKind::Commit);
    (attempt.has_change() && !ships_tree).then(|| {
        let text = "files changed, but the loop's output has neither pull-request nor commit".to_owned();
        (RoundOutcome::Rejected, "no-output-for-tree", text)
    })
}

/// An end at the seal: outcome, code, text.
type SealEnd = (RoundOutcome, &'static str, String);

fn list(what: &str, paths: &[String]) -> String {
    format!("{what}: {}", paths.join(", "))
}

/// Files that cannot be sealed, or may not be changed at this level.
fn unsealable(round: &Round, findings: &SealFindings) -> Option<SealEnd> {
    if !findings.refused_paths.is_empty() {
        let text = list("paths that may not be sealed", &findings.refused_paths);
        return Some((RoundOutcome::Refused, "path-refused", text));
    }
    let at_l1 = round.facts.started.spec.level == LoopLevel::L1Report;
    (at_l1 && round.facts.attempt().is_some_and(Attempt::has_change)).then(|| {
        let text = "a loop at L1 changed files; the change was discarded".to_owned();
        (RoundOutcome::Refused, "write-at-l1", text)
    })
}

/// Changes that no further attempt makes good.
fn forbidden(findings: &SealFindings) -> Option<SealEnd> {
    if !findings.secrets.is_empty() {
        return Some((RoundOutcome::Refused, "secrets", list("secrets in the candidate", &findings.secrets)));
    }
    if !findings.protected.is_empty() {
        return Some((RoundOutcome::Rejected, "protected-path", list("protected files changed", &findings.protected)));
    }
    (!findings.missing_tests.is_empty())
        .then(|| (RoundOutcome::Rejected, "test-inventory", list("tests are missing", &findings.missing_tests)))
}

/// Nothing changed and nothing was staged: empty if the maker ended well, failed otherwise.
fn nothing_left(end: Option<&AgentEnd>) -> SealEnd {
    match end {
        Some(AgentEnd::Exited { code: 0 }) | None => {
            (RoundOutcome::Empty, "empty", "the maker ended well and produced nothing".to_owned())
        }
        Some(end) => {
            (RoundOutcome::Failed, "maker-failed", format!("the maker {} and produced nothing", describe(end)))
        }
    }
}

fn bad_exit(round: &Round) -> Option<String> {
    match round.facts.attempt()?.end.as_ref()? {
        AgentEnd::Exited { code: 0 } => None,
        end => Some(format!("the maker {}", describe(end))),
    }
}

fn describe(end: &AgentEnd) -> String {
    match end {
        AgentEnd::Exited { code } => format!("exited with {code}"),
        AgentEnd::Signaled { signal } => format!("died by signal {signal}"),
        AgentEnd::Limit { text, .. } | AgentEnd::Unusable { text } => text.clone(),
        AgentEnd::Provider { trouble, .. } => format!("was blocked by its provider: {}", trouble.text),
    }
}
