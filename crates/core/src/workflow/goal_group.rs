//! Several goals at once: a workflow in which each item is the goal of a contract. Each goal keeps its own gates, prover,
//! attackers, protected paths and budget. They share all that their common landing needs: level, agents, outputs, network.

use super::part_spec::part_of;
use crate::budget::SpendAllowance;
use crate::goal::GoalContract;
use crate::level::LoopLevel;
use crate::paths::globs_meet;
use crate::spec::{
    ActionKind, BudgetSpec, Ceilings, CheckedSpec, Gate, LoopMode, LoopSpec, RolePrompts, SpecProblems, Triggers,
    WorkflowSpec,
};
use crate::units::Usd;
use serde_json::Value;
use std::collections::BTreeMap;

/// The most goals of one group.
pub const GOALS_MAX: usize = 64;
/// Digits of the hash in the name of a group.
const DIGITS: usize = 8;

/// A reason why goals cannot run as one group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct GoalGroupError {
    /// The reason.
    pub what: String,
    /// The remedy.
    pub hint: &'static str,
}

impl GoalGroupError {
    fn new(what: String, hint: &'static str) -> Self {
        Self { what, hint }
    }
}

/// The workflow of several contracts, each with its file. Its name depends only on the names of the goals, so that the
/// same command continues it after a crash.
///
/// # Errors
/// The first reason why they cannot share a landing.
pub fn goal_group(goals: &[(String, GoalContract)], at_once: u32) -> Result<LoopSpec, GoalGroupError> {
    let Some((_, first)) = goals.first() else {
        return Err(GoalGroupError::new("no goal is given".to_owned(), "name at least one contract"));
    };
    if goals.len() > GOALS_MAX {
        return Err(GoalGroupError::new(format!("more than {GOALS_MAX} goals"), "run them in several groups"));
    }
    let names: Vec<&str> = goals.iter().map(|(_, goal)| goal.spec.name.as_str()).collect();
    let specs: Vec<&LoopSpec> = goals.iter().map(|(_, goal)| goal.spec.spec()).collect();
    let is_planned = specs.iter().any(|spec| spec.mode == LoopMode::GoalLoop);
    let mut group = LoopSpec {
        name: format!("goals-{}", &crate::hash::hash_bytes(names.join("\n").as_bytes())[..DIGITS]),
        intent: format!("Reach {} goals: {}.", goals.len(), names.join(", ")),
        mode: LoopMode::DynamicWorkflow,
        workflow: Some(WorkflowSpec {
            goals: goals.iter().map(|(file, _)| file.clone()).collect(),
            at_once,
            each: if is_planned { LoopMode::GoalLoop } else { LoopMode::SingleRun },
            may_fail: u32::try_from(goals.len() - 1).unwrap_or(u32::MAX),
            ..WorkflowSpec::default()
        }),
        prompts: RolePrompts { maker: Some("Reach the goal of the contract.".to_owned()), ..RolePrompts::default() },
        budget: group_budget(&specs),
        attempts: 1,
        attack: specs.iter().find_map(|spec| spec.attack.clone()),
        plateau: None,
        timeout: None,
        ..first.spec.spec().clone()
    };
    for spec in &specs {
        for (role, agent) in &spec.agents {
            group.agents.entry(*role).or_insert_with(|| agent.clone());
        }
    }
    for goal in goals {
        join_group(&group, &goal.1.spec)?;
    }
    refuse_protected_paths(&specs)?;
    join_checks(&mut group, &specs)?;
    Ok(group)
}

/// Refuses a goal that may change what another one protects: their common landing could never be sealed.
fn refuse_protected_paths(goals: &[&LoopSpec]) -> Result<(), GoalGroupError> {
    for goal in goals {
        for guard in goals {
            let others = guard.protect.iter().filter(|glob| !goal.protect.contains(glob));
            for glob in others {
                if let Some(path) = goal.allow_paths.iter().find(|path| globs_meet(path, glob)) {
                    return Err(GoalGroupError::new(
                        format!("`{}` may change `{path}`, and `{}` protects `{glob}`", goal.name, guard.name),
                        "protect it in both, narrow `allow_paths`, or run the goals one after the other",
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Whether a goal fits into a group.
///
/// # Errors
/// The reason why it does not.
pub fn join_group(group: &LoopSpec, goal: &LoopSpec) -> Result<(), GoalGroupError> {
    let hint = "goals that land together share everything that sends; run this one on its own";
    if goal.mode == LoopMode::DynamicWorkflow || goal.mode == LoopMode::TimeLoop {
        return Err(GoalGroupError::new(format!("`{}` is not one round", goal.name), hint));
    }
    if goal.level == LoopLevel::L1Report || !goal.outputs(ActionKind::PullRequest) {
        return Err(GoalGroupError::new(
            format!("`{}` sends no pull request, so nothing of it lands", goal.name),
            hint,
        ));
    }
    let differing = differing_keys(&shared(group), &shared(goal));
    let mut keys: Vec<String> = differing.into_iter().map(|key| format!("`{key}`")).collect();
    keys.extend(
        goal.agents
            .iter()
            .filter(|(role, agent)| group.agents.get(*role) != Some(*agent))
            .map(|(role, _)| format!("`agents.{role}`")),
    );
    match keys.is_empty() {
        true => Ok(()),
        false => {
            Err(GoalGroupError::new(format!("`{}` differs from the group in {}", goal.name, keys.join(", ")), hint))
        }
    }
}

/// The loop of a goal's round in a group: its own contract, from the group's base, with at most its share.
///
/// # Errors
/// When the derived loop violates a rule.
pub fn goal_item_spec(
    group: &LoopSpec,
    goal: &LoopSpec,
    share: SpendAllowance,
    base: &str,
) -> Result<CheckedSpec, SpecProblems> {
    let mut part = LoopSpec { base: Some(base.to_owned()), agents: BTreeMap::new(), ..goal.clone() };
    part.agents = group.agents.iter().filter(|(role, _)| part.plays(**role)).map(|(r, a)| (*r, a.clone())).collect();
    let own = goal.budget.round.allowance().tightest(share);
    (part.budget.round.usd, part.budget.round.tokens) = (own.usd, own.tokens);
    part.check()
}

/// The loop that verifies and sends the changes of these goals together: all their gates, on the newest base.
///
/// # Errors
/// When the checks of the goals cannot be joined: a landing never verifies less than the contracts say.
pub fn landing_spec(group: &LoopSpec, goals: &[&LoopSpec], share: SpendAllowance) -> Result<LoopSpec, GoalGroupError> {
    let mut part = part_of(group, share);
    // Each goal was attacked in its own round.
    part.attack = None;
    part.agents.remove(&crate::spec::Role::Attacker);
    join_checks(&mut part, goals)?;
    Ok(part)
}

/// Gates, held-out checks, protected paths and the proof of all goals.
fn join_checks(spec: &mut LoopSpec, goals: &[&LoopSpec]) -> Result<(), GoalGroupError> {
    (spec.gates, spec.heldout, spec.protect, spec.prover) = (Vec::new(), Vec::new(), Vec::new(), None);
    spec.allow_paths = if goals.iter().all(|goal| !goal.allow_paths.is_empty()) {
        goals.iter().flat_map(|goal| goal.allow_paths.clone()).collect()
    } else {
        Vec::new()
    };
    let other = |name: &str, what: &str| {
        let hint = "give the two different names, or make them equal";
        Err(GoalGroupError::new(format!("two goals have a different {what} `{name}`"), hint))
    };
    for goal in goals {
        for gate in &goal.gates {
            match spec.gates.iter().find(|known| known.name() == gate.name()) {
                None => spec.gates.push(gate.clone()),
                Some(known) if known == gate => {}
                Some(_) => return other(gate.name(), "gate"),
            }
        }
        for check in &goal.heldout {
            match spec.heldout.iter().find(|known| known.name == check.name) {
                None => spec.heldout.push(check.clone()),
                Some(known) if known == check => {}
                Some(_) => return other(&check.name, "held-out check"),
            }
        }
        let fresh: Vec<String> = goal.protect.iter().filter(|glob| !spec.protect.contains(glob)).cloned().collect();
        spec.protect.extend(fresh);
        match (&spec.prover, &goal.prover) {
            (None, Some(prover)) => spec.prover = Some(prover.clone()),
            (Some(known), Some(prover)) if known != prover => return other("prover", "proof"),
            (Some(_) | None, Some(_) | None) => {}
        }
    }
    Ok(())
}

/// The ceiling of the whole is that of every goal, plus the largest one again for the landing.
fn group_budget(goals: &[&LoopSpec]) -> BudgetSpec {
    let count = u64::try_from(goals.len()).unwrap_or(u64::MAX).saturating_add(1);
    let rounds = || goals.iter().map(|goal| goal.budget.round);
    // One goal without a ceiling leaves the group without one, which the rules of workflows refuse.
    let usd = rounds().map(|round| round.usd).collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
    let tokens = rounds().map(|round| round.tokens).collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max());
    let widest = Ceilings {
        usd: usd.map(|usd| Usd(usd.0.saturating_mul(count))),
        tokens: tokens.map(|tokens| tokens.saturating_mul(count)),
        wall: rounds().map(|round| round.wall).max().flatten(),
        turns: rounds().map(|round| round.turns).max().flatten(),
        idle: rounds().map(|round| round.idle).max().flatten(),
    };
    let day = goals.iter().map(|goal| goal.budget.day).max_by_key(|day| (day.usd, day.tokens)).unwrap_or_default();
    BudgetSpec { round: widest, item: Ceilings { usd, tokens, ..Ceilings::default() }, day, ..BudgetSpec::default() }
}

/// A loop without the keys that each goal of a group has for itself.
fn shared(spec: &LoopSpec) -> LoopSpec {
    LoopSpec {
        name: String::new(),
        intent: String::new(),
        on: Triggers::default(),
        mode: LoopMode::SingleRun,
        workflow: None,
        agents: BTreeMap::new(),
        skills: Vec::new(),
        context: Vec::new(),
        budget: BudgetSpec::default(),
        attempts: 1,
        gates: Vec::<Gate>::new(),
        protect: Vec::new(),
        allow_paths: Vec::new(),
        heldout: Vec::new(),
        withhold: None,
        prover: None,
        attack: None,
        plateau: None,
        calibrate: None,
        priority: 0,
        timeout: None,
        prompts: RolePrompts::default(),
        ..spec.clone()
    }
}

fn differing_keys(one: &LoopSpec, other: &LoopSpec) -> Vec<String> {
    let keys = |spec: &LoopSpec| match serde_json::to_value(spec) {
        Ok(Value::Object(keys)) => keys,
        Ok(_) | Err(_) => serde_json::Map::new(),
    };
    let (one, other) = (keys(one), keys(other));
    let all: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    all.into_iter().filter(|key| one.get(*key) != other.get(*key)).cloned().collect()
}
