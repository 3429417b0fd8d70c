//! The secrets gate: finds credentials in the lines, names and texts that a maker added. A finding names the rule and
//! the place, never the value. The same search redacts everything that is stored or shown.
//!
//! There are two searches: a table of public formats, and the exact values that the caller knows, in every spelling
//! that is cheap to search for, whole and in pieces. Placeholders are not findings, because documents need examples.
//! Time is linear in the text and memory is limited to one window of it.

mod codec;
mod environment;
mod formats;
mod known_values;
mod rules;
mod stream;
mod text_reading;

pub use environment::credential;
pub use stream::{PieceEnd, RedactingStream};

use crate::gate::added_lines::AddedLines;
use formats::PatternTrust;
use known_values::{KnownValues, ValueCoverage};
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;
use text_reading::TextReading;

/// The size of one window, and the overlap of two windows, so that no border cuts a value.
const WINDOW: usize = 1 << 20;
const OVERLAP: usize = 32 << 10;

/// The largest number of times a decoded run is decoded again.
const DEPTH_MAX: u32 = 2;

/// The rule name for values that the caller knows.
const KNOWN_VALUE: &str = "known-value";

/// A found secret. It does not contain the value, so the value cannot be printed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SecretHit {
    /// The rule that found it.
    pub rule: String,
    /// The place: `path:line`, `name of path`, `commit message`, an outbox item.
    pub place: String,
}

impl SecretHit {
    fn new(rule: &str, place: impl Into<String>) -> Self {
        Self { rule: rule.to_owned(), place: place.into() }
    }
}

/// All texts of a candidate that would leave the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct CandidateTexts<'a> {
    /// The lines it added.
    pub added: &'a [AddedLines],
    /// The changed files in base: a value that was already there is not new.
    pub before: &'a [&'a [u8]],
    /// The paths of the candidate.
    pub names: &'a [&'a str],
    /// Commit message, outbox items, branch: each with its place.
    pub texts: &'a [(&'a str, &'a str)],
}

/// The text with values of public formats replaced by the name of their rule, for everything that is shown or stored.
/// It is a second defence after the gate, for callers that know no values.
#[must_use]
pub fn redact(text: &str) -> Cow<'_, str> {
    static BY_FORMAT: LazyLock<SecretScanner> = LazyLock::new(SecretScanner::default);
    BY_FORMAT.redact(text)
}

/// A document with every text in it [redacted](redact).
#[must_use]
pub fn redact_json(document: Value) -> Value {
    map_texts(document, &|text| redact(&text).into_owned())
}

fn map_texts(document: Value, change: &dyn Fn(String) -> String) -> Value {
    match document {
        Value::String(text) => Value::String(change(text)),
        Value::Array(all) => Value::Array(all.into_iter().map(|one| map_texts(one, change)).collect()),
        Value::Object(all) => {
            Value::Object(all.into_iter().map(|(key, value)| (key, map_texts(value, change))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => document,
    }
}

/// Searches texts; holds the values that the caller knows.
#[derive(Default)]
pub struct SecretScanner {
    known: Option<KnownValues>,
}

impl std::fmt::Debug for SecretScanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scanner({} known values)", self.known.as_ref().map_or(0, KnownValues::len))
    }
}

/// A value found in a text.
struct Sighting {
    rule: &'static str,
    span: Range<usize>,
}

impl SecretScanner {
    /// A scanner that also knows these values; values that are too short for a reliable match are dropped.
    #[must_use]
    pub fn new<S: AsRef<str>>(known: impl IntoIterator<Item = S>) -> Self {
        Self { known: KnownValues::new(known) }
    }

    /// Searches all texts that would leave the machine, including values that are spread over several of them.
    #[must_use]
    pub fn scan_candidate(&self, candidate: &CandidateTexts<'_>) -> Vec<SecretHit> {
        let mut held = ValueCoverage::default();
        let mut found: Vec<(SecretHit, String)> = Vec::new();
        candidate.added.iter().for_each(|file| found.extend(self.in_file(file, &mut held)));
        for name in candidate.names {
            found.extend(self.in_text(name, &mut held, |_| "a file's name".to_owned()));
        }
        for (place, text) in candidate.texts {
            found.extend(self.in_text(text, &mut held, |line| format!("{place}:{line}")));
        }
        if !found.is_empty() {
            let old = old_values(candidate.before);
            found.retain(|(hit, value)| hit.rule == KNOWN_VALUE || !old.contains(value));
        }
        let mut hits: Vec<SecretHit> = found.into_iter().map(|(hit, _)| hit).collect();
        let in_pieces = self.known.as_ref().is_some_and(|known| known.is_complete(&held));
        if in_pieces && !hits.iter().any(|hit| hit.rule == KNOWN_VALUE) {
            hits.push(SecretHit::new(KNOWN_VALUE, "pieces all over the candidate"));
        }
        finish(hits)
    }

    /// Searches one text, such as a commit message or an outbox item; `place` names it.
    #[must_use]
    pub fn scan_text(&self, place: &str, text: &str) -> Vec<SecretHit> {
        self.scan_candidate(&CandidateTexts { texts: &[(place, text)], ..CandidateTexts::default() })
    }

    /// Searches a path itself.
    #[must_use]
    pub fn scan_name(&self, path: &str) -> Vec<SecretHit> {
        self.scan_candidate(&CandidateTexts { names: &[path], ..CandidateTexts::default() })
    }

    /// Searches the lines that a change added.
    #[must_use]
    pub fn scan_added(&self, files: &[AddedLines]) -> Vec<SecretHit> {
        self.scan_candidate(&CandidateTexts { added: files, ..CandidateTexts::default() })
    }

    /// The text with each value replaced by the name of its rule. Pieces that only together form a value stay; use
    /// [`SecretScanner::clean`] if no piece may stay.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let found = self.sightings(text, &mut ValueCoverage::default());
        if found.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(cut_out(text, found)) }
    }

    /// The text in a form that may be stored: redacted, or withheld as a whole if a value would still be in it.
    #[must_use]
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let hits = self.scan_text("", text);
        if hits.is_empty() {
            return Cow::Borrowed(text);
        }
        let redacted = self.redact(text);
        if self.scan_text("", &redacted).is_empty() {
            return redacted;
        }
        let rules: Vec<_> = hits.into_iter().map(|hit| hit.rule).collect();
        Cow::Owned(format!("[withheld: {}]", rules.join(", ")))
    }

    /// The same for bytes; bytes that are not text stay unchanged unless they contain a value.
    #[must_use]
    pub fn clean_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let text = String::from_utf8_lossy(bytes);
        match self.clean(&text) {
            Cow::Borrowed(_) => Cow::Borrowed(bytes),
            Cow::Owned(clean) => Cow::Owned(clean.into_bytes()),
        }
    }

    /// A document with every text in it [cleaned](SecretScanner::clean).
    #[must_use]
    pub fn clean_json(&self, document: Value) -> Value {
        map_texts(document, &|text| self.clean(&text).into_owned())
    }

    fn in_file(&self, file: &AddedLines, held: &mut ValueCoverage) -> Vec<(SecretHit, String)> {
        let lines: Vec<&str> = file.lines.iter().map(|line| line.text.as_str()).collect();
        let number = |line: usize| file.lines.get(line - 1).map_or(0, |line| line.number);
        self.in_text(&lines.join("\n"), held, |line| format!("{}:{}", file.path, number(line)))
    }

    /// Findings in a text with their values; `place` receives the line, from 1.
    fn in_text(
        &self,
        text: &str,
        held: &mut ValueCoverage,
        place: impl Fn(usize) -> String,
    ) -> Vec<(SecretHit, String)> {
        let mut found = self.sightings(text, held);
        found.sort_by_key(|sighting| sighting.span.start);
        let (mut line, mut from) = (1, 0);
        let hits = found.into_iter().map(|sighting| {
            let at = sighting.span.start.clamp(from, text.len());
            line += text.as_bytes()[from..at].iter().filter(|byte| **byte == b'\n').count();
            from = at;
            (SecretHit::new(sighting.rule, place(line)), text.get(sighting.span).unwrap_or_default().to_owned())
        });
        hits.collect()
    }

    fn sightings(&self, text: &str, held: &mut ValueCoverage) -> Vec<Sighting> {
        let mut found = Vec::new();
        for window in windows(text) {
            let before = found.len();
            self.in_window(&text[window.clone()], held, &mut found);
            found[before..].iter_mut().for_each(|one| {
                one.span = one.span.start + window.start..one.span.end + window.start;
            });
        }
        found
    }

    fn in_window(&self, text: &str, held: &mut ValueCoverage, found: &mut Vec<Sighting>) {
        let start = found.len();
        found.extend(rules::find_formats(text).into_iter().map(|one| Sighting { rule: one.rule, span: one.span }));
        for (rule, span) in hidden(text) {
            // A finding in plain text has the more exact place.
            if !found[start..].iter().any(|known| known.rule == rule) {
                found.push(Sighting { rule, span });
            }
        }
        let known = self.known.as_ref().map(|known| known.find(text.as_bytes(), held)).unwrap_or_default();
        found.extend(known.into_iter().map(|span| Sighting { rule: KNOWN_VALUE, span }));
        let runs = codec::base64_runs(text).chain(codec::hex_runs(text));
        for (span, decoded) in runs {
            let rules = self.in_decoded(&decoded, DEPTH_MAX);
            found.extend(rules.into_iter().map(|rule| Sighting { rule, span: span.clone() }));
        }
    }

    /// The rules that match decoded bytes. Only distinct formats count, because decoded bytes look random.
    fn in_decoded(&self, decoded: &[u8], depth: u32) -> Vec<&'static str> {
        if !is_legible(decoded) {
            return Vec::new();
        }
        let text = String::from_utf8_lossy(decoded);
        let distinct = rules::find_formats(&text).into_iter().filter(|one| one.trust == PatternTrust::Distinct);
        let mut rules: Vec<_> = distinct.map(|one| one.rule).collect();
        let known =
            self.known.as_ref().is_some_and(|known| !known.find(decoded, &mut ValueCoverage::default()).is_empty());
        rules.extend(known.then_some(KNOWN_VALUE));
        if depth > 1 {
            let runs = codec::base64_runs(&text).chain(codec::hex_runs(&text));
            runs.for_each(|(_, inner)| rules.extend(self.in_decoded(&inner, depth - 1)));
        }
        rules
    }
}

/// Values that only appear after literals are joined or escapes are decoded.
fn hidden(text: &str) -> Vec<(&'static str, Range<usize>)> {
    let joined = join_literals(text);
    let whole = 0..text.len();
    let mut found: Vec<_> = match joined.len() == text.len() {
        true => Vec::new(),
        false => rules::find_formats(&joined).into_iter().map(|one| (one.rule, whole.clone())).collect(),
    };
    if let Some(view) = TextReading::unescaped(text.as_bytes()) {
        let text = String::from_utf8_lossy(&view.bytes);
        let distinct = rules::find_formats(&text).into_iter().filter(|one| one.trust == PatternTrust::Distinct);
        // Replacement characters would shift the positions, so a finding in such a text covers all of it.
        let is_exact = text.len() == view.bytes.len();
        let place = |span: &Range<usize>| if is_exact { view.source(span) } else { whole.clone() };
        found.extend(distinct.map(|one| (one.rule, place(&one.span))));
    }
    found
}

/// The windows of a text.
fn windows(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let start = next?;
        let end = text.floor_char_boundary(start + WINDOW);
        next = (end < text.len()).then(|| text.floor_char_boundary(end - OVERLAP));
        Some(start..end)
    })
}

/// The text with every range replaced by the name of its rule.
fn cut_out(text: &str, mut found: Vec<Sighting>) -> String {
    found.sort_by_key(|one| (one.span.start, one.span.end));
    let (mut clean, mut from) = (String::with_capacity(text.len()), 0);
    for Sighting { rule, span } in found {
        let (start, end) = (text.floor_char_boundary(span.start), text.ceil_char_boundary(span.end));
        if start >= from {
            clean.push_str(&text[from..start]);
            clean.push_str(&format!("[{rule}]"));
        }
        from = from.max(end);
    }
    clean.push_str(&text[from..]);
    clean
}

/// Sorts the findings and removes duplicates.
fn finish(mut hits: Vec<SecretHit>) -> Vec<SecretHit> {
    hits.sort();
    hits.dedup();
    hits
}

/// The values in the changed files of base.
fn old_values(before: &[&[u8]]) -> HashSet<String> {
    let texts = before.iter().map(|bytes| String::from_utf8_lossy(bytes));
    let values = texts.flat_map(|text| {
        let found = rules::find_formats(&text);
        found.into_iter().map(|one| text[one.span].to_owned()).collect::<Vec<_>>()
    });
    values.collect()
}

/// Whether bytes could be text: nearly all of them are printable.
fn is_legible(bytes: &[u8]) -> bool {
    let odd = bytes.iter().filter(|byte| !byte.is_ascii_graphic() && !byte.is_ascii_whitespace()).count();
    odd * 10 <= bytes.len()
}

/// Joins `"abc" + "def"` and literals that continue on the next line.
fn join_literals(text: &str) -> Cow<'_, str> {
    static SEAM: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"['"`]\s*(?:\+|\.{1,2}|<>|\|\||&|\\|~)?\s*(?:\+\s*)?[frbu]?['"`]"#)
            .expect("the pattern is a constant")
    });
    SEAM.replace_all(text, "")
}

#[cfg(test)]
#[path = "secrets/tests.rs"]
mod tests;
