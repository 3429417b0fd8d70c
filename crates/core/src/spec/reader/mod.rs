//! Turns a tree into a [`LoopSpec`]: the known keys and the type of each. All problems are collected.
//!
//! The rules decide whether the values make sense; they also apply to specs built in code.

mod gates;
mod parts;
mod triggers;
pub(crate) mod value;

use super::{CheckMode, LoopMode, LoopSpec, OnOff, OutputSpec, SandboxMode};
pub(crate) use parts::agents;
use value::{SpecFields, SpecValue};

/// Every key of a loop file.
pub(crate) const KEYS: &str = "name intent level on mode workflow base paths submodules lfs agents skills context instructions budget \
    attempts gates protect allow_sensitive allow_paths heldout withhold check rubric prover attack plateau allow output network \
    forge approvers approvals open_max chain_max calibrate setup caches toolchains secrets sandbox priority locks labels timeout \
    prompts";

/// The seed's keys, accepted beside Loopwright's own.
pub(crate) const ALIASES: &str = "cadence action_kind maker_prompt checker_prompt";

/// Reads a whole loop. A value that cannot be read keeps its default; then there is at least one problem.
pub(crate) fn read_spec(root: &SpecValue<'_>) -> LoopSpec {
    let mut spec = LoopSpec::new("", "", crate::level::LoopLevel::L1Report);
    let Some(fields) = root.fields(&format!("{KEYS} {ALIASES}")) else { return spec };
    identity(&fields, &mut spec);
    work(&fields, &mut spec);
    verification(&fields, &mut spec);
    outward(&fields, &mut spec);
    surroundings(&fields, &mut spec);
    spec
}

fn identity(fields: &SpecFields<'_>, spec: &mut LoopSpec) {
    spec.name = fields.required("name", "ci-sweeper", SpecValue::text).unwrap_or_default();
    spec.intent =
        fields.required("intent", "one sentence that says what this loop is for", SpecValue::text).unwrap_or_default();
    fields.set("level", &mut spec.level, SpecValue::level);
    fields.set("prompts", &mut spec.prompts, parts::prompts);
    seed_text(fields, "maker_prompt", "prompts.maker", &mut spec.prompts.maker);
    seed_text(fields, "checker_prompt", "prompts.checker", &mut spec.prompts.checker);
}

/// The seed always writes its prompts, so an empty one counts as absent.
fn seed_text(fields: &SpecFields<'_>, alias: &'static str, ours: &str, slot: &mut Option<String>) {
    let Some(at) = fields.get(alias) else { return };
    let Some(text) = at.text() else { return };
    if slot.is_some() {
        both_given(&at, alias, ours);
    }
    *slot = Some(text).filter(|text| !text.trim().is_empty());
}

fn both_given(at: &SpecValue<'_>, alias: &str, ours: &str) {
    let what = format!("`{alias}` and `{ours}` say the same thing");
    at.add_problem(super::ProblemKind::Duplicate, what, Some(format!("keep `{ours}`")));
}

fn work(fields: &SpecFields<'_>, spec: &mut LoopSpec) {
    triggers::on(fields, spec);
    fields.set("mode", &mut spec.mode, |at| at.word(&MODES));
    spec.workflow = fields.option("workflow", parts::workflow);
    spec.base = fields.option("base", SpecValue::text);
    fields.set("paths", &mut spec.paths, SpecValue::texts);
    fields.set("submodules", &mut spec.submodules, switch);
    fields.set("lfs", &mut spec.lfs, switch);
    fields.set("agents", &mut spec.agents, parts::agents);
    fields.set("skills", &mut spec.skills, SpecValue::texts);
    fields.set("context", &mut spec.context, SpecValue::texts);
    fields.set("instructions", &mut spec.instructions, switch);
    fields.set("budget", &mut spec.budget, parts::budget);
    fields.set("attempts", &mut spec.attempts, |at| at.whole(1..=10));
}

fn verification(fields: &SpecFields<'_>, spec: &mut LoopSpec) {
    fields.set("gates", &mut spec.gates, gates::gates);
    fields.set("protect", &mut spec.protect, SpecValue::texts);
    fields.set("allow_sensitive", &mut spec.allow_sensitive, gates::allow_sensitive);
    fields.set("allow_paths", &mut spec.allow_paths, SpecValue::texts);
    fields.set("heldout", &mut spec.heldout, gates::heldout);
    spec.withhold = fields.option("withhold", gates::withhold);
    fields.set("check", &mut spec.check, |at| at.word(&[("required", CheckMode::Required), ("none", CheckMode::None)]));
    fields.set("rubric", &mut spec.rubric, parts::rubric);
    spec.prover = fields.option("prover", parts::prover);
    spec.attack = fields.option("attack", parts::attack);
    spec.plateau = fields.option("plateau", parts::plateau);
}

fn outward(fields: &SpecFields<'_>, spec: &mut LoopSpec) {
    fields.set("allow", &mut spec.allow, parts::kinds);
    fields.set("output", &mut spec.output, parts::output);
    if let Some(at) = fields.get("action_kind") {
        if fields.get("output").is_some() {
            both_given(&at, "action_kind", "output");
        }
        spec.output = parts::kind(&at).map_or_else(Vec::new, |kind| vec![OutputSpec::new(kind)]);
    }
    fields.set("network", &mut spec.network, no_network_or_hosts);
    fields.set("forge", &mut spec.forge, SpecValue::text);
    fields.set("approvers", &mut spec.approvers, SpecValue::texts);
    fields.set("approvals", &mut spec.approvals, parts::approvals);
    fields.set("open_max", &mut spec.open_max, |at| at.whole(1..=1000));
    spec.calibrate = fields.option("calibrate", SpecValue::span);
    fields.set("chain_max", &mut spec.chain_max, |at| at.whole(0..=1000));
}

fn surroundings(fields: &SpecFields<'_>, spec: &mut LoopSpec) {
    fields.set("setup", &mut spec.setup, parts::commands);
    fields.set("caches", &mut spec.caches, SpecValue::texts);
    fields.set("toolchains", &mut spec.toolchains, SpecValue::texts);
    fields.set("secrets", &mut spec.secrets, SpecValue::texts);
    fields.set("sandbox", &mut spec.sandbox, |at| at.word(&[("on", SandboxMode::On), ("off", SandboxMode::Off)]));
    fields.set("priority", &mut spec.priority, |at| at.whole(-1000..=1000));
    fields.set("locks", &mut spec.locks, SpecValue::texts);
    fields.set("labels", &mut spec.labels, SpecValue::texts);
    spec.timeout = fields.option("timeout", SpecValue::span);
}

/// Hosts, or the word `none` for the default.
fn no_network_or_hosts(at: &SpecValue<'_>) -> Option<Vec<String>> {
    let hosts = at.texts()?;
    Some(if hosts == ["none"] { Vec::new() } else { hosts })
}

pub(super) fn switch(at: &SpecValue<'_>) -> Option<OnOff> {
    at.word(&[("on", OnOff::On), ("off", OnOff::Off)])
}

const MODES: [(&str, LoopMode); 4] = [
    ("single-run", LoopMode::SingleRun),
    ("goal-loop", LoopMode::GoalLoop),
    ("time-loop", LoopMode::TimeLoop),
    ("dynamic-workflow", LoopMode::DynamicWorkflow),
];
