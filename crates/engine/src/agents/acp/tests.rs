//! Conversations with scripted peers: correct, unusual and hostile ones, each a real process.

use super::super::driver::AgentStreamReader;
use super::super::tests::{self, ReadsStream, RecordedEvents, unconfined};
use super::*;
use crate::proc::{RunEnd, TreeCookie};
use crate::seam::Seam;
use expect_test::expect;
use loopwright_core::budget::{AgentUsage, BudgetLimit, Tokens};
use loopwright_core::provider::TroubleKind;
use loopwright_core::spec::Role;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

/// The peer's helper functions; each test adds the behaviour of its peer.
const PEER: &str = r#"
import json, os, sys
def send(message): sys.stdout.write(json.dumps(message) + "\n"); sys.stdout.flush()
def raw(text): sys.stdout.buffer.write(text if isinstance(text, bytes) else text.encode()); sys.stdout.flush()
def recv():
    line = sys.stdin.readline()
    if not line: sys.exit(0)
    return json.loads(line)
def reply(call, result): send({"jsonrpc": "2.0", "id": call["id"], "result": result})
def fail(call, code, text): send({"jsonrpc": "2.0", "id": call["id"], "error": {"code": code, "message": text}})
def update(what, **more):
    send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update": {"sessionUpdate": what, **more}}})
def say(text, **more): update("agent_message_chunk", content={"type": "text", "text": text}, **more)
def tool(kind, title):
    update("tool_call", toolCallId="t1", title=title, kind=kind, status="pending")
    update("tool_call_update", toolCallId="t1", status="completed")
def ask(id, tool, *kinds):
    options = [{"optionId": "o-" + kind, "name": kind, "kind": kind} for kind in kinds]
    send({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {"sessionId": "s1", "toolCall": {"toolCallId": "t1", **tool}, "options": options}})
    return recv()["result"]["outcome"]
ALL = ("allow_always", "allow_once", "reject_once", "reject_always")
def begin(session={}):
    reply(recv(), {"protocolVersion": 1, "agentInfo": {"name": "peer", "version": "9.9"}})
    reply(recv(), {"sessionId": "s1", **session})
    return recv()
def end(call, reason="end_turn", **more): reply(call, {"stopReason": reason, **more})
"#;

struct Play {
    root: tempfile::TempDir,
    invocation: AgentInvocation,
    name: &'static str,
}

impl Play {
    fn new(role: Role) -> Self {
        let root = tempfile::tempdir().expect("a temporary folder");
        let mut invocation = AgentInvocation { model: None, ..unconfined(role) };
        for (place, name) in [
            (&mut invocation.workspace, "work"),
            (&mut invocation.outbox, "outbox"),
            (&mut invocation.home, "home"),
            (&mut invocation.tmp, "tmp"),
        ] {
            *place = root.path().join(name);
            std::fs::create_dir_all(place).expect("a folder can be made");
        }
        invocation.limits.output_max = 64 << 20;
        // Process trees are identified by the cookie, and tests run concurrently.
        invocation.cookie = TreeCookie::new("acp-test");
        Self { root, invocation, name: "peer" }
    }

    fn maker() -> Self {
        Self::new(Role::Maker)
    }

    /// The same with a program of this name.
    fn named(name: &'static str) -> Self {
        Self { name, ..Self::maker() }
    }

    async fn tried(&self, body: &str, cancel: &CancelToken) -> (Result<AgentOutcome, AgentError>, Vec<String>) {
        let program = self.root.path().join(self.name);
        std::fs::write(&program, format!("#!/usr/bin/python3\n{PEER}\n{body}\n")).expect("the peer can be written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("permissions");
        let agent = AcpAgent::find(&[program.display().to_string()], &[], None).expect("a program is named");
        let mut seen = RecordedEvents::default();
        let proc = ProcessRunner::new(Seam::none());
        let outcome = agent.invoke(&self.invocation, &proc, &mut seen, cancel, &mut |_: &_| ()).await;
        (outcome, seen.0)
    }

    async fn run(&self, body: &str) -> AgentOutcome {
        self.tried(body, &CancelToken::new()).await.0.expect("the peer starts")
    }

    async fn refused(&self, body: &str) -> String {
        self.tried(body, &CancelToken::new()).await.0.expect_err("it is refused").to_string()
    }
}

fn trouble(outcome: &AgentOutcome) -> Option<TroubleKind> {
    outcome.self_report.trouble.as_ref().map(|trouble| trouble.kind)
}

#[tokio::test]
async fn complete_conversation_sends_the_brief_and_ends_with_the_last_message() {
    let play = Play::maker();
    let body = r#"
greeting = recv(); reply(greeting, {"protocolVersion": 1, "agentInfo": {"name": "peer", "version": "9.9"}})
opening = recv(); reply(opening, {"sessionId": "s1"})
call = recv()
say("I will "); say("mend it."); tool("edit", "calc.py: a => b\nmore")
say(json.dumps([greeting["params"]["clientCapabilities"], opening["params"]["mcpServers"], call["params"]["prompt"]])); say(" end")
end(call)
"#;
    let (outcome, seen) = play.tried(body, &CancelToken::new()).await;
    let outcome = outcome.expect("the peer starts");
    assert_eq!((outcome.how, outcome.turns, trouble(&outcome)), (RunEnd::Exited(0), 2, None));
    assert_eq!(outcome.self_report.answer.as_deref(), Some(outcome.text.as_str()));
    assert_eq!(outcome.usage, AgentUsage::Unknown, "no usage was reported");
    expect![[r#"
        Started { model: None, version: Some("9.9") }
        Message("I will mend it.")
        Tool { name: "edit", what: "calc.py: a => b" }
        Message("[{\"fs\": {\"readTextFile\": false, \"writeTextFile\": false}, \"terminal\": false}, [], [{\"type\": \"text\", \"text\": \"the brief\"}]] end")
        UsageUnknown
        Finished { how: Exited(0) }"#]]
    .assert_eq(&seen.join("\n"));
}

#[tokio::test]
async fn lines_that_are_not_messages_are_skipped_and_counted() {
    let body = r#"
raw("warming up\n"); raw(b"\xff\xfe{\n"); raw("\n"); raw("[1, 2]\n"); raw('{"jsonrpc": "2.0", "id": 99, "result": {}}\n')
call = begin()
send({"jsonrpc": "2.0", "method": "peer/gossip", "params": 7})
update("invention", anything=[1])
send({"jsonrpc": "2.0", "method": "session/update", "params": {"update": 5}})
say("done"); end(call); end(call, "refusal"); say("again")
"#;
    let (outcome, seen) = Play::maker().tried(body, &CancelToken::new()).await;
    let outcome = outcome.expect("the peer starts");
    assert_eq!((outcome.text.as_str(), trouble(&outcome)), ("done", None));
    let counted = format!("{:?}", "5 lines of the agent were not protocol messages".as_bytes());
    assert!(seen.iter().any(|event| event.contains(&counted)), "{seen:?}");
}

#[tokio::test]
async fn unsupported_calls_get_an_error_with_their_own_id() {
    let body = r#"
call = begin()
got = []
for id, method in (("x-1", "fs/read_text_file"), (7.5, "terminal/create"), (0, "craft/drain"), ("y", "fs/write_text_file")):
    send({"jsonrpc": "2.0", "id": id, "method": method, "params": {"path": "/etc/passwd"}})
    answer = recv(); got.append([answer["id"], answer["error"]["code"]])
say(json.dumps(got)); end(call)
"#;
    let outcome = Play::maker().run(body).await;
    assert_eq!(outcome.text, r#"[["x-1", -32601], [7.5, -32601], [0, -32601], ["y", -32601]]"#);
}

#[tokio::test]
async fn permission_is_given_once_and_by_the_kind_of_tool() {
    let body = r#"
call = begin()
got = [ask(i, tool, *kinds) for i, (tool, kinds) in enumerate((
    ({"kind": "edit", "title": "read"}, ALL), ({"kind": "execute", "title": "rm x"}, ALL), ({"kind": "fetch", "title": "x"}, ALL),
    ({"kind": "switch_mode"}, ALL), ({"kind": "other", "title": "shell"}, ALL), ({"kind": "edit"}, ("allow_always",)),
    ({"kind": "fetch"}, ("allow_once",))))]
say(" ".join(o.get("optionId", o["outcome"]) for o in got)); end(call)
"#;
    let outcome = Play::maker().run(body).await;
    let once = "o-allow_once o-allow_once o-reject_once o-reject_once o-allow_once cancelled cancelled";
    assert_eq!(outcome.text, once);
}

#[tokio::test]
async fn reader_without_a_sandbox_is_switched_to_a_mode_that_asks_and_may_only_read() {
    let body = r#"
switch = begin({"modes": {"currentModeId": "auto", "availableModes": [{"id": "auto", "name": "a"}, {"id": "https://x/modes#approve", "name": "b"}]}})
send({"jsonrpc": "2.0", "id": switch["id"], "result": None})
call = recv()
got = [ask(i, tool, *ALL)["optionId"] for i, tool in enumerate((
    {"kind": "read"}, {"kind": "search"}, {"kind": "edit"}, {"kind": "execute", "title": "read"}, {"kind": "other", "title": "write"},
    {"kind": "other", "title": "read"}, {"kind": "other", "title": "read x; rm y"}, {"title": "invention"}))]
say(json.dumps([switch["method"], switch["params"]["modeId"]] + [o[2:8] for o in got])); end(call)
"#;
    let outcome = Play::new(Role::Checker).run(body).await;
    expect![[r#"["session/set_mode", "https://x/modes#approve", "allow_", "allow_", "reject", "reject", "reject", "allow_", "reject", "reject"]"#]]
        .assert_eq(&outcome.text);
}

#[tokio::test]
async fn reader_that_nothing_restricts_is_refused() {
    let play = Play::new(Role::Checker);
    let modes = r#"call = begin({"modes": {"currentModeId": "auto", "availableModes": [{"id": "auto"}, {"id": "default"}]}}); open("asked", "w")"#;
    for body in ["begin(); open('asked', 'w')", modes] {
        let error = play.refused(body).await;
        assert!(error.contains("offers no mode"), "{error}");
    }
    let rejects = r#"fail(begin({"modes": {"currentModeId": "auto", "availableModes": [{"id": "ask"}]}}), -32603, "no"); recv(); open("asked", "w")"#;
    assert!(play.refused(rejects).await.contains("offers no mode"));
    assert!(!play.invocation.workspace.join("asked").exists(), "it received no prompt");
}

#[tokio::test]
async fn lists_of_tools_that_the_protocol_cannot_express_are_refused_before_anything_starts() {
    for tools in [&["Read"][..], &["Read", "Glob", "Grep", "Edit"], &["Edit", "Write", "Bash"], &["Cook"]] {
        let mut play = Play::maker();
        play.invocation.tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        play.refused("open('started', 'w')").await;
        assert!(!play.invocation.workspace.join("started").exists());
    }
}

#[tokio::test]
async fn model_is_set_where_it_is_offered_and_refused_where_not() {
    let mut play = Play::maker();
    play.invocation.model = Some("m2".to_owned());
    let tail = "\nsay(json.dumps([change['method'], change['params']]) if change else 'nothing'); end(call)";
    let setting = |current: &str| {
        format!(
            r#"{{"configOptions": [{{"id": "on", "type": "boolean", "currentValue": True}}, {{"id": "mo", "category": "model", "type": "select", "currentValue": "{current}", "options": [{{"group": "g", "name": "g", "options": [{{"value": "m2", "name": "M"}}]}}]}}]}}"#
        )
    };
    let changed = "change = begin(SESSION)\nreply(change, {})\ncall = recv()";
    let body = changed.replace("SESSION", &setting("m1")) + tail;
    let text = play.run(&body).await.text;
    assert_eq!(text, r#"["session/set_config_option", {"sessionId": "s1", "configId": "mo", "value": "m2"}]"#);
    let models = r#"{"models": {"currentModelId": "m1", "availableModels": [{"modelId": "m2", "name": "M"}]}}"#;
    let text = play.run(&(changed.replace("SESSION", models) + tail)).await.text;
    assert_eq!(text, r#"["session/set_model", {"sessionId": "s1", "modelId": "m2"}]"#);
    let already = format!("change = None; call = begin({})", setting("m2")) + tail;
    assert_eq!(play.run(&already).await.text, "nothing");
    for session in ["{}", &models.replace("m2", "m3")] {
        let error = play.refused(&format!("begin({session}); open('asked', 'w')")).await;
        assert!(error.contains("does not offer the model `m2`"), "{error}");
    }
    assert!(!play.invocation.workspace.join("asked").exists());
}

#[tokio::test]
async fn other_version_of_the_protocol_is_refused() {
    let error = Play::maker().refused(r#"reply(recv(), {"protocolVersion": 2}); recv()"#).await;
    assert!(error.contains("version 2"), "{error}");
}

#[tokio::test]
async fn every_reason_to_stop_has_its_meaning() {
    let cases = [
        ("end_turn", None, None),
        ("max_tokens", Some(TroubleKind::Context), None),
        ("max_turn_requests", None, Some(BudgetLimit::Turns)),
        ("refusal", Some(TroubleKind::Declined), None),
        ("cancelled", Some(TroubleKind::Unclear), None),
        ("tired", Some(TroubleKind::Unclear), None),
    ];
    for (reason, kind, limit) in cases {
        let outcome = Play::maker().run(&format!("end(begin(), {reason:?})")).await;
        assert_eq!((trouble(&outcome), outcome.limit), (kind, limit), "{reason}");
    }
    let denied = r#"call = begin(); ask(1, {"kind": "fetch"}, *ALL); end(call, "cancelled")"#;
    assert_eq!(trouble(&Play::maker().run(denied).await), None, "it stopped because something was not allowed");
}

#[tokio::test]
async fn errors_become_trouble_of_their_kind() {
    let cases = [
        ("fail(begin(), 401, 'no')", TroubleKind::Auth),
        ("fail(begin(), 429, 'slow down')", TroubleKind::RateLimited),
        ("fail(begin(), -32603, 'Internal error: 529 Overloaded')", TroubleKind::Overloaded),
        ("fail(begin(), -32603, 'boom')", TroubleKind::Unclear),
        ("reply(recv(), {'protocolVersion': 1}); fail(recv(), -32000, 'Authentication required')", TroubleKind::Auth),
        ("reply(begin(), None)", TroubleKind::Unclear),
        ("reply(recv(), 'hello')", TroubleKind::Unclear),
        ("sys.exit(0)", TroubleKind::Unclear),
        ("begin(); say('half'); sys.exit(0)", TroubleKind::Unclear),
        ("begin(); os.kill(os.getpid(), 9)", TroubleKind::Unclear),
    ];
    for (body, kind) in cases {
        assert_eq!(trouble(&Play::maker().run(body).await), Some(kind), "{body}");
    }
    let goose =
        "call = begin(); say('Ran into this error: Authentication error. Status: 401 Unauthorized.'); end(call)";
    assert_eq!(trouble(&Play::named("goose").run(goose).await), Some(TroubleKind::Auth));
    assert_eq!(trouble(&Play::maker().run(goose).await), None, "another agent's text comes from its model");
}

#[tokio::test]
async fn peer_that_never_answers_reaches_the_idle_limit() {
    let mut play = Play::maker();
    play.invocation.limits.idle = Some(Duration::from_millis(300));
    let outcome = play.run("while True: recv()").await;
    assert_eq!((outcome.how, outcome.limit), (RunEnd::Idle, Some(BudgetLimit::Idle)));
}

#[tokio::test]
async fn peer_that_asks_without_end_and_reads_nothing_is_ended() {
    let body = r#"
call = begin()
for i in range(100000): raw('{"jsonrpc":"2.0","id":%d,"method":"no/such"}\n' % i)
import signal; signal.pause()
"#;
    let outcome = Play::maker().run(body).await;
    assert_eq!((outcome.how, trouble(&outcome)), (RunEnd::Finished, Some(TroubleKind::Unclear)));
    assert!(outcome.self_report.trouble.is_some_and(|trouble| trouble.text.contains("does not read")));
}

#[tokio::test]
async fn report_over_the_size_limit_is_lost_and_a_call_over_it_ends_the_conversation() {
    let lost =
        "call = begin(); update('tool_call_update', toolCallId='t1', rawOutput='x' * (6 << 20)); say('end'); end(call)";
    let outcome = Play::maker().run(lost).await;
    assert_eq!((outcome.text.as_str(), trouble(&outcome)), ("end", None));
    let call = "call = begin(); ask(5, {'kind': 'edit', 'title': 'x' * (6 << 20)}, *ALL)";
    let outcome = Play::maker().run(call).await;
    assert!(outcome.self_report.trouble.is_some_and(|trouble| trouble.text.contains("too long")));
}

#[tokio::test]
async fn cancelled_peer_is_notified_before_it_is_ended() {
    let play = Play::maker();
    let body =
        "begin(); open('ready', 'w'); word = recv(); open('cancelled', 'w').write(json.dumps(word)); sys.exit(0)";
    let cancel = CancelToken::new();
    let (thrown, ready) = (cancel.clone(), play.invocation.workspace.join("ready"));
    let watch = tokio::spawn(async move {
        while !ready.exists() {
            tokio::task::yield_now().await;
        }
        thrown.cancel();
    });
    let (outcome, _) = play.tried(body, &cancel).await;
    watch.await.expect("the watcher ends");
    assert_eq!(outcome.expect("the peer starts").how, RunEnd::Cancelled);
    let word = std::fs::read_to_string(play.invocation.workspace.join("cancelled")).expect("it was notified");
    assert_eq!(word, r#"{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}"#);
}

#[tokio::test]
async fn peer_that_stays_after_its_answer_is_ended_without_trouble() {
    let outcome = Play::maker().run("call = begin(); say('done'); end(call)\nimport signal; signal.pause()").await;
    assert_eq!((outcome.how, trouble(&outcome), outcome.text.as_str()), (RunEnd::Finished, None, "done"));
}

#[tokio::test]
async fn complete_usage_reports_are_used_and_the_conversation_size_is_a_ceiling_for_all() {
    let turn_script =
        r#"call = begin(); end(call, usage={"totalTokens": 1260, "inputTokens": 1200, "outputTokens": 60})"#;
    let outcome = Play::named("codex-acp").run(turn_script).await;
    assert_eq!(outcome.usage, AgentUsage::Reported(Tokens { input: 1200, output: 60, ..Tokens::default() }));
    assert_eq!(Play::named("goose").run(turn_script).await.usage, AgentUsage::Unknown);
    let mut play = Play::maker();
    play.invocation.limits.tokens = Some(1000);
    let heavy = r#"begin(); update("usage_update", used=1001, size=9999, cost={"amount": 0.5, "currency": "USD"}); recv(); sys.exit(0)"#;
    let outcome = play.run(heavy).await;
    assert_eq!((outcome.how, outcome.limit), (RunEnd::Stopped, Some(BudgetLimit::Total)));
}

#[test]
fn variables_set_the_provider_of_known_programs_and_contain_no_key() {
    let invocation = AgentInvocation { model: Some("claude-x".to_owned()), ..tests::invocation(Role::Maker) };
    let shown = |known: AcpAgentProfile| {
        let env = known.env(&invocation).expect("variables");
        env.iter().map(|(name, value)| format!("{}={}\n", name.display(), value.display())).collect::<String>()
    };
    expect![[r#"
        ANTHROPIC_BASE_URL=http://127.0.0.1:3128/provider/anthropic
        ANTHROPIC_API_KEY=the-token
        GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:3128/provider/google
        GEMINI_API_KEY=the-token
        OPENAI_BASE_URL=http://127.0.0.1:3128/provider/openai
        OPENAI_API_KEY=the-token
        XDG_CONFIG_HOME=/home/loop/.agent-lw-r1-c00c1e
        XDG_DATA_HOME=/home/loop/.agent-lw-r1-c00c1e
        XDG_STATE_HOME=/home/loop/.agent-lw-r1-c00c1e
        GOOSE_DISABLE_KEYRING=1
        GOOSE_TELEMETRY_ENABLED=false
        CONTEXT_FILE_NAMES=[]
        GOOSE_PROVIDER=anthropic
        GOOSE_MODEL=claude-x
        ANTHROPIC_HOST=http://127.0.0.1:3128/provider/anthropic
        GOOGLE_HOST=http://127.0.0.1:3128/provider/google
        GOOGLE_API_KEY=the-token
        DISABLE_AUTOUPDATER=1
        DISABLE_TELEMETRY=1
        NO_PROXY=127.0.0.1,localhost
        no_proxy=127.0.0.1,localhost
    "#]]
    .assert_eq(&shown(AcpAgentProfile::Goose));
    expect![[r#"
        ANTHROPIC_BASE_URL=http://127.0.0.1:3128/provider/anthropic
        ANTHROPIC_API_KEY=the-token
        GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:3128/provider/google
        GEMINI_API_KEY=the-token
        OPENAI_BASE_URL=http://127.0.0.1:3128/provider/openai
        OPENAI_API_KEY=the-token
        XDG_CONFIG_HOME=/home/loop/.agent-lw-r1-c00c1e
        DISABLE_AUTOUPDATER=1
        DISABLE_TELEMETRY=1
        NO_PROXY=127.0.0.1,localhost
        no_proxy=127.0.0.1,localhost
    "#]]
    .assert_eq(&shown(AcpAgentProfile::Other));
}

#[test]
fn program_is_found_by_name_on_the_path_and_never_in_the_repository() {
    let find =
        |argv: &[&str]| AcpAgent::find(&argv.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), &[], None);
    assert!(matches!(find(&["no-such-agent-here", "acp"]), Err(AgentError::NotFound { .. })));
    assert!(find(&[]).is_err() && find(&[""]).is_err());
    assert!(find(&["sh"]).is_ok());
}

/// An agent with recorded conversations.
struct Recorded(AcpAgentProfile);

impl ReadsStream for Recorded {
    fn stream_reader(&self, invocation: &AgentInvocation) -> Box<dyn AgentStreamReader> {
        // As recorded: with the model that the program was started with, and in its own mode.
        let model = (self.0 == AcpAgentProfile::Gemini).then(|| "gemini-2.5-pro".to_owned());
        let invocation = AgentInvocation { model, ..invocation.clone() };
        let policy = AcpPolicy::from_invocation(&invocation, false).expect("the usual tools");
        Box::new(AcpConversation::begin(StdinFeed::new(1 << 20), policy, self.0, &invocation))
    }
}

/// The agent's messages in a recorded conversation.
fn agents_side(conversation: &[u8]) -> Vec<u8> {
    let lines = conversation.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"{\"agent\":"));
    lines.flat_map(|line| [&line[..line.len() - 1], b"\n"].concat()).collect()
}

const RECORDED: [(&str, AcpAgentProfile); 3] =
    [("gemini", AcpAgentProfile::Gemini), ("goose", AcpAgentProfile::Goose), ("opencode", AcpAgentProfile::Opencode)];

#[test]
fn recorded_conversations_mean_what_they_did() {
    let invocation = tests::invocation(Role::Maker);
    let mut text = String::new();
    for (agent, known) in RECORDED {
        let folder = format!("{agent}-{}/acp", loopwright_testkit::agents::version(agent));
        for (name, conversation, how) in tests::recorded(&folder) {
            let said = agents_side(&conversation);
            // The recorder ended a program that stayed after its answer, as the engine would.
            let has_answered = said.windows(12).any(|word| word == b"\"stopReason\"");
            let how = if has_answered && how == RunEnd::Wall { RunEnd::Finished } else { how };
            let (outcome, _) = tests::read_stream(&Recorded(known), &invocation, &said, how, 4096);
            text += &format!("{agent:<10}{}\n", tests::summary(&name, &outcome));
        }
    }
    expect![[r#"
        gemini    401                      auth 401                     ?                        turns 0
        gemini    429                      rate-limited 429             ?                        turns 0
        gemini    denied                   Exited(0)                    6000+0+0 → 180           turns 1
        gemini    edit-and-run             Exited(0)                    13800+0+0 → 280          turns 3
        gemini    length                   Exited(0)                    2000+0+0 → 60            turns 1
        gemini    refusal                  Exited(0)                    4000+0+0 → 120           turns 2
        goose     401                      auth                         ?                        turns 1
        goose     429                      rate-limited                 ?                        turns 1
        goose     denied                   Finished                     ?                        turns 3
        goose     edit-and-run             Finished                     ?                        turns 6
        goose     length                   Finished                     ?                        turns 1
        goose     refusal                  Finished                     ?                        turns 2
        opencode  401                      auth                         ?                        turns 0
        opencode  429                      limit Wall                   ?                        turns 0
        opencode  denied                   Exited(0)                    ?                        turns 1
        opencode  edit-and-run             Exited(0)                    ?                        turns 6
        opencode  length                   Exited(0)                    ?                        turns 1
        opencode  refusal                  declined                     ?                        turns 2
    "#]]
    .assert_eq(&text);
}

#[test]
fn altered_conversations_cause_no_panic() {
    for (agent, known) in RECORDED {
        let folder = format!("{agent}-{}/acp", loopwright_testkit::agents::version(agent));
        for (name, conversation, _) in tests::recorded(&folder) {
            if name == "edit-and-run" {
                tests::torture(&Recorded(known), Role::Maker, &agents_side(&conversation));
            }
        }
    }
}

#[tokio::test]
async fn session_gets_the_servers_and_their_tools_are_allowed_to_a_role_that_only_reads() {
    let mut play = Play::new(Role::Checker);
    play.invocation.mcp_servers = crate::agents::tests::with_server(Role::Checker).mcp_servers;
    let body = r#"
reply(recv(), {"protocolVersion": 1})
opening = recv(); reply(opening, {"sessionId": "s1", "modes": {"currentModeId": "x", "availableModes": [{"id": "x", "name": "x"}, {"id": "ask", "name": "ask"}]}})
changed = recv(); reply(changed, {})
call = recv()
good = ["mcp__my-docs__search", "my-docs__search", "my-docs: search", "search (my-docs MCP Server)"]
bad = ["my-docs__", "my-docs says hello", "my-docs: rm -rf /", "other: search", "other__search", "a b (my-docs MCP Server)"]
titles = [*good, *bad]
answers = [ask(i, {"title": title}, *ALL)["optionId"] for i, title in enumerate(titles)]
count = [[answer for answer in part if answer == "o-allow_once"] for part in (answers[:len(good)], answers[len(good):])]
say(json.dumps([opening["params"]["mcpServers"], len(count[0]), len(count[1])], sort_keys=True))
end(call)
"#;
    let outcome = play.run(body).await;
    expect![[r#"[[{"args": ["--stdio"], "command": "docs-server", "env": [{"name": "ROOT", "value": "/srv/\"docs\""}], "name": "my-docs"}], 4, 0]"#]].assert_eq(&outcome.text);
}

#[tokio::test]
async fn effort_is_set_where_the_session_offers_it_and_noted_where_it_does_not() {
    let mut play = Play::maker();
    play.invocation.options.effort = Some(loopwright_core::config::ModelEffort::High);
    let body = r#"
reply(recv(), {"protocolVersion": 1})
reply(recv(), {"sessionId": "s1", "configOptions": [{"id": "how-long", "category": "thought_level", "type": "select", "currentValue": "low", "options": [{"value": "low", "name": "L"}, {"value": "LEVEL", "name": "H"}]}]})
first = recv()
if first["method"] == "session/set_config_option":
    ANSWER
    say(json.dumps(first["params"]))
    first = recv()
say(" " + first["method"])
end(first)
"#;
    let run = async |level: &str, answer: &str| {
        let body = body.replace("LEVEL", level).replace("ANSWER", answer);
        let (outcome, seen) = play.tried(&body, &CancelToken::new()).await;
        (outcome.expect("the peer starts").text, seen.join("\n"))
    };
    let notes = |seen: &str, text: &str| {
        let bytes = format!("{:?}", text.as_bytes());
        seen.contains(bytes.trim_matches(['[', ']']))
    };
    let asked = r#"{"sessionId": "s1", "configId": "how-long", "value": "high"}"#;
    let (text, _) = run("high", "reply(first, {})").await;
    assert!(text.contains("session/prompt"), "{text}");
    let parsed: serde_json::Value = serde_json::from_str(text.trim_end_matches(" session/prompt")).expect("parameters");
    assert_eq!(parsed, serde_json::from_str::<serde_json::Value>(asked).expect("JSON"));
    let (text, seen) = run("high", "fail(first, -32602, 'not for this model')").await;
    assert!(text.contains("session/prompt") && notes(&seen, "refuses another effort: not for this model"), "{seen}");
    let (text, seen) = run("deep", "reply(first, {})").await;
    assert!(!text.contains("configId") && notes(&seen, "offers no effort `high` for its model"), "{text} {seen}");
}
