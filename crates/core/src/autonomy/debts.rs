//! The two debts of a loop: changes of its intent that no person confirmed, and sent lines that no person has read.

use crate::hash::hash_bytes;
use crate::spec::LoopSpec;
use serde::{Deserialize, Serialize};

/// Short hashes of the parts of a loop that express its intent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IntentFingerprint {
    /// The intent and the prompts of all roles.
    pub prompts: String,
    /// The gates, held-out checks, rubric and path rules.
    pub gates: String,
    /// The outputs, and those that need no person.
    pub outputs: String,
}

impl IntentFingerprint {
    /// The fingerprint of a loop.
    #[must_use]
    pub fn from_spec(spec: &LoopSpec) -> Self {
        Self {
            prompts: short_hash(&(&spec.intent, &spec.prompts, &spec.skills, &spec.context)),
            gates: short_hash(&(
                (&spec.gates, &spec.heldout, &spec.check, &spec.rubric),
                (&spec.protect, &spec.allow_paths),
            )),
            outputs: short_hash(&(&spec.output, &spec.allow)),
        }
    }

    /// The parts that differ from a confirmed fingerprint.
    #[must_use]
    pub fn changed_since(&self, confirmed: &Self) -> Vec<String> {
        let parts = [
            ("prompts", self.prompts != confirmed.prompts),
            ("gates", self.gates != confirmed.gates),
            ("outputs", self.outputs != confirmed.outputs),
        ];
        parts.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned()).collect()
    }
}

fn short_hash(part: &impl Serialize) -> String {
    let json = serde_json::to_vec(part).expect("a spec is data that JSON can hold");
    hash_bytes(&json).chars().take(16).collect()
}

/// The last time that a person confirmed a loop's intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntentConfirmation {
    /// The person.
    pub actor: String,
    /// When, as RFC 3339.
    pub at: String,
    /// The intent as it was.
    pub fingerprint: IntentFingerprint,
}

/// Changes of the intent that no person confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IntentDebt {
    /// The person who last confirmed the intent.
    pub confirmed_by: Option<String>,
    /// When, as RFC 3339.
    pub confirmed_at: Option<String>,
    /// The parts that changed since: `prompts`, `gates`, `outputs`.
    pub changed: Vec<String>,
    /// Rounds since then whose work was judged out of scope.
    pub out_of_scope: u32,
}

/// Sent lines that no person has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ComprehensionDebt {
    /// The number of added and removed lines.
    pub lines: u64,
    /// The number of changes that they belong to.
    pub changes: u32,
}

/// The two debts of a loop, with the commands that pay them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LoopDebts {
    /// The intent debt.
    pub intent: IntentDebt,
    /// The comprehension debt.
    pub comprehension: ComprehensionDebt,
    /// The commands that pay what is owed; empty if nothing is.
    pub pay: Vec<String>,
}

impl LoopDebts {
    /// The debts of a loop whose intent has this fingerprint now.
    #[must_use]
    pub fn new(
        loop_name: &str,
        now: &IntentFingerprint,
        confirmed: Option<&IntentConfirmation>,
        out_of_scope: u32,
        comprehension: ComprehensionDebt,
    ) -> Self {
        let intent = IntentDebt {
            confirmed_by: confirmed.map(|one| one.actor.clone()),
            confirmed_at: confirmed.map(|one| one.at.clone()),
            changed: confirmed.map(|one| now.changed_since(&one.fingerprint)).unwrap_or_default(),
            out_of_scope,
        };
        let mut pay = Vec::new();
        if intent.is_owed() {
            pay.push(format!("loopwright review {loop_name} --intent"));
        }
        if comprehension.lines > 0 {
            pay.push(format!("loopwright review {loop_name}"));
        }
        Self { intent, comprehension, pay }
    }

    /// Both debts, one line each.
    #[must_use]
    pub fn lines(&self) -> [String; 2] {
        let ComprehensionDebt { lines, changes } = self.comprehension;
        let read = match lines {
            0 => "none: a person has read every line that was sent".to_owned(),
            _ => format!("{lines} sent lines of {changes} changes that no person has read"),
        };
        [format!("intent debt: {}", self.intent.text()), format!("comprehension debt: {read}")]
    }
}

impl IntentDebt {
    fn is_owed(&self) -> bool {
        self.confirmed_by.is_none() || !self.changed.is_empty() || self.out_of_scope > 0
    }

    fn text(&self) -> String {
        let Some(by) = &self.confirmed_by else { return "no person has confirmed the intent yet".to_owned() };
        let at = self.confirmed_at.as_deref().unwrap_or_default();
        let since = format!("since {by} confirmed the intent at {at}");
        match (self.changed.is_empty(), self.out_of_scope) {
            (true, 0) => format!("none {since}"),
            (true, rounds) => format!("{rounds} rounds out of scope {since}"),
            (false, 0) => format!("{} changed {since}", self.changed.join(", ")),
            (false, rounds) => {
                format!("{} changed, and {rounds} rounds out of scope, {since}", self.changed.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::LoopLevel;
    use crate::spec::{ActionKind, OutputSpec};

    fn spec() -> LoopSpec {
        LoopSpec::new("fix", "Fix it.", LoopLevel::L2Assisted)
    }

    #[test]
    fn only_changes_of_the_intent_are_a_debt() {
        let confirmed = IntentConfirmation {
            actor: "ada".to_owned(),
            at: "2026-01-01T00:00:00Z".to_owned(),
            fingerprint: IntentFingerprint::from_spec(&spec()),
        };
        let changed = |change: &dyn Fn(&mut LoopSpec)| {
            let mut spec = spec();
            change(&mut spec);
            let now = IntentFingerprint::from_spec(&spec);
            LoopDebts::new("fix", &now, Some(&confirmed), 0, ComprehensionDebt::default()).intent.changed
        };
        assert!(changed(&|_| ()).is_empty());
        assert!(changed(&|spec| spec.attempts = 9).is_empty(), "a budget is not an intent");
        assert_eq!(changed(&|spec| spec.prompts.maker = Some("x".to_owned())), ["prompts"]);
        assert_eq!(changed(&|spec| spec.protect.push("a/**".to_owned())), ["gates"]);
        assert_eq!(changed(&|spec| spec.output.push(OutputSpec::new(ActionKind::PullRequest))), ["outputs"]);
    }

    #[test]
    fn each_debt_names_the_command_that_pays_it() {
        let read = ComprehensionDebt { lines: 12, changes: 1 };
        let debts = LoopDebts::new("fix", &IntentFingerprint::from_spec(&spec()), None, 0, read);
        assert_eq!(debts.pay, ["loopwright review fix --intent", "loopwright review fix"]);
        assert!(debts.lines()[1].contains("12 sent lines"), "{:?}", debts.lines());
    }
}
