//! Parses lines of a JSON stream cheaply. A line that cannot be parsed is not an event; each reader decides what that
//! means.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

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

/// A line as an event of this form, with invalid UTF-8 replaced; `None` if it has another form.
pub(super) fn read<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    serde_json::from_str(&String::from_utf8_lossy(line)).ok()
}

/// The input of a tool, in a line: the command that it runs, or the file, pattern or address that it is about.
pub(super) fn tool_input(input: Option<&RawValue>) -> String {
    #[derive(Deserialize)]
    struct Input {
        command: Option<String>,
        #[serde(alias = "filePath")]
        file_path: Option<String>,
        pattern: Option<String>,
        url: Option<String>,
        dir_path: Option<String>,
    }
    let input: Option<Input> = input.and_then(|input| serde_json::from_str(input.get()).ok());
    let all = |input: Input| [input.command, input.file_path, input.pattern, input.url, input.dir_path];
    let first = input.and_then(|input| all(input).into_iter().flatten().next());
    first_line(&first.unwrap_or_default()).to_owned()
}

/// An HTTP status.
pub(super) fn status(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|status| status.try_into().ok())
}

/// An id of any length as a number, so that many can be stored.
pub(super) fn short_id(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// The first line of a text, bounded, to show the input of a tool.
pub(super) fn first_line(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    &line[..line.floor_char_boundary(200)]
}
