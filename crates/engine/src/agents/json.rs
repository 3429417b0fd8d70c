//! Parses lines of a JSON stream cheaply. A line that cannot be parsed is not an event; each reader decides what that
//! means.

use serde::Deserialize;
use std::borrow::Cow;

/// A line's `type`. Programs write it first, so lines that are not needed are not parsed further.
pub(super) fn kind(line: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Any<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    let Some(rest) = line.strip_prefix(b"{\"type\":\"") else {
        return serde_json::from_slice::<Any<'_>>(line).ok().map(|any| any.kind);
    };
    let end = memchr::memchr2(b'"', b'\\', &rest[..rest.len().min(100)])?;
    std::str::from_utf8(&rest[..end]).ok().map(Cow::Borrowed)
}

/// A line as UTF-8, with invalid bytes replaced.
pub(super) fn lossy_text(line: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(line)
}

/// The first line of a text, bounded, to show the input of a tool.
pub(super) fn first_line(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    &line[..line.floor_char_boundary(200)]
}
