//! The exact command lines, and the meaning of streams.

use super::*;
use crate::agents::tests::{
    canary, invocation, read_stream, recorded, shown, summary, survives_endless_line, torture, unconfined,
};
use expect_test::expect;
use loopwright_core::budget::AgentUsage;
use loopwright_core::spec::AgentUse;

fn heard(lines: &[&str]) -> (crate::agents::AgentOutcome, Vec<String>) {
    read_stream(&DIALECT, &invocation(Role::Maker), lines.join("\n").as_bytes(), RunEnd::Exited(0), 4096)
}

#[test]
fn maker_is_started_with_its_tools_and_without_foreign_settings() {
    let launch = (DIALECT.launch)(&invocation(Role::Maker)).expect("a launch");
    expect![[r#"
        -p
        --output-format
        stream-json
        --verbose
        --setting-sources=
        --strict-mcp-config
        --no-session-persistence
        --tools
        Read,Glob,Grep,Edit,Write,Bash
        --allowedTools
        Read,Glob,Grep,Edit,Write,Bash
        --add-dir
        /outbox
        --model
        model-1
        --max-turns
        40
        ANTHROPIC_BASE_URL=http://127.0.0.1:3128/provider/anthropic
        ANTHROPIC_API_KEY=the-token
        CLAUDE_CONFIG_DIR=/home/loop/.agent-lw-r1-c00c1e
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
        CLAUDE_CODE_MAX_RETRIES=2
        DISABLE_AUTOUPDATER=1
        DISABLE_TELEMETRY=1
        DISABLE_ERROR_REPORTING=1
        NO_PROXY=127.0.0.1,localhost
        no_proxy=127.0.0.1,localhost
        hidden [] []
        stdin the brief
    "#]]
    .assert_eq(&shown(&launch));
}

#[test]
fn checker_only_reads_and_must_follow_the_schema_of_a_verdict() {
    let launch = (DIALECT.launch)(&invocation(Role::Checker)).expect("a launch");
    let text = shown(&launch).replace(&verdict::schema().to_string(), "SCHEMA");
    expect![[r#"
        -p
        --output-format
        stream-json
        --verbose
        --setting-sources=
        --strict-mcp-config
        --no-session-persistence
        --tools
        Read,Glob,Grep
        --allowedTools
        Read,Glob,Grep
        --add-dir
        /items
        --model
        model-1
        --max-turns
        40
        --json-schema
        SCHEMA
        ANTHROPIC_BASE_URL=http://127.0.0.1:3128/provider/anthropic
        ANTHROPIC_API_KEY=the-token
        CLAUDE_CONFIG_DIR=/home/loop/.agent-lw-r1-c00c1e
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
        CLAUDE_CODE_MAX_RETRIES=2
        DISABLE_AUTOUPDATER=1
        DISABLE_TELEMETRY=1
        DISABLE_ERROR_REPORTING=1
        NO_PROXY=127.0.0.1,localhost
        no_proxy=127.0.0.1,localhost
        hidden [] []
        stdin the brief
    "#]]
    .assert_eq(&text);
}

#[test]
fn paths_are_the_hosts_without_a_sandbox() {
    let launch = (DIALECT.launch)(&unconfined(Role::Maker)).expect("a launch");
    let text = shown(&launch);
    assert!(text.contains("--add-dir\n/state/round/outbox\n"), "{text}");
    assert!(text.contains("CLAUDE_CONFIG_DIR=/state/round/home/.agent-lw-r1-c00c1e\n"), "{text}");
}

#[test]
fn unknown_tools_and_a_missing_provider_are_refused() {
    let mut odd = invocation(Role::Maker);
    odd.tools = vec!["Read".to_owned(), "Teleport".to_owned()];
    assert!(matches!((DIALECT.launch)(&odd), Err(AgentError::Unavailable { .. })));
    let mut keyless = invocation(Role::Maker);
    keyless.endpoints.urls.remove("anthropic");
    assert!(matches!((DIALECT.launch)(&keyless), Err(AgentError::Unavailable { .. })));
}

#[test]
fn recorded_streams_mean_what_happened() {
    let all = recorded("claude-2.1.325");
    let lines = all.iter().map(|(name, stream, how)| {
        let (outcome, _) = read_stream(&DIALECT, &invocation(Role::Checker), stream, *how, 65536);
        summary(name, &outcome)
    });
    let text = lines.collect::<Vec<_>>().join("\n") + "\n";
    expect![[r#"
        401                      auth 401                     0+0+0 → 0                turns 0
        403                      auth 403                     0+0+0 → 0                turns 0
        404-model                bad-request 404              0+0+0 → 0                turns 0
        429-resets-at-text       rate-limited 429 in 79200 s  0+0+0 → 0                turns 0
        429-retry-after          rate-limited 429             0+0+0 → 0                turns 0
        429-then-well            Exited(0)                    2400+1600+0 → 120        turns 2
        429-usage-limit-text     rate-limited 429             0+0+0 → 0                turns 0
        429-usage-limit          rate-limited 429             0+0+0 → 0                turns 0
        429                      rate-limited 429             0+0+0 → 0                turns 0
        500                      server 500                   0+0+0 → 0                turns 0
        529                      overloaded 529               0+0+0 → 0                turns 0
        context                  context 400                  1200+800+0 → 60          turns 1
        cut-once                 Exited(0)                    4800+3200+0 → 181        turns 3
        cut                      network                      3600+2400+0 → 62         turns 1
        denied                   Exited(0)                    3600+2400+0 → 180        turns 3
        edit-and-run             Exited(0)                    3600+10000+200 → 280     turns 6
        hang                     limit Wall                   1200+800+0 → 8           turns 1
        length                   unclear                      4800+3200+0 → 240        turns 4
        max-turns                limit Turns                  2400+1600+0 → 120        turns 2
        overloaded-midway        unclear                      2400+1600+0 → 61         turns 1
        quota                    quota 400                    0+0+0 → 0                turns 0
        refusal-once             Exited(0)                    3600+2400+0 → 180        turns 3
        refusal                  declined                     3600+2400+0 → 180        turns 3
        schema-ignored           Exited(0)                    2400+1600+0 → 120        turns 2
        unreachable              network                      0+0+0 → 0                turns 0
        verdict                  Exited(0)                    2400+1600+0 → 120        turns 2
    "#]]
    .assert_eq(&text);
}

#[test]
fn meaning_does_not_depend_on_where_reads_are_cut() {
    for (name, stream, how) in recorded("claude-2.1.325") {
        let whole = read_stream(&DIALECT, &invocation(Role::Maker), &stream, how, usize::MAX);
        let cut = read_stream(&DIALECT, &invocation(Role::Maker), &stream, how, 61);
        assert_eq!((whole.1, whole.0.self_report), (cut.1, cut.0.self_report), "{name}");
    }
}

#[test]
fn damaged_streams_neither_panic_nor_lower_the_usage() {
    for (_, stream, _) in recorded("claude-2.1.325") {
        torture(&DIALECT, Role::Maker, &stream);
    }
}

#[test]
fn structured_answer_is_the_answer() {
    let (_, stream, how) =
        recorded("claude-2.1.325").into_iter().find(|(name, ..)| name == "verdict").expect("recorded");
    let (outcome, _) = read_stream(&DIALECT, &invocation(Role::Checker), &stream, how, 4096);
    let answer = outcome.self_report.answer.expect("an answer");
    assert!(answer.starts_with('{') && answer.contains("\"verdict\":\"pass\""), "{answer}");
}

#[test]
fn one_message_in_several_events_is_counted_once_and_its_output_is_estimated_until_it_is_reported() {
    let message = r#"{"type":"assistant","message":{"id":"m1","model":"opus[1m]","content":[{"type":"text","text":"hello world!"}],"usage":{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":1}}}"#;
    let (outcome, _) = heard(&[message, message]);
    let AgentUsage::Reported(tokens) = outcome.usage else { panic!("usage was reported") };
    assert_eq!((tokens.input, tokens.cache_read, tokens.output), (10, 5, 8), "12 bytes, twice, at 3 a token");
    assert_eq!((outcome.turns, outcome.self_report.models[0].model.as_str()), (1, "opus"));
    let end = r#"{"type":"result","subtype":"success","is_error":false,"result":"hello","modelUsage":{"opus[1m]":{"inputTokens":10,"outputTokens":4,"cacheReadInputTokens":5},"haiku":{"inputTokens":3}}}"#;
    let (outcome, _) = heard(&[message, end]);
    let models: Vec<_> =
        outcome.self_report.models.iter().map(|used| (used.model.as_str(), used.tokens.total())).collect();
    assert_eq!(models, [("haiku", 3), ("opus", 19)]);
    assert_eq!(outcome.self_report.trouble, None);
}

#[test]
fn final_report_below_the_reported_usage_is_not_trusted() {
    let message = r#"{"type":"assistant","message":{"id":"m1","model":"opus","content":[],"usage":{"input_tokens":1000,"output_tokens":70}}}"#;
    let end = r#"{"type":"result","subtype":"success","is_error":false,"modelUsage":{"opus":{"inputTokens":1,"outputTokens":900}}}"#;
    let (outcome, _) = heard(&[message, end]);
    assert_eq!(outcome.usage, AgentUsage::Reported(Tokens { input: 1000, output: 900, ..Tokens::default() }));
}

#[test]
fn unreadable_message_makes_usage_unknown_unless_a_final_report_follows() {
    let bad = r#"{"type":"assistant","message":{"id":7}}"#;
    assert_eq!(heard(&[bad]).0.usage, AgentUsage::Unknown);
    let end = r#"{"type":"result","subtype":"success","is_error":false,"modelUsage":{"opus":{"inputTokens":1}}}"#;
    assert_eq!(heard(&[bad, end]).0.usage, AgentUsage::Reported(Tokens { input: 1, ..Tokens::default() }));
    let broken = r#"{"type":"result","subtype":"success","is_error":false,"modelUsage":7}"#;
    let outcome = heard(&[broken]).0;
    assert_eq!(
        (outcome.usage, outcome.self_report.trouble.map(|trouble| trouble.kind)),
        (AgentUsage::Unknown, Some(TroubleKind::Unclear))
    );
}

#[test]
fn limit_of_a_subscription_has_a_reset_time() {
    let window = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1794765600}}"#;
    let end = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"limit"}"#;
    let trouble = heard(&[window, end]).0.self_report.trouble.expect("trouble");
    assert_eq!((trouble.kind, trouble.retry_at_ms), (TroubleKind::RateLimited, Some(1_794_765_600_000)));
}

#[test]
fn implausible_reset_time_is_ignored() {
    let end = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"limit"}"#;
    // Milliseconds instead of seconds, the largest time, the past.
    for at in ["1794765600000", "9223372036854775", "1294765600", "-1"] {
        let window = format!(r#"{{"type":"rate_limit_event","rate_limit_info":{{"resetsAt":{at}}}}}"#);
        let trouble = heard(&[&window, end]).0.self_report.trouble.expect("trouble");
        assert_eq!((trouble.kind, trouble.retry_at_ms), (TroubleKind::RateLimited, None), "{at}");
    }
}

#[tokio::test]
async fn pinned_program_still_knows_every_option() {
    canary(&DIALECT, AgentUse::Claude, &["--help"], &["--max-turns"]).await;
}

#[test]
fn hundred_megabytes_on_one_line_are_read_in_bounded_memory() {
    survives_endless_line(&DIALECT);
}

#[test]
fn server_is_on_the_command_line_and_its_tools_are_allowed() {
    let launch = (DIALECT.launch)(&crate::agents::tests::with_server(Role::Checker)).expect("a launch");
    let args: Vec<&str> = launch.args.iter().filter_map(|arg| arg.to_str()).collect();
    let after = |name: &str| args.iter().position(|arg| *arg == name).and_then(|at| args.get(at + 1)).copied();
    assert_eq!(after("--tools"), Some("Read,Glob,Grep"));
    assert_eq!(after("--allowedTools"), Some("Read,Glob,Grep,mcp__my-docs"));
    let servers: Value = serde_json::from_str(after("--mcp-config").expect("servers")).expect("JSON");
    let server =
        serde_json::json!({ "command": "docs-server", "args": ["--stdio"], "env": { "ROOT": "/srv/\"docs\"" } });
    assert_eq!(servers, serde_json::json!({ "mcpServers": { "my-docs": server } }));
}
