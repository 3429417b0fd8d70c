//! The exact command lines, and the meaning of streams.

use super::*;
use crate::agents::tests::{
    canary, invocation, read_stream, read_streams, recorded, recorded_errors, shown, summary, survives_endless_line,
    torture,
};
use expect_test::expect;
use loopwright_core::budget::AgentUsage;
use loopwright_core::spec::{AgentUse, Role};

const RECORDED: &str = "opencode-1.18.33";

fn heard(lines: &[&str]) -> crate::agents::AgentOutcome {
    read_stream(&DIALECT, &invocation(Role::Maker), lines.join("\n").as_bytes(), RunEnd::Exited(0), 4096).0
}

fn of_model(role: Role, model: Option<&str>) -> AgentInvocation {
    AgentInvocation { model: model.map(str::to_owned), ..invocation(role) }
}

fn config_of(invocation: &AgentInvocation) -> Value {
    config(invocation).expect("a configuration")
}

#[test]
fn maker_is_started_with_its_tools_and_without_foreign_configuration() {
    let launch = (DIALECT.launch)(&of_model(Role::Maker, Some("anthropic/claude-opus-5-5"))).expect("a launch");
    expect![[r#"
        run
        --format
        json
        --pure
        --title
        loopwright
        --print-logs
        --log-level
        ERROR
        OPENCODE_CONFIG_CONTENT={"autoupdate":false,"share":"disabled","snapshot":false,"lsp":false,"formatter":false,"enabled_providers":["anthropic"],"permission":{"*":"deny","read":"allow","glob":"allow","list":"allow","grep":"allow","edit":"allow","bash":"allow","external_directory":"allow"},"model":"anthropic/claude-opus-5-5","small_model":"anthropic/claude-opus-5-5","provider":{"anthropic":{"npm":"@ai-sdk/anthropic","options":{"baseURL":"http://127.0.0.1:3128/provider/anthropic/v1","apiKey":"the-token"},"models":{"claude-opus-5-5":{}}}}}
        OPENCODE_TEST_HOME=/home/loop/.agent-lw-r1-c00c1e/home
        XDG_CONFIG_HOME=/home/loop/.agent-lw-r1-c00c1e/config
        XDG_DATA_HOME=/home/loop/.agent-lw-r1-c00c1e/data
        XDG_STATE_HOME=/home/loop/.agent-lw-r1-c00c1e/state
        XDG_CACHE_HOME=/home/loop/.agent-lw-r1-c00c1e/cache
        OPENCODE_DISABLE_PROJECT_CONFIG=1
        OPENCODE_DISABLE_CLAUDE_CODE=1
        OPENCODE_DISABLE_EXTERNAL_SKILLS=1
        OPENCODE_DISABLE_DEFAULT_PLUGINS=1
        OPENCODE_DISABLE_AUTOUPDATE=1
        OPENCODE_DISABLE_MODELS_FETCH=1
        OPENCODE_DISABLE_LSP_DOWNLOAD=1
        OPENCODE_DISABLE_SHARE=1
        NO_PROXY=127.0.0.1,localhost
        no_proxy=127.0.0.1,localhost
        file .agent-lw-r1-c00c1e/config/opencode/package-lock.json: {"packages":{"":{"dependencies":{"@opencode-ai/plugin":"*"}}}}
        file .agent-lw-r1-c00c1e/config/opencode/node_modules/.package-lock.json: {}
        hidden the whole list [".opencode"]
        hidden below: all instruction files
        stdin the brief
    "#]].assert_eq(&shown(&launch));
}

#[test]
fn checker_reads_only_in_its_workspace_and_the_sealed_items() {
    let config = config_of(&of_model(Role::Checker, Some("model-1")));
    expect![[r#"{"*":"deny","read":"allow","glob":"allow","list":"allow","grep":"allow","external_directory":{"*":"deny","/outbox/*":"allow","/items/*":"allow"}}"#]].assert_eq(&config["permission"].to_string());
}

#[test]
fn provider_and_model_come_from_the_models_name() {
    let cases = [
        (Some("anthropic/claude-opus-5-5"), "@ai-sdk/anthropic", "anthropic", "/v1"),
        (Some("openai/gpt-5.5"), "@ai-sdk/openai", "openai", ""),
        (Some("google/gemini-2.5-pro"), "@ai-sdk/google", "google", "/v1beta"),
        (Some("something"), "@ai-sdk/anthropic", "anthropic", "/v1"),
        (None, "@ai-sdk/anthropic", "anthropic", "/v1"),
    ];
    for (model, library, provider, end) in cases {
        let config = config_of(&of_model(Role::Maker, model));
        let about = &config["provider"][provider];
        assert_eq!(about["npm"], library, "{model:?}");
        let base = format!("http://127.0.0.1:3128/provider/{provider}{end}");
        assert_eq!(about["options"], json!({ "baseURL": base, "apiKey": "the-token" }), "{model:?}");
        let bare = model.map(|model| model.rsplit('/').next().unwrap_or(model));
        assert_eq!(config["model"].as_str(), bare.map(|bare| format!("{provider}/{bare}")).as_deref());
    }
}

#[test]
fn other_providers_use_the_openai_compatible_library() {
    let mut other = of_model(Role::Maker, Some("router/maker/model-7"));
    other.endpoints.urls.insert("router".to_owned(), "http://127.0.0.1:3128/provider/router/".to_owned());
    let config = config_of(&other);
    expect![[r#"{"router":{"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"http://127.0.0.1:3128/provider/router","apiKey":"the-token"},"models":{"maker/model-7":{}}}}"#]].assert_eq(&config["provider"].to_string());
    assert_eq!(config["model"], "router/maker/model-7");
}

#[test]
fn restriction_that_cannot_be_enforced_is_refused() {
    let refused = |invocation: &AgentInvocation| match (DIALECT.launch)(invocation) {
        Err(AgentError::Unavailable { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let tools = |names: &[&str]| AgentInvocation {
        tools: names.iter().map(|name| (*name).to_owned()).collect(),
        ..invocation(Role::Maker)
    };
    assert!(refused(&tools(&["Read", "Edit"])).contains("without the other"));
    assert!(refused(&tools(&["Teleport"])).contains("no tool"));
    assert!(refused(&of_model(Role::Maker, Some("elsewhere/m"))).contains("`elsewhere`"));
    let mut keyless = invocation(Role::Maker);
    keyless.endpoints.urls.clear();
    assert!(refused(&keyless).contains("any provider"));
}

#[test]
fn recorded_streams_mean_what_happened() {
    let lines = recorded(RECORDED).into_iter().map(|(name, stream, how)| {
        let errors = recorded_errors(RECORDED, &name);
        let (outcome, _) = read_streams(&DIALECT, &invocation(Role::Checker), (&stream, &errors), how, 65536);
        summary(&name, &outcome)
    });
    let text = lines.collect::<Vec<_>>().join("\n") + "\n";
    expect![[r#"
        401                      auth 401                     ?                        turns 0
        403                      auth 403                     ?                        turns 0
        404-model                bad-request 404              ?                        turns 0
        429-retry-after          rate-limited                 ?                        turns 0
        429-then-well            Exited(0)                    2400+1600+0 → 120        turns 2
        429                      rate-limited                 ?                        turns 0
        500                      server                       ?                        turns 0
        503                      overloaded                   ?                        turns 0
        529                      overloaded                   ?                        turns 0
        context                  context                      7200+4800+0 → 360        turns 6
        cut-once                 Exited(0)                    3600+2400+0 → 180        turns 3
        cut                      overloaded                   1200+800+0 → 60          turns 1
        denied                   Exited(0)                    3600+2400+0 → 180        turns 3
        edit-and-run             Exited(0)                    3800+10000+0 → 280       turns 6
        hang                     limit Wall                   1200+800+0 → 60          turns 2
        length                   unclear                      1200+800+0 → 60          turns 1
        overloaded-midway        overloaded                   1200+800+0 → 60          turns 5
        quota                    quota 429                    ?                        turns 0
        refusal-once             declined                     2400+1600+0 → 120        turns 2
        refusal                  declined                     2400+1600+0 → 120        turns 2
        unreachable              network                      ?                        turns 0
        verdict                  Exited(0)                    2400+1600+0 → 120        turns 2
    "#]]
    .assert_eq(&text);
}

#[test]
fn meaning_does_not_depend_on_where_reads_are_cut() {
    for (name, stream, how) in recorded(RECORDED) {
        let whole = read_stream(&DIALECT, &invocation(Role::Maker), &stream, how, usize::MAX);
        let cut = read_stream(&DIALECT, &invocation(Role::Maker), &stream, how, 61);
        assert_eq!((whole.1, whole.0.self_report), (cut.1, cut.0.self_report), "{name}");
    }
}

#[test]
fn damaged_streams_neither_panic_nor_lower_the_usage() {
    for (_, stream, _) in recorded(RECORDED) {
        torture(&DIALECT, Role::Maker, &stream);
    }
}

#[test]
fn last_message_is_a_checkers_answer_and_denied_tools_are_shown() {
    let find = |wanted: &str| recorded(RECORDED).into_iter().find(|(name, ..)| name == wanted).expect("recorded");
    let (_, stream, how) = find("verdict");
    let (outcome, _) = read_stream(&DIALECT, &invocation(Role::Checker), &stream, how, 4096);
    let answer = outcome.self_report.answer.expect("an answer");
    assert!(answer.starts_with('{') && answer.contains("\"verdict\":\"pass\""), "{answer}");
    let (_, stream, how) = find("denied");
    let (_, seen) = read_stream(&DIALECT, &invocation(Role::Checker), &stream, how, 4096);
    assert!(seen.iter().any(|event| event.starts_with("Tool { name: \"write\"")), "{seen:?}");
}

const START: &str = r#"{"type":"step_start","sessionID":"ses_1","part":{"id":"p1","type":"step-start"}}"#;

fn finish(id: &str, reason: &str, tokens: &str) -> String {
    format!(
        r#"{{"type":"step_finish","sessionID":"ses_1","part":{{"id":"{id}","reason":"{reason}","tokens":{tokens},"cost":0.25}}}}"#
    )
}

#[test]
fn steps_are_added_up_once_each_and_thoughts_are_output() {
    let plain = r#"{"total":2065,"input":1200,"output":60,"reasoning":5,"cache":{"write":0,"read":800}}"#;
    let within = r#"{"total":70,"input":10,"output":60,"reasoning":50}"#;
    let (one, two) = (finish("a", "tool-calls", plain), finish("b", "stop", within));
    let outcome = heard(&[START, &one, &one, START, &two]);
    let tokens = Tokens { input: 1210, output: 125, cache_read: 800, cache_write: 0 };
    assert_eq!((outcome.usage, outcome.turns), (AgentUsage::Reported(tokens), 2));
    assert_eq!(outcome.self_report.trouble, None);
    assert_eq!(outcome.self_report.models[0].model, "model-1");
}

#[test]
fn end_in_the_middle_of_work_is_no_success_though_the_exit_code_is_zero() {
    let tokens = r#"{"input":1,"output":1}"#;
    let kind =
        |reason: &str| heard(&[START, &finish("a", reason, tokens)]).self_report.trouble.map(|trouble| trouble.kind);
    assert_eq!(kind("stop"), None);
    assert_eq!(kind("tool-calls"), Some(TroubleKind::Unclear));
    assert_eq!(kind("length"), Some(TroubleKind::Unclear));
    assert_eq!(kind("content-filter"), Some(TroubleKind::Declined));
    assert_eq!(heard(&[START]).self_report.trouble.map(|trouble| trouble.kind), Some(TroubleKind::Unclear));
}

#[test]
fn step_that_cannot_be_read_makes_usage_unknown() {
    let outcome = heard(&[START, &finish("a", "stop", "7")]);
    assert_eq!(outcome.usage, AgentUsage::Unknown);
    assert!(outcome.self_report.trouble.is_some());
}

#[test]
fn error_has_a_retry_time_and_ends_the_program() {
    let error = r#"{"type":"error","error":{"name":"APIError","data":{"message":"slow down","statusCode":429,"responseHeaders":{"retry-after":"90"}}}}"#;
    let trouble = heard(&[START, error]).self_report.trouble.expect("trouble");
    assert_eq!((trouble.kind, trouble.status), (TroubleKind::RateLimited, Some(429)));
    assert_eq!(trouble.retry_at_ms, Some(crate::agents::tests::NOW_MS + 90_000));
    for wait in ["31536000", "18446744073709551615", "-5", "Wed, 21 Oct 2026 07:28:00 GMT", "soon"] {
        let error = error.replace("\"90\"", &format!("\"{wait}\""));
        let trouble = heard(&[START, &error]).self_report.trouble.expect("trouble");
        assert_eq!((trouble.kind, trouble.retry_at_ms), (TroubleKind::RateLimited, None), "{wait}");
    }
}

#[test]
fn silence_after_a_failed_request_is_provider_trouble() {
    let log = br#"timestamp=T level=ERROR run=1 message="stream error" providerID=x error.error="AI_APICallError: Slow \"down\".""#;
    let play =
        |stream: &str, how| read_streams(&DIALECT, &invocation(Role::Maker), (stream.as_bytes(), log), how, 16).0;
    let trouble = play("", RunEnd::Idle).self_report.trouble.expect("trouble");
    assert_eq!((trouble.kind, trouble.text.as_str()), (TroubleKind::Overloaded, "AI_APICallError: Slow \"down\"."));
    assert_eq!(play("", RunEnd::Cancelled).self_report.trouble, None);
}

#[tokio::test]
async fn pinned_program_still_knows_every_option() {
    canary(&DIALECT, AgentUse::Opencode, &["run", "--help"], &[]).await;
}

#[test]
fn pinned_program_still_knows_every_variable_and_setting() {
    let Some(program) = loopwright_testkit::agents::require_program("opencode") else { return };
    let bytes = std::fs::read(program).expect("the program");
    let knows = |word: &str| memchr::memmem::find(&bytes, word.as_bytes()).is_some();
    let launch = (DIALECT.launch)(&invocation(Role::Checker)).expect("a launch");
    for (name, _) in launch.env.iter().filter(|(name, _)| *name != "no_proxy") {
        let name = name.to_str().expect("text");
        assert!(knows(name), "opencode no longer knows {name}");
    }
    for word in ["external_directory", "webfetch", "enabled_providers", "formatter", "@ai-sdk/google", "stream error"] {
        assert!(knows(word), "opencode no longer knows {word}");
    }
}

#[test]
fn hundred_megabytes_on_one_line_are_read_in_bounded_memory() {
    survives_endless_line(&DIALECT);
}

#[test]
fn server_is_in_its_configuration_and_its_tools_are_allowed() {
    let config = config_of(&crate::agents::tests::with_server(Role::Checker));
    let server = json!({ "type": "local", "command": ["docs-server", "--stdio"], "environment": { "ROOT": "/srv/\"docs\"" }, "enabled": true });
    assert_eq!(config["mcp"], json!({ "my-docs": server }));
    assert_eq!((&config["permission"]["my-docs_*"], &config["permission"]["*"]), (&json!("allow"), &json!("deny")));
}
