//! Seal: the candidate is frozen. The findings here end the round or let it proceed to the gates.

use super::attempts;
use super::event::{AgentEnd, CandidateSealed, SealFindings, Stage};
use super::facts::Attempt;
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
    Ok(judge_seal(round))
}

fn judge_seal(mut round: Round) -> Step {
    let findings = round.facts.attempt_mut().findings.clone();
    if let Some((outcome, code, text)) = fatal(&round, &findings) {
        return round.end(outcome, Stage::Seal, code, text);
    }
    if let Some(text) = bad_exit(&round) {
        if !round.facts.attempt().is_some_and(Attempt::has_change) {
            return round.end(RoundOutcome::Failed, Stage::Make, "maker-failed", format!("{text} and changed no file"));
        }
        return attempts::reject(round, Stage::Make, "maker-failed", text.clone(), format!("exit:{text}"));
    }
    if !findings.outside.is_empty() {
        let text = format!("changes outside the allowed paths: {}", findings.outside.join(", "));
        return attempts::reject(round, Stage::Seal, "outside-paths", text.clone(), text);
    }
    if let Some(why) = attempts::no_progress(&round) {
        return round.end(RoundOutcome::Plateaued, Stage::Seal, "no-progress", why);
    }
    round.to(Phase::Gating, vec![Action::Gate])
}

/// The findings that no further attempt may fix, in the order of the checks.
fn fatal(round: &Round, findings: &SealFindings) -> Option<(RoundOutcome, &'static str, String)> {
    let attempt = round.facts.attempt()?;
    let spec = &round.facts.started.spec;
    let list = |what: &str, paths: &[String]| format!("{what}: {}", paths.join(", "));
    if !findings.refused_paths.is_empty() {
        return Some((
            RoundOutcome::Refused,
            "path-refused",
            list("paths that may not be sealed", &findings.refused_paths),
        ));
    }
    if attempt.has_change() && spec.level == LoopLevel::L1Report {
        let text = "a loop at L1 changed files; the change was discarded".to_owned();
        return Some((RoundOutcome::Refused, "write-at-l1", text));
    }
    if !attempt.has_change() && attempt.items.is_empty() {
        return Some(nothing_left(attempt.end.as_ref()));
    }
    if !findings.secrets.is_empty() {
        return Some((RoundOutcome::Refused, "secrets", list("secrets in the candidate", &findings.secrets)));
    }
    if !findings.protected.is_empty() {
        return Some((RoundOutcome::Rejected, "protected-path", list("protected files changed", &findings.protected)));
    }
    if !findings.missing_tests.is_empty() {
        return Some((RoundOutcome::Rejected, "test-inventory", list("tests are missing", &findings.missing_tests)));
    }
    if let Some(text) = &findings.proposed_before {
        return Some((RoundOutcome::NothingToDo, ALREADY_PROPOSED, text.clone()));
    }
    let ships_tree = spec.outputs(ActionKind::PullRequest) || spec.outputs(ActionKind::Commit);
    (attempt.has_change() && !ships_tree).then(|| {
        let text = "files changed, but the loop's output has neither pull-request nor commit".to_owned();
        (RoundOutcome::Rejected, "no-output-for-tree", text)
    })
}

/// Nothing changed and nothing was staged: empty if the maker ended well, failed otherwise.
fn nothing_left(end: Option<&AgentEnd>) -> (RoundOutcome, &'static str, String) {
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
