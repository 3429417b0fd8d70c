//! The protocol between the engine and the process that performs a script: a task on stdin, notes between the text.

use super::verb::{ScriptStep, ScriptTrouble};
use crate::agents::run_listener::AgentNote;
use crate::clock::{Clock as _, SystemClock};
use crate::proc::CapturedOutput;
use loopwright_core::budget::Tokens;
use loopwright_core::provider::ProviderTrouble;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The request to a host process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HostPayload {
    /// The prefix of notes.
    pub(super) marker: String,
    /// The task.
    pub(super) task: HostTask,
}

impl HostPayload {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("steps are plain data and serialise")
    }
}

/// The task of one host process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum HostTask {
    /// Performs a block.
    Steps(Vec<ScriptStep>),
    /// The task that a hostile step started it for.
    #[cfg(feature = "hostile")]
    Hostile(super::hostile::HostileTask),
}

/// A note as JSON, between its marker and the end of its line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum HostNote {
    /// Another turn.
    Turn,
    /// Counts as written in the script.
    Usage(BTreeMap<String, String>),
    /// A provider's trouble; its retry time counts from when the note is read.
    Trouble(ScriptTrouble),
}

/// Parses a note; one that cannot be parsed makes the usage unknown.
pub(super) fn read_note(bytes: &[u8]) -> AgentNote {
    match serde_json::from_slice(bytes) {
        Ok(HostNote::Turn) => AgentNote::Turn,
        Ok(HostNote::Usage(counts)) => tokens(&counts).map_or(AgentNote::Unusable, AgentNote::Usage),
        Ok(HostNote::Trouble(word)) => AgentNote::Trouble(trouble(word)),
        Err(_) => AgentNote::Unusable,
    }
}

fn trouble(word: ScriptTrouble) -> ProviderTrouble {
    let after_ms = |seconds: u32| SystemClock.now_ms().saturating_add(i64::from(seconds) * 1000);
    let retry_at_ms = word.retry_after.map(after_ms);
    ProviderTrouble { kind: word.kind, status: word.status, retry_at_ms, text: word.text }
}

fn tokens(counts: &BTreeMap<String, String>) -> Option<Tokens> {
    let mut tokens = Tokens::default();
    for (key, value) in counts {
        let field = match key.as_str() {
            "input" => &mut tokens.input,
            "output" => &mut tokens.output,
            "cache_read" => &mut tokens.cache_read,
            "cache_write" => &mut tokens.cache_write,
            _ => return None,
        };
        *field = value.parse().ok()?;
    }
    Some(tokens)
}

/// Removes the notes from the captured output, which people read.
pub(super) fn strip_notes(kept: &mut CapturedOutput, marker: &[u8]) {
    let whole = kept.complete_bytes();
    let before = kept.head.len() + kept.tail.len();
    match whole {
        // A note may extend across the boundary of head and tail.
        Some(whole) => (kept.head, kept.tail) = (without(&whole, marker), Vec::new()),
        None => (kept.head, kept.tail) = (without(&kept.head, marker), without(&kept.tail, marker)),
    }
    kept.total -= (before - kept.head.len() - kept.tail.len()) as u64;
}

fn without(mut bytes: &[u8], marker: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    while let Some(at) = bytes.windows(marker.len()).position(|window| window == marker) {
        text.extend_from_slice(&bytes[..at]);
        let note = &bytes[at..];
        bytes = &note[note.iter().position(|byte| *byte == b'\n').map_or(note.len(), |end| end + 1)..];
    }
    text.extend_from_slice(bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> AgentNote {
        read_note(text.as_bytes())
    }

    #[test]
    fn usage_that_is_no_number_is_unusable() {
        let tokens = Tokens { input: 12, output: 3, ..Tokens::default() };
        assert_eq!(read(r#"{"Usage":{"input":"12","output":"3"}}"#), AgentNote::Usage(tokens));
        assert_eq!(read("\"Turn\""), AgentNote::Turn);
        for odd in ["NaN", "-1", "1.5", "", "18446744073709551616"] {
            assert_eq!(read(&format!(r#"{{"Usage":{{"input":"{odd}"}}}}"#)), AgentNote::Unusable, "{odd}");
        }
        assert_eq!(read(r#"{"Usage":{"money":"1"}}"#), AgentNote::Unusable);
        assert_eq!(read(r#"{"Usage":"#), AgentNote::Unusable);
    }

    #[test]
    fn notes_are_taken_out_of_kept_output() {
        let (head, tail) = (b"one\n<7>Tu".to_vec(), b"rn\ntwo<7>x\n".to_vec());
        let mut kept = CapturedOutput { total: (head.len() + tail.len()) as u64, head, tail };
        strip_notes(&mut kept, b"<7>");
        assert_eq!((kept.to_lossy_string().as_str(), kept.total), ("one\ntwo", 7));
    }
}
