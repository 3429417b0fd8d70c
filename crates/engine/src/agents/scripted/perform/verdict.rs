//! Writes a verdict as an honest checker would: bound to the values in the environment, with quotes from the files.

use super::super::verb::{ScriptCitation, ScriptScore};
use super::{Done, variable};
use crate::agents::env;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The longest quote in a verdict file.
const QUOTE_MAX: usize = 2000;

pub(super) fn write(word: &str, scores: &[ScriptScore], summary: &str) -> Done {
    let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
    let file = json!({
        "nonce": text(env::NONCE)?,
        "tree": text(env::TREE)?,
        "candidate": text(env::CANDIDATE)?,
        "verdict": word,
        "summary": summary,
        "scores": scores.iter().map(score).collect::<Vec<_>>(),
    });
    write_raw(&file.to_string())
}

pub(super) fn write_raw(text: &str) -> Done {
    let path = variable(env::VERDICT)?;
    std::fs::write(&path, text).map_err(|error| format!("write the verdict `{}`: {error}", path.display()))
}

fn score(word: &ScriptScore) -> Value {
    let evidence: Vec<_> = word.places.iter().map(evidence).collect();
    json!({ "dimension": word.dimension, "score": word.score, "why": "scripted", "evidence": evidence })
}

fn evidence(place: &ScriptCitation) -> Value {
    match place {
        ScriptCitation::Gate(gate) => json!({ "gate": gate }),
        ScriptCitation::Line { path, line } => {
            json!({ "path": path, "line": line, "quote": quote(Path::new(path), *line) })
        }
        ScriptCitation::Item { item, line } => {
            json!({ "item": item, "line": line, "quote": quote(&staged(item), *line) })
        }
    }
}

/// The path of an item: among the sealed items if the role sees them, else in the outbox folder.
fn staged(item: &str) -> PathBuf {
    variable(env::ITEMS).or_else(|_| variable(env::OUTBOX)).unwrap_or_default().join(item)
}

/// The cited line; empty, and so without effect, if it does not exist.
fn quote(path: &Path, line: u32) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let found = usize::try_from(line).ok().and_then(|line| text.lines().nth(line.checked_sub(1)?));
    let found = found.unwrap_or_default().trim();
    found[..found.floor_char_boundary(QUOTE_MAX)].to_owned()
}
