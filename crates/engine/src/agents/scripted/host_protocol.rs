//! The protocol between the engine and the process that performs a script: a task on stdin, notes between the text.

use super::verb::{ScriptStep, ScriptTrouble};
use crate::agents::run_listener::AgentNote;
use crate::clock::{Clock as _, SystemClock};
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
pub(in crate::agents) fn read_note(bytes: &[u8]) -> AgentNote {
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
}
