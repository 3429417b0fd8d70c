//! A command that a client of the HTTP server sends, and its output. The client's rights are decided before.

use crate::context::LoopFilesOnce;
use crate::output::{OutputChunk, OutputReceiver};
use loopwright::Actor;
use loopwright_core::secrets::redact_json;
use serde_json::Value;
use std::path::PathBuf;

/// The most bytes of each stream that are kept.
const KEPT_MAX: usize = 16 << 20;

/// A command line with its actor.
#[derive(Debug)]
pub(crate) struct FaceRequest {
    /// The arguments, without the program's own name.
    pub(crate) words: Vec<String>,
    /// The repository; `None` for the daemon's own.
    pub(crate) repo: Option<PathBuf>,
    /// The person or program behind it.
    pub(crate) actor: Actor,
    /// The loop files that it shares with the other commands of a page; `None` for a command that changes something.
    pub(crate) files: Option<LoopFilesOnce>,
}

/// The output of a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaceAnswer {
    pub(crate) out: String,
    pub(crate) err: String,
}

impl FaceAnswer {
    /// Collects the output to its end.
    pub(crate) async fn collect(mut output: OutputReceiver) -> Self {
        let mut answer = Self::default();
        while let Some(chunk) = output.next().await {
            let (kept, text) = match chunk {
                OutputChunk::Out(text) => (&mut answer.out, text),
                OutputChunk::Err(text) => (&mut answer.err, text),
            };
            if kept.len() + text.len() <= KEPT_MAX {
                kept.push_str(&text);
            }
        }
        answer
    }

    /// The document that the command printed, with secrets removed; `None` if it printed none.
    pub(crate) fn document(&self) -> Option<Value> {
        serde_json::from_str(&self.out).ok().map(redact_json)
    }
}
