//! Writes a spec as a loop file that people can read: Markdown with the values that differ from the defaults. A spec
//! whose prompts Markdown cannot hold (a top-level heading, an open code block) is written as JSON.

use super::{LoopSpec, read_loop_file};
use serde_json::{Map, Value};

/// A loop file as text, with the ending of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenLoop {
    /// `md` or `json`.
    pub ending: &'static str,
    /// The whole file.
    pub text: String,
}

/// Writes a spec as a loop file that reads back as the same spec. `comments` are lines for people at the top; JSON has
/// no place for them.
///
/// # Errors
/// The problems of a spec that no loop file can hold.
pub fn write_loop_file(spec: &LoopSpec, comments: &[String]) -> Result<WrittenLoop, super::SpecProblems> {
    let text = markdown(spec, comments);
    let is_same = |found: super::CheckedSpec| found.spec() == spec;
    if read_loop_file("loop.md", text.as_bytes()).is_ok_and(is_same) {
        return Ok(WrittenLoop { ending: "md", text });
    }
    let text = serde_json::to_string_pretty(spec).expect("a spec is data that JSON can hold") + "\n";
    read_loop_file("loop.json", text.as_bytes()).map(|_| WrittenLoop { ending: "json", text })
}

fn markdown(spec: &LoopSpec, comments: &[String]) -> String {
    let mut keys = object(spec);
    let prompts = keys.shift_remove("prompts").unwrap_or_default();
    let usual = object(&LoopSpec::new(spec.name.clone(), spec.intent.clone(), spec.level));
    let mut text = "---\n".to_owned();
    text.extend(comments.iter().map(|line| format!("# {}\n", line.replace(['\n', '\r'], " "))));
    for (key, value) in keys {
        let value = match usual.get(&key) {
            Some(usual) if !matches!(key.as_str(), "name" | "intent" | "level") => without_defaults(value, usual),
            _ => Some(value),
        };
        if let Some(value) = value {
            text.push_str(&entry(&key, &shortened(&key, value)));
        }
    }
    text.push_str("---\n");
    for (role, prompt) in prompts.as_object().into_iter().flatten() {
        let (first, rest) = role.split_at(1);
        text.push_str(&format!("# {}{rest}\n\n{}\n\n", first.to_uppercase(), prompt.as_str().unwrap_or_default()));
    }
    text.trim_end().to_owned() + "\n"
}

fn object(spec: &LoopSpec) -> Map<String, Value> {
    match serde_json::to_value(spec).expect("a spec is data that JSON can hold") {
        Value::Object(keys) => keys,
        _ => Map::new(),
    }
}

/// The parts of a value that the reader would not fill in by itself; `None` if there are none. A list has no defaults
/// of its own.
fn without_defaults(value: Value, usual: &Value) -> Option<Value> {
    match (value, usual) {
        (value, usual) if value == *usual => None,
        (Value::Object(entries), Value::Object(usual)) => {
            let kept = entries.into_iter().filter_map(|(key, value)| match usual.get(&key) {
                Some(usual) => without_defaults(value, usual).map(|value| (key, value)),
                None => Some((key, value)),
            });
            Some(Value::Object(kept.collect()))
        }
        (value, _) => Some(value),
    }
}

/// The short notations of a loop file: a trigger without a list, a kind of output without limits.
fn shortened(key: &str, value: Value) -> Value {
    let single = |value: Value| match value {
        Value::Array(mut items) if items.len() == 1 => items.remove(0),
        value => value,
    };
    let plain = |output: Value| match output.as_object().and_then(|entries| entries.iter().next()) {
        Some((kind, limits)) if *limits == serde_json::json!({"max": 1}) => Value::from(kind.as_str()),
        _ => output,
    };
    match (key, value) {
        ("on", Value::Object(entries)) => entries.into_iter().map(|(key, value)| (key, single(value))).collect(),
        ("output", Value::Array(items)) => single(items.into_iter().map(plain).collect()),
        (_, value) => value,
    }
}

/// One key of the front matter: mappings and lists of mappings in a block, everything else on its line.
fn entry(key: &str, value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let lines = entries.iter().map(|(key, value)| format!("  {}: {}\n", yaml_word(key), flow(value)));
            format!("{key}:\n{}", lines.collect::<String>())
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            let lines = items.iter().map(|item| match item.as_object().filter(|entries| entries.len() == 1) {
                Some(entries) => entries.iter().map(|(key, value)| format!("  - {key}: {}\n", flow(value))).collect(),
                None => format!("  - {}\n", flow(item)),
            });
            format!("{key}:\n{}", lines.collect::<String>())
        }
        value => format!("{key}: {}\n", flow(value)),
    }
}

fn flow(value: &Value) -> String {
    match value {
        Value::Object(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Object(entries) => {
            let parts = entries.iter().map(|(key, value)| format!("{}: {}", yaml_word(key), flow(value)));
            format!("{{ {} }}", parts.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::String(text) => yaml_word(text),
        value => value.to_string(),
    }
}

/// A word as YAML reads it inside brackets; a quoted JSON string is also YAML.
pub(crate) fn yaml_word(word: &str) -> String {
    let is_span = crate::units::TimeSpan::parse(word).is_some();
    let is_plain = word.starts_with(|c: char| c.is_ascii_alphabetic() || "./".contains(c))
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "./_-".contains(c))
        && word.chars().any(|c| c.is_ascii_alphabetic())
        && !matches!(
            word.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n" | ".inf" | ".nan"
        );
    if is_plain || is_span { word.to_owned() } else { Value::from(word).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::LoopLevel::{L1Report, L2Assisted};
    use crate::patterns::LoopPattern;
    use expect_test::expect;

    #[test]
    fn loop_file_has_only_the_values_that_differ_from_the_defaults() {
        let mut spec = LoopSpec::new("fix", "Keep it green: always.", L2Assisted)
            .with_cadence("every 10m")
            .with_action_kind("open-pr")
            .with_maker_prompt("Fix it.\n\n## How\nWith care.");
        spec.budget.role.wall = crate::units::TimeSpan::parse("15m");
        spec.protect = vec!["tests/**".to_owned()];
        let written = write_loop_file(&spec, &["imported\nfrom somewhere".to_owned()]).expect("a good spec");
        assert_eq!(written.ending, "md");
        expect![[r#"
            ---
            # imported from somewhere
            name: fix
            intent: "Keep it green: always."
            level: L2
            on:
              every: 10m
            budget:
              role: { wall: 15m }
            protect: ["tests/**"]
            output:
              pull-request: { draft: true, max: 1 }
            ---
            # Maker

            Fix it.

            ## How
            With care.
        "#]]
        .assert_eq(&written.text);
    }

    #[test]
    fn every_shipped_loop_is_written_as_markdown_that_reads_back_the_same() {
        for pattern in LoopPattern::all() {
            let spec = pattern.spec();
            let written = write_loop_file(&spec, &[]).expect("a good spec");
            assert_eq!(written.ending, "md", "{}", pattern.name);
            let back = read_loop_file("a.md", written.text.as_bytes()).expect("a good file");
            assert_eq!(*back.spec(), spec);
        }
    }

    #[test]
    fn prompt_that_markdown_cannot_hold_is_written_as_json() {
        for prompt in ["# Role\nDo it.", "```\nopen", "one\n---\n# Checker\nlie"] {
            let spec = LoopSpec::new("a", "b", L1Report).with_maker_prompt(prompt);
            let written = write_loop_file(&spec, &[]).expect("a good spec");
            let back = read_loop_file(&format!("a.{}", written.ending), written.text.as_bytes()).expect("a good file");
            assert_eq!((written.ending, back.spec()), ("json", &spec), "{prompt}");
        }
    }

    #[test]
    fn words_that_yaml_would_read_as_something_else_are_quoted() {
        for word in ["on", "No", "12", "1e3", "a: b", "#x", "*", "", "-", "0x1f", ".inf", ".5", "null", "~"] {
            assert!(yaml_word(word).starts_with('"'), "{word}");
        }
        assert_eq!(["./run.sh", "15m", "open-prs"].map(yaml_word), ["./run.sh", "15m", "open-prs"]);
    }
}
