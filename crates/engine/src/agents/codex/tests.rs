//! The exact command lines, and the meaning of streams.

use super::*;
use crate::agents::tests::{
    canary, invocation, read_stream, recorded, shown, summary, survives_endless_line, torture, unconfined,
};
use expect_test::expect;
use loopwright_core::budget::{AgentUsage, BudgetLimit};
use loopwright_core::provider::TroubleKind;
use loopwright_core::spec::AgentUse;

fn heard(lines: &[&str]) -> (crate::agents::AgentOutcome, Vec<String>) {
    read_stream(&DIALECT, &invocation(Role::Maker), lines.join("\n").as_bytes(), RunEnd::Exited(0), 4096)
}

#[test]
fn maker_is_started_without_its_own_sandbox_inside_the_sandbox() {
    let launch = (DIALECT.launch)(&invocation(Role::Maker)).expect("a launch");
    let text = shown(&launch).replace(&verdict::schema().to_string(), "SCHEMA");
    expect![[r#"
        exec
        --json
        --strict-config
        --ephemeral
        --ignore-user-config
        --ignore-rules
        --skip-git-repo-check
        --sandbox
        danger-full-access
        --model
        model-1
        --disable
        plugins
        --disable
        apps
        --disable
        hooks
        --disable
        unbounded_connection_retries
        --config
        model_providers.loopwright={name="loopwright",base_url="http://127.0.0.1:3128/provider/openai",env_key="LOOPWRIGHT_PROVIDER_TOKEN",wire_api="responses",request_max_retries=2,stream_max_retries=2}
        --config
        model_provider="loopwright"
        --config
        project_doc_max_bytes=0
        --config
        skills.include_instructions=false
        --config
        skills.bundled.enabled=false
        --config
        web_search="disabled"
        --config
        analytics.enabled=false
        --config
        check_for_update_on_startup=false
        -
        LOOPWRIGHT_PROVIDER_TOKEN=the-token
        CODEX_HOME=/home/loop/.agent-lw-r1-c00c1e
        NO_PROXY=127.0.0.1,localhost
        no_proxy=127.0.0.1,localhost
        file .agent-lw-r1-c00c1e/verdict.schema.json: SCHEMA
        hidden [] []
        stdin the brief
    "#]].assert_eq(&text);
}

#[test]
fn checker_must_follow_the_schema_of_a_verdict() {
    let text = shown(&(DIALECT.launch)(&invocation(Role::Checker)).expect("a launch"));
    assert!(text.contains("--output-schema\n/home/loop/.agent-lw-r1-c00c1e/verdict.schema.json\n"), "{text}");
    assert!(text.contains("--sandbox\ndanger-full-access\n"), "{text}");
}

#[test]
fn its_own_sandbox_is_used_without_the_sandbox() {
    let text = shown(&(DIALECT.launch)(&unconfined(Role::Maker)).expect("a launch"));
    assert!(text.contains("--sandbox\nworkspace-write\n--model\nmodel-1\n--add-dir\n/state/round/outbox\n"), "{text}");
    let text = shown(&(DIALECT.launch)(&unconfined(Role::Checker)).expect("a launch"));
    assert!(text.contains("--sandbox\nread-only\n"), "{text}");
}

#[test]
fn lists_of_tools_it_cannot_enforce_are_refused() {
    let refused = |role, tools: &[&str]| {
        let mut asked = invocation(role);
        asked.tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        matches!((DIALECT.launch)(&asked), Err(AgentError::Unavailable { .. }))
    };
    assert!(refused(Role::Maker, &["Read", "Edit"]), "it edits by commands");
    assert!(refused(Role::Maker, &["Read", "Bash"]), "the workspace is writable");
    assert!(refused(Role::Maker, &["Read"]));
    assert!(refused(Role::Maker, &["Read", "Edit", "Bash", "WebFetch"]));
    assert!(!refused(Role::Maker, &["Edit", "Bash"]));
    assert!(!refused(Role::Checker, &["Read", "Bash"]), "the workspace is read-only");
}

#[test]
fn recorded_streams_mean_what_happened() {
    let all = recorded("codex-0.166.0");
    let lines = all.iter().map(|(name, stream, how)| {
        let (outcome, _) = read_stream(&DIALECT, &invocation(Role::Checker), stream, *how, 65536);
        summary(name, &outcome)
    });
    let text = lines.collect::<Vec<_>>().join("\n") + "\n";
    expect![[r#"
        401                      auth 401                     0+0+0 → 0                turns 1
        403                      auth 403                     0+0+0 → 0                turns 1
        404-model                bad-request 404              0+0+0 → 0                turns 1
        429-retry-after          rate-limited 429             0+0+0 → 0                turns 1
        429-then-well            Exited(0)                    2400+1600+0 → 120        turns 2
        429-try-again-text       rate-limited in 200 s        0+0+0 → 0                turns 1
        429-usage-limit          rate-limited                 0+0+0 → 0                turns 1
        429                      rate-limited 429             0+0+0 → 0                turns 1
        500                      overloaded                   ?                        turns 1
        503                      overloaded 503               ?                        turns 1
        529                      overloaded 529               ?                        turns 1
        context                  context                      ?                        turns 2
        cut-once                 Exited(0)                    3600+2400+0 → 180        turns 3
        cut                      network                      ?                        turns 2
        denied                   Exited(0)                    3600+2400+0 → 180        turns 1
        edit-and-run             Exited(0)                    3600+10000+200 → 280     turns 6
        hang                     limit Wall                   ?                        turns 2
        length                   unclear                      ?                        turns 1
        overloaded-midway        overloaded                   ?                        turns 2
        quota-midway             quota                        0+0+0 → 0                turns 1
        quota                    quota                        0+0+0 → 0                turns 1
        refusal-once             Exited(0)                    2400+1600+0 → 120        turns 2
        refusal                  Exited(0)                    2400+1600+0 → 120        turns 2
        schema-ignored           Exited(0)                    1200+800+0 → 60          turns 1
        unreachable              limit Wall                   ?                        turns 1
        verdict                  Exited(0)                    2400+1600+0 → 120        turns 2
    "#]]
    .assert_eq(&text);
}

#[test]
fn meaning_does_not_depend_on_where_reads_are_cut() {
    for (name, stream, how) in recorded("codex-0.166.0") {
        let whole = read_stream(&DIALECT, &invocation(Role::Maker), &stream, how, usize::MAX);
        let cut = read_stream(&DIALECT, &invocation(Role::Maker), &stream, how, 61);
        assert_eq!((whole.1, whole.0.self_report), (cut.1, cut.0.self_report), "{name}");
    }
}

#[test]
fn damaged_streams_neither_panic_nor_lower_the_usage() {
    for (_, stream, _) in recorded("codex-0.166.0") {
        torture(&DIALECT, Role::Maker, &stream);
    }
}

#[test]
fn cached_input_is_subtracted_from_input() {
    let end = r#"{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":30,"cache_write_input_tokens":5,"output_tokens":7}}"#;
    let (outcome, _) = heard(&[end]);
    assert_eq!(outcome.usage, AgentUsage::Reported(Tokens { input: 65, output: 7, cache_read: 30, cache_write: 5 }));
    assert_eq!((outcome.self_report.models[0].model.as_str(), outcome.self_report.trouble), ("model-1", None));
}

#[test]
fn uses_of_tools_are_turns_and_have_a_limit() {
    let mut few = invocation(Role::Maker);
    few.limits.turns = Some(2);
    let item = r#"{"type":"item.started","item":{"id":"i","type":"command_execution","command":"ls"}}"#;
    let stream = ["{\"type\":\"turn.started\"}", item, item].join("\n") + "\n";
    let (outcome, _) = read_stream(&DIALECT, &few, stream.as_bytes(), RunEnd::Stopped, 4096);
    assert_eq!((outcome.turns, outcome.limit), (3, Some(BudgetLimit::Turns)));
}

#[test]
fn wait_for_a_limit_is_trouble_unless_work_continues() {
    let wait = r#"{"type":"error","message":"Reconnecting... 1/2 (exceeded retry limit, last status: 429 Too Many Requests)"}"#;
    let stream = format!("{wait}\n");
    let (outcome, _) = read_stream(&DIALECT, &invocation(Role::Maker), stream.as_bytes(), RunEnd::Finished, 4096);
    assert_eq!(outcome.self_report.trouble.map(|trouble| trouble.kind), Some(TroubleKind::RateLimited));
    let on = r#"{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"here I am"}}"#;
    let (outcome, _) =
        read_stream(&DIALECT, &invocation(Role::Maker), format!("{wait}\n{on}\n").as_bytes(), RunEnd::Exited(0), 4096);
    assert_eq!(
        outcome.self_report.trouble.map(|trouble| trouble.kind),
        Some(TroubleKind::Unclear),
        "it never reported that it was done"
    );
}

#[tokio::test]
async fn pinned_program_still_knows_every_option() {
    canary(&DIALECT, AgentUse::Codex, &["exec", "--help"], &[]).await;
}

#[test]
fn hundred_megabytes_on_one_line_are_read_in_bounded_memory() {
    survives_endless_line(&DIALECT);
}

#[test]
fn server_is_a_setting_and_its_tools_need_no_approval() {
    let launch = (DIALECT.launch)(&crate::agents::tests::with_server(Role::Checker)).expect("a launch");
    let args: Vec<&str> = launch.args.iter().filter_map(|arg| arg.to_str()).collect();
    let servers: Vec<&&str> = args.iter().filter(|arg| arg.starts_with("mcp_servers.")).collect();
    let expected = [
        r#"mcp_servers.my-docs.command="docs-server""#,
        r#"mcp_servers.my-docs.args=["--stdio"]"#,
        r#"mcp_servers.my-docs.env={ROOT="/srv/\"docs\""}"#,
        r#"mcp_servers.my-docs.default_tools_approval_mode="approve""#,
    ];
    assert_eq!(servers, expected.iter().collect::<Vec<_>>());
}
