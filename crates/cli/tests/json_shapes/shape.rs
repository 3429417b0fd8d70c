//! The shape of JSON documents: every path with its types, as text. Values are left out, so that a shape is the same on
//! every machine, and a missing key or a changed type is visible.

use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// The observed paths of some documents of one kind.
#[derive(Default)]
pub(crate) struct Shape {
    /// Paths in the order in which they were first seen below their parent.
    order: Vec<String>,
    types: HashMap<String, BTreeSet<&'static str>>,
    /// The number of objects that may have a path, and the number of those that have it.
    held: HashMap<String, usize>,
    seen: HashMap<String, usize>,
    opaque: &'static [&'static str],
}

impl Shape {
    /// The common shape of documents. Nothing below the `opaque` paths is compared.
    pub(crate) fn of<'d>(documents: impl IntoIterator<Item = &'d Value>, opaque: &'static [&'static str]) -> Self {
        let mut shape = Self { opaque, ..Self::default() };
        for document in documents {
            shape.add("", document);
        }
        shape
    }

    /// One line for each path: `loops[].level: string | null`. A `?` follows a key that not every object has.
    pub(crate) fn render(&self) -> String {
        let line = |path: &String| {
            let types: Vec<_> = self.types[path].iter().copied().collect();
            let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
            let always = path.ends_with("[]") || self.seen.get(path) == self.held.get(parent);
            format!("{path}{}: {}\n", if always { "" } else { "?" }, types.join(" | "))
        };
        self.order.iter().map(line).collect()
    }

    fn add(&mut self, path: &str, value: &Value) {
        if !path.is_empty() {
            self.types.entry(path.to_owned()).or_default().insert(type_of(value));
        }
        if self.opaque.contains(&path) {
            return;
        }
        match value {
            Value::Object(members) => {
                *self.held.entry(path.to_owned()).or_default() += 1;
                let mut before = None;
                for (key, value) in members {
                    let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    self.place(&inner, before.as_deref().unwrap_or(path));
                    *self.seen.entry(inner.clone()).or_default() += 1;
                    self.add(&inner, value);
                    before = Some(inner);
                }
            }
            Value::Array(elements) => {
                let inner = format!("{path}[]");
                for element in elements {
                    // An object's keys describe its array; other elements need a line.
                    if !element.is_object() {
                        self.place(&inner, path);
                    }
                    self.add(&inner, element);
                }
            }
            _ => {}
        }
    }

    /// Inserts a new path after everything at or below the path before it.
    fn place(&mut self, path: &str, before: &str) {
        if self.order.iter().any(|known| known == path) {
            return;
        }
        let below = |known: &String| known == before || is_below(known, before);
        let behind = |known: &String| if is_below(path, before) { known == before } else { below(known) };
        let at = self.order.iter().rposition(behind).map_or(self.order.len(), |at| at + 1);
        let at = if before.is_empty() { 0 } else { at };
        self.order.insert(at, path.to_owned());
    }
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| above.is_empty() || rest.starts_with(['.', '[']))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Every value at a path such as `loops[].status`.
pub(crate) fn values<'v>(value: &'v Value, path: &str) -> Vec<&'v Value> {
    let Some((key, rest)) = path.split_once('.').or(Some((path, ""))).filter(|(key, _)| !key.is_empty()) else {
        return vec![value];
    };
    let inner = &value[key.trim_end_matches("[]")];
    let inner = if key.ends_with("[]") { inner.as_array().into_iter().flatten().collect() } else { vec![inner] };
    inner.into_iter().flat_map(|value| values(value, rest)).collect()
}

#[test]
fn a_shape_has_every_path_once_with_all_its_types() {
    let documents = [
        serde_json::json!({"schema": 1, "list": [{"a": 1, "b": null}, {"a": "x", "b": 1.5, "c": [true]}], "end": null}),
        serde_json::json!({"schema": 1, "list": [], "end": {"deep": {}}}),
    ];
    let expected = "schema: integer\nlist: array\nlist[].a: integer | string\nlist[].b: null | number\nlist[].c?: array\n\
                    list[].c[]: boolean\nend: null | object\nend.deep: object\n";
    assert_eq!(Shape::of(&documents, &[]).render(), expected);
    let opaque = "schema: integer\nlist: array\nend: null | object\nend.deep: object\n";
    assert_eq!(Shape::of(&documents, &["list"]).render(), opaque);
    assert_eq!(values(&documents[0], "list[].a"), [&serde_json::json!(1), &serde_json::json!("x")]);
}
