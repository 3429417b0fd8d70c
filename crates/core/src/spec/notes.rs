//! What a loop declares that this build does not do. Said aloud by `check`, and where silence would weaken verification,
//! a reason not to run.

use super::{Ceilings, LoopSpec, Mode, ProbeSpec, Role, Switch, Triggers};

/// Sentences for `check` to print.
pub(super) fn notes(spec: &LoopSpec) -> Vec<String> {
    let mut notes = not_runnable(spec);
    if has_triggers(&spec.on) {
        notes.push("triggers under `on` are declared, but this build starts rounds by hand only".to_owned());
    }
    if let Some(ProbeSpec::Named(name)) = &spec.on.probe {
        notes.push(format!("the built-in probe `{name}` is declared, but this build runs probe commands only"));
    }
    if spec.forge != "local" {
        notes.push(format!("forge `{}` is declared, but this build delivers to `local` only", spec.forge));
    }
    let idle: Vec<_> = without_effect(spec).into_iter().filter(|(declared, _)| *declared).map(|(_, key)| key).collect();
    if !idle.is_empty() {
        notes.push(format!("read and kept, but without effect in this build: {}", idle.join(", ")));
    }
    notes
}

/// Keys that are part of the format and that this build does not act on.
fn without_effect(spec: &LoopSpec) -> [(bool, &'static str); 9] {
    [
        (!spec.paths.is_empty(), "`paths`"),
        (spec.submodules != Switch::Off, "`submodules`"),
        (spec.lfs != Switch::Off, "`lfs`"),
        (!spec.locks.is_empty(), "`locks`"),
        (spec.priority != 0, "`priority`"),
        (is_timed(&spec.budget.attempt), "time and turns of `budget.attempt`"),
        (is_timed(&spec.budget.item), "time and turns of `budget.item`"),
        (is_timed(&spec.budget.day), "time and turns of `budget.day`"),
        (spec.open_max != 3, "`open_max`"),
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
    missing(spec.mode != Mode::SingleRun, "a `mode` other than `single-run`");
    missing(prompts.planner.is_some() || spec.agents.contains_key(&Role::Planner), "a planner");
    missing(spec.prover.is_some() || prompts.prover.is_some() || spec.agents.contains_key(&Role::Prover), "a prover");
    missing(
        spec.attack.is_some() || prompts.attacker.is_some() || spec.agents.contains_key(&Role::Attacker),
        "`attack`",
    );
    reasons
}

/// Whether anything but a person makes the loop due; a probe alone never does.
fn has_triggers(on: &Triggers) -> bool {
    let lists = [&on.cron, &on.daily, &on.weekly, &on.webhook, &on.push, &on.files, &on.after];
    !on.every.is_empty() || lists.into_iter().any(|list| !list.is_empty())
}
