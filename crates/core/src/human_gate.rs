//! Human gates: whether a proposed action may proceed by itself or waits for a person. A gate only advises: the engine
//! decides what the level permits, and a gate cannot raise it.

use crate::level::LoopLevel;
use crate::words::worded;
use serde::{Deserialize, Serialize};

worded! {
    /// The possible damage if the action is wrong.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Risk {
        /// Small and easy to undo.
        Low = "low",
        /// Worth a review.
        #[default]
        Medium = "medium",
        /// Affects something sensitive, or many files at once.
        High = "high",
    }
}

/// An outward action that a round proposes, with the facts for the decision of a person or a gate.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposedAction {
    /// The action's kind, as an [`ActionKind`](crate::spec::ActionKind) word.
    pub kind: String,
    /// One line for people.
    pub summary: String,
    /// Whether gates and checker passed.
    pub verified: bool,
    /// Paths the candidate changes.
    pub paths: Vec<String>,
    /// The number of changed files.
    pub files_changed: u64,
    /// The number of added and removed lines.
    pub lines_changed: u64,
    /// The possible damage.
    pub risk: Risk,
    /// The paths that always need a person.
    pub sensitive: Vec<String>,
    /// Hash of the tree and the staged items that the decision binds to.
    pub candidate: String,
}

impl ProposedAction {
    /// An action without diff facts, compatible with the seed's constructor.
    #[must_use]
    pub fn new(kind: impl Into<String>, summary: impl Into<String>, verified: bool) -> Self {
        Self { kind: kind.into(), summary: summary.into(), verified, ..Self::default() }
    }
}

/// The decision of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateDecision {
    /// The action may proceed without a person.
    AutoProceed,
    /// A person decides.
    Escalate {
        /// The reason, for the inbox.
        reason: String,
    },
}

impl GateDecision {
    /// Escalates the action to a person.
    #[must_use]
    pub fn escalate(reason: impl Into<String>) -> Self {
        Self::Escalate { reason: reason.into() }
    }

    /// Whether the action proceeds without a person.
    #[must_use]
    pub fn is_auto(&self) -> bool {
        matches!(self, Self::AutoProceed)
    }
}

/// Decides whether a proposed action waits for a person.
///
/// The engine asks only after verification, and it does not accept every answer: below L3 it refuses an
/// [`AutoProceed`](GateDecision::AutoProceed) and escalates the action, and a sensitive path escalates at every level
/// regardless of the gate. A gate that blocks delays its round, so it must decide from its arguments alone.
pub trait HumanGate: Send + Sync {
    /// Decides on one action of a loop at a level.
    fn decide(&self, level: LoopLevel, action: &ProposedAction) -> GateDecision;
}

/// Escalates everything to a person; the default for every level.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysEscalate;

impl HumanGate for AlwaysEscalate {
    fn decide(&self, level: LoopLevel, action: &ProposedAction) -> GateDecision {
        GateDecision::escalate(format!("{} at {} waits for a human", action.kind, level.label()))
    }
}

/// Lets listed kinds proceed at L3 if they are verified and touch nothing sensitive.
#[derive(Debug, Clone, Default)]
pub struct AllowlistGate {
    kinds: Vec<String>,
}

impl AllowlistGate {
    /// A gate for these kinds; they match exactly, so `comment` is not `issue-comment`.
    #[must_use]
    pub fn new<S: Into<String>>(kinds: impl IntoIterator<Item = S>) -> Self {
        Self { kinds: kinds.into_iter().map(Into::into).collect() }
    }

    fn objection(&self, level: LoopLevel, action: &ProposedAction) -> Option<String> {
        if level != LoopLevel::L3Unattended {
            Some(format!("{} never proceeds without a human", level.label()))
        } else if !action.verified {
            Some(format!("{} is not verified", action.kind))
        } else if !self.kinds.contains(&action.kind) {
            Some(format!("{} is not on the loop's allow list", action.kind))
        } else {
            action.sensitive.first().map(|path| format!("`{path}` is sensitive"))
        }
    }
}

impl HumanGate for AllowlistGate {
    fn decide(&self, level: LoopLevel, action: &ProposedAction) -> GateDecision {
        self.objection(level, action).map_or(GateDecision::AutoProceed, GateDecision::escalate)
    }
}

/// A gate made from a function.
#[derive(Debug, Clone, Copy)]
pub struct CallbackGate<F>(pub F);

impl<F> HumanGate for CallbackGate<F>
where
    F: Fn(LoopLevel, &ProposedAction) -> GateDecision + Send + Sync,
{
    fn decide(&self, level: LoopLevel, action: &ProposedAction) -> GateDecision {
        (self.0)(level, action)
    }
}

/// The gate of a loop that configures none: a person decides, at every level.
#[must_use]
pub fn default_gate_for(_level: LoopLevel) -> Box<dyn HumanGate> {
    Box::new(AlwaysEscalate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use LoopLevel::{L1Report, L2Assisted, L3Unattended};

    fn action(kind: &str, verified: bool, sensitive: &[&str]) -> ProposedAction {
        let sensitive = sensitive.iter().map(|path| (*path).to_owned()).collect();
        ProposedAction { sensitive, ..ProposedAction::new(kind, "say hello", verified) }
    }

    #[test]
    fn allowlist_lets_only_verified_listed_harmless_actions_pass_and_only_at_l3() {
        let gate = AllowlistGate::new(["pull-request", "report"]);
        let table = [
            (L3Unattended, action("pull-request", true, &[]), None),
            (L3Unattended, action("pull-request", false, &[]), Some("pull-request is not verified")),
            (L3Unattended, action("commit", true, &[]), Some("commit is not on the loop's allow list")),
            (L3Unattended, action("pull", true, &[]), Some("pull is not on the loop's allow list")),
            (L3Unattended, action("Pull-Request", true, &[]), Some("Pull-Request is not on the loop's allow list")),
            (L3Unattended, action("report", true, &[".github/ci.yml"]), Some("`.github/ci.yml` is sensitive")),
            (L2Assisted, action("report", true, &[]), Some("L2-assisted never proceeds without a human")),
            (L1Report, action("report", true, &[]), Some("L1-report never proceeds without a human")),
        ];
        for (level, action, expected) in table {
            let expected = expected.map_or(GateDecision::AutoProceed, GateDecision::escalate);
            assert_eq!(gate.decide(level, &action), expected, "{level:?} {action:?}");
        }
    }

    #[test]
    fn default_gate_asks_a_human_at_every_level() {
        for level in [L1Report, L2Assisted, L3Unattended] {
            let decision = default_gate_for(level).decide(level, &action("report", true, &[]));
            assert!(!decision.is_auto());
            assert_eq!(decision, GateDecision::escalate(format!("report at {} waits for a human", level.label())));
        }
    }

    #[test]
    fn callback_gate_returns_the_result_of_its_function() {
        let gate = CallbackGate(|level, action: &ProposedAction| match (level, action.verified) {
            (L3Unattended, true) => GateDecision::AutoProceed,
            _ => GateDecision::escalate("no"),
        });
        assert!(gate.decide(L3Unattended, &action("report", true, &[])).is_auto());
        assert!(!gate.decide(L2Assisted, &action("report", true, &[])).is_auto());
    }
}
