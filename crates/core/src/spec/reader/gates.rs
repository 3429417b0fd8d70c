//! The `gates:` and `heldout:` blocks.

use super::value::{SpecFields, SpecValue};
use crate::paths::SensitiveKind;
use crate::spec::tree::YamlValue;
use crate::spec::{
    AllowedSensitive, BaseWord, CanaryMode, CountFloor, DiffGate, DiffRule, EvidenceRule, ExpectRule, Gate,
    HeldoutSpec, JsonRule, LeftoverMarker, LengthGate, LengthRule, MarkersGate, OnOff, ParseGate, ProblemKind, RunGate,
    ScoreDirection, ScoreRule, SecretsGate, VaryMode, WithholdOff, WithholdRule,
};

const COUNT_MAX: i128 = 1_000_000_000;

/// A list of gates.
pub(super) fn gates(at: &SpecValue<'_>) -> Option<Vec<Gate>> {
    at.list("a list of gates such as `- { name: tests, run: [pytest, -q] }`", blank, gate)
}

/// A placeholder for a gate that could not be read; a diff gate can fail, so it misleads no rule.
fn blank() -> Gate {
    Gate::Diff(DiffGate { name: String::new(), diff: DiffRule::default() })
}

/// The key that determines a gate's kind, with the keys that belong to it.
const KINDS: [(&str, &str); 6] = [
    ("run", "name run inputs red_before timeout retries network expect evidence score canary vary inputs_writable"),
    ("diff", "name diff"),
    ("parse", "name parse"),
    ("markers", "name markers"),
    ("length", "name length"),
    ("secrets", "name secrets"),
];

fn gate(at: &SpecValue<'_>) -> Option<Gate> {
    let given: Vec<_> = KINDS.iter().filter(|(kind, _)| at.node.get(kind).is_some()).collect();
    let [(kind, known)] = given[..] else { return kind_unclear(at, given.len()) };
    let fields = at.fields(known)?;
    let name = fields.required("name", "tests", SpecValue::text);
    match *kind {
        "run" => run_gate(&fields, name).map(Gate::Run),
        "diff" => Some(Gate::Diff(DiffGate { diff: fields.option("diff", diff)?, name: name? })),
        "parse" => Some(Gate::Parse(ParseGate { parse: fields.option("parse", SpecValue::texts)?, name: name? })),
        "markers" => Some(Gate::Markers(MarkersGate { markers: fields.option("markers", markers)?, name: name? })),
        "length" => Some(Gate::Length(LengthGate { length: fields.option("length", length)?, name: name? })),
        _ => Some(Gate::Secrets(SecretsGate { secrets: fields.option("secrets", secrets)?, name: name? })),
    }
}

fn kind_unclear(at: &SpecValue<'_>, given: usize) -> Option<Gate> {
    let YamlValue::Map(entries) = &at.node.value else { return at.wrong_type("a gate as a mapping", None) };
    let kinds = KINDS.map(|(kind, _)| kind);
    let near = entries.iter().find_map(|entry| super::value::nearest(&entry.key, kinds.into_iter()));
    let hint = match near {
        Some(near) if given == 0 => format!("did you mean `{near}`?"),
        _ => format!("one of {}", super::value::listed(&kinds)),
    };
    let what = if given == 0 { "does not say what it checks" } else { "says more than one thing to check" };
    at.add_problem(ProblemKind::Missing, format!("`{}` {what}", at.path), Some(hint));
    None
}

fn run_gate(fields: &SpecFields<'_>, name: Option<String>) -> Option<RunGate> {
    let run = fields.option("run", SpecValue::argv);
    let mut gate = RunGate::new(String::new(), Vec::new());
    gate.inputs = fields.option("inputs", SpecValue::texts);
    fields.set("red_before", &mut gate.red_before, SpecValue::flag);
    gate.timeout = fields.option("timeout", SpecValue::span);
    fields.set("retries", &mut gate.retries, |at| at.whole(0..=5));
    fields.set("network", &mut gate.network, SpecValue::texts);
    gate.expect = fields.option("expect", expect);
    gate.evidence = fields.option("evidence", evidence);
    gate.score = fields.option("score", score);
    fields.set("canary", &mut gate.canary, |at| at.word(&[("auto", CanaryMode::Auto), ("off", CanaryMode::Off)]));
    let modes = [("auto", VaryMode::Auto), ("always", VaryMode::Always), ("off", VaryMode::Off)];
    fields.set("vary", &mut gate.vary, |at| at.word(&modes));
    fields.set("inputs_writable", &mut gate.inputs_writable, SpecValue::flag);
    Some(RunGate { name: name?, run: run?, ..gate })
}

/// `- { kind: lockfile, because: … }`.
pub(super) fn allow_sensitive(at: &SpecValue<'_>) -> Option<Vec<AllowedSensitive>> {
    let blank = || AllowedSensitive { kind: SensitiveKind::Lockfile, because: String::new() };
    at.list("a list such as `- { kind: lockfile, because: this loop updates dependencies }`", blank, |at| {
        let fields = at.fields("kind because")?;
        let kinds = SensitiveKind::ALL.map(|kind| (kind.word(), kind));
        let kind = fields.required("kind", "lockfile", |at| at.word(&kinds));
        let because = fields.required("because", "this loop updates dependencies", |at| {
            at.text().filter(|text| !text.trim().is_empty()).or_else(|| at.wrong_type("a reason", None))
        });
        Some(AllowedSensitive { kind: kind?, because: because? })
    })
}

/// `20%`, a list of patterns, or `off`.
pub(super) fn withhold(at: &SpecValue<'_>) -> Option<WithholdRule> {
    match &at.node.value {
        YamlValue::List(_) => at.text_list().map(WithholdRule::Globs),
        YamlValue::Text(text) if text == "off" => Some(WithholdRule::Off(WithholdOff::Off)),
        YamlValue::Text(text) => WithholdRule::parse_share(text).or_else(|| no_share(at)),
        _ => no_share(at),
    }
}

fn no_share(at: &SpecValue<'_>) -> Option<WithholdRule> {
    at.wrong_type("a share from `1%` to `90%`, a list of patterns, or `off`", None)
}

fn expect(at: &SpecValue<'_>) -> Option<ExpectRule> {
    let fields = at.fields("exit stdout stderr json")?;
    Some(ExpectRule {
        exit: fields.option("exit", |at| at.whole(0..=255)),
        stdout: fields.option("stdout", SpecValue::text),
        stderr: fields.option("stderr", SpecValue::text),
        json: fields.option("json", json),
    })
}

fn json(at: &SpecValue<'_>) -> Option<JsonRule> {
    let fields = at.fields("path equals at_least at_most")?;
    let equals = fields.option("equals", |at| match at.node.to_json() {
        Some(value) => Some(value),
        None => at.wrong_type("a value that JSON can hold", None),
    });
    let (at_least, at_most) =
        (fields.option("at_least", SpecValue::number), fields.option("at_most", SpecValue::number));
    Some(JsonRule { path: fields.required("path", "$.ok", SpecValue::text)?, equals, at_least, at_most })
}

fn evidence(at: &SpecValue<'_>) -> Option<EvidenceRule> {
    let fields = at.fields("junit tests_at_least files")?;
    Some(EvidenceRule {
        junit: fields.option("junit", SpecValue::text),
        tests_at_least: fields.option("tests_at_least", count_floor),
        files: fields.option("files", SpecValue::texts).unwrap_or_default(),
    })
}

fn count_floor(at: &SpecValue<'_>) -> Option<CountFloor> {
    match &at.node.value {
        YamlValue::Text(text) if text == "base" => Some(CountFloor::Base(BaseWord::Base)),
        YamlValue::Text(_) => at.wrong_type("a number or the word `base`", None),
        _ => at.number().map(CountFloor::Number),
    }
}

fn score(at: &SpecValue<'_>) -> Option<ScoreRule> {
    let fields = at.fields("pattern better at_least")?;
    let pattern = fields.required("pattern", "\"ops=(\\\\d+)\"", SpecValue::text);
    let better = fields.required("better", "higher", |at| {
        at.word(&[("higher", ScoreDirection::Higher), ("lower", ScoreDirection::Lower)])
    });
    let at_least = fields.option("at_least", count_floor);
    Some(ScoreRule { pattern: pattern?, better: better?, at_least })
}

fn diff(at: &SpecValue<'_>) -> Option<DiffRule> {
    let fields = at.fields("files_max lines_max only no_deletes")?;
    Some(DiffRule {
        files_max: fields.option("files_max", |at| at.whole(0..=COUNT_MAX)),
        lines_max: fields.option("lines_max", |at| at.whole(0..=COUNT_MAX)),
        only: fields.option("only", SpecValue::texts).unwrap_or_default(),
        no_deletes: fields.option("no_deletes", SpecValue::texts).unwrap_or_default(),
    })
}

fn markers(at: &SpecValue<'_>) -> Option<Vec<LeftoverMarker>> {
    let words =
        [("conflict", LeftoverMarker::Conflict), ("todo", LeftoverMarker::Todo), ("stub", LeftoverMarker::Stub)];
    at.one_or_many("a list of markers", || LeftoverMarker::Conflict, |at| at.word(&words))
}

fn length(at: &SpecValue<'_>) -> Option<LengthRule> {
    let fields = at.fields("file max")?;
    let (file, max) = (
        fields.required("file", "GOAL.md", SpecValue::text),
        fields.required("max", "3990", |at| at.whole(1..=COUNT_MAX)),
    );
    Some(LengthRule { file: file?, max: max? })
}

fn secrets(at: &SpecValue<'_>) -> Option<OnOff> {
    at.word(&[("on", OnOff::On)])
}

/// Checks whose expected values stay outside the sandbox.
pub(super) fn heldout(at: &SpecValue<'_>) -> Option<Vec<HeldoutSpec>> {
    let blank = || HeldoutSpec { name: String::new(), run: Vec::new(), files: Vec::new(), cases: String::new() };
    at.list("a list of held-out checks", blank, |at| {
        let fields = at.fields("name run files cases")?;
        let files = fields.option("files", SpecValue::texts).unwrap_or_default();
        let name = fields.required("name", "hidden", SpecValue::text);
        let run = fields.required("run", "[./solve]", SpecValue::argv);
        let cases = fields.required("cases", "cases.jsonl", SpecValue::text);
        Some(HeldoutSpec { name: name?, run: run?, files, cases: cases? })
    })
}
