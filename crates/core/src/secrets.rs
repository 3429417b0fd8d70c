//! The secrets gate: finds credentials in what a maker added, named or wrote. A finding names the rule and the place,
//! never the value.
//!
//! Two searches: a table of public token formats, and the exact values the caller knows (in plain, base64, hex and
//! URL-encoded, and cut into pieces). Placeholders are not findings, or examples in documents could not be written.

mod known;
mod rules;

use crate::gate::lines::AddedLines;
use known::Known;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::LazyLock;

/// A secret was found. There is no value here, so none can be printed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hit {
    /// Which rule found it.
    pub rule: String,
    /// Where: `path:line`, `name of path`, `commit message`, an outbox item.
    pub place: String,
}

impl Hit {
    fn new(rule: &str, place: &str) -> Self {
        Self { rule: rule.to_owned(), place: place.to_owned() }
    }
}

/// The text with the values of known token formats replaced by their rule's name, for everything that is shown or kept.
/// It is a second line behind the gate: what only shows when pieces are put together stays.
#[must_use]
pub fn redact(text: &str) -> Cow<'_, str> {
    rules::redact(text)
}

/// A document with every text in it [redacted](redact).
#[must_use]
pub fn redact_json(document: Value) -> Value {
    match document {
        Value::String(text) => Value::String(redact(&text).into_owned()),
        Value::Array(all) => Value::Array(all.into_iter().map(redact_json).collect()),
        Value::Object(all) => Value::Object(all.into_iter().map(|(key, value)| (key, redact_json(value))).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) => document,
    }
}

/// Searches texts; holds the values the caller knows.
#[derive(Default)]
pub struct Scanner {
    known: Vec<Known>,
}

impl std::fmt::Debug for Scanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scanner({} known values)", self.known.len())
    }
}

impl Scanner {
    /// A scanner that also knows these values; ones too short to be told from chance are left out.
    #[must_use]
    pub fn new<S: AsRef<str>>(known: impl IntoIterator<Item = S>) -> Self {
        Self { known: known.into_iter().filter_map(|value| Known::new(value.as_ref())).collect() }
    }

    /// Searches one text, such as a commit message or an outbox item; `place` names it.
    #[must_use]
    pub fn text(&self, place: &str, text: &str) -> Vec<Hit> {
        let mut hits = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let number = at + 1;
            hits.extend(patterns(line).into_iter().map(|rule| Hit::new(rule, &format!("{place}:{number}"))));
        }
        self.pieces(place, text, &mut hits);
        finish(hits)
    }

    /// Searches a path itself.
    #[must_use]
    pub fn name(&self, path: &str) -> Vec<Hit> {
        let place = "a file's name";
        let mut hits: Vec<Hit> = patterns(path).into_iter().map(|rule| Hit::new(rule, place)).collect();
        self.pieces(place, path, &mut hits);
        finish(hits)
    }

    /// Searches the lines that a change added.
    #[must_use]
    pub fn added(&self, files: &[AddedLines]) -> Vec<Hit> {
        let mut hits = Vec::new();
        for file in files {
            let before = hits.len();
            for line in &file.lines {
                let place = || format!("{}:{}", file.path, line.number);
                hits.extend(patterns(&line.text).into_iter().map(|rule| Hit::new(rule, &place())));
            }
            let whole: Vec<&str> = file.lines.iter().map(|line| line.text.as_str()).collect();
            let mut joined = Vec::new();
            self.pieces(&file.path, &whole.join("\n"), &mut joined);
            // What a single line showed already has the better place.
            joined.retain(|hit| !hits[before..].iter().any(|known| known.rule == hit.rule));
            hits.extend(joined);
        }
        finish(hits)
    }

    /// What only shows when pieces are put together: joined literals, decoded runs, known values.
    fn pieces(&self, place: &str, text: &str, hits: &mut Vec<Hit>) {
        let joined = join_literals(text);
        if joined.len() != text.len() {
            hits.extend(patterns(&joined).into_iter().map(|rule| Hit::new(rule, place)));
        }
        for decoded in known::base64_runs(text) {
            let rules = patterns(&decoded).into_iter().filter(|rule| rules::is_distinct(rule));
            hits.extend(rules.map(|rule| Hit::new(rule, place)));
        }
        if self.known.is_empty() {
            return;
        }
        let squeezed = known::squeeze(text);
        let is_there = self.known.iter().any(|value| value.is_in(text) || value.is_in(&squeezed));
        hits.extend(is_there.then(|| Hit::new("known-value", place)));
    }
}

/// `place:line` reads badly for one-line texts and twice the same rule at a place says nothing new.
fn finish(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort();
    hits.dedup();
    hits
}

/// The rules that match a line and whose value is no placeholder.
fn patterns(line: &str) -> Vec<&'static str> {
    rules::matching(line)
}

/// Puts `"abc" + "def"` and literals that follow each other over a line's end together.
fn join_literals(text: &str) -> String {
    static SEAM: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"['"`]\s*(?:\+|\.{1,2}|<>|\|\||&|\\|~)?\s*(?:\+\s*)?[frbu]?['"`]"#)
            .expect("the pattern is a constant")
    });
    SEAM.replace_all(text, "").into_owned()
}

#[cfg(test)]
#[path = "secrets/tests.rs"]
mod tests;
