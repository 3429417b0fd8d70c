//! The JSON Schema of loop files: from the same types that the reader uses, plus the accepted short forms.

use super::{LoopSpec, reader};
use serde_json::{Map, Value, json};

/// The schema of a loop file's front matter, and of plain YAML and JSON loop files.
#[must_use]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(LoopSpec).to_value();
    close(&mut schema);
    require(&mut schema, &["name", "intent"]);
    add_aliases(&mut schema);
    add_short_forms(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".to_owned(), json!("Loopwright loop file"));
    }
    schema
}

/// Unknown keys are errors, and only keys that the reader requires are required.
fn close(value: &mut Value) {
    if let Value::Object(object) = value {
        if object.contains_key("properties") {
            object.remove("required");
            object.entry("additionalProperties").or_insert(json!(false));
        }
        object.values_mut().for_each(close);
    } else if let Value::Array(items) = value {
        items.iter_mut().for_each(close);
    }
}

/// The required keys of each block.
const REQUIRED: &str = "Ask=use RunGate=name,run DiffGate=name,diff ParseGate=name,parse MarkersGate=name,markers \
    LengthGate=name,length SecretsGate=name,secrets LengthRule=file,max JsonRule=path ScoreRule=pattern,better \
    AgentSpec=use ProofRequest=url AttackSpec=roles PlateauSpec=window HeldoutSpec=name,run,cases";

fn require(schema: &mut Value, keys: &[&str]) {
    schema["required"] = json!(keys);
    for (name, keys) in REQUIRED.split_whitespace().filter_map(|block| block.split_once('=')) {
        let keys: Vec<&str> = keys.split(',').collect();
        definition(schema, name).insert("required".to_owned(), json!(keys));
    }
}

/// The definition of a type. The names are written out here, so a type that was renamed must not be passed over.
fn definition<'s>(schema: &'s mut Value, name: &str) -> &'s mut Map<String, Value> {
    let found = schema.get_mut("$defs").and_then(|all| all.get_mut(name)).and_then(Value::as_object_mut);
    found.expect("the schema has a definition of every type that is named in this file")
}

fn property<'s>(definition: &'s mut Map<String, Value>, key: &str) -> Option<&'s mut Value> {
    definition.get_mut("properties")?.get_mut(key)
}

fn add_aliases(schema: &mut Value) {
    for alias in aliases() {
        let description = format!("The seed's word; `{}` is ours.", ours(alias));
        schema["properties"][alias] = json!({ "type": "string", "description": description });
    }
    let tokens = json!({ "type": ["integer", "null"], "minimum": 1 });
    if let Some(properties) = definition(schema, "BudgetSpec").get_mut("properties") {
        for key in ["max_input_tokens", "max_output_tokens", "max_total_tokens"] {
            properties[key] = tokens.clone();
        }
        properties["max_iters_per_round"] = json!({ "type": "integer", "minimum": 1 });
    }
}

fn ours(alias: &str) -> &'static str {
    match alias {
        "cadence" => "on",
        "action_kind" => "output",
        "maker_prompt" => "prompts.maker",
        _ => "prompts.checker",
    }
}

/// Keys of the root that accept one text in place of a list.
const ONE_OR_MANY: &str = "paths skills context protect allow_paths allow output network approvers caches toolchains \
    secrets locks labels";
/// The same inside `on`.
const ON_ONE_OR_MANY: &str = "every cron daily weekly webhook push files after";

fn add_short_forms(schema: &mut Value) {
    if let Some(root) = schema.as_object_mut() {
        for key in ONE_OR_MANY.split_whitespace() {
            allow(property(root, key), json!({ "type": "string" }));
        }
        allow(property(root, "on"), json!({ "type": ["string", "array"], "items": { "type": "string" } }));
        allow(property(root, "level"), json!({ "enum": ["l1-report", "l2-assisted", "l3-unattended"] }));
        allow(property(root, "setup"), json!({ "type": "array", "items": { "type": "string" } }));
    }
    let on = definition(schema, "Triggers");
    for key in ON_ONE_OR_MANY.split_whitespace() {
        allow(property(on, key), json!({ "type": "string" }));
    }
    let ask = definition(schema, "Ask");
    for key in ["labels", "not_labels", "author", "paths", "checks", "packages"] {
        allow(property(ask, key), json!({ "type": "string" }));
    }
    let ceilings = definition(schema, "Ceilings");
    for key in ["tokens", "usd", "wall", "turns", "idle"] {
        allow(property(ceilings, key), json!({ "const": "none" }));
    }
    allow(property(ceilings, "tokens"), json!({ "type": "string", "pattern": "^[0-9]+[kKmM]?$" }));
}

/// Lets a property have another form as well; its description stays.
fn allow(property: Option<&mut Value>, form: Value) {
    let Some(property) = property else { return };
    if let Some(forms) = property.get_mut("anyOf").and_then(Value::as_array_mut) {
        return forms.push(form);
    }
    let mut before = std::mem::take(property);
    let description = before.as_object_mut().and_then(|object| object.remove("description"));
    *property = json!({ "anyOf": [before, form] });
    if let Some(description) = description {
        property["description"] = description;
    }
}

/// Every key the reader knows at the root, without the seed's.
pub fn keys() -> impl Iterator<Item = &'static str> {
    reader::KEYS.split_whitespace()
}

/// The seed's keys that the reader accepts at the root.
pub fn aliases() -> impl Iterator<Item = &'static str> {
    reader::ALIASES.split_whitespace()
}
