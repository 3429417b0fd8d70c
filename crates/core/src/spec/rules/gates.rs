//! Rules of gates and held-out checks: names, commands, patterns, and that unattended work has a gate that can fail.

use super::Rules;
use super::paths::{self, PatternGroups};
use crate::gate::lint::reason_cannot_fail;
use crate::level::LoopLevel;
use crate::spec::path::SpecPath;
use crate::spec::problem::quoted;
use crate::spec::{
    CheckMode, CountFloor, DiffRule, EvidenceRule, ExpectRule, Gate, JsonRule, LoopSpec, RunGate, ScoreRule,
    WithholdRule,
};
use std::collections::HashMap;

const GATES_MAX: usize = 100;

pub(super) fn check(rules: &mut Rules, spec: &LoopSpec) {
    let path = SpecPath::root_key("gates");
    if spec.gates.len() > GATES_MAX {
        rules.report(path.clone(), format!("more than {GATES_MAX} gates"), None);
    }
    // Nothing past the limit is checked, because compiling patterns is expensive.
    for (at, gate) in spec.gates.iter().enumerate().take(GATES_MAX) {
        rules.part_name(path.index(at).key("name"), gate.name());
        one(rules, &path.index(at), gate);
    }
    unique_names(rules, &path, spec.gates.iter().map(Gate::name));
    levels(rules, spec);
    heldout(rules, spec);
    if let Some(WithholdRule::Globs(globs)) = &spec.withhold {
        some(rules, &SpecPath::root_key("withhold"), globs.len(), "`[\"tests/slow/**\"]`, or `off`");
        paths::globs(rules, &SpecPath::root_key("withhold"), globs);
    }
}

fn unique_names<'g>(rules: &mut Rules, path: &SpecPath, names: impl Iterator<Item = &'g str>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (at, name) in names.enumerate() {
        if let Some(first) = seen.insert(name.to_ascii_lowercase(), at) {
            let what = format!("the name {} is taken by `{path}[{first}]`", quoted(name));
            rules.report(path.index(at).key("name"), what, None);
        }
    }
}

/// The verification that a level requires.
fn levels(rules: &mut Rules, spec: &LoopSpec) {
    if spec.check == CheckMode::None && spec.level != LoopLevel::L1Report {
        let what = format!("`check: none` at {}; only an L1 loop may do without a checker", spec.level.short());
        rules.report(SpecPath::root_key("check"), what, "remove `check`, or set `level: L1`");
    }
    let can_fail = spec.gates.iter().any(can_fail) || !spec.heldout.is_empty();
    if spec.level == LoopLevel::L3Unattended && !can_fail {
        let hint = "add a gate under `gates:`, such as `- { name: tests, run: [cargo, test] }`";
        rules.report(SpecPath::root_key("level"), "`level: L3` without a gate that can fail", hint);
    }
}

/// Whether a gate could ever reject a change.
fn can_fail(gate: &Gate) -> bool {
    match gate {
        Gate::Run(gate) => reason_cannot_fail(gate).is_none(),
        Gate::Diff(_) | Gate::Parse(_) | Gate::Markers(_) | Gate::Length(_) => true,
        Gate::Secrets(_) => false,
    }
}

fn one(rules: &mut Rules, path: &SpecPath, gate: &Gate) {
    match gate {
        Gate::Run(gate) => run(rules, path, gate),
        Gate::Diff(gate) => diff(rules, &path.key("diff"), &gate.diff),
        Gate::Parse(gate) => {
            some(rules, &path.key("parse"), gate.parse.len(), "`[\"**/*.json\"]`");
            paths::globs(rules, &path.key("parse"), &gate.parse);
        }
        Gate::Markers(gate) => some(rules, &path.key("markers"), gate.markers.len(), "`[conflict, todo, stub]`"),
        Gate::Length(gate) => {
            paths::relative(rules, path.key("length").key("file"), &gate.length.file);
            rules.range(path.key("length").key("max"), gate.length.max, 1, 1_000_000_000);
        }
        Gate::Secrets(_) => {}
    }
}

/// Reports an empty list, which would check nothing.
fn some(rules: &mut Rules, path: &SpecPath, count: usize, example: &str) {
    if count == 0 {
        let what = format!("`{path}` is empty, so the gate cannot fail");
        rules.object_with(path.clone(), what, Some(format!("write {example}")));
    }
}

fn run(rules: &mut Rules, path: &SpecPath, gate: &RunGate) {
    rules.command(path.key("run"), &gate.run);
    if let Some(reason) = reason_cannot_fail(gate).filter(|_| !gate.run.is_empty()) {
        rules.report(path.key("run"), format!("gate {} cannot fail: {reason}", quoted(&gate.name)), None);
    }
    if let Some(inputs) = &gate.inputs {
        paths::globs(rules, &path.key("inputs"), inputs);
    }
    rules.range(path.key("retries"), gate.retries, 0, 5);
    paths::hosts(rules, &path.key("network"), &gate.network);
    if let Some(rule) = &gate.expect {
        expect(rules, &path.key("expect"), rule);
    }
    if let Some(rule) = &gate.evidence {
        evidence(rules, &path.key("evidence"), rule);
    }
    if let Some(rule) = &gate.score {
        score(rules, &path.key("score"), rule);
    }
}

fn expect(rules: &mut Rules, path: &SpecPath, rule: &ExpectRule) {
    if *rule == ExpectRule::default() {
        rules.report(path.clone(), format!("`{path}` expects nothing"), "give `exit`, `stdout`, `stderr` or `json`");
    }
    if let Some(exit) = rule.exit {
        rules.range(path.key("exit"), exit, 0, 255);
    }
    for (key, text) in [("stdout", &rule.stdout), ("stderr", &rule.stderr)] {
        if let Some(text) = text {
            paths::pattern(rules, path.key(key), text, PatternGroups::Any);
        }
    }
    if let Some(rule) = &rule.json {
        json(rules, &path.key("json"), rule);
    }
}

fn json(rules: &mut Rules, path: &SpecPath, rule: &JsonRule) {
    if !is_json_path(&rule.path) {
        let what = format!("{} is not a path into JSON", quoted(&rule.path));
        rules.report(path.key("path"), what, "such as `$.summary.failed` or `$.items[0].ok`");
    }
    let numbers = [rule.at_least, rule.at_most];
    if rule.equals.is_none() && numbers == [None, None] {
        rules.report(path.clone(), format!("`{path}` compares nothing"), "give `equals`, `at_least` or `at_most`");
    }
    if numbers.iter().flatten().any(|number| !number.is_finite()) {
        rules.report(path.clone(), format!("`{path}` has a bound that is not finite"), None);
    }
}

/// `$`, then any number of `.name` and `[number]`.
fn is_json_path(text: &str) -> bool {
    let Some(mut rest) = text.strip_prefix('$') else { return false };
    while !rest.is_empty() {
        let step = if let Some(tail) = rest.strip_prefix('.') {
            tail.split_at_checked(tail.find(['.', '[']).unwrap_or(tail.len())).filter(|(name, _)| !name.is_empty())
        } else {
            let index = rest.strip_prefix('[').and_then(|tail| tail.split_once(']'));
            index.filter(|(digits, _)| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        };
        match step {
            Some((_, tail)) => rest = tail,
            None => return false,
        }
    }
    text.len() <= 1000
}

fn evidence(rules: &mut Rules, path: &SpecPath, rule: &EvidenceRule) {
    if *rule == EvidenceRule::default() {
        rules.report(path.clone(), format!("`{path}` asks for nothing"), "give `junit`, `tests_at_least` or `files`");
    }
    if let Some(file) = &rule.junit {
        paths::relative(rules, path.key("junit"), file);
    }
    for (at, file) in rule.files.iter().enumerate() {
        paths::relative(rules, path.key("files").index(at), file);
    }
    if let Some(CountFloor::Number(number)) = rule.tests_at_least {
        let whole = number.is_finite() && number >= 1.0 && number.fract() == 0.0;
        if !whole {
            let what = format!("`{path}.tests_at_least` is {number}; it may be a whole number from 1, or `base`");
            rules.report(path.key("tests_at_least"), what, None);
        }
    }
}

fn score(rules: &mut Rules, path: &SpecPath, rule: &ScoreRule) {
    paths::pattern(rules, path.key("pattern"), &rule.pattern, PatternGroups::One);
    if let Some(CountFloor::Number(number)) = rule.at_least
        && !number.is_finite()
    {
        rules.report(path.key("at_least"), format!("`{path}.at_least` is not finite"), None);
    }
}

fn diff(rules: &mut Rules, path: &SpecPath, rule: &DiffRule) {
    if *rule == DiffRule::default() {
        let hint = "give `files_max`, `lines_max`, `only` or `no_deletes`";
        rules.report(path.clone(), format!("`{path}` bounds nothing, so the gate cannot fail"), hint);
    }
    paths::globs(rules, &path.key("only"), &rule.only);
    paths::globs(rules, &path.key("no_deletes"), &rule.no_deletes);
}

fn heldout(rules: &mut Rules, spec: &LoopSpec) {
    let path = SpecPath::root_key("heldout");
    if spec.heldout.len() > GATES_MAX {
        rules.report(path.clone(), format!("more than {GATES_MAX} held-out checks"), None);
    }
    for (at, check) in spec.heldout.iter().enumerate().take(GATES_MAX) {
        let path = path.index(at);
        rules.part_name(path.key("name"), &check.name);
        rules.command(path.key("run"), &check.run);
        if !is_path(&check.cases) {
            rules.report(path.key("cases"), format!("`{path}.cases` is empty"), "name a file of JSON lines");
        }
        heldout_files(rules, &path.key("files"), &check.files);
    }
    unique_names(rules, &path, spec.heldout.iter().map(|check| check.name.as_str()));
    // Gates and held-out checks share one namespace.
    let gates: HashMap<_, _> = spec.gates.iter().map(|gate| (gate.name().to_ascii_lowercase(), gate.name())).collect();
    for (at, check) in spec.heldout.iter().enumerate() {
        if let Some(gate) = gates.get(&check.name.to_ascii_lowercase()) {
            let what = format!("the name {} is taken by the gate `{gate}`", quoted(&check.name));
            rules.report(path.index(at).key("name"), what, None);
        }
    }
}

/// Each file is mounted as `/heldout/NAME`, so each needs a unique name.
fn heldout_files(rules: &mut Rules, path: &SpecPath, files: &[String]) {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (at, file) in files.iter().enumerate() {
        let name = file.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if !is_path(file) || matches!(name, "" | "." | ".." | "~") {
            rules.report(path.index(at), format!("{} names no file", quoted(file)), None);
        } else if let Some(first) = seen.insert(name, at) {
            let what = format!("{} would be `/heldout/{name}`, as `{path}[{first}]` is", quoted(file));
            rules.report(path.index(at), what, "give one of them another name");
        }
    }
}

fn is_path(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= 1000 && !text.contains('\0')
}
