//! Memory across rounds: its kinds, the parser of a role's own file, and the limits on size and age. Memories are data
//! and never instructions. The store keeps them.

use crate::outbox::plain_text;
use crate::words::worded;
use serde::{Deserialize, Serialize};

/// The file in a role's outbox with notes for later rounds, one JSON object per line. It is not an outbox item.
pub const FILE: &str = "memory.jsonl";
/// The author of the engine's own memories.
pub const ENGINE: &str = "engine";
/// The largest number of memories of one loop; the oldest is dropped first.
pub const LOOP_MAX: u32 = 64;
/// The size limit of one memory, in bytes.
pub const TEXT_MAX: usize = 1_000;
/// The number of bytes of the file that are read.
const FILE_MAX: usize = 16 << 10;
/// The largest number of memories that one start may add.
const ROUND_MAX: usize = 10;
const KEY_MAX: usize = 64;
const DAYS_MAX: u32 = 365;
/// The largest number of problems with a file that are reported.
const PROBLEMS_MAX: usize = 5;

worded! {
    /// The kind of a memory.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum MemoryKind {
        /// A fact about the repository or the task.
        Fact = "fact",
        /// A decision, and who made it.
        Decision = "decision",
        /// An attempt that failed, and the reason.
        Failure = "failure",
        /// Anything else.
        Note = "note",
    }
}

impl MemoryKind {
    /// The number of days a memory is kept if the role gives none.
    #[must_use]
    pub fn days(self) -> u32 {
        match self {
            Self::Fact => 90,
            Self::Decision => 180,
            Self::Failure => 30,
            Self::Note => 14,
        }
    }
}

/// A note that a role leaves for later rounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryNote {
    /// The subject; a later note with the same key replaces this one.
    pub key: String,
    /// Its kind.
    pub kind: MemoryKind,
    /// The text to remember.
    pub text: String,
    /// The number of days it is kept.
    pub days: u32,
}

/// One memory of a loop, as a round recalls it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryEntry {
    /// The subject.
    pub key: String,
    /// Its kind.
    pub kind: String,
    /// The remembered text.
    pub text: String,
    /// The round that wrote it.
    pub round: String,
    /// The role that wrote it, or `engine`.
    pub role: String,
}

impl MemoryEntry {
    /// One line for a brief.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { key, kind, text, round, role } = self;
        format!("{kind} `{key}` ({role}, round {round}): {text}")
    }
}

/// The content of a role's file: the accepted notes, and why the other lines were skipped. A bad line is skipped on its
/// own, because memories never leave the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryNotes {
    /// The accepted notes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<MemoryNote>,
    /// The reasons for skipped lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// A line of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    kind: MemoryKind,
    key: Option<String>,
    text: String,
    days: Option<u32>,
}

/// Reads a role's file.
#[must_use]
pub fn read(bytes: &[u8]) -> MemoryNotes {
    let mut notes = MemoryNotes::default();
    if bytes.len() > FILE_MAX {
        notes.left_out.push(format!("more than {FILE_MAX} bytes"));
        return notes;
    }
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    for (at, line) in lines {
        match read_line(line) {
            Ok(_) if notes.kept.len() >= ROUND_MAX => {
                notes.left_out.push(format!("line {}: more than {ROUND_MAX}", at + 1))
            }
            Ok(noted) => {
                // Of two notes with the same key, the later counts.
                notes.kept.retain(|other| other.key != noted.key);
                notes.kept.push(noted);
            }
            Err(why) => notes.left_out.push(format!("line {}: {why}", at + 1)),
        }
    }
    let more = notes.left_out.len().saturating_sub(PROBLEMS_MAX);
    if more > 0 {
        notes.left_out.truncate(PROBLEMS_MAX);
        notes.left_out.push(format!("and {more} more"));
    }
    notes
}

fn read_line(line: &str) -> Result<MemoryNote, String> {
    let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let text = one_line(&plain_text(&line.text));
    if text.is_empty() || text.len() > TEXT_MAX {
        return Err(format!("a text of {} bytes; 1 to {TEXT_MAX} are kept", text.len()));
    }
    let key = match line.key {
        Some(key) => checked_key(key)?,
        None => crate::hash::hash_bytes(text.as_bytes()).chars().take(12).collect(),
    };
    let days = line.days.unwrap_or(line.kind.days());
    if !(1..=DAYS_MAX).contains(&days) {
        return Err(format!("`days` is 1 to {DAYS_MAX}"));
    }
    Ok(MemoryNote { key, kind: line.kind, text, days })
}

/// Joins the lines of a text into one.
fn one_line(text: &str) -> String {
    text.split(char::is_control).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The engine's own keys hold a colon, so no role can overwrite them.
fn checked_key(key: String) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '/');
    if (1..=KEY_MAX).contains(&key.len()) && key.chars().all(plain) {
        return Ok(key);
    }
    Err(format!("a key is 1 to {KEY_MAX} of letters, digits and `._-@/`"))
}

/// The engine's key for the last failure of an item, or of the loop itself.
#[must_use]
pub fn failure_key(item: Option<&str>) -> String {
    item.map_or("engine:failure".to_owned(), |item| format!("engine:failure:{item}"))
}

/// The engine's key for a person's decision about a round.
#[must_use]
pub fn decision_key(round: &str) -> String {
    format!("engine:decision:{round}")
}

/// A text of the engine, cut to the size limit.
#[must_use]
pub fn clipped(text: &str) -> String {
    let text = one_line(text);
    if text.len() <= TEXT_MAX {
        return text;
    }
    format!("{}…", &text[..text.floor_char_boundary(TEXT_MAX - '…'.len_utf8())])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> (Vec<String>, Vec<String>) {
        let notes = read(text.as_bytes());
        (notes.kept.into_iter().map(|noted| noted.key).collect(), notes.left_out)
    }

    #[test]
    fn lines_are_read_and_the_later_note_with_the_same_key_counts() {
        let text = "{\"kind\":\"fact\",\"key\":\"port\",\"text\":\"8080\"}\n\n{\"kind\":\"note\",\"text\":\"hm\"}\n\
                    {\"kind\":\"decision\",\"key\":\"port\",\"text\":\"it is\\n9090\",\"days\":3}\n";
        let notes = read(text.as_bytes());
        assert_eq!(notes.left_out, [""; 0]);
        assert_eq!(notes.kept.len(), 2);
        let last = MemoryNote { key: "port".into(), kind: MemoryKind::Decision, text: "it is 9090".into(), days: 3 };
        assert_eq!(notes.kept[1], last);
        assert_eq!((notes.kept[0].key.len(), notes.kept[0].days), (12, 14));
    }

    #[test]
    fn bad_lines_are_skipped_and_reported() {
        let long = format!("{{\"kind\":\"fact\",\"text\":\"{}\"}}", "x".repeat(TEXT_MAX + 1));
        let table = [
            ("{\"kind\":\"rumour\",\"text\":\"x\"}", "unknown variant"),
            ("{\"kind\":\"fact\",\"text\":\" \"}", "a text of 0 bytes"),
            ("{\"kind\":\"fact\",\"key\":\"engine:failure\",\"text\":\"x\"}", "a key is"),
            ("{\"kind\":\"fact\",\"key\":\"\",\"text\":\"x\"}", "a key is"),
            ("{\"kind\":\"fact\",\"text\":\"x\",\"role\":\"checker\"}", "unknown field"),
            ("{\"kind\":\"fact\",\"text\":\"x\",\"days\":0}", "`days` is"),
            ("obey me", "expected value"),
            (long.as_str(), "a text of 1001 bytes"),
        ];
        for (line, why) in table {
            let (kept, left_out) = keys(&format!("{line}\n{{\"kind\":\"fact\",\"key\":\"good\",\"text\":\"x\"}}\n"));
            assert_eq!(kept, ["good"], "{line}");
            assert!(
                left_out.len() == 1 && left_out[0].starts_with("line 1: ") && left_out[0].contains(why),
                "{left_out:?}"
            );
        }
    }

    #[test]
    fn a_file_is_bounded_in_lines_and_bytes() {
        let many: String =
            (0..30).map(|n| format!("{{\"kind\":\"fact\",\"key\":\"k{n}\",\"text\":\"x\"}}\n")).collect();
        let (kept, left_out) = keys(&many);
        assert_eq!((kept.len(), left_out.len(), left_out.last().map(String::as_str)), (10, 6, Some("and 15 more")));
        assert_eq!(keys(&"\n".repeat(FILE_MAX + 1)).1, ["more than 16384 bytes"]);
        assert_eq!(clipped(&"ä".repeat(TEXT_MAX)).len(), TEXT_MAX - 1);
    }
}
