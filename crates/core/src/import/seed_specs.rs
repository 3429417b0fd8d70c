//! Specs of the loop engine as JSON: one, or a list. The reader of loop files knows their keys; this module adds the
//! decisions that a file needs and the library does not.

use super::{ImportNotes, ImportedLoop, place, read_tree};
use crate::level::LoopLevel;
use crate::spec::problem::ProblemKind;
use crate::spec::reader::value::SpecValue;
use crate::spec::source::{SourceSpan, SourceText};
use crate::spec::tree::{YamlNode, YamlValue};
use crate::spec::{LoopSpec, SpecProblems, reader, rules};

/// The most specs in one file.
const SPECS_MAX: usize = 1000;

/// Reads the specs of a file.
///
/// # Errors
/// Every problem of every spec, with its position.
pub fn read_seed_specs(file: &str, bytes: &[u8], notes: &mut ImportNotes) -> Result<Vec<ImportedLoop>, SpecProblems> {
    check_json(file, bytes)?;
    let specs = read_tree(file, bytes, |root| {
        let nodes: Vec<&YamlNode> = match &root.node.value {
            YamlValue::List(items) => items.iter().take(SPECS_MAX).collect(),
            _ => vec![root.node],
        };
        Some(
            nodes
                .into_iter()
                .map(|node| (place(file, node), read_one(root, node, &place(file, node), notes)))
                .collect::<Vec<_>>(),
        )
    })?;
    let comment = [format!("Imported from the loop engine, {file}. Read it before you run it.")];
    specs.into_iter().map(|(source, spec)| ImportedLoop::new(&source, spec, &comment)).collect()
}

/// The tree reads more notations than JSON, so JSON itself reports the position.
fn check_json(file: &str, bytes: &[u8]) -> Result<(), SpecProblems> {
    let text = crate::spec::file::decode(file, bytes)?;
    let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) else { return Ok(()) };
    let what = error.to_string();
    let what = format!("this is not JSON: {}", what.split(" at line ").next().unwrap_or_default());
    let hint = Some("the loop engine writes its specs with serde_json".to_owned());
    let at = SourceSpan::new(error.line().max(1), error.column().max(1), 1);
    Err(SpecProblems::new(vec![SourceText::new(file, text).problem(ProblemKind::Syntax, at, what, hint)]))
}

fn read_one(root: &SpecValue<'_>, node: &YamlNode, source: &str, notes: &mut ImportNotes) -> LoopSpec {
    let at = SpecValue::root(root.findings, node);
    let mut spec = reader::read_spec(&at);
    notes.carried(source, "name", format!("`{}`", spec.name));
    if spec.prompts.maker.is_none() && !spec.intent.trim().is_empty() {
        spec.prompts.maker = Some(spec.intent.clone());
        notes.changed(source, "maker_prompt", "it is empty: the intent is the maker's task");
    }
    lower_level(&mut spec, source, notes);
    describe(&spec, node, source, notes);
    for violation in rules::violations(&spec) {
        root.findings.add_violation(violation, node);
    }
    spec
}

/// L3 needs a gate that can fail, and a spec of the loop engine has no gates.
fn lower_level(spec: &mut LoopSpec, source: &str, notes: &mut ImportNotes) {
    if spec.level != LoopLevel::L3Unattended {
        notes.carried(source, "level", format!("`level: {}`, enforced by the sandbox", spec.level.short()));
        return;
    }
    spec.level = LoopLevel::L2Assisted;
    let text = "L3 becomes L2: unattended work needs a gate that can fail, and the loop engine has no gates; add `gates` and `allow`, then set `level: L3`";
    notes.changed(source, "level", text);
}

fn describe(spec: &LoopSpec, node: &YamlNode, source: &str, notes: &mut ImportNotes) {
    notes.carried(source, "cadence", format!("`on`: {}; a restart does not make it due", spec.cadence()));
    let kind = spec.output.first().map_or("report", |output| output.kind.word());
    if spec.level == LoopLevel::L1Report && kind != "report" {
        notes.changed(source, "action_kind", format!("`{kind}`; at L1 it becomes a part of the report"));
    } else {
        notes.carried(source, "action_kind", format!("`output: {kind}`"));
    }
    let has = |key: &str| {
        node.get("budget").and_then(|budget| budget.value.get(key)).is_some_and(|at| at.value.value != YamlValue::Null)
    };
    let round = &spec.budget.round;
    let (tokens, turns) = (round.tokens.unwrap_or(0), round.turns.unwrap_or(0));
    if has("max_total_tokens") || has("max_input_tokens") || has("max_output_tokens") {
        notes.carried(
            source,
            "budget",
            format!("`budget.round`: {tokens} tokens, {turns} turns; reserved before a start, not counted after it"),
        );
    } else {
        notes.changed(
            source,
            "budget",
            format!(
                "it names no ceiling for tokens, so the default holds: {tokens} tokens, {turns} turns for each start"
            ),
        );
    }
    if spec.prompts.checker.is_none() {
        notes.changed(source, "checker_prompt", "it is empty: the checker gets the built-in prompt");
    } else {
        notes.changed(
            source,
            "checker_prompt",
            "the checker sees the diff and the gates' output, and none of the maker's text; its verdict decides",
        );
    }
    notes.not_carried(
        source,
        "models, tools, gate, executor, memory",
        "they are code: name agents in the loop file, or bind them with `LoopEngine::builder`",
    );
}
