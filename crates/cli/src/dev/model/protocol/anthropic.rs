//! Anthropic Messages.

use super::event;
use crate::dev::model::model_request::{ChatMessage, ModelProtocol, ModelRequest, OfferedTool, append_texts, as_list};
use crate::dev::model::reply::{ModelReply, StopReason, text_pieces};
use crate::dev::model::scenario::ErrorReply;
use loopwright_core::budget::Tokens;
use serde_json::{Value, json};

pub(super) fn read(body: &Value) -> ModelRequest {
    let mut prompt = String::new();
    append_texts(&body["system"], &mut prompt);
    let mut history = Vec::new();
    for message in as_list(&body["messages"]) {
        if message["role"] == "assistant" {
            let calls = as_list(&message["content"]).iter().filter(|part| part["type"] == "tool_use");
            history.push(ChatMessage::Model(calls.filter_map(|part| part["id"].as_str()).map(str::to_owned).collect()));
        } else {
            append_texts(&message["content"], &mut prompt);
            history.push(ChatMessage::Other);
        }
    }
    ModelRequest {
        protocol: ModelProtocol::Anthropic,
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        streams: body["stream"] == true,
        tools: as_list(&body["tools"])
            .iter()
            .filter_map(|tool| OfferedTool::from_schema(&tool["name"], &tool["input_schema"]))
            .collect(),
        wants_json: false,
        helper_schema: Value::Null,
        prompt,
        history,
    }
}

pub(super) fn events(reply: &ModelReply) -> Vec<String> {
    let mut message = document(reply);
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    message["usage"] = usage(initial_usage(reply.usage));
    let mut events = vec![event("message_start", json!({ "message": message })), event("ping", json!({}))];
    for (index, block) in blocks(reply).into_iter().enumerate() {
        events.extend(block_events(index, &block));
    }
    let delta = json!({ "stop_reason": stop(reply.stop), "stop_sequence": null });
    events.push(event("message_delta", json!({ "delta": delta, "usage": usage(reply.usage) })));
    events.push(event("message_stop", json!({})));
    events
}

fn block_events(index: usize, block: &Value) -> Vec<String> {
    let (empty, deltas) = if block["type"] == "text" {
        let pieces = text_pieces(block["text"].as_str().unwrap_or_default());
        let deltas = pieces.into_iter().map(|piece| json!({ "type": "text_delta", "text": piece })).collect();
        (json!({ "type": "text", "text": "" }), deltas)
    } else {
        let delta = json!({ "type": "input_json_delta", "partial_json": block["input"].to_string() });
        (json!({ "type": "tool_use", "id": block["id"], "name": block["name"], "input": {} }), vec![delta])
    };
    let start = event("content_block_start", json!({ "index": index, "content_block": empty }));
    let deltas = deltas.iter().map(|delta| event("content_block_delta", json!({ "index": index, "delta": delta })));
    let stop = event("content_block_stop", json!({ "index": index }));
    std::iter::once(start).chain(deltas).chain([stop]).collect()
}

pub(super) fn document(reply: &ModelReply) -> Value {
    json!({
        "id": format!("msg_{:06}", reply.number),
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": blocks(reply),
        "stop_reason": stop(reply.stop),
        "stop_sequence": null,
        "usage": usage(reply.usage),
    })
}

fn blocks(reply: &ModelReply) -> Vec<Value> {
    let text = (!reply.text.is_empty()).then(|| json!({ "type": "text", "text": reply.text }));
    let call = reply.call.as_ref().map(|call| {
        let id = format!("toolu_{}", call.id);
        json!({ "type": "tool_use", "id": id, "name": call.name, "input": call.payload.to_object() })
    });
    text.into_iter().chain(call).collect()
}

/// The usage reported before the first text.
pub(super) fn initial_usage(usage: Tokens) -> Tokens {
    Tokens { output: 1, ..usage }
}

fn usage(usage: Tokens) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    })
}

fn stop(stop: StopReason) -> &'static str {
    match stop {
        StopReason::End => "end_turn",
        StopReason::Tool => "tool_use",
        StopReason::Length => "max_tokens",
        StopReason::Refusal => "refusal",
    }
}

pub(super) fn error_body(fault: &ErrorReply, text: &str) -> Value {
    let usual = match fault.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    let kind = fault.kind.as_deref().unwrap_or(usual);
    json!({ "type": "error", "error": { "type": kind, "message": text }, "request_id": "req_scripted" })
}

pub(super) fn failure_event(code: &str, text: &str) -> String {
    event("error", json!({ "error": { "type": code, "message": text } }))
}
