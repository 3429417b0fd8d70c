//! A checker for the part of JSON Schema that the forges' descriptions use. Fields that a schema does not name are
//! findings, so that neither a client nor the fake forge can depend on one.

use regex::Regex;
use serde_json::{Map, Value};

/// The schemas of one description.
#[derive(Debug)]
pub(super) struct SchemaCheck<'a> {
    root: &'a Value,
    /// Go writes `null` for an empty field that its description calls an object.
    allows_null: bool,
}

/// Whether fields that the schema does not name are findings.
#[derive(Clone, Copy, PartialEq)]
enum UnknownFields {
    Refused,
    /// A part of a combination does not know the fields of the others.
    Allowed,
}

impl<'a> SchemaCheck<'a> {
    pub(super) fn new(root: &'a Value, allows_null: bool) -> Self {
        Self { root, allows_null }
    }

    /// The differences between a value and its schema, each with its place.
    pub(super) fn check(&self, schema: &Value, value: &Value) -> Vec<String> {
        let mut findings = Vec::new();
        self.visit(schema, value, "", UnknownFields::Refused, &mut findings);
        findings
    }

    fn visit(&self, schema: &Value, value: &Value, at: &str, unknown: UnknownFields, findings: &mut Vec<String>) {
        if let Some(path) = schema["$ref"].as_str() {
            match self.root.pointer(path.trim_start_matches('#')) {
                Some(target) => self.visit(target, value, at, unknown, findings),
                None => findings.push(format!("{at}: the description has no `{path}`")),
            }
            return;
        }
        if value.is_null() && (self.allows_null || schema["nullable"] == true || schema["x-nullable"] == true) {
            return;
        }
        self.check_combinations(schema, value, at, unknown, findings);
        if !has_type(schema, value) {
            findings.push(format!("{at}: {} instead of {}", name_of(value), schema["type"]));
            return;
        }
        if schema["enum"].as_array().is_some_and(|known| !known.contains(value)) {
            findings.push(format!("{at}: {value} is not one of {}", schema["enum"]));
        }
        match value {
            Value::Object(fields) => self.check_object(schema, fields, at, unknown, findings),
            Value::Array(rows) => {
                for (index, row) in rows.iter().enumerate().filter(|_| !schema["items"].is_null()) {
                    self.visit(&schema["items"], row, &format!("{at}/{index}"), UnknownFields::Refused, findings);
                }
            }
            Value::String(text) => check_text(schema, text, at, findings),
            Value::Number(number) => {
                let (least, most) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
                let number = number.as_f64().unwrap_or(0.0);
                if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
                    findings.push(format!("{at}: {number} is out of range"));
                }
            }
            _ => {}
        }
    }

    fn resolve<'s>(&'s self, schema: &'s Value) -> &'s Value {
        let target = schema["$ref"].as_str().and_then(|path| self.root.pointer(path.trim_start_matches('#')));
        target.map_or(schema, |target| self.resolve(target))
    }

    fn check_combinations(
        &self,
        schema: &Value,
        value: &Value,
        at: &str,
        unknown: UnknownFields,
        findings: &mut Vec<String>,
    ) {
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.visit(part, value, at, UnknownFields::Allowed, findings);
        }
        // The descriptions use `oneOf` also where several parts fit.
        for word in ["anyOf", "oneOf"] {
            let Some(parts) = schema[word].as_array() else { continue };
            let own = schema["properties"].is_object() || parts.iter().all(|part| part.get("required").is_some());
            let unknown = if own { UnknownFields::Allowed } else { unknown };
            let tries = parts.iter().map(|part| {
                let mut found = Vec::new();
                self.visit(part, value, at, unknown, &mut found);
                (!has_type(self.resolve(part), value), found)
            });
            // A part of the right type is the nearest one, whatever else is wrong with the value.
            if let Some((_, best)) =
                tries.min_by_key(|(is_other_type, found)| (!found.is_empty(), *is_other_type, found.len()))
            {
                findings.extend(best);
            }
        }
    }

    fn check_object(
        &self,
        schema: &Value,
        fields: &Map<String, Value>,
        at: &str,
        unknown: UnknownFields,
        findings: &mut Vec<String>,
    ) {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                findings.push(format!("{at}/{name}: missing"));
            }
        }
        let known = schema["properties"].as_object();
        for (name, value) in fields {
            let place = format!("{at}/{name}");
            match (known.and_then(|known| known.get(name)), &schema["additionalProperties"]) {
                (Some(schema), _) => self.visit(schema, value, &place, UnknownFields::Refused, findings),
                (None, schema @ Value::Object(_)) => {
                    self.visit(schema, value, &place, UnknownFields::Refused, findings);
                }
                (None, Value::Bool(true)) => {}
                (None, _) if known.is_some() && unknown == UnknownFields::Refused => {
                    findings.push(format!("{place}: not described"));
                }
                (None, _) => {}
            }
        }
    }
}

/// Whether the value has one of the schema's types; a schema without a type accepts all.
fn has_type(schema: &Value, value: &Value) -> bool {
    let is = |kind: &str| match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    match &schema["type"] {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn check_text(schema: &Value, text: &str, at: &str, findings: &mut Vec<String>) {
    let length = text.chars().count() as u64;
    let (least, most) = (schema["minLength"].as_u64(), schema["maxLength"].as_u64());
    if least.is_some_and(|least| length < least) || most.is_some_and(|most| length > most) {
        findings.push(format!("{at}: a text of {length} characters is out of range"));
    }
    let is_formed = match schema["format"].as_str() {
        Some("date-time") => is_time(text),
        // Templates such as `{/sha}` are not addresses; the descriptions call some of them so.
        Some("uri") => text.contains("://") || text.is_empty(),
        _ => true,
    };
    if !is_formed {
        findings.push(format!("{at}: `{text}` is not a {}", schema["format"]));
    }
    // A pattern in another dialect is not checked.
    let pattern = schema["pattern"].as_str().and_then(|pattern| Regex::new(pattern).ok());
    if pattern.is_some_and(|pattern| !pattern.is_match(text)) {
        findings.push(format!("{at}: `{text}` does not match {}", schema["pattern"]));
    }
}

/// `2026-01-01T00:00:00Z`, also with an offset.
fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape.starts_with("0000-00-00T00:00:00") && (shape.ends_with('Z') || shape.ends_with("00:00"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: Value, value: Value) -> Vec<String> {
        let root = json!({"defs": {"name": {"type": "string", "minLength": 1}}});
        SchemaCheck::new(&root, false).check(&schema, &value)
    }

    #[test]
    fn values_are_checked_against_types_limits_and_fields() {
        let schema = json!({
            "type": "object", "required": ["a"],
            "properties": {"a": {"$ref": "#/defs/name"}, "b": {"type": ["integer", "null"], "maximum": 3},
                           "c": {"type": "array", "items": {"enum": ["x", "y"]}},
                           "d": {"type": "string", "format": "date-time", "nullable": true}},
        });
        assert_eq!(check(schema.clone(), json!({"a": "x", "b": null, "c": ["x"], "d": null})), [""; 0]);
        assert_eq!(check(schema.clone(), json!({})), ["/a: missing"]);
        assert_eq!(check(schema.clone(), json!({"a": ""})), ["/a: a text of 0 characters is out of range"]);
        assert_eq!(check(schema.clone(), json!({"a": 1})), ["/a: a number instead of \"string\""]);
        assert_eq!(check(schema.clone(), json!({"a": "x", "b": 4})), ["/b: 4 is out of range"]);
        assert_eq!(check(schema.clone(), json!({"a": "x", "z": 4})), ["/z: not described"]);
        assert_eq!(check(schema.clone(), json!({"a": "x", "c": ["x", "z"]})).len(), 1);
        assert_eq!(check(schema, json!({"a": "x", "d": "today"})), ["/d: `today` is not a \"date-time\""]);
    }

    #[test]
    fn one_of_several_schemas_suffices_and_the_nearest_is_reported() {
        let schema = json!({"oneOf": [
            {"type": "array", "items": {"type": "string"}},
            {"type": "object", "properties": {"labels": {"type": "array"}}},
        ]});
        assert_eq!(check(schema.clone(), json!(["a"])), [""; 0]);
        assert_eq!(check(schema.clone(), json!({"labels": []})), [""; 0]);
        assert_eq!(check(schema, json!({"label": []})), ["/label: not described"]);
    }
}
