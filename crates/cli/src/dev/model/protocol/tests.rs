//! The wire format of each protocol: the bytes that an agent's client receives for one answer with text and a call.

use super::ModelRoute;
use crate::dev::model::model_request::{ChatMessage, ModelProtocol, ToolInputForm};
use crate::dev::model::reply::{ModelReply, ScenarioCall, StopReason, ToolPayload};
use crate::dev::model::scenario::ErrorReply;
use expect_test::{Expect, expect};
use loopwright_core::budget::Tokens;
use serde_json::{Value, json};

fn reply() -> ModelReply {
    ModelReply {
        model: "m1".to_owned(),
        number: 7,
        text: "I will look.".to_owned(),
        call: Some(ScenarioCall {
            id: "call_t002_7".to_owned(),
            name: "bash".to_owned(),
            namespace: None,
            payload: ToolPayload::Object(json!({ "command": "ls" })),
        }),
        stop: StopReason::Tool,
        usage: Tokens { input: 10, output: 5, cache_read: 3, cache_write: 2 },
    }
}

fn check(protocol: ModelProtocol, expected: &Expect) {
    expected.assert_eq(&protocol.events(&reply()).concat());
}

#[test]
fn anthropic_streams_named_events() {
    check(
        ModelProtocol::Anthropic,
        &expect![[r#"
        event: message_start
        data: {"type":"message_start","message":{"id":"msg_000007","type":"message","role":"assistant","model":"m1","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":2,"cache_read_input_tokens":3,"output_tokens":1}}}

        event: ping
        data: {"type":"ping"}

        event: content_block_start
        data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I will look."}}

        event: content_block_stop
        data: {"type":"content_block_stop","index":0}

        event: content_block_start
        data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_call_t002_7","name":"bash","input":{}}}

        event: content_block_delta
        data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"ls\"}"}}

        event: content_block_stop
        data: {"type":"content_block_stop","index":1}

        event: message_delta
        data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":10,"cache_creation_input_tokens":2,"cache_read_input_tokens":3,"output_tokens":5}}

        event: message_stop
        data: {"type":"message_stop"}

    "#]],
    );
}

#[test]
fn responses_stream_named_events() {
    check(
        ModelProtocol::Responses,
        &expect![[r#"
            event: response.created
            data: {"type":"response.created","response":{"id":"resp_000007","object":"response","created_at":1700000000,"status":"in_progress","incomplete_details":null,"error":null,"model":"m1","output":[],"usage":null}}

            event: response.output_item.added
            data: {"type":"response.output_item.added","output_index":0,"item":{"id":"msg_000007","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"I will look.","annotations":[]}]}}

            event: response.output_text.delta
            data: {"type":"response.output_text.delta","item_id":"msg_000007","output_index":0,"content_index":0,"delta":"I will look."}

            event: response.output_item.done
            data: {"type":"response.output_item.done","output_index":0,"item":{"id":"msg_000007","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"I will look.","annotations":[]}]}}

            event: response.output_item.added
            data: {"type":"response.output_item.added","output_index":1,"item":{"id":"fc_000007","type":"function_call","status":"completed","call_id":"call_t002_7","name":"bash","arguments":"{\"command\":\"ls\"}"}}

            event: response.output_item.done
            data: {"type":"response.output_item.done","output_index":1,"item":{"id":"fc_000007","type":"function_call","status":"completed","call_id":"call_t002_7","name":"bash","arguments":"{\"command\":\"ls\"}"}}

            event: response.completed
            data: {"type":"response.completed","response":{"id":"resp_000007","object":"response","created_at":1700000000,"status":"completed","incomplete_details":null,"error":null,"model":"m1","output":[{"id":"msg_000007","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"I will look.","annotations":[]}]},{"id":"fc_000007","type":"function_call","status":"completed","call_id":"call_t002_7","name":"bash","arguments":"{\"command\":\"ls\"}"}],"usage":{"input_tokens":15,"input_tokens_details":{"cached_tokens":3,"cache_write_tokens":2},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":20}}}

        "#]],
    );
}

#[test]
fn chat_streams_chunks_and_an_end_marker() {
    check(
        ModelProtocol::Chat,
        &expect![[r#"
        data: {"id":"chatcmpl-000007","object":"chat.completion.chunk","created":1700000000,"model":"m1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

        data: {"id":"chatcmpl-000007","object":"chat.completion.chunk","created":1700000000,"model":"m1","choices":[{"index":0,"delta":{"content":"I will look."},"finish_reason":null}]}

        data: {"id":"chatcmpl-000007","object":"chat.completion.chunk","created":1700000000,"model":"m1","choices":[{"index":0,"delta":{"tool_calls":[{"id":"call_t002_7","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"},"index":0}]},"finish_reason":null}]}

        data: {"id":"chatcmpl-000007","object":"chat.completion.chunk","created":1700000000,"model":"m1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

        data: {"id":"chatcmpl-000007","object":"chat.completion.chunk","created":1700000000,"model":"m1","choices":[],"usage":{"prompt_tokens":15,"completion_tokens":5,"total_tokens":20,"prompt_tokens_details":{"cached_tokens":3}}}

        data: [DONE]

    "#]],
    );
}

#[test]
fn gemini_streams_words_and_then_the_rest() {
    check(
        ModelProtocol::Gemini,
        &expect![[r#"
            data: {"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"I will look."}]}}],"responseId":"r000007","modelVersion":"m1"}

            data: {"candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"id":"call_t002_7","name":"bash","args":{"command":"ls"}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":15,"cachedContentTokenCount":3,"candidatesTokenCount":5,"totalTokenCount":20},"modelVersion":"m1","responseId":"r000007"}

        "#]],
    );
}

#[test]
fn errors_have_the_providers_form() {
    let fault = |status| ErrorReply { status, kind: None, text: "later".to_owned(), headers: Vec::new(), body: None };
    let word = |protocol: ModelProtocol, status, at: &str| protocol.error_body(&fault(status)).pointer(at).cloned();
    assert_eq!(word(ModelProtocol::Anthropic, 529, "/error/type"), Some(json!("overloaded_error")));
    assert_eq!(word(ModelProtocol::Anthropic, 401, "/error/type"), Some(json!("authentication_error")));
    assert_eq!(word(ModelProtocol::Responses, 429, "/error/code"), Some(json!("rate_limit_exceeded")));
    assert_eq!(word(ModelProtocol::Chat, 500, "/error/type"), Some(json!("server_error")));
    assert_eq!(word(ModelProtocol::Gemini, 429, "/error/status"), Some(json!("RESOURCE_EXHAUSTED")));
    assert_eq!(word(ModelProtocol::Gemini, 429, "/error/message"), Some(json!("later")));
}

/// A conversation in which the model has called one tool and received its result, in a protocol's format.
fn conversation(path: &str, body: &Value) -> crate::dev::model::model_request::ModelRequest {
    ModelRoute::parse(path).expect("a path of the protocol").read(body)
}

#[test]
fn every_protocol_is_read_into_the_same_form() {
    let schema =
        json!({ "type": "object", "properties": { "command": { "type": "string" } }, "required": ["command"] });
    let anthropic = json!({
        "model": "m1", "stream": true, "system": [{ "type": "text", "text": "be good" }],
        "tools": [{ "name": "bash", "input_schema": schema }],
        "messages": [
            { "role": "user", "content": "go" },
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "toolu_call_t000_1", "name": "bash" }] },
            { "role": "user", "content": [{ "type": "tool_result", "content": [{ "type": "text", "text": "no" }] }] },
        ],
    });
    let responses = json!({
        "model": "m1", "stream": true, "instructions": "be good",
        "tools": [{ "type": "function", "name": "bash", "parameters": schema }],
        "input": [
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "go" }] },
            { "type": "function_call", "call_id": "call_t000_1", "name": "bash", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "call_t000_1", "output": "no" },
        ],
    });
    let chat = json!({
        "model": "m1", "stream": true,
        "tools": [{ "type": "function", "function": { "name": "bash", "parameters": schema } }],
        "messages": [
            { "role": "system", "content": "be good" },
            { "role": "user", "content": [{ "type": "text", "text": "go" }] },
            { "role": "assistant", "content": null, "tool_calls": [{ "id": "call_t000_1" }] },
            { "role": "tool", "tool_call_id": "call_t000_1", "content": "no" },
        ],
    });
    let gemini = json!({
        "systemInstruction": { "parts": [{ "text": "be good" }] },
        "tools": [{ "functionDeclarations": [{ "name": "bash", "parametersJsonSchema": schema }] }],
        "contents": [
            { "role": "user", "parts": [{ "text": "go" }] },
            { "role": "model", "parts": [{ "functionCall": { "id": "bash__call_t000_1", "name": "bash" } }] },
            { "role": "user", "parts": [{ "functionResponse": { "response": { "output": "no" } } }] },
        ],
    });
    let paths = ["/v1/messages", "/v1/responses", "/v1/chat/completions", "/v1beta/models/m1:streamGenerateContent"];
    for (path, body) in paths.into_iter().zip([anthropic, responses, chat, gemini]) {
        let asked = conversation(path, &body);
        assert_eq!((asked.model.as_str(), asked.streams, asked.turn_index()), ("m1", true, 1), "{path}");
        assert_eq!(asked.prompt, "be good\ngo\n", "{path}");
        assert_eq!(asked.tools.len(), 1, "{path}");
        assert!(asked.tools[0].fields[0].required, "{path}");
        assert_eq!(asked.history.last(), Some(&ChatMessage::Other), "{path}");
    }
}

#[test]
fn free_text_tools_and_namespaces_of_tools_are_found() {
    let tools = json!([
        { "type": "custom", "name": "apply_patch" },
        { "type": "namespace", "name": "functions", "tools": [{ "type": "custom", "name": "exec" }] },
        { "type": "web_search" },
    ]);
    let asked = conversation("/v1/responses", &json!({ "input": [{ "type": "additional_tools", "tools": tools }] }));
    let found: Vec<_> =
        asked.tools.iter().map(|tool| (tool.name.as_str(), tool.form, tool.namespace.as_deref())).collect();
    assert_eq!(found, [("apply_patch", ToolInputForm::Text, None), ("exec", ToolInputForm::Text, Some("functions"))]);
}

#[test]
fn any_json_is_parsed_without_an_error() {
    let odd = [
        json!(null),
        json!([]),
        json!("x"),
        json!({ "messages": 5, "tools": [null, 3, {}], "input": {}, "contents": [[]] }),
    ];
    for path in ["/v1/messages", "/responses", "/v1/chat/completions", "/v1beta/models/a:b:generateContent"] {
        for body in &odd {
            let asked = conversation(path, body);
            assert!(asked.tools.is_empty(), "{path} {body}");
        }
    }
    assert_eq!(ModelRoute::parse("/v1beta/models/m1:embedContent"), None);
    assert_eq!(ModelRoute::parse("/"), None);
}
