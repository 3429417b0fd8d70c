//! OpenAI Chat Completions.

use super::data;
use crate::dev::model::model_request::{ChatMessage, ModelProtocol, ModelRequest, OfferedTool, append_texts, as_list};
use crate::dev::model::reply::{ModelReply, ScenarioCall, StopReason, text_pieces};
use crate::dev::model::scenario::prompt_tokens;
use loopwright_core::budget::Tokens;
use serde_json::{Value, json};

pub(super) fn read(body: &Value) -> ModelRequest {
    let (mut prompt, mut history) = (String::new(), Vec::new());
    for message in as_list(&body["messages"]) {
        match message["role"].as_str() {
            Some("assistant") => {
                let calls = as_list(&message["tool_calls"]).iter();
                history.push(ChatMessage::Model(
                    calls.filter_map(|call| call["id"].as_str()).map(str::to_owned).collect(),
                ));
            }
            Some("tool") => history.push(ChatMessage::Other),
            _ => {
                append_texts(&message["content"], &mut prompt);
                history.push(ChatMessage::Other);
            }
        }
    }
    let tool = |tool: &Value| OfferedTool::from_schema(&tool["function"]["name"], &tool["function"]["parameters"]);
    ModelRequest {
        protocol: ModelProtocol::Chat,
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        streams: body["stream"] == true,
        tools: as_list(&body["tools"]).iter().filter_map(tool).collect(),
        wants_json: body["response_format"]["type"] == "json_schema",
        helper_schema: Value::Null,
        prompt,
        history,
    }
}

pub(super) fn events(reply: &ModelReply) -> Vec<String> {
    let piece =
        |delta: Value, finish: Value| chunk(reply, json!([{ "index": 0, "delta": delta, "finish_reason": finish }]));
    let mut events = vec![piece(json!({ "role": "assistant", "content": "" }), Value::Null)];
    if !reply.text.is_empty() {
        let pieces = text_pieces(&reply.text).into_iter();
        events.extend(pieces.map(|text| piece(json!({ "content": text }), Value::Null)));
    }
    if let Some(call) = &reply.call {
        let mut call = tool_call(call);
        call["index"] = 0.into();
        events.push(piece(json!({ "tool_calls": [call] }), Value::Null));
    }
    events.push(piece(json!({}), stop(reply.stop).into()));
    let mut last = chunk_value(reply, json!([]));
    last["usage"] = usage(reply.usage);
    events.push(data(&last));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn chunk(reply: &ModelReply, choices: Value) -> String {
    data(&chunk_value(reply, choices))
}

fn chunk_value(reply: &ModelReply, choices: Value) -> Value {
    json!({
        "id": format!("chatcmpl-{:06}", reply.number),
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": reply.model,
        "choices": choices,
    })
}

pub(super) fn document(reply: &ModelReply) -> Value {
    let mut message = json!({ "role": "assistant", "content": reply.text });
    if let Some(call) = &reply.call {
        message["tool_calls"] = json!([tool_call(call)]);
    }
    json!({
        "id": format!("chatcmpl-{:06}", reply.number),
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": reply.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": stop(reply.stop) }],
        "usage": usage(reply.usage),
    })
}

fn tool_call(call: &ScenarioCall) -> Value {
    let function = json!({ "name": call.name, "arguments": call.payload.to_object().to_string() });
    json!({ "id": call.id, "type": "function", "function": function })
}

fn usage(usage: Tokens) -> Value {
    json!({
        "prompt_tokens": prompt_tokens(usage),
        "completion_tokens": usage.output,
        "total_tokens": usage.total(),
        "prompt_tokens_details": { "cached_tokens": usage.cache_read },
    })
}

fn stop(stop: StopReason) -> &'static str {
    match stop {
        StopReason::End => "stop",
        StopReason::Tool => "tool_calls",
        StopReason::Length => "length",
        StopReason::Refusal => "content_filter",
    }
}
