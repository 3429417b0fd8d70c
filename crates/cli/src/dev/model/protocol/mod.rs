//! The providers' protocols: where requests arrive, how they are read into one form, and how answers are written in the
//! provider's words. One file a protocol; nothing is decided here.

mod anthropic;
mod chat;
mod gemini;
mod responses;
#[cfg(test)]
mod tests;

use super::asked::{Asked, Protocol};
use super::reply::Reply;
use super::scenario::{Fault, Usage};
use serde_json::{Value, json};

/// What a path asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) protocol: Protocol,
    pub(super) op: Op,
    /// Gemini names the model in the path.
    model: Option<String>,
}

/// What may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// An answer.
    Answer,
    /// An answer piece by piece, where the path says so.
    Stream,
    /// How many tokens a prompt has.
    Count,
}

impl Route {
    /// What stands before a protocol's own path does not matter: agents add it or not.
    pub(super) fn of(path: &str) -> Option<Self> {
        let plain = |protocol, op| Some(Self { protocol, op, model: None });
        if let Some((_, rest)) = path.rsplit_once("/models/") {
            return Self::gemini(rest);
        }
        match path {
            path if path.ends_with("/messages/count_tokens") => plain(Protocol::Anthropic, Op::Count),
            path if path.ends_with("/messages") => plain(Protocol::Anthropic, Op::Answer),
            path if path.ends_with("/responses") => plain(Protocol::Responses, Op::Answer),
            path if path.ends_with("/chat/completions") => plain(Protocol::Chat, Op::Answer),
            _ => None,
        }
    }

    fn gemini(rest: &str) -> Option<Self> {
        let (model, op) = rest.rsplit_once(':')?;
        let op = match op {
            "generateContent" => Op::Answer,
            "streamGenerateContent" => Op::Stream,
            "countTokens" => Op::Count,
            _ => return None,
        };
        Some(Self { protocol: Protocol::Gemini, op, model: Some(model.to_owned()) })
    }

    /// Reads a request. What is missing counts as empty: agents leave out what they do not use.
    pub(super) fn read(&self, body: &Value) -> Asked {
        let mut asked = match self.protocol {
            Protocol::Anthropic => anthropic::read(body),
            Protocol::Responses => responses::read(body),
            Protocol::Chat => chat::read(body),
            Protocol::Gemini => gemini::read(body),
        };
        asked.streams |= self.op == Op::Stream;
        if let Some(model) = &self.model {
            asked.model.clone_from(model);
        }
        asked
    }
}

impl Protocol {
    /// The answer as pieces of an event stream.
    pub(super) fn events(self, reply: &Reply) -> Vec<String> {
        match self {
            Self::Anthropic => anthropic::events(reply),
            Self::Responses => responses::events(reply),
            Self::Chat => chat::events(reply),
            Self::Gemini => gemini::events(reply),
        }
    }

    /// The answer as one document.
    pub(super) fn document(self, reply: &Reply) -> Value {
        match self {
            Self::Anthropic => anthropic::document(reply),
            Self::Responses => responses::document(reply),
            Self::Chat => chat::document(reply),
            Self::Gemini => gemini::document(reply),
        }
    }

    /// The body of an error.
    pub(super) fn error(self, fault: &Fault) -> Value {
        let text = if fault.text.is_empty() { usual_text(fault.status) } else { fault.text.as_str() };
        match self {
            Self::Anthropic => anthropic::error(fault, text),
            Self::Responses | Self::Chat => openai_error(fault, text),
            Self::Gemini => gemini::error(fault, text),
        }
    }

    /// The event that ends an answer which began well.
    pub(super) fn failed(self, reply: &Reply, code: &str, text: &str) -> String {
        match self {
            Self::Anthropic => anthropic::failed(code, text),
            Self::Responses => responses::failed(reply, code, text),
            Self::Chat => data(&json!({ "error": { "message": text, "type": code, "code": code } })),
            // This one breaks the form of its own stream.
            Self::Gemini => format!("{}\n", json!({ "error": { "code": 503, "message": text, "status": code } })),
        }
    }

    /// The number of tokens of a prompt.
    pub(super) fn count(self, usage: Usage) -> Value {
        match self {
            Self::Gemini => json!({ "totalTokens": usage.prompt() }),
            _ => json!({ "input_tokens": usage.prompt() }),
        }
    }

    /// The tokens that a stream tells of before its words; most protocols tell of them last.
    pub(super) fn told_first(self, usage: Usage) -> Option<Usage> {
        match self {
            Self::Anthropic => Some(anthropic::begun(usage)),
            Self::Responses | Self::Chat | Self::Gemini => None,
        }
    }

    /// What a usage is in this protocol's words, which not all have one for tokens written to a cache.
    pub(super) fn tells(self, usage: Usage) -> Usage {
        match self {
            Self::Anthropic | Self::Responses => usage,
            Self::Chat | Self::Gemini => usage.without_cache_write(),
        }
    }
}

fn usual_text(status: u16) -> &'static str {
    match status {
        401 => "invalid x-api-key",
        403 => "this key may not use this model",
        404 => "no such model",
        429 => "too many requests",
        529 | 503 => "Overloaded",
        500.. => "Internal server error",
        _ => "the request was not understood",
    }
}

fn openai_error(fault: &Fault, text: &str) -> Value {
    let usual = match fault.status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_exceeded",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    let kind = fault.kind.as_deref().unwrap_or(usual);
    json!({ "error": { "message": text, "type": kind, "param": null, "code": kind } })
}

/// An event without a name.
fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// An event whose name is its data's type.
fn event(kind: &str, mut value: Value) -> String {
    // The type comes first, as the providers write it; the map keeps its order.
    let mut whole = json!({ "type": kind });
    if let (Some(whole), Some(rest)) = (whole.as_object_mut(), value.as_object_mut()) {
        whole.append(rest);
    }
    format!("event: {kind}\ndata: {whole}\n\n")
}
