//! A spec that satisfies every rule; the engine accepts nothing else. Only [`LoopSpec::check`] and the file reader make
//! one.

use super::problem::SpecProblems;
use super::source::{SourceSpan, SourceText};
use super::{Ceilings, LoopMode, LoopSpec, Role, rules};
use crate::name::LoopName;
use std::sync::OnceLock;

/// A loop whose values are valid together, with its name and hash.
#[derive(Debug, Clone)]
pub struct CheckedSpec {
    spec: LoopSpec,
    name: LoopName,
    /// Computed on first use: of ten thousand registered loops, only a few run.
    hash: OnceLock<String>,
    notes: OnceLock<Vec<String>>,
}

impl PartialEq for CheckedSpec {
    /// Everything else derives from the spec.
    fn eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }
}

impl CheckedSpec {
    /// Seals a spec without rule violations.
    pub(crate) fn seal(spec: LoopSpec) -> Self {
        let name = LoopName::parse(&spec.name).expect("the rules accept only names that parse");
        Self { name, hash: OnceLock::new(), notes: OnceLock::new(), spec }
    }

    /// The loop's name, safe as a path and as a ref.
    #[must_use]
    pub fn name(&self) -> &LoopName {
        &self.name
    }

    /// SHA-256 of the canonical JSON: the same for the same loop in any notation.
    #[must_use]
    pub fn hash(&self) -> &str {
        self.hash.get_or_init(|| {
            let json = serde_json::to_vec(&self.spec).expect("a spec is data that JSON can hold");
            crate::hash::hash_bytes(&json)
        })
    }

    /// Declared features that this build does not implement yet, as sentences.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        self.notes.get_or_init(|| notes(&self.spec))
    }

    /// The reasons why one round cannot run the loop.
    #[must_use]
    pub fn not_runnable(&self) -> Vec<String> {
        match self.spec.mode {
            LoopMode::DynamicWorkflow => {
                vec!["a dynamic workflow has a round for each item; start all of it".to_owned()]
            }
            LoopMode::SingleRun | LoopMode::GoalLoop | LoopMode::TimeLoop => Vec::new(),
        }
    }

    /// The spec itself.
    #[must_use]
    pub fn spec(&self) -> &LoopSpec {
        &self.spec
    }

    /// Returns the spec, for changing it and checking it again.
    #[must_use]
    pub fn into_spec(self) -> LoopSpec {
        self.spec
    }

    /// The loop's prompt for a role, if there is one.
    #[must_use]
    pub fn prompt(&self, role: Role) -> Option<&str> {
        let prompts = &self.spec.prompts;
        match role {
            Role::Planner => prompts.planner.as_deref(),
            Role::Maker => prompts.maker.as_deref(),
            Role::Prover => prompts.prover.as_deref(),
            Role::Attacker => prompts.attacker.as_deref(),
            Role::Checker => prompts.checker.as_deref(),
        }
    }
}

impl std::ops::Deref for CheckedSpec {
    type Target = LoopSpec;

    fn deref(&self) -> &LoopSpec {
        &self.spec
    }
}

impl LoopSpec {
    /// Checks a spec that was built in code by the same rules as files.
    ///
    /// # Errors
    /// Every violated rule; there are no positions, because there is no file.
    pub fn check(self) -> Result<CheckedSpec, SpecProblems> {
        let source = SourceText::none();
        let problem = |objection: rules::RuleViolation| {
            source.problem(objection.kind, SourceSpan::default(), objection.what, objection.hint)
        };
        let problems: Vec<_> = rules::violations(&self).into_iter().map(problem).collect();
        if problems.is_empty() { Ok(CheckedSpec::seal(self)) } else { Err(SpecProblems::new(problems)) }
    }
}

/// Sentences for `check` to print.
fn notes(spec: &LoopSpec) -> Vec<String> {
    let mut notes = Vec::new();
    let idle: Vec<_> = without_effect(spec).into_iter().filter(|(declared, _)| *declared).map(|(_, key)| key).collect();
    if !idle.is_empty() {
        notes.push(format!(
            "this build cannot apply {}; remove it from the file, since a round would ignore it",
            idle.join(", ")
        ));
    }
    notes
}

/// Keys that are part of the format and have no effect in this build.
fn without_effect(spec: &LoopSpec) -> [(bool, &'static str); 4] {
    [
        (!spec.paths.is_empty(), "`paths`"),
        (is_timed(&spec.budget.attempt), "time and turns of `budget.attempt`"),
        // The rounds of a workflow's items have these as their own.
        (spec.workflow.is_none() && is_timed(&spec.budget.item), "time and turns of `budget.item`"),
        (is_timed(&spec.budget.day), "time and turns of `budget.day`"),
    ]
}

/// Only money and tokens are summed over several starts.
fn is_timed(ceilings: &Ceilings) -> bool {
    ceilings.wall.is_some() || ceilings.turns.is_some() || ceilings.idle.is_some()
}
