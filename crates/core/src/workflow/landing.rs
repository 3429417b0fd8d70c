//! The landing of a workflow's changes: all of them together, and if a gate rejects them, the search for the one that is
//! to blame. The search runs the gates on the first half, then on a quarter, and so on.

use crate::outcome::RoundOutcome;
use crate::round::{RoundFacts, Stage};
use crate::spec::{Gate, LoopSpec, Role, RunGate};

/// A round of the search: the gates saw the changes of the first `count` items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LandingTrial {
    /// How many items were in it, in their order.
    pub count: usize,
    /// Its outcome.
    pub outcome: RoundOutcome,
    /// Whether the seal, a gate or the proof rejected it.
    pub is_rejected_by_gates: bool,
}

/// The next step of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchMove {
    /// Run the gates on the first `count` items; on base alone if it is 0.
    Try {
        /// How many items.
        count: usize,
    },
    /// Base is rejected without any item: no item is to blame.
    BaseFails,
    /// The gates pass without this item and the later ones, and reject with it.
    SetAside {
        /// Its position among the items, from 0.
        position: usize,
    },
    /// The trial with this many items had no answer.
    GiveUp {
        /// How many items.
        count: usize,
    },
}

/// The next step of the search among `count` items, which the gates rejected together. Before the first item is blamed, a
/// trial of base alone shows whether base is red by itself.
#[must_use]
pub fn next_search(count: usize, trials: &[LandingTrial]) -> SearchMove {
    let (mut passed, mut rejected, mut is_base_tried) = (0, count, false);
    for trial in trials {
        if trial.count == 0 {
            match trial.outcome {
                // The gates of this trial must be red, so green ones end it before; without a change it ends empty.
                RoundOutcome::Empty => return SearchMove::BaseFails,
                RoundOutcome::Interrupted | RoundOutcome::Cancelled => return SearchMove::GiveUp { count: 0 },
                _ => is_base_tried = true,
            }
            continue;
        }
        match trial.outcome {
            // A dry run ends as reported. One that needs a person has passed its gates.
            RoundOutcome::Shipped
            | RoundOutcome::Reported
            | RoundOutcome::Escalated
            | RoundOutcome::NothingToDo
            | RoundOutcome::Empty => passed = passed.max(trial.count),
            RoundOutcome::Rejected | RoundOutcome::Plateaued => {
                // A checker's rejection shows that the gates passed.
                if trial.is_rejected_by_gates {
                    rejected = rejected.min(trial.count);
                } else {
                    passed = passed.max(trial.count);
                }
            }
            RoundOutcome::Cannot
            | RoundOutcome::OverBudget
            | RoundOutcome::RateLimited
            | RoundOutcome::Failed
            | RoundOutcome::Refused
            | RoundOutcome::Interrupted
            | RoundOutcome::Cancelled => return SearchMove::GiveUp { count: trial.count },
        }
    }
    match rejected.saturating_sub(passed) {
        // A gate whose result changes from run to run can contradict itself; the last item of the smallest rejected
        // batch is set aside, and what stays is verified again as a whole.
        _ if passed == 0 && rejected <= 1 && !is_base_tried => SearchMove::Try { count: 0 },
        0 | 1 => SearchMove::SetAside { position: rejected.saturating_sub(1) },
        _ => SearchMove::Try { count: passed.midpoint(rejected) },
    }
}

/// Whether the seal, the gates or the proof rejected the round. A checker's rejection is not searched: its answers vary.
#[must_use]
pub fn is_rejected_by_gates(facts: &RoundFacts) -> bool {
    facts.reasons.last().is_some_and(|reason| matches!(reason.stage, Stage::Seal | Stage::Gate | Stage::Prove))
}

/// The loop that runs the gates of a landing on base alone. Gates that base may fail are left out: those that must be red
/// there, and the proofs of criteria. It calls no agent; `None` if no gate is left.
#[must_use]
pub fn base_trial_spec(landing: &LoopSpec, criteria: &[&str]) -> Option<LoopSpec> {
    let run = |gate: &Gate| match gate {
        Gate::Run(gate) if !gate.red_before && !criteria.contains(&gate.name.as_str()) => {
            Some(Gate::Run(RunGate { red_before: true, ..gate.clone() }))
        }
        _ => None,
    };
    let gates: Vec<Gate> = landing.gates.iter().filter_map(run).collect();
    if gates.is_empty() {
        return None;
    }
    let mut trial =
        LoopSpec { gates, heldout: Vec::new(), withhold: None, prover: None, attack: None, ..landing.clone() };
    trial.agents.remove(&Role::Attacker);
    Some(trial)
}
