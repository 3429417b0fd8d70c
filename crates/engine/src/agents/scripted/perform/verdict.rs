//! Writes a verdict as an honest checker would: bound to the values in the environment, with quotes from the files.

use super::super::script_text::{ScriptCitation, ScriptVerdict};
use super::{Done, variable};
use crate::agents::env;
use std::path::{Path, PathBuf};

/// The longest quote in a verdict file.
const QUOTE_MAX: usize = 2000;

pub(super) fn write(verdict: &ScriptVerdict) -> Done {
    let path = variable(env::VERDICT)?;
    let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
    let binding = match verdict {
        ScriptVerdict::Honest { .. } => [text(env::NONCE)?, text(env::TREE)?, text(env::CANDIDATE)?],
        ScriptVerdict::Raw(_) => Default::default(),
    };
    let quote = |place: &ScriptCitation| match place {
        ScriptCitation::Gate(_) => String::new(),
        ScriptCitation::Line(path, line, _) => quote(Path::new(path), *line),
        ScriptCitation::Item(item, line, _) => quote(&staged(item), *line),
    };
    std::fs::write(&path, verdict.write(binding.each_ref().map(String::as_str), quote))
        .map_err(|error| format!("write the verdict `{}`: {error}", path.display()))
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
