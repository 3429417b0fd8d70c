//! An answer of the model, before it is written in a protocol's format.

use loopwright_core::budget::Tokens;
use serde_json::Value;

/// The model's answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelReply {
    pub(super) model: String,
    /// The request's number, for ids.
    pub(super) number: u64,
    pub(super) text: String,
    pub(super) call: Option<ScenarioCall>,
    pub(super) stop: StopReason,
    pub(super) usage: Tokens,
}

/// A longer text arrives in pieces, as models send it.
const WHOLE_MAX: usize = 1_000;
/// Bytes of such a piece.
const PIECE: usize = 40;

/// A text as a stream sends it.
pub(super) fn text_pieces(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while text.len() > PIECE && (!pieces.is_empty() || text.len() > WHOLE_MAX) {
        let (piece, rest) = text.split_at(text.floor_char_boundary(PIECE));
        pieces.push(piece);
        text = rest;
    }
    pieces.push(text);
    pieces
}

/// The reason why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReason {
    /// The answer is complete.
    End,
    /// It waits for a tool.
    Tool,
    /// It reached the maximum length.
    Length,
    /// The provider refuses to continue.
    Refusal,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScenarioCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) payload: ToolPayload,
}

/// The input of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ToolPayload {
    /// A JSON object.
    Object(Value),
    /// Free text.
    Text(String),
}

impl ToolPayload {
    /// As a JSON object, which every protocol but one needs.
    pub(super) fn to_object(&self) -> Value {
        match self {
            Self::Object(value) => value.clone(),
            Self::Text(text) => serde_json::json!({ "input": text }),
        }
    }
}
