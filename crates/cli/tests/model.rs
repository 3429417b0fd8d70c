//! `dev model` as the real program: it prints its address, answers each protocol, counts, logs, and survives bad
//! clients.

use loopwright_testkit::{ModelServer, TestEnv};
use serde_json::{Value, json};
use std::path::Path;

fn model(scenario: &str) -> ModelServer {
    ModelServer::start_with(Path::new(env!("CARGO_BIN_EXE_loopwright")), scenario)
}

const ONE_TURN: &str = "@ any\nusage input=100 output=10 cache_read=20\nrun ls\n";

/// The same small request in every protocol: the path, the body, and a word that the answer contains.
fn questions() -> [(&'static str, Value, &'static str); 4] {
    let schema = json!({ "type": "object", "properties": { "command": { "type": "string" } } });
    [
        (
            "/v1/messages?beta=true",
            json!({ "model": "claude", "stream": true, "tools": [{ "name": "Bash", "input_schema": schema }],
                    "messages": [{ "role": "user", "content": "go" }] }),
            "event: message_stop",
        ),
        (
            "/v1/responses",
            json!({ "model": "gpt", "stream": true, "input": "go",
                    "tools": [{ "type": "function", "name": "exec_command", "parameters": schema }] }),
            "event: response.completed",
        ),
        (
            "/v1/chat/completions",
            json!({ "model": "open", "stream": true, "messages": [{ "role": "user", "content": "go" }],
                    "tools": [{ "type": "function", "function": { "name": "bash", "parameters": schema } }] }),
            "data: [DONE]",
        ),
        (
            "/v1beta/models/gemini:streamGenerateContent?alt=sse",
            json!({ "contents": [{ "role": "user", "parts": [{ "text": "go" }] }],
                    "tools": [{ "functionDeclarations": [{ "name": "run_shell_command", "parameters": schema }] }] }),
            "\"finishReason\":\"STOP\"",
        ),
    ]
}

#[test]
fn every_protocol_is_answered_counted_and_logged() {
    let model = model(ONE_TURN);
    for (path, body, word) in questions() {
        let answered = model.ask("POST", path, &body.to_string());
        assert_eq!(answered.status, 200, "{path}");
        assert!(answered.head.contains("text/event-stream"), "{path}: {}", answered.head);
        assert!(answered.body.contains(word) && answered.body.contains("ls"), "{path}: {}", answered.body);
    }
    let counter = model.counter();
    for name in ["claude", "gpt", "open", "gemini"] {
        let expected = json!({ "answers": 1, "input": 100, "output": 10, "cache_read": 20, "cache_write": 0 });
        assert_eq!(counter["models"][name], expected, "{name}");
    }
    let log = model.log();
    assert_eq!(log.len(), 4);
    assert_eq!(log[0]["body"]["messages"][0]["content"], "go");
    assert_eq!((&log[0]["answer"]["turn"], &log[0]["answer"]["step"]), (&json!("run"), &json!(0)));
}

#[test]
fn answers_come_as_one_document_too() {
    let model = model(ONE_TURN);
    for (path, mut body, _) in questions() {
        body["stream"] = json!(false);
        let path = path.replace("streamGenerateContent?alt=sse", "generateContent");
        let answered = model.ask("POST", &path, &body.to_string());
        let document: Value = serde_json::from_str(&answered.body).expect("a document");
        let usage = [&document["usage"], &document["usageMetadata"]].into_iter().find(|usage| usage.is_object());
        assert!(usage.is_some(), "{path}: {document}");
    }
}

#[test]
fn small_requests_of_clients_are_answered() {
    let model = model(ONE_TURN);
    assert_eq!(model.ask("HEAD", "/api/hello", "").status, 200);
    assert_eq!(model.ask("GET", "/v1/responses", "").status, 426);
    assert_eq!(model.ask("GET", "/v1/nothing", "").status, 404);
    let counted = model.ask("POST", "/v1/messages/count_tokens", "{}");
    assert_eq!((counted.status, counted.body.as_str()), (200, "{\"input_tokens\":2000}"));
    let counted = model.ask("POST", "/v1beta/models/m:countTokens", "{}");
    assert_eq!((counted.status, counted.body.as_str()), (200, "{\"totalTokens\":2000}"));
}

#[test]
fn errors_have_their_status_their_headers_and_their_words() {
    let scenario = "@ any\nerror 429 rate_limit_error retry-after=7 header=x-reset:noon times=1 Come back later.\n\
        error 400 times=1 <<END\n{\"mine\":1}\nEND\nfailed overloaded_error times=1 Too much.\nsay fine\n";
    let model = model(scenario);
    let [(path, body, _), ..] = questions();
    let ask = || model.ask("POST", path, &body.to_string());
    let limited = ask();
    assert_eq!(limited.status, 429);
    assert!(limited.head.contains("retry-after: 7") && limited.head.contains("x-reset: noon"), "{}", limited.head);
    assert!(limited.body.contains("\"rate_limit_error\"") && limited.body.contains("Come back later."));
    let raw = ask();
    assert_eq!((raw.status, raw.body.as_str()), (400, "{\"mine\":1}\n"));
    let failed = ask();
    assert!(failed.status == 200 && failed.body.contains("event: error"), "{}", failed.body);
    assert!(ask().body.contains("fine"));
    let counter = model.counter();
    assert_eq!((&counter["requests"], &counter["errors"]), (&json!(4), &json!(3)));
    // The answer that failed midway had already reported the usage of its prompt.
    assert_eq!(counter["models"]["claude"]["answers"], 2);
    assert_eq!(counter["models"]["claude"]["output"], 61);
}

#[test]
fn a_cut_answer_begins_and_does_not_end() {
    let model = model("@ any\ncut\nsay never\n");
    for (path, body, word) in questions() {
        let answered = model.ask("POST", path, &body.to_string());
        assert_eq!(answered.status, 200, "{path}");
        assert!(!answered.body.is_empty() && !answered.body.contains(word), "{path}: {}", answered.body);
    }
}

#[test]
fn invalid_requests_are_client_errors_and_the_model_continues() {
    let model = model(ONE_TURN);
    for body in ["", "{", "\u{0}", "[1,2]", "\"x\"", "{\"messages\":{\"a\":[]}}"] {
        for (path, ..) in questions() {
            let answered = model.ask("POST", path, body);
            assert!([200, 400].contains(&answered.status), "{path} {body:?}: {}", answered.status);
        }
    }
    let deep = "[".repeat(100_000);
    assert_eq!(model.ask("POST", "/v1/messages", &deep).status, 400);
    assert_eq!(model.ask("GET", "/_counter", "").status, 200);
}

#[test]
fn a_wrong_scenario_is_an_error_with_its_line() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    std::fs::write(env.root().join("bad.scenario"), "@ maker\nsing\n").expect("it can be written");
    let ran = env.loopwright(["dev", "model", "bad.scenario"]).code(2);
    assert!(ran.stderr().contains("bad.scenario:2: unknown verb `sing`"), "{}", ran.transcript());
    let ran = env.loopwright(["dev", "model", "absent.scenario", "--json"]).code(2);
    assert_eq!(ran.json()["error"]["kind"], "invalid");
}

#[test]
fn the_model_ends_with_the_program_that_holds_its_input() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_loopwright"));
    std::fs::write(env.root().join("a.scenario"), ONE_TURN).expect("it can be written");
    // Standard input is empty here, so it closes at once and the model ends.
    let ran = env.loopwright(["dev", "model", "a.scenario", "--until-eof"]).success();
    assert!(ran.stdout().contains("ANTHROPIC_BASE_URL=http://127.0.0.1:"), "{}", ran.transcript());
}

#[test]
fn every_scenario_of_the_documentation_is_accepted() {
    let text = include_str!("../../../docs/dev-model.md");
    let scenarios: Vec<&str> =
        text.split("```scenario\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(scenarios.len() >= 2, "the page has examples");
    for scenario in scenarios {
        assert_eq!(model(scenario).counter()["requests"], 0, "{scenario}");
    }
}
