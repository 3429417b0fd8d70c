//! The JSON Schema of a verdict, for agents that support one. It uses only keywords that every provider's strict mode
//! supports: all keys required, no other keys, choices by `enum` and `anyOf`.
//! [`VerdictFile::parse`](super::VerdictFile::parse) still decides, and it also checks lengths and ranges.

use serde_json::{Value, json};

/// The schema of a checker's answer.
#[must_use]
pub fn schema() -> Value {
    object(&[
        ("nonce", text("copied from the end of the brief")),
        ("tree", text("copied from the end of the brief")),
        ("candidate", text("copied from the end of the brief")),
        ("verdict", json!({"type": "string", "enum": ["pass", "fail", "escalate"]})),
        ("summary", text("the judgement in a few sentences")),
        ("scores", list(&score())),
    ])
}

fn score() -> Value {
    object(&[
        ("dimension", text("a dimension of the rubric, each once")),
        ("score", json!({"type": "integer", "enum": [1, 2, 3, 4, 5]})),
        ("why", text("the reason for the score")),
        (
            "evidence",
            list(&json!({"anyOf": [cited("path"), object(&[("gate", text("a gate that passed"))]), cited("item")]})),
        ),
    ])
}

/// A line of a file in the snapshot, or of a staged item.
fn cited(what: &'static str) -> Value {
    let line = json!({"type": "integer", "description": "from 1"});
    object(&[(what, text("its name")), ("line", line), ("quote", text("text of that line"))])
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn list(items: &Value) -> Value {
    json!({"type": "array", "items": items})
}

fn object(fields: &[(&str, Value)]) -> Value {
    let keys: Vec<&str> = fields.iter().map(|(key, _)| *key).collect();
    let properties: serde_json::Map<_, _> =
        fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    json!({"type": "object", "properties": properties, "required": keys, "additionalProperties": false})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::VerdictFile;

    /// Documents that the schema describes: one for each choice, otherwise equal.
    fn examples(schema: &Value) -> Vec<Value> {
        if let Some(forms) = schema["anyOf"].as_array() {
            return forms.iter().flat_map(examples).collect();
        }
        if let Some(words) = schema["enum"].as_array() {
            return words.clone();
        }
        match schema["type"].as_str().expect("a type") {
            "string" => vec![json!("some text")],
            "integer" => vec![json!(7)],
            "array" => examples(&schema["items"]).into_iter().map(|item| json!([item])).collect(),
            "object" => objects(schema),
            other => panic!("unknown type {other}"),
        }
    }

    fn objects(schema: &Value) -> Vec<Value> {
        let mut all = vec![json!({})];
        for (key, field) in schema["properties"].as_object().expect("properties") {
            let with = |value: &Value| {
                all.iter()
                    .cloned()
                    .map(|mut one| {
                        one[key] = value.clone();
                        one
                    })
                    .collect::<Vec<_>>()
            };
            all = examples(field).iter().flat_map(with).collect();
        }
        all
    }

    #[test]
    fn strict_parser_reads_every_document_of_the_schema_unchanged() {
        let examples = examples(&schema());
        assert_eq!(examples.len(), 3 * 5 * 3, "each word, score and form of evidence");
        for example in examples {
            let read = VerdictFile::parse(example.to_string().as_bytes()).expect("a verdict");
            assert_eq!(serde_json::to_value(read).expect("JSON"), example);
        }
    }

    #[test]
    fn schema_requires_every_key_and_allows_no_other() {
        fn look(schema: &Value) {
            if let Some(properties) = schema["properties"].as_object() {
                let keys: Vec<&str> = properties.keys().map(String::as_str).collect();
                assert_eq!(schema["required"], json!(keys));
                assert_eq!(schema["additionalProperties"], false);
                properties.values().for_each(look);
            }
            schema["items"].is_object().then(|| look(&schema["items"]));
            schema["anyOf"].as_array().into_iter().flatten().for_each(look);
        }
        look(&schema());
    }
}
