//! The exact command lines, and the meaning of streams.

use super::*;
use crate::agents::tests::{
    canary, invocation, read_stream, read_streams, recorded, recorded_errors, shown, stdin_text, summary,
    survives_endless_line, torture,
};
use expect_test::expect;
use loopwright_core::budget::AgentUsage;
use loopwright_core::spec::AgentUse;

const RECORDED: &str = "gemini-0.61.0";

fn heard(lines: &[&str], how: RunEnd) -> crate::agents::AgentOutcome {
    read_stream(&DIALECT, &invocation(Role::Maker), lines.join("\n").as_bytes(), how, 4096).0
}

#[test]
fn maker_is_started_with_its_tools_and_settings_of_its_own() {
    let launch = (DIALECT.launch)(&invocation(Role::Maker)).expect("a launch");
    expect![[r#"
        -o
        stream-json
        --skip-trust
        --approval-mode
        yolo
        --extensions
        none
        --model
        model-1
        --include-directories
        /outbox
        GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:3128/provider/google
        GEMINI_API_KEY=the-token
        GEMINI_CLI_HOME=/home/loop/.agent-lw-r1-c00c1e
        GEMINI_CLI_NO_RELAUNCH=true
        NO_PROXY=127.0.0.1,localhost
        no_proxy=127.0.0.1,localhost
        file .agent-lw-r1-c00c1e/.gemini/settings.json: {"security":{"auth":{"selectedType":"gemini-api-key"},"folderTrust":{"enabled":true}},"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false,"maxAttempts":3},"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},"skills":{"enabled":false},"advanced":{"ignoreLocalEnv":true},"tools":{"core":["read_file","glob","list_directory","grep_search","replace","write_file","run_shell_command"]},"context":{"fileFiltering":{"respectGitIgnore":true,"respectGeminiIgnore":false}},"model":{"maxSessionTurns":40}}
        hidden the whole list [".gemini"]
        hidden below: all instruction files
        stdin the brief
    "#]].assert_eq(&shown(&launch));
}

#[test]
fn checker_has_tools_that_read_and_ignores_no_files() {
    let launch = (DIALECT.launch)(&invocation(Role::Checker)).expect("a launch");
    expect![[r#"
        -o
        stream-json
        --skip-trust
        --approval-mode
        default
        --extensions
        none
        --model
        model-1
        --include-directories
        /items
        GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:3128/provider/google
        GEMINI_API_KEY=the-token
        GEMINI_CLI_HOME=/home/loop/.agent-lw-r1-c00c1e
        GEMINI_CLI_NO_RELAUNCH=true
        NO_PROXY=127.0.0.1,localhost
        no_proxy=127.0.0.1,localhost
        file .agent-lw-r1-c00c1e/.gemini/settings.json: {"security":{"auth":{"selectedType":"gemini-api-key"},"folderTrust":{"enabled":true}},"general":{"enableAutoUpdate":false,"enableAutoUpdateNotification":false,"maxAttempts":3},"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},"skills":{"enabled":false},"advanced":{"ignoreLocalEnv":true},"tools":{"core":["read_file","glob","list_directory","grep_search"]},"context":{"fileFiltering":{"respectGitIgnore":false,"respectGeminiIgnore":false}},"model":{"maxSessionTurns":40}}
        hidden the whole list [".gemini"]
        hidden below: all instruction files
        stdin the brief
    "#]].assert_eq(&shown(&launch));
}

#[test]
fn brief_does_not_include_files() {
    let asks = |prompt: &str| {
        let invocation = AgentInvocation { prompt: prompt.to_owned(), ..invocation(Role::Maker) };
        stdin_text(&(DIALECT.launch)(&invocation).expect("a launch"))
    };
    assert_eq!(asks("plain"), "plain");
    let prompt_text = asks("see @AGENTS.md, ada@localhost and\n@@ -1 +1 @@");
    assert!(prompt_text.ends_with("\n\nsee \\@AGENTS.md, ada\\@localhost and\n\\@\\@ -1 +1 \\@\\@"), "{prompt_text}");
    assert!(prompt_text.match_indices('@').all(|(at, _)| prompt_text[..at].ends_with('\\')), "{prompt_text}");
}

#[test]
fn unknown_tools_and_a_missing_provider_are_refused() {
    let mut odd = invocation(Role::Maker);
    odd.tools = vec!["Read".to_owned(), "Teleport".to_owned()];
    assert!(matches!((DIALECT.launch)(&odd), Err(AgentError::Unavailable { .. })));
    let mut keyless = invocation(Role::Maker);
    keyless.endpoints.urls.remove("google");
    assert!(matches!((DIALECT.launch)(&keyless), Err(AgentError::Unavailable { .. })));
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
        401                      auth 401                     0+0+0 → 0                turns 0
        403                      auth 403                     0+0+0 → 0                turns 0
        404-model                bad-request 404              0+0+0 → 0                turns 0
        429-retry-after          rate-limited 429             0+0+0 → 0                turns 0
        429-retry-info           rate-limited in 34 s         ?                        turns 0
        429-then-well            Exited(0)                    2400+1600+0 → 120        turns 2
        429                      rate-limited 429             0+0+0 → 0                turns 0
        500                      server 500                   0+0+0 → 0                turns 0
        503                      overloaded 503               0+0+0 → 0                turns 0
        529                      overloaded 529               0+0+0 → 0                turns 0
        context                  context 400                  1200+800+0 → 60          turns 1
        cut-once                 network                      1200+800+0 → 60          turns 1
        cut                      network                      1200+800+0 → 60          turns 1
        denied                   Exited(0)                    3600+2400+0 → 180        turns 3
        edit-and-run             Exited(0)                    3800+10000+0 → 280       turns 6
        hang                     limit Wall                   ?                        turns 0
        length                   Exited(0)                    1200+800+0 → 60          turns 1
        max-turns                limit Turns                  2400+1600+0 → 120        turns 2
        overloaded-midway        unclear                      1200+800+0 → 60          turns 1
        quota                    rate-limited 429             0+0+0 → 0                turns 0
        refusal-once             Exited(0)                    2400+1600+0 → 120        turns 2
        refusal                  Exited(0)                    2400+1600+0 → 120        turns 2
        unreachable              network                      0+0+0 → 0                turns 0
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
fn last_message_is_a_checkers_answer() {
    let find = |wanted: &str| recorded(RECORDED).into_iter().find(|(name, ..)| name == wanted).expect("recorded");
    let (_, stream, how) = find("verdict");
    let (outcome, _) = read_stream(&DIALECT, &invocation(Role::Checker), &stream, how, 4096);
    let answer = outcome.self_report.answer.expect("an answer");
    assert!(answer.starts_with('{') && answer.contains("\"verdict\":\"pass\""), "{answer}");
}

fn says(text: &str) -> String {
    format!(r#"{{"type":"message","role":"assistant","content":"{text}","delta":true}}"#)
}

const CALL: &str = r#"{"type":"tool_use","tool_name":"glob","tool_id":"c1","parameters":{"pattern":"*.rs"}}"#;
const RESULT: &str = r#"{"type":"tool_result","tool_id":"c1","status":"success"}"#;

fn end(status: &str, more: &str) -> String {
    let stats = r#"{"total_tokens":135,"input_tokens":100,"output_tokens":20,"cached":40}"#;
    format!(r#"{{"type":"result","status":"{status}"{more},"stats":{{"models":{{"gemini-2.5-pro":{stats}}}}}}}"#)
}

#[test]
fn pieces_of_a_message_are_one_and_thoughts_are_output() {
    let lines = [
        says("let me "),
        says("look"),
        CALL.to_owned(),
        RESULT.to_owned(),
        says("It is "),
        says("done."),
        end("success", ""),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (outcome, seen) =
        read_stream(&DIALECT, &invocation(Role::Maker), lines.join("\n").as_bytes(), RunEnd::Exited(0), 4096);
    assert_eq!((outcome.text.as_str(), outcome.turns, outcome.self_report.trouble), ("It is done.", 2, None));
    assert!(seen.contains(&"Message(\"let me look\")".to_owned()), "{seen:?}");
    let tokens = Tokens { input: 60, output: 35, cache_read: 40, cache_write: 0 };
    assert_eq!(outcome.usage, AgentUsage::Reported(tokens));
}

#[test]
fn blocked_answer_is_a_refusal_and_an_interrupted_answer_is_no_success() {
    let complaint =
        r#"{"type":"error","severity":"error","message":"The model response was blocked due to safety settings."}"#;
    let kind = |lines: &[&str]| heard(lines, RunEnd::Exited(0)).self_report.trouble.map(|trouble| trouble.kind);
    assert_eq!(kind(&[complaint, &end("error", "")]), Some(TroubleKind::Declined));
    assert_eq!(kind(&[CALL, RESULT, &end("success", "")]), Some(TroubleKind::Unclear));
    assert_eq!(kind(&[&says("done"), r#"{"type":"result","status":7}"#]), Some(TroubleKind::Unclear));
}

#[test]
fn exit_code_gives_the_reason_that_the_stream_lacks() {
    let failed = end("error", r#","error":{"type":"unknown","message":"[API Error: busy]"}"#);
    let kind = |code| {
        heard(&[&failed], RunEnd::Exited(code)).self_report.trouble.map(|trouble| (trouble.kind, trouble.status))
    };
    assert_eq!(kind(173), Some((TroubleKind::RateLimited, Some(429))));
    assert_eq!(kind(17), Some((TroubleKind::Overloaded, Some(529))));
    assert_eq!(kind(1), Some((TroubleKind::Unclear, None)));
    let silent = |code| heard(&[], RunEnd::Exited(code));
    assert_eq!(silent(EXIT_TURNS).limit, Some(BudgetLimit::Turns));
    assert_eq!(silent(EXIT_AUTH).self_report.trouble.map(|trouble| trouble.kind), Some(TroubleKind::Auth));
    assert_eq!(silent(0).self_report.trouble.map(|trouble| trouble.kind), Some(TroubleKind::Unclear));
    assert_eq!(silent(0).usage, AgentUsage::Unknown);
}

#[test]
fn silence_after_a_failed_request_is_provider_trouble() {
    let log = b"Attempt 1 failed: You exceeded your current quota. Please retry in 34.07s.\nSuggested retry\n";
    let trouble = read_streams(&DIALECT, &invocation(Role::Maker), (b"", log), RunEnd::Wall, 16)
        .0
        .self_report
        .trouble
        .expect("trouble");
    assert_eq!(trouble.kind, TroubleKind::RateLimited);
    assert!(trouble.retry_at_ms.is_some());
}

#[tokio::test]
async fn pinned_program_still_knows_every_option() {
    canary(&DIALECT, AgentUse::Gemini, &["--help"], &[]).await;
}

#[test]
fn pinned_program_still_knows_every_variable_and_setting() {
    let Some(program) = loopwright_testkit::agents::require_program("gemini") else { return };
    let bundle = program.canonicalize().expect("its script").parent().expect("its folder").to_owned();
    let files = std::fs::read_dir(bundle).expect("its files").map(|file| file.expect("a file").path());
    let parts: Vec<Vec<u8>> =
        files.filter(|path| path.is_file()).map(|path| std::fs::read(path).expect("a part")).collect();
    let knows = |word: &str| parts.iter().any(|part| memchr::memmem::find(part, word.as_bytes()).is_some());
    let launch = (DIALECT.launch)(&invocation(Role::Maker)).expect("a launch");
    for (name, _) in &launch.env {
        let name = name.to_str().expect("text");
        assert!(knows(name), "Gemini CLI no longer knows {name}");
    }
    let settings: Value = serde_json::from_slice(&launch.files[0].1).expect("settings");
    let mut open = vec![settings];
    while let Some(Value::Object(section)) = open.pop() {
        for (name, value) in section {
            assert!(knows(&format!("{name}: {{")) || knows(&format!(".{name}")), "Gemini CLI no longer knows {name}");
            open.extend(value.is_object().then_some(value));
        }
    }
    for tool in AgentTool::ALL.into_iter().flat_map(names) {
        assert!(knows(&format!("\"{tool}\"")), "Gemini CLI no longer knows {tool}");
    }
}

#[test]
fn hundred_megabytes_on_one_line_are_read_in_bounded_memory() {
    survives_endless_line(&DIALECT);
}

#[test]
fn server_is_in_its_settings_and_is_trusted() {
    let launch = (DIALECT.launch)(&crate::agents::tests::with_server(Role::Checker)).expect("a launch");
    let settings: Value = serde_json::from_slice(&launch.files[0].1).expect("JSON");
    let server =
        json!({ "command": "docs-server", "args": ["--stdio"], "env": { "ROOT": "/srv/\"docs\"" }, "trust": true });
    assert_eq!(settings["mcpServers"], json!({ "my-docs": server }));
    // A list of tools would exclude those of the server.
    assert!(settings["tools"]["core"].as_array().is_some_and(|names| names.contains(&json!("mcp_my-docs_*"))));
}

#[test]
fn effort_is_a_number_of_tokens_or_a_word_after_the_models_generation() {
    for (model, effort, expected) in [
        (Some("gemini-2.5-pro"), ModelEffort::Low, json!([{ "model": "gemini-2.5-pro" }, { "thinkingBudget": 1024 }])),
        (
            Some("google/gemini-3-pro-preview"),
            ModelEffort::High,
            json!([{ "model": "gemini-3-pro-preview" }, { "thinkingLevel": "HIGH" }]),
        ),
        (None, ModelEffort::Minimal, json!([{ "overrideScope": "core" }, { "thinkingLevel": "MINIMAL" }])),
    ] {
        let mut start = AgentInvocation { model: model.map(str::to_owned), ..invocation(Role::Maker) };
        start.options.effort = Some(effort);
        let launch = (DIALECT.launch)(&start).expect("a launch");
        let settings: Value = serde_json::from_slice(&launch.files[0].1).expect("JSON");
        let change = &settings["modelConfigs"]["customOverrides"][0];
        let found = json!([change["match"], change["modelConfig"]["generateContentConfig"]["thinkingConfig"]]);
        assert_eq!(found, expected);
    }
}
