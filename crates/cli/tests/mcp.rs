//! `loopwright mcp`: the protocol on its lines, the rights of roles and tokens, and two clients that others wrote.

use loopwright_testkit::clients::require_npm;
use loopwright_testkit::{CommandRun, TestEnv, TestRepo, wait};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const FIX: &str = r#"@ maker
replace calc.sh "$1 - $2" "$1 + $2"
usage input=1200 output=300

@ checker
verdict pass correctness=5@calc.sh:2 scope=5@calc.sh:2 tests=4@calc.sh:2
"#;

struct World {
    env: TestEnv,
    repo: TestRepo,
}

impl World {
    fn new() -> Self {
        let env = TestEnv::for_program(env!("CARGO_BIN_EXE_loopwright"));
        let repo = env.repo("repo");
        repo.write("calc.sh", "#!/bin/sh\necho $(( $1 - $2 ))\n");
        repo.write(
            ".loopwright/loops/fix.md",
            "---\nname: fix\nintent: keep the sum right\nlevel: L2\nagents:\n  maker: { use: scripted, script: fix.script }\n\
             output: [{ pull-request: {} }]\n---\n# Maker\nDo it.\n",
        );
        repo.write(".loopwright/fix.script", FIX);
        repo.commit("first");
        Self { env, repo }
    }

    fn run(&self, line: &str) -> CommandRun {
        self.env.loopwright_in(self.repo.path(), line.split(' '))
    }

    /// A waiting candidate: the id of its question, its hash and its round.
    fn question(&self) -> [String; 3] {
        drop(self.run("run fix").code(10));
        let inbox = self.run("inbox --json").success().json();
        ["id", "candidate", "round"].map(|key| inbox["items"][0][key].as_str().expect("a text").to_owned())
    }

    fn token(&self, name: &str, role: &str) -> String {
        let added = self.run(&format!("token add {name} --role {role} --json")).success().json();
        added["token"].as_str().expect("the token is shown once").to_owned()
    }

    /// Sends messages to a server and returns its answers, by their id.
    fn talk(&self, words: &[&str], token: Option<&str>, messages: &[Value]) -> Vec<Value> {
        let mut command = self.env.command(self.repo.path());
        command.args(["mcp"]).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(token.map(|token| ("LOOPWRIGHT_TOKEN", token)));
        let mut child = command.spawn().expect("the server starts");
        let mut input = child.stdin.take().expect("it has an input");
        for message in messages {
            let line = message.as_str().map_or_else(|| message.to_string(), str::to_owned);
            writeln!(input, "{line}").expect("the server reads");
        }
        drop(input);
        let output = child.wait_with_output().expect("the server ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let mut answers: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("every line is a message")).collect();
        answers.sort_by_key(|answer| answer["id"].as_i64());
        answers
    }

    /// Runs a foreign client and returns what it got.
    fn client(&self, mode: &str, words: &[&str], token: Option<&str>, calls: &Value) -> Option<Value> {
        self.client_with(
            mode,
            words,
            calls,
            &token.map(|token| ("LOOPWRIGHT_TOKEN", token)).into_iter().collect::<Vec<_>>(),
        )
    }

    #[expect(clippy::disallowed_methods, reason = "a foreign client is no part of a round")]
    fn client_with(&self, mode: &str, words: &[&str], calls: &Value, more: &[(&str, &str)]) -> Option<Value> {
        let package = if mode == "modern" { "@modelcontextprotocol/client" } else { "@modelcontextprotocol/sdk" };
        let clients = require_npm(package)?;
        let program = self.env.command(self.repo.path()).get_program().to_string_lossy().into_owned();
        let server: Vec<&str> = [program.as_str(), "mcp"].into_iter().chain(words.iter().copied()).collect();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/client.cjs");
        let mut node = Command::new("node");
        node.arg(script).current_dir(self.repo.path()).env_clear().envs(self.env.variables());
        node.env("CLIENTS", clients).env("MODE", mode).env("SERVER", json!(server).to_string());
        node.env("CALLS", calls.to_string()).envs(more.iter().copied());
        let output = node.output().expect("node starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(serde_json::from_slice(&output.stdout).expect("the client prints a document"))
    }
}

fn call(id: i64, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

fn names(tools: &Value) -> Vec<&str> {
    tools.as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str()).collect()
}

const READING: [&str; 9] =
    ["list_loops", "show_loop", "list_rounds", "show_round", "diff", "inbox", "why", "logs", "costs"];

#[test]
fn tools_answer_with_the_documents_of_the_command_line() {
    let world = World::new();
    let [_, candidate, round] = world.question();
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        call(3, "inbox", json!({})),
        call(4, "show_round", json!({"round": round})),
        call(5, "diff", json!({"round": round})),
        call(6, "logs", json!({"round": round, "lines": 3})),
        call(7, "list_rounds", json!({"loop": "fix"})),
        call(8, "why", json!({"of": "nothing"})),
        call(9, "no_such_tool", json!({})),
        json!({"jsonrpc": "2.0", "id": 10, "method": "resources/list"}),
        json!("this is no message"),
        json!({"jsonrpc": "2.0", "id": 11, "method": "ping"}),
    ];
    let answers = world.talk(&[], None, &messages);
    assert_eq!(answers.len(), 12, "every request has one answer, and a notification has none: {answers:#?}");
    let [unreadable, first, list, inbox, show, diff, logs, rounds, why, no_tool, no_method, ping] = answers.as_slice()
    else {
        panic!("{answers:#?}")
    };
    assert_eq!(unreadable["error"]["code"], -32700);
    assert_eq!(first["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(names(&list["result"]["tools"]), READING);
    assert_eq!(inbox["result"]["structuredContent"]["items"][0]["candidate"], candidate.as_str());
    assert_eq!(show["result"]["structuredContent"]["round"], round.as_str());
    assert!(
        diff["result"]["structuredContent"]["diff"].as_str().is_some_and(|diff| diff.contains("$1 + $2")),
        "{diff}"
    );
    let text = logs["result"]["content"][0]["text"].as_str().expect("a text");
    assert!(text.lines().count() == 3, "{text}");
    assert_eq!(rounds["result"]["structuredContent"]["rounds"][0]["loop"], "fix");
    assert_eq!((&why["result"]["isError"], &no_tool["error"]["code"]), (&json!(true), &json!(-32602)));
    assert_eq!((&no_method["error"]["code"], &ping["result"]), (&json!(-32601), &json!({})));
}

#[test]
fn role_decides_which_tools_there_are_and_only_a_token_answers() {
    let world = World::new();
    let [id, candidate, _] = world.question();
    let approve = |number: i64, candidate: &str| call(number, "approve", json!({"id": id, "candidate": candidate}));
    let viewing = world.talk(&[], None, &[approve(1, &candidate), call(2, "run", json!({"loop": "fix"}))]);
    assert!(viewing.iter().all(|answer| answer["result"]["isError"] == true), "{viewing:#?}");
    let refused = world.run("mcp --role approve").code(15);
    assert!(refused.stderr().contains("needs a token"), "{}", refused.stderr());
    let viewer = world.token("viewer", "view");
    let mut command = world.env.command(world.repo.path());
    let high = command.args(["mcp", "--role", "operate"]).env("LOOPWRIGHT_TOKEN", &viewer).output().expect("it starts");
    assert_eq!(high.status.code(), Some(15), "a server has no more rights than its token");
    let token = world.token("helper", "approve");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let lower = world.talk(&["--role", "view"], Some(&token), std::slice::from_ref(&list));
    assert_eq!(names(&lower[0]["result"]["tools"]), READING);
    let moved = world.talk(&[], Some(&token), &[list, approve(2, "0000000000000000")]);
    assert_eq!(names(&moved[0]["result"]["tools"]).len(), READING.len() + 4);
    assert!(moved[1]["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("another candidate")));
    let stale = world.run(&format!("deny {id} --why no --candidate 0000000000000000")).code(15);
    assert!(stale.stderr().contains("another candidate"), "{}", stale.stderr());
    let done = world.talk(&[], Some(&token), &[approve(1, &candidate)]);
    assert_eq!(done[0]["result"]["structuredContent"]["outcome"], "shipped", "{done:#?}");
    drop(world.run("token revoke helper").success());
    let mut command = world.env.command(world.repo.path());
    let revoked = command.arg("mcp").env("LOOPWRIGHT_TOKEN", &token).output().expect("it starts");
    assert_eq!(revoked.status.code(), Some(15));
}

#[test]
fn official_client_of_the_current_revision_denies_beside_a_daemon_by_the_name_of_its_token() {
    let world = World::new();
    let [id, _, round] = world.question();
    let token = world.token("reviewer", "approve");
    drop(world.run("up --detach").success());
    let calls = json!([
        {"name": "inbox", "arguments": {}},
        {"name": "deny", "arguments": {"id": id, "why": "not this way"}},
        {"name": "inbox", "arguments": {}},
    ]);
    let got = world.client("modern", &[], Some(&token), &calls);
    drop(world.run("stop").success());
    let Some(got) = got else { return };
    assert_eq!(got["version"], "2026-07-28");
    assert_eq!(got["results"][0]["structuredContent"]["items"][0]["id"], id.as_str());
    assert_ne!(got["results"][1]["isError"], true, "{got:#}");
    assert_eq!(got["results"][2]["structuredContent"]["items"], json!([]));
    let log = world.run(&format!("logs {round} --json")).success().stdout();
    assert!(log.contains("reviewer") && log.contains("not this way"), "{log}");
}

#[test]
fn official_client_of_the_earlier_revisions_starts_a_round_and_reads_it() {
    let world = World::new();
    let calls = json!([
        {"name": "list_loops", "arguments": {}},
        {"name": "run", "arguments": {"loop": "fix"}},
        {"name": "run", "arguments": {"loop": "nothing"}},
        {"name": "show_loop", "arguments": {"loop": "fix", "more": 1}},
    ]);
    let Some(got) = world.client("sdk", &["--role", "operate"], None, &calls) else { return };
    assert_eq!((&got["version"], names(&got["tools"]).len()), (&json!("loopwright"), READING.len() + 1));
    assert_eq!(got["results"][0]["structuredContent"]["loops"][0]["loop"], "fix");
    let round = got["results"][1]["structuredContent"]["round"].as_str().expect("a round started").to_owned();
    assert_eq!((&got["results"][2]["isError"], &got["results"][3]["isError"]), (&json!(true), &json!(true)));
    wait::until("the round continues without its client", Duration::from_secs(60), || {
        world.run(&format!("show {round} --json")).success().json()["outcome"] == "escalated"
    });
}

#[test]
fn official_client_over_http_has_the_rights_of_its_token_and_of_no_other() {
    let world = World::new();
    let [id, candidate, round] = world.question();
    drop(world.run("up --detach").success());
    let address = world.run("web --json").success().json()["address"].as_str().expect("an address").to_owned();
    let url = format!("{}/mcp", address.trim_end_matches('/'));
    let calls = json!([
        {"name": "inbox", "arguments": {}},
        {"name": "logs", "arguments": {"round": round, "lines": 3}},
        {"name": "approve", "arguments": {"id": id, "candidate": candidate}},
        {"name": "run", "arguments": {"loop": "nothing"}},
    ]);
    let (viewer, approver) = (world.token("viewer", "view"), world.token("ada", "approve"));
    let got = |token: &str| world.client_with("sdk", &[], &calls, &[("SERVER_URL", &url), ("TOKEN", token)]);
    let (viewed, approved) = (got(&viewer), got(&approver));
    let stopped = world.run("stop");
    let (Some(viewed), Some(approved)) = (viewed, approved) else { return };
    assert_eq!(names(&viewed["tools"]), READING);
    assert_eq!(viewed["results"][0]["structuredContent"]["items"][0]["id"], id.as_str());
    assert_eq!(viewed["results"][2]["isError"], true, "{viewed:#}");
    let log = approved["results"][1]["content"][0]["text"].as_str().expect("a text");
    assert_eq!(log.lines().count(), 3, "{log}");
    assert_eq!(approved["results"][2]["structuredContent"]["outcome"], "shipped", "{approved:#}");
    assert_eq!(approved["results"][3]["isError"], true, "there is no such loop: {approved:#}");
    drop(stopped.success());
    let log = world.run(&format!("logs {round} --json")).success().stdout();
    assert!(log.contains("\"ada\""), "{log}");
}
