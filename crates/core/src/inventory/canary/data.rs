//! Falsified data files: JSON, YAML, TOML, CSV and plain text that tests compare with.

use super::super::mask::CommentGrammar;
use super::super::tokens::{SourceTokens, TokenKind};
use super::{CANARY_FILE_BYTES_MAX, CanaryEdit, literals, replaced};

/// Keys of expected values.
const KEYS: [&str; 9] = ["expect", "out", "result", "want", "answer", "value", "total", "status", "response"];

/// The most values that are changed in one file.
const VALUES_MAX: usize = 2_000;

/// The file with its expected values changed, or `None` if no value can be.
#[must_use]
pub fn falsify_data(path: &str, text: &str, roll: u64) -> Option<String> {
    if text.len() > CANARY_FILE_BYTES_MAX {
        return None;
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let edits = match name.rsplit_once('.')?.1 {
        "json" | "jsonl" | "ndjson" => json(text, roll),
        "yaml" | "yml" => keyed_lines(text, ": ", roll),
        "toml" | "ini" | "properties" => keyed_lines(text, "=", roll),
        "csv" | "tsv" | "txt" | "out" | "expected" | "golden" | "snap" => last_fields(text, roll),
        _ => return None,
    };
    (!edits.is_empty()).then(|| replaced(text, edits)).filter(|new| new != text)
}

fn is_expected(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    KEYS.iter().any(|known| lower.contains(known))
}

/// Values under keys of expected values; without such keys, the last value of each array, and all values of objects.
fn json(text: &str, roll: u64) -> Vec<CanaryEdit> {
    let tokens = SourceTokens::of(text, CommentGrammar::JavaScript);
    let mut all: Vec<(bool, CanaryEdit)> = Vec::new();
    let mut under = false;
    let has_keys = (0..tokens.len()).any(|at| tokens.is(at, b':'));
    for at in 0..tokens.len() {
        if tokens.kind(at) == Some(TokenKind::Text) && tokens.is(at + 1, b':') {
            under = is_expected(tokens.literal(at).unwrap_or_default());
            continue;
        }
        if tokens.is(at, b'}') {
            under = false;
        }
        let is_value = [b':', b',', b'['].iter().any(|sign| tokens.is(at.wrapping_sub(1), *sign))
            || tokens.is(at.wrapping_sub(1), b'-');
        let Some(edit) = is_value.then(|| scalar(&tokens, at, text, roll.wrapping_add(at as u64))).flatten() else {
            continue;
        };
        // In an array without keys, the expected value is the last one.
        let is_last = tokens.is(at + 1, b']') || tokens.is(at + 3, b']') && tokens.is(at + 1, b'.');
        all.push((under || is_last && !has_keys, edit));
    }
    let chosen: Vec<CanaryEdit> = all.iter().filter(|(expected, _)| *expected).map(|(_, edit)| edit.clone()).collect();
    let edits = if chosen.is_empty() { all.into_iter().map(|(_, edit)| edit).collect() } else { chosen };
    edits.into_iter().take(VALUES_MAX).collect()
}

fn scalar(tokens: &SourceTokens<'_>, at: usize, text: &str, roll: u64) -> Option<CanaryEdit> {
    let (start, mut end) = tokens.span(at);
    let new = match tokens.kind(at)? {
        TokenKind::Text => literals::text(text.get(start..end)?, super::CanaryLanguage::JavaScript, roll)?,
        TokenKind::Word => match literals::boolean(tokens.word(at)) {
            Some(other) => other.to_owned(),
            None => {
                if tokens.is(at + 1, b'.') {
                    end = tokens.span(at + 2).1;
                }
                literals::number(text.get(start..end)?, roll)?
            }
        },
        TokenKind::Sign(_) => return None,
    };
    Some(CanaryEdit { start, end, text: new })
}

/// `key: value` and `key = value`.
fn keyed_lines(text: &str, mark: &str, roll: u64) -> Vec<CanaryEdit> {
    let mut all: Vec<(bool, CanaryEdit)> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let body = line.trim_end();
        let Some(split) = body.find(mark).filter(|_| !body.trim_start().starts_with('#')) else { continue };
        let value = body[split + mark.len()..].trim();
        let from = start + body.len() - body[split + mark.len()..].trim_start().len();
        let Some(new) = changed_value(value, roll.wrapping_add(start as u64)) else { continue };
        all.push((is_expected(&body[..split]), CanaryEdit { start: from, end: from + value.len(), text: new }));
    }
    let expected: Vec<CanaryEdit> = all.iter().filter(|(is, _)| *is).map(|(_, edit)| edit.clone()).collect();
    let edits = if expected.is_empty() { all.into_iter().map(|(_, edit)| edit).collect() } else { expected };
    edits.into_iter().take(VALUES_MAX).collect()
}

/// The last field of each line.
fn last_fields(text: &str, roll: u64) -> Vec<CanaryEdit> {
    let mut edits = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let body = line.trim_end();
        let field = body.rsplit([',', '\t', ';', ' ']).next().unwrap_or_default();
        let from = start + body.len() - field.len();
        let Some(new) = changed_value(field, roll.wrapping_add(start as u64)) else { continue };
        edits.push(CanaryEdit { start: from, end: from + field.len(), text: new });
    }
    edits.into_iter().take(VALUES_MAX).collect()
}

fn changed_value(value: &str, roll: u64) -> Option<String> {
    if value.is_empty() || value.starts_with(['{', '[', '|', '>', '&', '*', '!']) {
        return None;
    }
    if let Some(other) = literals::boolean(value) {
        return Some(other.to_owned());
    }
    if value.starts_with(['"', '\'']) {
        return literals::text(value, super::CanaryLanguage::Python, roll);
    }
    if value.starts_with(|c: char| c.is_ascii_digit())
        && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return literals::number(value, roll);
    }
    Some(literals::words(value, roll))
}
