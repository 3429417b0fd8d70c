//! The providers' protocols: the paths of requests, how to parse them into one form, and how to write answers for the
//! provider's clients. One file a protocol; nothing is decided here.

mod anthropic;
mod chat;
pub(super) mod frames;
mod gemini;
mod responses;
#[cfg(test)]
mod tests;

use super::model_request::{ModelProtocol, ModelRequest};
use super::reply::ModelReply;
use super::scenario::{ErrorReply, prompt_tokens};
use loopwright_core::budget::Tokens;
use serde_json::{Value, json};

/// The meaning of a request's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelRoute {
    pub(super) protocol: ModelProtocol,
    pub(super) op: ModelOperation,
    /// Gemini names the model in the path.
    model: Option<String>,
}

/// The operations of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelOperation {
    /// An answer.
    Answer,
    /// An answer as a stream, where the path says so.
    Stream,
    /// The same in Amazon's frames.
    Frames,
    /// How many tokens a prompt has.
    Count,
}

impl ModelRoute {
    /// Ignores the part before a protocol's own path, because some agents add one.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let plain = |protocol, op| Some(Self { protocol, op, model: None });
        if let Some((_, rest)) = path.rsplit_once("/models/") {
            return Self::gemini(rest);
        }
        if let Some(rest) = path.strip_prefix("/model/") {
            return Self::bedrock(rest);
        }
        match path {
            path if path.ends_with("/messages/count_tokens") => plain(ModelProtocol::Anthropic, ModelOperation::Count),
            path if path.ends_with("/messages") => plain(ModelProtocol::Anthropic, ModelOperation::Answer),
            path if path.ends_with("/responses") => plain(ModelProtocol::Responses, ModelOperation::Answer),
            path if path.ends_with("/chat/completions") => plain(ModelProtocol::Chat, ModelOperation::Answer),
            _ => None,
        }
    }

    fn gemini(rest: &str) -> Option<Self> {
        let (model, op) = rest.rsplit_once(':')?;
        let anthropic = |op| Some(Self { protocol: ModelProtocol::Anthropic, op, model: Some(model.to_owned()) });
        let op = match op {
            // Vertex AI serves Anthropic's models in this way.
            "rawPredict" if model == "count-tokens" => return anthropic(ModelOperation::Count),
            "rawPredict" => return anthropic(ModelOperation::Answer),
            "streamRawPredict" => return anthropic(ModelOperation::Stream),
            "generateContent" => ModelOperation::Answer,
            "streamGenerateContent" => ModelOperation::Stream,
            "countTokens" => ModelOperation::Count,
            _ => return None,
        };
        Some(Self { protocol: ModelProtocol::Gemini, op, model: Some(model.to_owned()) })
    }

    /// Bedrock serves Anthropic's models in this way. The colon in their names is escaped.
    fn bedrock(rest: &str) -> Option<Self> {
        let (model, op) = rest.split_once('/')?;
        let op = match op {
            "invoke" => ModelOperation::Answer,
            "invoke-with-response-stream" => ModelOperation::Frames,
            _ => return None,
        };
        let model = model.replace("%3A", ":").replace("%3a", ":");
        Some(Self { protocol: ModelProtocol::Anthropic, op, model: Some(model) })
    }

    /// Parses a request. Missing fields count as empty: agents leave out fields that they do not use.
    pub(super) fn read(&self, body: &Value) -> ModelRequest {
        let mut asked = match self.protocol {
            ModelProtocol::Anthropic => anthropic::read(body),
            ModelProtocol::Responses => responses::read(body),
            ModelProtocol::Chat => chat::read(body),
            ModelProtocol::Gemini => gemini::read(body),
        };
        asked.streams |= matches!(self.op, ModelOperation::Stream | ModelOperation::Frames);
        if let Some(model) = &self.model {
            asked.model.clone_from(model);
        }
        asked
    }
}

impl ModelProtocol {
    /// The answer as events of a stream.
    pub(super) fn events(self, reply: &ModelReply) -> Vec<String> {
        match self {
            Self::Anthropic => anthropic::events(reply),
            Self::Responses => responses::events(reply),
            Self::Chat => chat::events(reply),
            Self::Gemini => gemini::events(reply),
        }
    }

    /// The answer as one document.
    pub(super) fn document(self, reply: &ModelReply) -> Value {
        match self {
            Self::Anthropic => anthropic::document(reply),
            Self::Responses => responses::document(reply),
            Self::Chat => chat::document(reply),
            Self::Gemini => gemini::document(reply),
        }
    }

    /// The body of an error.
    pub(super) fn error_body(self, fault: &ErrorReply) -> Value {
        let text = if fault.text.is_empty() { usual_text(fault.status) } else { fault.text.as_str() };
        match self {
            Self::Anthropic => anthropic::error_body(fault, text),
            Self::Responses | Self::Chat => openai_error(fault, text),
            Self::Gemini => gemini::error_body(fault, text),
        }
    }

    /// The event that ends an answer which began well.
    pub(super) fn failure_event(self, reply: &ModelReply, code: &str, text: &str) -> String {
        match self {
            Self::Anthropic => anthropic::failure_event(code, text),
            Self::Responses => responses::failure_event(reply, code, text),
            Self::Chat => data(&json!({ "error": { "message": text, "type": code, "code": code } })),
            // Gemini sends this without the framing of its stream.
            Self::Gemini => format!("{}\n", json!({ "error": { "code": 503, "message": text, "status": code } })),
        }
    }

    /// The number of tokens of a prompt.
    pub(super) fn token_count(self, usage: Tokens) -> Value {
        match self {
            Self::Gemini => json!({ "totalTokens": prompt_tokens(usage) }),
            _ => json!({ "input_tokens": prompt_tokens(usage) }),
        }
    }

    /// The usage that a stream reports before its text; most protocols report it last.
    pub(super) fn usage_sent_first(self, usage: Tokens) -> Option<Tokens> {
        match self {
            Self::Anthropic => Some(anthropic::initial_usage(usage)),
            Self::Responses | Self::Chat | Self::Gemini => None,
        }
    }

    /// The usage as this protocol reports it; some do not report tokens written to a cache.
    pub(super) fn reported_usage(self, usage: Tokens) -> Tokens {
        match self {
            Self::Anthropic | Self::Responses => usage,
            Self::Chat | Self::Gemini => {
                Tokens { input: usage.input.saturating_add(usage.cache_write), cache_write: 0, ..usage }
            }
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

fn openai_error(fault: &ErrorReply, text: &str) -> Value {
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
