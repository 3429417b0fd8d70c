//! Gemini generateContent.

use super::data;
use crate::dev::model::model_request::{ChatMessage, ModelProtocol, ModelRequest, OfferedTool, append_texts, as_list};
use crate::dev::model::reply::{ModelReply, StopReason, text_pieces};
use crate::dev::model::scenario::{ErrorReply, prompt_tokens};
use loopwright_core::budget::Tokens;
use serde_json::{Value, json};

pub(super) fn read(body: &Value) -> ModelRequest {
    let (mut prompt, mut history) = (String::new(), Vec::new());
    append_texts(&body["systemInstruction"]["parts"], &mut prompt);
    for content in as_list(&body["contents"]) {
        if content["role"] == "model" {
            let ids = as_list(&content["parts"]).iter().filter_map(|part| part["functionCall"]["id"].as_str());
            history.push(ChatMessage::Model(ids.map(str::to_owned).collect()));
        } else {
            append_texts(&content["parts"], &mut prompt);
            history.push(ChatMessage::Other);
        }
    }
    let config = &body["generationConfig"];
    let schema =
        [&config["responseSchema"], &config["responseJsonSchema"]].into_iter().find(|schema| schema.is_object());
    let declared = as_list(&body["tools"]).iter().flat_map(|tool| as_list(&tool["functionDeclarations"]));
    ModelRequest {
        protocol: ModelProtocol::Gemini,
        model: String::new(),
        streams: false,
        tools: declared.filter_map(read_tool).collect(),
        wants_json: schema.is_some(),
        // This agent has no structured answers of its own: a schema is one of its helper calls.
        helper_schema: schema.cloned().unwrap_or_default(),
        prompt,
        history,
    }
}

fn read_tool(tool: &Value) -> Option<OfferedTool> {
    let newer = &tool["parametersJsonSchema"];
    OfferedTool::from_schema(&tool["name"], if newer.is_object() { newer } else { &tool["parameters"] })
}

pub(super) fn events(reply: &ModelReply) -> Vec<String> {
    // Text comes first and without an end, so that an answer can be cut in the middle.
    let words = text_pieces(&reply.text).into_iter().map(|piece| open_chunk(reply, piece));
    let rest = ModelReply { text: String::new(), ..reply.clone() };
    words.chain([data(&document(&rest))]).collect()
}

/// A part of the text, without usage and end.
fn open_chunk(reply: &ModelReply, text: &str) -> String {
    let mut chunk = document(&ModelReply { call: None, text: text.to_owned(), ..reply.clone() });
    if let Some(chunk) = chunk.as_object_mut() {
        chunk.remove("usageMetadata");
    }
    if let Some(candidate) = chunk["candidates"][0].as_object_mut() {
        candidate.remove("finishReason");
    }
    data(&chunk)
}

pub(super) fn document(reply: &ModelReply) -> Value {
    let text = (!reply.text.is_empty()).then(|| json!({ "text": reply.text }));
    let call = reply.call.as_ref().map(|call| {
        let call = json!({ "id": call.id, "name": call.name, "args": call.payload.to_object() });
        json!({ "functionCall": call, "thoughtSignature": "c2ln" })
    });
    let parts: Vec<Value> = text.into_iter().chain(call).collect();
    json!({
        "candidates": [{ "index": 0, "content": { "role": "model", "parts": parts }, "finishReason": stop(reply.stop) }],
        "usageMetadata": usage(reply.usage),
        "modelVersion": reply.model,
        "responseId": format!("r{:06}", reply.number),
    })
}

fn usage(usage: Tokens) -> Value {
    json!({
        "promptTokenCount": prompt_tokens(usage),
        "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output,
        "totalTokenCount": usage.total(),
    })
}

fn stop(stop: StopReason) -> &'static str {
    match stop {
        StopReason::End | StopReason::Tool => "STOP",
        StopReason::Length => "MAX_TOKENS",
        StopReason::Refusal => "SAFETY",
    }
}

pub(super) fn error_body(fault: &ErrorReply, text: &str) -> Value {
    let usual = match fault.status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 | 529 => "UNAVAILABLE",
        500.. => "INTERNAL",
        _ => "FAILED_PRECONDITION",
    };
    json!({ "error": { "code": fault.status, "message": text, "status": fault.kind.as_deref().unwrap_or(usual) } })
}
