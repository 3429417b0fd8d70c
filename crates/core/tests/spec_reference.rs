//! The reference of loop files, `docs/loop-file.md`, generated from the schema, the defaults of the reader and the
//! examples below. `UPDATE_EXPECT=1` rewrites it. Every key has an example, and the reader accepts every example.

use loopwright_core::spec::{read_loop_file, schema};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// An example of each key: in the front matter of a loop, at this path. An indented path belongs to the key before it.
const EXAMPLES: &str = include_str!("spec_reference/examples.txt");

/// Definitions with a section of their own, in the order of the page.
const SECTIONS: [(&str, &str); 25] = [
    ("Triggers", "on"),
    ("Ask", "on.probe"),
    ("AgentSpec", "agents.maker"),
    ("BudgetSpec", "budget"),
    ("Ceilings", "budget.round"),
    ("RunGate", "gates[]"),
    ("ExpectRule", "gates[].expect"),
    ("JsonRule", "gates[].expect.json"),
    ("EvidenceRule", "gates[].evidence"),
    ("ScoreRule", "gates[].score"),
    ("DiffGate", "gates[] with diff"),
    ("DiffRule", "gates[].diff"),
    ("ParseGate", "gates[] with parse"),
    ("MarkersGate", "gates[] with markers"),
    ("LengthGate", "gates[] with length"),
    ("LengthRule", "gates[].length"),
    ("SecretsGate", "gates[] with secrets"),
    ("HeldoutSpec", "heldout[]"),
    ("Rubric", "rubric"),
    ("ProverSpec", "prover"),
    ("ProofRequest", "prover.http"),
    ("AttackSpec", "attack"),
    ("PlateauSpec", "plateau"),
    ("WorkflowSpec", "workflow"),
    ("ApprovalRule", "approvals"),
];

/// Keys that the page names without an example: the sections of the Markdown file replace them.
const RESERVED: [&str; 1] = ["prompts"];

/// Defaults that a spec does not write out.
const UNWRITTEN_DEFAULTS: [(&str, &str); 8] = [
    ("mode", "single-run"),
    ("check", "required"),
    ("submodules", "off"),
    ("lfs", "off"),
    ("sandbox", "on"),
    ("priority", "0"),
    ("on.catch_up", "once"),
    ("on.overlap", "skip"),
];

fn default_of(key: &str, written: Option<&Value>) -> String {
    let unwritten = UNWRITTEN_DEFAULTS.iter().find(|(of, _)| *of == key);
    unwritten.map_or_else(|| default_text(written), |(_, value)| format!("`{value}`"))
}

fn examples() -> BTreeMap<&'static str, &'static str> {
    let line = |line: &'static str| line.split_once(" = ").unwrap_or_else(|| panic!("no ` = ` in `{line}`"));
    EXAMPLES.lines().filter(|text| !text.is_empty() && !text.starts_with('#')).map(line).collect()
}

/// The defaults: a loop with only its required keys, as the reader completes it.
fn defaults() -> Value {
    let file = "---\nname: x\nintent: y\n---\n# Maker\nz\n";
    let spec = read_loop_file("x.md", file.as_bytes()).unwrap_or_else(|problems| panic!("{problems:?}"));
    serde_json::to_value(spec.spec()).expect("a spec serialises")
}

fn default_text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::Array(list)) if list.is_empty() => "none".to_owned(),
        Some(Value::Object(map)) if map.is_empty() => "none".to_owned(),
        Some(Value::Object(_)) => "see below".to_owned(),
        Some(Value::String(text)) => format!("`{text}`"),
        Some(other) => format!("`{other}`"),
    }
}

fn type_text(schema: &Value) -> String {
    let root = schema::schema();
    if let Some(name) = schema["$ref"].as_str().and_then(|to| to.strip_prefix("#/$defs/")) {
        return named_type(name, &root["$defs"][name]);
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    if let Some(forms) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let mut seen = BTreeSet::new();
        let texts = forms.iter().map(type_text).filter(|text| text != "null" && seen.insert(text.clone()));
        return texts.collect::<Vec<_>>().join(" or ");
    }
    if let Some(word) = schema["const"].as_str() {
        return format!("`{word}`");
    }
    match &schema["type"] {
        Value::Array(kinds) => {
            let kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            kinds.map(plain_type).collect::<Vec<_>>().join(" or ")
        }
        Value::String(kind) if kind == "array" => format!("list of {}", type_text(&schema["items"])),
        Value::String(kind) => plain_type(kind).to_owned(),
        _ => "text".to_owned(),
    }
}

fn named_type(name: &str, definition: &Value) -> String {
    match name {
        "TimeSpan" => "duration".to_owned(),
        "Usd" => "US dollars".to_owned(),
        _ if SECTIONS.iter().any(|(section, _)| *section == name) => format!("[{}](#{})", title(name), anchor(name)),
        _ if definition.get("properties").is_some() => "mapping".to_owned(),
        _ => type_text(definition),
    }
}

fn plain_type(kind: &str) -> &str {
    match kind {
        "string" => "text",
        "integer" => "number",
        "boolean" => "`true` or `false`",
        "object" => "mapping",
        "array" => "list of text",
        other => other,
    }
}

fn title(name: &str) -> String {
    SECTIONS.iter().find(|(section, _)| *section == name).map_or(name, |(_, title)| title).to_owned()
}

fn anchor(name: &str) -> String {
    title(name)
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || " _".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn row(key: &str, property: &Value, default: String, example: Option<&str>) -> String {
    let example = example.map_or(String::new(), |example| format!("`{}`", example.replace('|', "\\|")));
    let (kind, meaning) = (type_text(property), one_line(property["description"].as_str().unwrap_or_default()));
    format!("| `{key}` | {kind} | {default} | {meaning} | {example} |\n")
}

const HEAD: &str = "| key | type | default | meaning | example |\n|---|---|---|---|---|\n";

fn page() -> String {
    let (root, examples, defaults) = (schema::schema(), examples(), defaults());
    let aliases: BTreeSet<&str> = schema::aliases().collect();
    let mut page = String::from(include_str!("spec_reference/head.md"));
    page.push_str(HEAD);
    for (key, property) in root["properties"].as_object().expect("an object") {
        if aliases.contains(key.as_str()) || RESERVED.contains(&key.as_str()) {
            continue;
        }
        let default = if ["name", "intent"].contains(&key.as_str()) {
            "required".to_owned()
        } else {
            default_of(key, defaults.get(key))
        };
        page.push_str(&row(key, property, default, examples.get(key.as_str()).copied()));
    }
    for (name, title) in SECTIONS {
        let definition = &root["$defs"][name];
        let about = one_line(definition["description"].as_str().unwrap_or_default());
        write!(page, "\n## `{title}`\n\n{about}\n\n{HEAD}").expect("a string");
        let required: Vec<&str> =
            definition["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let pointer = format!("/{}", title.replace("[]", "/0").replace('.', "/"));
        for (key, property) in definition["properties"].as_object().expect("an object") {
            if key.starts_with("max_") {
                continue;
            }
            let default = if required.contains(&key.as_str()) {
                "required".to_owned()
            } else {
                default_of(&format!("{title}.{key}"), defaults.pointer(&format!("{pointer}/{key}")))
            };
            page.push_str(&row(key, property, default, examples.get(format!("{title}.{key}").as_str()).copied()));
        }
    }
    page
}

/// Every key that the page lists, as the examples name it.
fn listed_keys() -> BTreeSet<String> {
    let root = schema::schema();
    let aliases: BTreeSet<&str> = schema::aliases().collect();
    let own = root["properties"].as_object().expect("an object").keys().map(String::as_str);
    let own = own.filter(|key| !aliases.contains(key) && !RESERVED.contains(key)).map(str::to_owned);
    let deep = SECTIONS.iter().flat_map(|(name, title)| {
        let keys = root["$defs"][*name]["properties"].as_object().expect("an object").keys();
        keys.filter(|key| !key.starts_with("max_")).map(|key| format!("{title}.{key}")).collect::<Vec<_>>()
    });
    own.chain(deep).collect()
}

#[test]
fn every_key_of_the_schema_has_an_example_and_every_example_has_a_key() {
    let known: BTreeSet<String> = examples().keys().map(|key| (*key).to_owned()).collect();
    let listed = listed_keys();
    assert_eq!(listed.difference(&known).collect::<Vec<_>>(), Vec::<&String>::new(), "no example");
    assert_eq!(known.difference(&listed).collect::<Vec<_>>(), Vec::<&String>::new(), "no such key");
}

#[test]
fn the_reader_accepts_every_example() {
    let mut refused = Vec::new();
    for (key, example) in examples() {
        let body = match key {
            "name" => format!("{example}\nintent: y"),
            "intent" => format!("name: x\n{example}"),
            _ => format!("name: x\nintent: y\n{example}"),
        };
        let body = if key == "allow" { format!("{body}\noutput: [pull-request]") } else { body };
        let body = match key {
            "workflow.summary" => format!("{body}\nmode: dynamic-workflow\nlevel: L1"),
            key if key.starts_with("workflow") => format!("{body}\nmode: dynamic-workflow\noutput: [pull-request]"),
            _ => body,
        };
        let level = if body.contains("level:") { "" } else { "\nlevel: L2" };
        let file = format!("---\n{body}{level}\n---\n# Maker\nz\n");
        if let Err(problems) = read_loop_file("x.md", file.as_bytes()) {
            let first = problems.to_string().lines().next().map(str::to_owned);
            refused.push(format!("`{key}`: {example}: {first:?}"));
        }
    }
    assert_eq!(refused, Vec::<String>::new());
}

#[test]
fn the_named_defaults_are_the_readers() {
    let hash = |more: &str| {
        let file = format!("---\nname: x\nintent: y\n{more}---\n# Maker\nz\n");
        read_loop_file("x.md", file.as_bytes())
            .unwrap_or_else(|problems| panic!("{more}: {problems:?}"))
            .hash()
            .to_owned()
    };
    for (key, value) in UNWRITTEN_DEFAULTS {
        let text = match key.split_once('.') {
            Some((outer, inner)) => format!("{outer}: {{ every: 15m, {inner}: {value} }}\n"),
            None => format!("{key}: {value}\n"),
        };
        let without = if key.contains('.') { hash("on: { every: 15m }\n") } else { hash("") };
        assert_eq!(hash(&text), without, "`{value}` is not the default of `{key}`");
    }
}

#[test]
fn the_committed_reference_is_the_generated_one() {
    expect_test::expect_file!["../../../docs/loop-file.md"].assert_eq(&page());
}

#[test]
fn the_reader_accepts_every_recipe() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).expect("the recipes").flatten() {
        let page = std::fs::read_to_string(entry.path()).expect("a page");
        for block in page.split("```").skip(1).step_by(2).filter_map(|block| block.strip_prefix("markdown\n")) {
            let name = entry.file_name();
            let spec = read_loop_file("x.md", block.as_bytes()).unwrap_or_else(|found| panic!("{name:?}: {found}"));
            assert_eq!(format!("{}.md", spec.name), name.to_string_lossy(), "the page has the name of its loop");
            read += 1;
        }
    }
    assert_eq!(read, 10);
}
