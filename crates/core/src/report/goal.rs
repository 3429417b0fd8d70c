//! The part of a report about the work toward a goal: the plan and its phases, every attempt with its results, the
//! proof, and the findings. Written by the engine from the record; the words of roles are quoted.

use crate::attack::FindingSeverity;
use crate::round::{
    Attempt, AttemptRank, JudgedFinding, PhaseSeal, ProofFinished, ProofVerdict, ReproductionEnd, RoundFacts,
};
use crate::spec::LoopMode;
use serde::{Deserialize, Serialize};

/// The work of a round toward its goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoalReport {
    /// The frozen plan.
    pub plan: Option<PlanSummary>,
    /// The number of the best attempt, from 1.
    pub best: Option<u32>,
    /// Every attempt, in order.
    pub cycles: Vec<CycleSummary>,
    /// The proof of the last attempt.
    pub proof: Option<ProofFinished>,
    /// The findings of all attempts, worst first in each.
    pub findings: Vec<FindingSummary>,
}

/// A frozen plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSummary {
    /// The hash of brief, plan and spec.
    pub hash: String,
    /// The planner's brief.
    pub brief: String,
    /// The titles of the phases.
    pub phases: Vec<String>,
    /// The seals of the phases before the last one.
    pub sealed: Vec<PhaseSeal>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CycleSummary {
    /// Its number, from 1.
    pub attempt: u32,
    /// The engine's commit of it.
    pub commit: Option<String>,
    /// How many gates passed, and how many ran.
    pub gates: (usize, usize),
    /// The score of the first gate that has one.
    pub score: Option<f64>,
    /// The proof.
    pub proof: Option<ProofVerdict>,
    /// The reproduced findings that block it.
    pub open_findings: usize,
    /// The mean of the checker's scores.
    pub mean: Option<f64>,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingSummary {
    /// The attempt that was attacked.
    pub attempt: u32,
    /// The key, the same for the same finding in every attempt.
    pub key: String,
    /// The severity that counts.
    pub severity: FindingSeverity,
    /// The severity that the attackers gave.
    pub reported: FindingSeverity,
    /// `path:line`.
    pub place: String,
    /// The attackers' title.
    pub title: String,
    /// The attackers that reported it.
    pub roles: Vec<String>,
    /// `reproduced`, `not-there`, `inconclusive`, or `none` without a reproduction.
    pub reproduction: String,
}

impl GoalReport {
    /// The report, for a round whose loop has a plan, a proof, attackers or a rule for plateaus.
    #[must_use]
    pub fn from_facts(facts: &RoundFacts) -> Option<Self> {
        let spec = &facts.started.spec;
        let has_goal =
            spec.mode == LoopMode::GoalLoop || spec.prover.is_some() || spec.attack.is_some() || spec.plateau.is_some();
        let attempts = || (1..).zip(&facts.attempts);
        has_goal.then(|| Self {
            plan: plan(facts),
            best: facts.best_attempt(),
            cycles: attempts().map(|(number, attempt)| cycle(facts, number, attempt)).collect(),
            proof: facts.attempt().and_then(|attempt| attempt.proof.clone()),
            findings: attempts()
                .flat_map(|(number, attempt)| attempt.judged.iter().map(move |judged| finding(number, judged)))
                .collect(),
        })
    }

    /// The report as lines of Markdown.
    pub(super) fn lines(&self, plain: impl Fn(&str) -> String) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(plan) = &self.plan {
            let phases = match plan.phases.len() {
                1 => "1 phase".to_owned(),
                count => format!("{count} phases"),
            };
            lines.push(format!("Plan {} with {phases}:", plain(short(&plan.hash))));
            lines.push(String::new());
            for (at, title) in plan.phases.iter().enumerate() {
                let sealed =
                    plan.sealed.get(at).map_or(String::new(), |seal| format!(" (sealed {})", short(&seal.commit)));
                lines.push(format!("{}. {}{}", at + 1, plain(title), plain(&sealed)));
            }
            lines.push(String::new());
        }
        lines.push("| attempt | gates | proof | open findings | score | mean |".to_owned());
        lines.push("|---|---|---|---|---|---|".to_owned());
        lines.extend(self.cycles.iter().map(|cycle| self.row(cycle)));
        if let Some(proof) = &self.proof {
            lines.extend([
                String::new(),
                format!("Proof of the last attempt: {}: {}", proof.verdict, plain(&proof.text)),
            ]);
            let kept = proof.artefacts.iter();
            lines
                .extend(kept.map(|one| format!("- {} ({} bytes, evidence {})", plain(&one.name), one.bytes, one.hash)));
        }
        if !self.findings.is_empty() {
            lines.push(String::new());
            lines.extend(self.findings.iter().map(|one| finding_line(one, &plain)));
        }
        lines
    }

    fn row(&self, cycle: &CycleSummary) -> String {
        let number = |number: Option<f64>| number.map_or_else(|| "–".to_owned(), |number| format!("{number:.2}"));
        let proof = cycle.proof.map_or("–", ProofVerdict::word);
        let best = if self.best == Some(cycle.attempt) { " (best)" } else { "" };
        let (passed, all) = cycle.gates;
        format!(
            "| {}{best} | {passed} of {all} | {proof} | {} | {} | {} |",
            cycle.attempt,
            cycle.open_findings,
            number(cycle.score),
            number(cycle.mean)
        )
    }
}

fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

fn finding_line(one: &FindingSummary, plain: &impl Fn(&str) -> String) -> String {
    let demoted = if one.severity == one.reported { String::new() } else { format!(", reported as {}", one.reported) };
    format!(
        "- attempt {}: {}{demoted} at {}: {} ({}; {})",
        one.attempt,
        one.severity,
        plain(&one.place),
        plain(&one.title),
        plain(&one.roles.join(", ")),
        one.reproduction
    )
}

fn plan(facts: &RoundFacts) -> Option<PlanSummary> {
    let plan = facts.plan.as_ref()?;
    Some(PlanSummary {
        hash: plan.hash.clone(),
        brief: plan.brief.clone(),
        phases: plan.phases.iter().map(|phase| phase.title.clone()).collect(),
        sealed: facts.attempts.first().map(|attempt| attempt.phases.clone()).unwrap_or_default(),
    })
}

fn cycle(facts: &RoundFacts, attempt: u32, one: &Attempt) -> CycleSummary {
    let rank = AttemptRank::of(&facts.started.spec, one);
    CycleSummary {
        attempt,
        commit: one.commit.clone(),
        gates: (rank.gates, one.gates.len()),
        score: one.gates.iter().find_map(|gate| gate.score),
        proof: one.proof.as_ref().map(|proof| proof.verdict),
        open_findings: one.judged.iter().filter(|judged| judged.is_open()).count(),
        mean: rank.mean,
    }
}

fn finding(attempt: u32, judged: &JudgedFinding) -> FindingSummary {
    let reproduction = match judged.reproduction.as_ref().map(|result| &result.end) {
        Some(ReproductionEnd::Reproduced) => "reproduced",
        Some(ReproductionEnd::NotThere) => "not-there",
        Some(ReproductionEnd::Inconclusive { .. }) => "inconclusive",
        None => "none",
    };
    FindingSummary {
        attempt,
        key: judged.finding.key.clone(),
        severity: judged.severity,
        reported: judged.finding.severity,
        place: judged.finding.place(),
        title: judged.finding.title.clone(),
        roles: judged.finding.roles.clone(),
        reproduction: reproduction.to_owned(),
    }
}
