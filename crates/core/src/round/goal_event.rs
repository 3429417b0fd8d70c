//! The events of a goal round's own stages: the planner's files, the proof, the attackers' findings and their
//! reproductions. [`super::event`] has the events that every round has.

use crate::attack::FindingsReading;
use crate::goal_plan::PlanDraft;
use crate::words::worded;
use serde::{Deserialize, Serialize};

/// The planner's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannerResult {
    /// Its files.
    pub plan: PlanDraft,
    /// The reason it gave for not being able to plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cannot: Option<String>,
}

/// An attacker's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttackerResult {
    /// Its findings from its sink.
    pub findings: FindingsReading,
}

worded! {
    /// The verdict of a proof.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum ProofVerdict {
        /// The exercise passed, and there is an artefact of it.
        Works = "works",
        /// The application did not start, or the exercise failed.
        Broken = "broken",
        /// The exercise could not run, or left no artefact.
        Unverifiable = "unverifiable",
    }
}

/// A kept file of a proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofArtefact {
    /// Its name.
    pub name: String,
    /// Its content hash, which is also its name in the evidence folder.
    pub hash: String,
    /// Its size.
    pub bytes: u64,
}

/// The engine exercised the application of the sealed candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofFinished {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The verdict.
    pub verdict: ProofVerdict,
    /// A description, in one line.
    pub text: String,
    /// The end of the exercise's and the application's output.
    pub excerpt: String,
    /// The kept files.
    pub artefacts: Vec<ProofArtefact>,
    /// The wall time.
    pub duration_ms: u64,
}

/// The end of a reproduction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum ReproductionEnd {
    /// It exited with 1: the defect is there.
    Reproduced,
    /// It exited with 0: the defect is not there.
    NotThere,
    /// It ended in any other way, which shows nothing.
    Inconclusive {
        /// How it ended.
        why: String,
    },
}

/// The result of one finding's reproduction on the sealed candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReproductionResult {
    /// The finding's key.
    pub key: String,
    /// Its end.
    pub end: ReproductionEnd,
    /// The end of its output.
    pub excerpt: String,
    /// Which of the finding's reproductions it is, from 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub script: usize,
}

fn is_first(script: &usize) -> bool {
    *script == 0
}

/// The reproductions of the blocking findings ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttackFinished {
    /// The attempt, from 1.
    pub attempt: u32,
    /// The results, one for each blocking finding with a reproduction.
    pub reproductions: Vec<ReproductionResult>,
}
