//! The loop of each part of a workflow, derived from the workflow's own. A part never gets more than the workflow has:
//! its level, its gates, its network and its locks are the same, and its ceilings are at most the workflow's.

use crate::budget::SpendAllowance;
use crate::level::LoopLevel;
use crate::outbox::StagedItem;
use crate::spec::{
    ActionKind, Ceilings, CheckMode, CheckedSpec, ItemJoin, LoopMode, LoopSpec, OutputSpec, Role, SpecProblems,
    Triggers,
};
use crate::units::TimeSpan;

/// The most lines about items in the text of the merged pull request.
const LINES_MAX: usize = 200;

const PLAN_TASK: &str = "List the items of this workflow; another agent works on each of them later, without the others.\n\
    Change no file. Answer with one JSON list and nothing else. Each element is the key of an item, or an object with \
    `key`, and optionally `title` and `data` (words for the agent that works on it). Keys are different, each is one line.";

const SUMMARY_TASK: &str =
    "Write one report over the reports of all items below. Name the items that matter, and the items without a report.";

/// The loop of an item's round. `base` is the commit that all items start from.
///
/// # Errors
/// When the derived loop violates a rule.
pub fn item_spec(spec: &LoopSpec, share: SpendAllowance, base: &str) -> Result<CheckedSpec, SpecProblems> {
    let workflow = spec.workflow.clone().unwrap_or_default();
    let mut part = part_of(spec, share);
    part.mode = workflow.each;
    if part.mode == LoopMode::GoalLoop {
        part.prompts.planner.clone_from(&spec.prompts.planner);
        part.agents.extend(spec.agents.get(&Role::Planner).map(|agent| (Role::Planner, agent.clone())));
    }
    if workflow.join != ItemJoin::Pipeline {
        part.base = Some(base.to_owned());
        // The merged result is attacked, as it is the one that is sent.
        part.attack = None;
        part.agents.remove(&Role::Attacker);
        part.prompts.attacker = None;
    }
    part.check()
}

/// The loop of the round in which the planner lists the items: a report, which starts no other role.
///
/// # Errors
/// When the derived loop violates a rule.
pub fn plan_spec(spec: &LoopSpec, share: SpendAllowance) -> Result<CheckedSpec, SpecProblems> {
    let mut part = reporting(spec, share);
    let words = spec.prompts.planner.as_deref().map(str::trim).unwrap_or_default();
    part.prompts.maker = Some(format!("{words}\n\n{PLAN_TASK}").trim().to_owned());
    if let Some(planner) = spec.agents.get(&Role::Planner) {
        part.agents.insert(Role::Maker, planner.clone());
    }
    part.check = CheckMode::None;
    part.agents.remove(&Role::Checker);
    part.check()
}

/// The loop of the merge: of the merged change or, at L1, of the report over the reports.
///
/// # Errors
/// When the derived loop violates a rule.
pub fn merge_spec(spec: &LoopSpec, share: SpendAllowance) -> Result<CheckedSpec, SpecProblems> {
    if spec.level != LoopLevel::L1Report {
        return part_of(spec, share).check();
    }
    let mut part = reporting(spec, share);
    let workflow = spec.workflow.clone().unwrap_or_default();
    part.prompts.maker = Some(workflow.summary.unwrap_or_else(|| SUMMARY_TASK.to_owned()));
    part.check()
}

/// The parts that every derived loop has in common.
pub(super) fn part_of(spec: &LoopSpec, share: SpendAllowance) -> LoopSpec {
    let mut part = LoopSpec { workflow: None, mode: LoopMode::SingleRun, on: Triggers::default(), ..spec.clone() };
    let (whole, item) = (spec.budget.round, spec.budget.item);
    let least = |a: Option<TimeSpan>, b: Option<TimeSpan>| [a, b].into_iter().flatten().min();
    part.budget.round = Ceilings {
        usd: share.usd,
        tokens: share.tokens,
        wall: least(whole.wall, item.wall),
        turns: [whole.turns, item.turns].into_iter().flatten().min(),
        idle: least(whole.idle, item.idle),
    };
    part.budget.item = Ceilings::default();
    // The time of the whole workflow is not the time of one round.
    part.timeout = None;
    // Only goal loops have a planner.
    part.agents.remove(&Role::Planner);
    part.prompts.planner = None;
    part
}

/// A loop that only reports: nothing of it is gated, because it changes no file.
fn reporting(spec: &LoopSpec, share: SpendAllowance) -> LoopSpec {
    let mut part = LoopSpec {
        level: LoopLevel::L1Report,
        mode: LoopMode::SingleRun,
        attempts: 1,
        gates: Vec::new(),
        heldout: Vec::new(),
        prover: None,
        attack: None,
        plateau: None,
        allow: Vec::new(),
        output: vec![OutputSpec::new(ActionKind::Report)],
        ..part_of(spec, share)
    };
    part.agents.remove(&Role::Attacker);
    part.prompts.attacker = None;
    part
}

/// The pull request of the merged change. The lines name each item and its round.
#[must_use]
pub fn merged_request(spec: &LoopSpec, lines: &[String]) -> StagedItem {
    let mut body =
        format!("{}\n\nEach item was made and verified by its own round; this change joins them.\n\n", spec.intent);
    for line in lines.iter().take(LINES_MAX) {
        body.push_str(&format!("- {line}\n"));
    }
    if lines.len() > LINES_MAX {
        body.push_str(&format!("- and {} more\n", lines.len() - LINES_MAX));
    }
    let title = format!("{}: {} items", spec.name, lines.len());
    StagedItem { title: Some(title), ..StagedItem::new(1, "pull-request.md", ActionKind::PullRequest, body) }
}
