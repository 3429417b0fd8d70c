//! Ranks: how far an attempt got, so that attempts can be compared. The best one is kept and reported, and attempts
//! without a better rank are a plateau.

use super::facts::{Attempt, RoundFacts};
use super::goal_event::ProofVerdict;
use crate::gate::{GateResult, GateStatus};
use crate::spec::{Gate, LoopSpec, RunGate, ScoreDirection};
use crate::verdict::Judgement;
use std::cmp::Ordering;

/// How far an attempt got. Higher is better; attempts of equal rank made no progress.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttemptRank {
    /// The last stage it passed: 0 nothing sealed, 1 sealed, 2 gates, 3 proof, 4 attack.
    pub depth: u8,
    /// The gates that passed.
    pub gates: usize,
    /// The first score of its gates, turned so that higher is better.
    pub score: Option<f64>,
    /// The mean of the checker's scores.
    pub mean: Option<f64>,
}

impl AttemptRank {
    /// The rank of an attempt.
    #[must_use]
    pub fn of(spec: &LoopSpec, attempt: &Attempt) -> Self {
        let passed = attempt.gates.iter().filter(|gate| gate.is_passed()).count();
        Self { depth: depth(attempt), gates: passed, score: score(spec, &attempt.gates), mean: mean(attempt) }
    }

    /// The position of the best score, the first of equal ones; `None` if there is no score.
    #[must_use]
    pub fn best_score(ranks: &[Self]) -> Option<usize> {
        let scored = ranks.iter().enumerate().filter_map(|(at, rank)| Some((at, rank.score?)));
        scored
            .reduce(|best, one| if one.1.total_cmp(&best.1) == Ordering::Greater { one } else { best })
            .map(|(at, _)| at)
    }

    fn is_better_than(&self, other: &Self) -> bool {
        let number = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        let order = self.depth.cmp(&other.depth).then(self.gates.cmp(&other.gates));
        order.then(number(self.score, other.score)).then(number(self.mean, other.mean)) == Ordering::Greater
    }
}

fn depth(attempt: &Attempt) -> u8 {
    let is_green = !attempt.gates.iter().any(|gate| gate.status != GateStatus::Passed);
    let is_proven = attempt.proof.as_ref().is_none_or(|proof| proof.verdict == ProofVerdict::Works);
    let is_closed = !attempt.judged.iter().any(super::attack::JudgedFinding::is_open);
    match (attempt.tree.is_some(), attempt.was_gated && is_green, is_proven, is_closed) {
        (false, ..) => 0,
        (true, false, ..) => 1,
        (true, true, false, _) => 2,
        (true, true, true, false) => 3,
        (true, true, true, true) => 4,
    }
}

/// The first gate with a score decides.
fn score(spec: &LoopSpec, results: &[GateResult]) -> Option<f64> {
    let (name, better) = spec.gates.iter().find_map(scored)?;
    let score = results.iter().find(|result| result.name == name)?.score?;
    Some(if better == ScoreDirection::Lower { -score } else { score })
}

/// The name of a gate with a score, and which direction is better.
fn scored(gate: &Gate) -> Option<(&str, ScoreDirection)> {
    match gate {
        Gate::Run(RunGate { name, score: Some(rule), .. }) => Some((name, rule.better)),
        _ => None,
    }
}

fn mean(attempt: &Attempt) -> Option<f64> {
    match attempt.judgement.as_ref()? {
        Judgement::Pass { scored } | Judgement::Fail { scored, .. } | Judgement::Escalate { scored, .. } => scored.mean,
        Judgement::Malformed { .. } | Judgement::Missing | Judgement::Forged { .. } => None,
    }
}

impl RoundFacts {
    /// The number of the best attempt, from 1; the earlier one of two equals.
    #[must_use]
    pub fn best_attempt(&self) -> Option<u32> {
        let ranks: Vec<_> = self.attempts.iter().map(|attempt| AttemptRank::of(&self.started.spec, attempt)).collect();
        let mut best = (!ranks.is_empty()).then_some(0)?;
        for at in 1..ranks.len() {
            if ranks[at].is_better_than(&ranks[best]) {
                best = at;
            }
        }
        (ranks[best].depth > 0).then(|| u32::try_from(best + 1).unwrap_or(u32::MAX))
    }

    /// The attempt whose files the next maker starts from, if that is not the last one. A loop whose goal is a number keeps
    /// an attempt only if it is better than the best so far.
    #[must_use]
    pub fn restarts_from(&self) -> Option<u32> {
        let is_numeric = self.started.spec.gates.iter().any(|gate| scored(gate).is_some());
        self.best_attempt().filter(|best| is_numeric && *best != self.attempt_number())
    }

    /// Why the round has reached a plateau, if the loop has a rule for it. Every attempt counts, also one that no
    /// checker saw.
    pub(super) fn plateau(&self) -> Option<String> {
        let window = self.started.spec.plateau.as_ref()?.window;
        let best = self.best_attempt().unwrap_or(1);
        let without = self.attempt_number().saturating_sub(best);
        (without >= window)
            .then(|| format!("{without} attempts in a row were not better than attempt {best}, which is kept"))
    }
}
