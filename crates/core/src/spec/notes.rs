//! Declared features that this build does not implement. `check` prints them; those that would weaken verification are
//! reasons not to run.

use super::{Ceilings, LoopMode, LoopSpec, OnOff, Role};

/// Sentences for `check` to print.
pub(super) fn notes(spec: &LoopSpec) -> Vec<String> {
    let mut notes = not_runnable(spec);
    let idle: Vec<_> = without_effect(spec).into_iter().filter(|(declared, _)| *declared).map(|(_, key)| key).collect();
    if !idle.is_empty() {
        notes.push(format!("read and kept, but without effect in this build: {}", idle.join(", ")));
    }
    notes
}

/// Keys that are part of the format and have no effect in this build.
fn without_effect(spec: &LoopSpec) -> [(bool, &'static str); 6] {
    [
        (!spec.paths.is_empty(), "`paths`"),
        (spec.submodules != OnOff::Off, "`submodules`"),
        (spec.lfs != OnOff::Off, "`lfs`"),
        (is_timed(&spec.budget.attempt), "time and turns of `budget.attempt`"),
        (is_timed(&spec.budget.item), "time and turns of `budget.item`"),
        (is_timed(&spec.budget.day), "time and turns of `budget.day`"),
    ]
}

/// Only money and tokens are summed over several starts.
fn is_timed(ceilings: &Ceilings) -> bool {
    ceilings.wall.is_some() || ceilings.turns.is_some() || ceilings.idle.is_some()
}

/// Declared parts of verification that this build cannot perform.
pub(super) fn not_runnable(spec: &LoopSpec) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut missing = |declared: bool, part: &str| {
        if declared {
            reasons.push(format!("{part} is declared, but this build does not run it"));
        }
    };
    let prompts = &spec.prompts;
    missing(spec.mode != LoopMode::SingleRun, "a `mode` other than `single-run`");
    missing(prompts.planner.is_some() || spec.agents.contains_key(&Role::Planner), "a planner");
    missing(spec.prover.is_some() || prompts.prover.is_some() || spec.agents.contains_key(&Role::Prover), "a prover");
    missing(
        spec.attack.is_some() || prompts.attacker.is_some() || spec.agents.contains_key(&Role::Attacker),
        "`attack`",
    );
    reasons
}
