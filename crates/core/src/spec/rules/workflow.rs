//! Rules of dynamic workflows: where the items come from, and that every workflow has an end and a ceiling.

use super::{Rules, paths};
use crate::level::LoopLevel;
use crate::spec::path::SpecPath;
use crate::spec::problem::quoted;
use crate::spec::{ActionKind, Gate, ItemJoin, LoopMode, LoopSpec, OnOff, RunGate, Triggers, WorkflowSpec};
use crate::workflow::ITEMS_MAX;
use std::collections::BTreeSet;

/// The most characters of an item that is written out.
const ITEM_CHARS_MAX: usize = 400;

pub(super) fn check(rules: &mut Rules, spec: &LoopSpec) {
    let path = SpecPath::root_key("workflow");
    match (&spec.workflow, spec.mode == LoopMode::DynamicWorkflow) {
        (None, true) => {
            let hint = "write which items it covers: `workflow: { files: [\"src/*.rs\"] }`";
            rules.missing(path, "`mode: dynamic-workflow` without `workflow`", hint);
        }
        (Some(_), false) => {
            rules.report(path, "`workflow` without `mode: dynamic-workflow`", "add the mode, or leave `workflow` out");
        }
        (Some(workflow), true) => block(rules, spec, workflow, &path),
        (None, false) => {}
    }
}

fn block(rules: &mut Rules, spec: &LoopSpec, workflow: &WorkflowSpec, path: &SpecPath) {
    sources(rules, spec, workflow, path);
    items(rules, workflow, path);
    paths::globs(rules, &path.key("files"), &workflow.files);
    paths::globs(rules, &path.key("goals"), &workflow.goals);
    if !workflow.goals.is_empty() && workflow.join != ItemJoin::Barrier {
        rules.report(path.key("join"), "goals land together", "write `join: barrier`, or start each goal by itself");
    }
    rules.range(path.key("at_once"), workflow.at_once, 1, 64);
    rules.range(path.key("tries"), workflow.tries, 1, 5);
    if !matches!(workflow.each, LoopMode::SingleRun | LoopMode::GoalLoop) {
        rules.report(path.key("each"), "an item's round is a `single-run` or a `goal-loop`", None);
    }
    if workflow.each == LoopMode::GoalLoop && workflow.plan == OnOff::On {
        let what = "`plan: on` and `each: goal-loop` would give one planner two tasks";
        rules.report(path.key("plan"), what, "name the items in another way, or let each item be a `single-run`");
    }
    if spec.budget.round.allowance().is_none() {
        let hint = "give `budget.round` money or tokens: it is the ceiling of the whole workflow";
        rules.report(SpecPath::root_key("budget").key("round"), "a workflow without a ceiling", hint);
    }
    results(rules, spec, workflow, path);
}

/// A workflow starts when a person starts it: `on` can only have the probe that lists its items.
fn sources(rules: &mut Rules, spec: &LoopSpec, workflow: &WorkflowSpec, path: &SpecPath) {
    let named = [
        !workflow.items.is_empty(),
        !workflow.files.is_empty(),
        !workflow.goals.is_empty(),
        workflow.plan == OnOff::On,
        spec.on.probe.is_some(),
    ];
    if named.into_iter().filter(|named| *named).count() != 1 {
        let what = "a workflow gets its items from exactly one of `items`, `files`, `goals`, `plan: on` and `on.probe`";
        rules.report(path.clone(), what, "keep one of them");
    }
    if spec.on != (Triggers { probe: spec.on.probe.clone(), ..Triggers::default() }) {
        let what = "a workflow starts with `loopwright run`; `on` can only have the probe that lists its items";
        rules.report(SpecPath::root_key("on"), what, "remove the other keys of `on`");
    }
}

fn items(rules: &mut Rules, workflow: &WorkflowSpec, path: &SpecPath) {
    let path = path.key("items");
    if workflow.items.len() > ITEMS_MAX {
        rules.report(path.clone(), format!("`{path}` has more than {ITEMS_MAX} items"), None);
    }
    let mut known = BTreeSet::new();
    for (at, item) in workflow.items.iter().enumerate() {
        if item.trim().is_empty() || item.contains(['\n', '\r', '\0']) || item.chars().count() > ITEM_CHARS_MAX {
            let what = format!("{} is no item: one line of 1 to {ITEM_CHARS_MAX} characters", quoted(item));
            rules.report(path.index(at), what, None);
        } else if !known.insert(item) {
            rules.report(path.index(at), format!("{} is there already", quoted(item)), None);
        }
    }
}

/// The one result of a barrier is a pull request or, at L1, a report.
fn results(rules: &mut Rules, spec: &LoopSpec, workflow: &WorkflowSpec, path: &SpecPath) {
    let is_report = spec.level == LoopLevel::L1Report;
    if workflow.join == ItemJoin::Best && (is_report || !spec.gates.iter().any(has_score)) {
        let hint = "use `level: L2`, and give a gate a `score`";
        rules.report(path.key("join"), "`join: best` compares the scores of changes, and there are none", hint);
    }
    if workflow.join != ItemJoin::Pipeline && !is_report && !spec.outputs(ActionKind::PullRequest) {
        let what = "the changes of all items become one pull request, and `output` has none";
        rules.report(SpecPath::root_key("output"), what, "add `pull-request`, or write `join: pipeline`");
    }
    if workflow.summary.is_some() && !(is_report && workflow.join == ItemJoin::Barrier) {
        let what = "`summary` is for reports: `level: L1` and `join: barrier`";
        rules.report(path.key("summary"), what, "remove it");
    }
}

fn has_score(gate: &Gate) -> bool {
    matches!(gate, Gate::Run(RunGate { score: Some(_), .. }))
}
