//! The published schema and the reader know the same keys.

use loopwright_core::spec::{read_loop_file, schema};
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn the_schema_has_the_readers_keys_and_no_others() {
    let schema = schema::schema();
    let properties = schema["properties"].as_object().expect("an object");
    let published: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
    let known: BTreeSet<&str> = schema::keys().chain(schema::aliases()).collect();
    assert_eq!(published, known);
    assert_eq!(schema["required"], serde_json::json!(["name", "intent"]));
    assert_eq!(schema["additionalProperties"], false);
}

/// Follows a reference to its definition.
fn resolve<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    match schema.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix("#/$defs/")) {
        Some(name) => resolve(&root["$defs"][name], root),
        None => schema,
    }
}

/// A small validator for the parts of JSON Schema that the schema uses: types, properties, items, alternatives,
/// enumerations.
fn accepts(value: &Value, schema: &Value, root: &Value) -> bool {
    let schema = resolve(schema, root);
    for word in ["anyOf", "oneOf"] {
        if let Some(forms) = schema.get(word).and_then(Value::as_array)
            && !forms.iter().any(|form| accepts(value, form, root))
        {
            return false;
        }
    }
    let listed = |words: &Value| words.as_array().is_some_and(|words| words.contains(value));
    schema.get("enum").is_none_or(listed)
        && schema.get("const").is_none_or(|word| word == value)
        && schema.get("type").is_none_or(|kind| has_type(value, kind))
        && object_fits(value, schema, root)
        && items_fit(value, schema, root)
}

fn has_type(value: &Value, kind: &Value) -> bool {
    match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| has_type(value, kind)),
        Value::String(kind) => match kind.as_str() {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("unknown type {other}"),
        },
        _ => panic!("a type is a word or a list"),
    }
}

fn object_fits(value: &Value, schema: &Value, root: &Value) -> bool {
    let Value::Object(object) = value else { return true };
    let rest = schema.get("additionalProperties");
    let keys_fit = object.iter().all(|(key, value)| match schema.get("properties").and_then(|keys| keys.get(key)) {
        Some(form) => accepts(value, form, root),
        None => match rest {
            Some(Value::Bool(allowed)) => *allowed,
            Some(form) => accepts(value, form, root),
            None => true,
        },
    });
    let needed = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    keys_fit && needed.filter_map(Value::as_str).all(|key| object.contains_key(key))
}

fn items_fit(value: &Value, schema: &Value, root: &Value) -> bool {
    match (value, schema.get("items")) {
        (Value::Array(items), Some(form)) => items.iter().all(|item| accepts(item, form, root)),
        _ => true,
    }
}

#[test]
fn every_good_file_fits_the_schema_in_its_canonical_form() {
    let schema = schema::schema();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/specs/good");
    for entry in std::fs::read_dir(folder).expect("the folder of fixtures is there") {
        let file = entry.expect("a readable entry").path();
        let text = std::fs::read(&file).expect("a readable fixture");
        let checked = read_loop_file(&file.to_string_lossy(), &text).expect("a good file");
        let canonical = serde_json::to_value(checked.spec()).expect("a spec is JSON");
        for (key, value) in canonical.as_object().expect("an object") {
            assert!(accepts(value, &schema["properties"][key], &schema), "{}: {key} = {value}", file.display());
        }
        assert!(accepts(&canonical, &schema, &schema), "{}", file.display());
        if file.extension().is_some_and(|extension| extension == "json") {
            let written: Value = serde_json::from_slice(&text).expect("JSON");
            assert!(accepts(&written, &schema, &schema), "{} as written", file.display());
        }
    }
    let bad = serde_json::json!({ "name": "x", "intent": "y", "budjet": {} });
    assert!(!accepts(&bad, &schema, &schema));
    let deep =
        serde_json::json!({ "name": "x", "intent": "y", "gates": [{ "name": "a", "run": ["make"], "retires": 1 }] });
    assert!(!accepts(&deep, &schema, &schema));
}

/// Editors read the committed schema; `UPDATE_EXPECT=1` rewrites it.
#[test]
fn committed_schema_is_the_one_the_program_prints() {
    let text = serde_json::to_string_pretty(&schema()).expect("a schema serialises");
    expect_test::expect_file!["../../../docs/loop-file.schema.json"].assert_eq(&(text + "\n"));
}
