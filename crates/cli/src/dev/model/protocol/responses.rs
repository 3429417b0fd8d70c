//! OpenAI Responses.

use super::event;
use crate::dev::model::model_request::{
    ChatMessage, ModelProtocol, ModelRequest, OfferedTool, ToolInputForm, append_texts, as_list,
};
use crate::dev::model::reply::{ModelReply, ScenarioCall, StopReason, ToolPayload, text_pieces};
use crate::dev::model::scenario::prompt_tokens;
use loopwright_core::budget::Tokens;
use serde_json::{Value, json};

pub(super) fn read(body: &Value) -> ModelRequest {
    let mut prompt = String::new();
    append_texts(&body["instructions"], &mut prompt);
    if body["input"].is_string() {
        append_texts(&body["input"], &mut prompt);
    }
    let mut tools: Vec<OfferedTool> = as_list(&body["tools"]).iter().flat_map(|tool| read_tool(tool, None)).collect();
    let mut history = Vec::new();
    for item in as_list(&body["input"]) {
        match item["type"].as_str().unwrap_or("message") {
            // Models that only write programs receive their tools as part of the conversation.
            "additional_tools" => tools.extend(as_list(&item["tools"]).iter().flat_map(|tool| read_tool(tool, None))),
            "message" if item["role"] == "assistant" => history.push(ChatMessage::Model(Vec::new())),
            "message" => {
                append_texts(&item["content"], &mut prompt);
                history.push(ChatMessage::Other);
            }
            "function_call" | "custom_tool_call" => {
                history.push(ChatMessage::Model(item["call_id"].as_str().map(str::to_owned).into_iter().collect()));
            }
            "reasoning" => history.push(ChatMessage::Model(Vec::new())),
            _ => history.push(ChatMessage::Other),
        }
    }
    ModelRequest {
        protocol: ModelProtocol::Responses,
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        streams: body["stream"] == true,
        tools,
        wants_json: body["text"]["format"]["type"] == "json_schema",
        helper_schema: Value::Null,
        prompt,
        history,
    }
}

/// A tool, or the tools of a namespace.
fn read_tool(tool: &Value, namespace: Option<&str>) -> Vec<OfferedTool> {
    let room = |tool: OfferedTool| OfferedTool { namespace: namespace.map(str::to_owned), ..tool };
    match tool["type"].as_str() {
        Some("function") => {
            OfferedTool::from_schema(&tool["name"], &tool["parameters"]).map(room).into_iter().collect()
        }
        Some("custom") => {
            let found = tool["name"].as_str().map(|name| OfferedTool {
                name: name.to_owned(),
                form: ToolInputForm::Text,
                fields: Vec::new(),
                namespace: None,
            });
            found.map(room).into_iter().collect()
        }
        // Namespaces do not nest.
        Some("namespace") if namespace.is_none() => {
            as_list(&tool["tools"]).iter().flat_map(|inner| read_tool(inner, tool["name"].as_str())).collect()
        }
        _ => Vec::new(),
    }
}

pub(super) fn events(reply: &ModelReply) -> Vec<String> {
    let mut begun = document(reply);
    begun["status"] = "in_progress".into();
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    let mut events = vec![event("response.created", json!({ "response": begun }))];
    for (index, item) in items(reply).into_iter().enumerate() {
        events.push(event("response.output_item.added", json!({ "output_index": index, "item": item })));
        if let Some(text) = item["content"][0]["text"].as_str() {
            events.extend(text_pieces(text).into_iter().map(|piece| {
                let delta = json!({ "item_id": item["id"], "output_index": index, "content_index": 0, "delta": piece });
                event("response.output_text.delta", delta)
            }));
        }
        events.push(event("response.output_item.done", json!({ "output_index": index, "item": item })));
    }
    let last = if reply.stop == StopReason::Length { "response.incomplete" } else { "response.completed" };
    events.push(event(last, json!({ "response": document(reply) })));
    events
}

pub(super) fn document(reply: &ModelReply) -> Value {
    let (status, details) = match reply.stop {
        StopReason::Length => ("incomplete", json!({ "reason": "max_output_tokens" })),
        StopReason::End | StopReason::Tool | StopReason::Refusal => ("completed", Value::Null),
    };
    json!({
        "id": format!("resp_{:06}", reply.number),
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "incomplete_details": details,
        "error": null,
        "model": reply.model,
        "output": items(reply),
        "usage": usage(reply.usage),
    })
}

fn items(reply: &ModelReply) -> Vec<Value> {
    let content = match reply.stop {
        StopReason::Refusal => json!([{ "type": "refusal", "refusal": reply.text }]),
        _ => json!([{ "type": "output_text", "text": reply.text, "annotations": [] }]),
    };
    let message = (!reply.text.is_empty()).then(|| {
        let id = format!("msg_{:06}", reply.number);
        json!({ "id": id, "type": "message", "role": "assistant", "status": "completed", "content": content })
    });
    message.into_iter().chain(reply.call.as_ref().map(|call| call_item(reply, call))).collect()
}

fn call_item(reply: &ModelReply, call: &ScenarioCall) -> Value {
    let mut item = match &call.payload {
        ToolPayload::Object(value) => json!({
            "id": format!("fc_{:06}", reply.number),
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": value.to_string(),
        }),
        ToolPayload::Text(text) => json!({
            "id": format!("ctc_{:06}", reply.number),
            "type": "custom_tool_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "input": text,
        }),
    };
    if let Some(namespace) = &call.namespace {
        item["namespace"] = namespace.as_str().into();
    }
    item
}

fn usage(usage: Tokens) -> Value {
    json!({
        "input_tokens": prompt_tokens(usage),
        "input_tokens_details": { "cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write },
        "output_tokens": usage.output,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": usage.total(),
    })
}

pub(super) fn failure_event(reply: &ModelReply, code: &str, text: &str) -> String {
    let mut response = document(reply);
    response["status"] = "failed".into();
    response["output"] = json!([]);
    response["usage"] = Value::Null;
    response["error"] = json!({ "code": code, "message": text });
    event("response.failed", json!({ "response": response }))
}
