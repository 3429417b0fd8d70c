//! The real agents without the engine, against the scripted model: one scenario for all of them. Each edits files, runs
//! a command and ends, and reports exactly the tokens that the model reported to it. Other tests cover the engine's
//! handling of them.

#![allow(clippy::disallowed_methods, reason = "the agents are started bare, as a shell would start them")]

use loopwright_testkit::{ModelServer, agents};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SCENARIO: &str = "\
@ text \"Mend the sum\"
usage input=1200 output=60 cache_read=800
say I will mend it.
write notes.md \"two lines\\nof text\\n\"
replace calc.py \"a - b\" \"a + b\"
usage input=300 output=40 cache_read=2100
run python3 calc.py > result.txt
say The sum is mended.
";

/// A folder with a small repository, below the build's own folder: one agent accepts no home below `/tmp`.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder =
            tempfile::Builder::new().prefix("agent-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let place = Self { folder };
        for name in ["home", "tmp", "work", "codex"] {
            std::fs::create_dir(place.at(name)).expect("a folder can be made");
        }
        std::fs::write(place.at("work/calc.py"), "def add(a, b):\n    return a - b\n\nprint(add(2, 3))\n")
            .expect("a file");
        let git = Command::new("git").args(["init", "-q"]).current_dir(place.at("work")).status();
        assert!(git.expect("git").success());
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The agent with its own environment and the prompt as its input.
    fn command(&self, program: &Path) -> Command {
        let prompt = self.at("prompt");
        std::fs::write(&prompt, "Mend the sum in calc.py.\n").expect("the prompt can be written");
        let mut command = Command::new(program);
        let path = format!("{}:/usr/bin:/bin", program.parent().expect("a folder").display());
        command.env_clear().env("PATH", path).env("HOME", self.at("home")).env("TMPDIR", self.at("tmp"));
        command.current_dir(self.at("work")).stdin(Stdio::from(std::fs::File::open(prompt).expect("the prompt")));
        command
    }

    fn assert_mended(&self, ran: &Output) {
        let streams = || format!("{}\n{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{}: {}", ran.status, streams());
        let read = |name: &str| {
            std::fs::read_to_string(self.at("work").join(name)).unwrap_or_else(|_| panic!("{name}: {}", streams()))
        };
        assert!(read("calc.py").contains("a + b"), "{}", streams());
        assert_eq!(read("notes.md"), "two lines\nof text\n");
        assert_eq!(read("result.txt"), "5\n");
    }
}

fn model() -> ModelServer {
    ModelServer::start_with(Path::new(env!("CARGO_BIN_EXE_loopwright")), SCENARIO)
}

/// The events of a kind that an agent printed.
fn events(ran: &Output, kind: &str) -> Vec<Value> {
    let lines = String::from_utf8_lossy(&ran.stdout).into_owned();
    let events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["type"] == kind).collect()
}

/// The usage that the model reported: uncached input, output, cache reads.
fn reported_tokens(model: &ModelServer, name: &str) -> [u64; 3] {
    let total = &model.counter()["models"][name];
    ["input", "output", "cache_read"].map(|key| total[key].as_u64().expect("a number"))
}

fn numbers(value: &Value, keys: [&str; 3]) -> [u64; 3] {
    keys.map(|key| value.pointer(key).and_then(Value::as_u64).unwrap_or_else(|| panic!("{key} in {value}")))
}

#[test]
fn claude_follows_the_model_and_reports_its_tokens() {
    let Some(program) = agents::require_program("claude") else { return };
    let (place, model) = (Place::new(), model());
    let mut command = place.command(&program);
    command.env("ANTHROPIC_API_KEY", "dummy").env("ANTHROPIC_BASE_URL", model.url());
    command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    command.args(["-p", "--output-format", "stream-json", "--verbose", "--setting-sources=", "--strict-mcp-config"]);
    command.args(["--no-session-persistence", "--permission-mode", "acceptEdits", "--model", "claude-opus-5-5"]);
    let ran = command.args(["--max-turns", "40", "--allowedTools", "Bash"]).output().expect("it starts");
    place.assert_mended(&ran);
    let result = events(&ran, "result").pop().expect("a result");
    let keys = ["/inputTokens", "/outputTokens", "/cacheReadInputTokens"];
    assert_eq!(numbers(&result["modelUsage"]["claude-opus-5-5"], keys), reported_tokens(&model, "claude-opus-5-5"));
    assert_eq!(events(&ran, "system")[0]["claude_code_version"], agents::version("claude"));
}

#[test]
fn codex_follows_the_model_and_reports_its_tokens() {
    let Some(program) = agents::require_program("codex") else { return };
    // One model gets a patch tool, another writes programs that call tools, and an unknown one has a shell only.
    for name in ["gpt-5.5", "gpt-6.1-sol", "m1"] {
        let (place, model) = (Place::new(), model());
        let mut command = place.command(&program);
        let provider = format!(
            "model_providers.scripted={{name=\"scripted\",base_url=\"{}/v1\",env_key=\"KEY\",wire_api=\"responses\"}}",
            model.url()
        );
        command.env("CODEX_HOME", place.at("codex")).env("KEY", "dummy");
        command.args([
            "exec",
            "--json",
            "--ephemeral",
            "--ignore-user-config",
            "--ignore-rules",
            "-s",
            "workspace-write",
        ]);
        command.args(["-m", name, "--disable", "plugins", "--disable", "apps", "-c", "analytics.enabled=false"]);
        let ran = command.args(["-c", "model_provider=scripted", "-c", &provider, "-"]).output().expect("it starts");
        place.assert_mended(&ran);
        let [input, output, cached] = {
            let ended = events(&ran, "turn.completed").pop().expect("an end");
            numbers(&ended["usage"], ["/input_tokens", "/output_tokens", "/cached_input_tokens"])
        };
        assert_eq!([input - cached, output, cached], reported_tokens(&model, name), "{name}");
    }
}

#[test]
fn opencode_follows_the_model_and_reports_its_tokens() {
    let Some(program) = agents::require_program("opencode") else { return };
    let (place, model) = (Place::new(), model());
    let mut command = place.command(&program);
    for name in ["PROJECT_CONFIG", "CLAUDE_CODE", "AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"] {
        command.env(format!("OPENCODE_DISABLE_{name}"), "1");
    }
    let options = serde_json::json!({ "baseURL": format!("{}/v1", model.url()), "apiKey": "dummy" });
    let limits = serde_json::json!({ "tool_call": true, "limit": { "context": 200_000, "output": 8000 } });
    let provider =
        serde_json::json!({ "npm": "@ai-sdk/openai-compatible", "options": options, "models": { "m1": limits } });
    let config = serde_json::json!({
        "autoupdate": false, "share": "disabled", "snapshot": false, "model": "scripted/m1", "small_model": "scripted/m1",
        "enabled_providers": ["scripted"], "provider": { "scripted": provider },
        "permission": { "*": "deny", "read": "allow", "edit": "allow", "bash": "allow" },
    });
    command.env("OPENCODE_CONFIG_CONTENT", config.to_string());
    let ran = command.args(["run", "--format", "json", "--pure", "--title", "T"]).output().expect("it starts");
    place.assert_mended(&ran);
    let steps = events(&ran, "step_finish");
    let keys = ["/part/tokens/input", "/part/tokens/output", "/part/tokens/cache/read"];
    let sum = steps.iter().map(|step| numbers(step, keys)).reduce(|a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]);
    assert_eq!(sum, Some(reported_tokens(&model, "m1")));
}

#[test]
fn gemini_follows_the_model_and_reports_its_tokens() {
    let Some(program) = agents::require_program("gemini") else { return };
    let (place, model) = (Place::new(), model());
    let settings = serde_json::json!({
        "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": true } },
        "general": { "enableAutoUpdate": false }, "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
    });
    std::fs::create_dir(place.at("home/.gemini")).expect("a folder can be made");
    std::fs::write(place.at("home/.gemini/settings.json"), settings.to_string()).expect("the settings can be written");
    let mut command = place.command(&program);
    command.env("GEMINI_API_KEY", "dummy").env("GOOGLE_GEMINI_BASE_URL", model.url());
    command.env("GEMINI_CLI_NO_RELAUNCH", "true");
    command.args(["-o", "stream-json", "--skip-trust", "--approval-mode", "yolo", "-m", "gemini-2.5-pro"]);
    let ran = command.output().expect("it starts");
    place.assert_mended(&ran);
    let result = events(&ran, "result").pop().expect("a result");
    let numbers = numbers(&result["stats"], ["/input", "/output_tokens", "/cached"]);
    assert_eq!(numbers, reported_tokens(&model, "gemini-2.5-pro"));
}

#[test]
fn goose_follows_the_model() {
    let Some(program) = agents::require_program("goose") else { return };
    let (place, model) = (Place::new(), model());
    let mut command = place.command(&program);
    command.env("GOOSE_PROVIDER", "openai").env("GOOSE_MODEL", "m1").env("OPENAI_HOST", model.url());
    command.env("OPENAI_API_KEY", "dummy").env("GOOSE_MODE", "auto").env("GOOSE_DISABLE_KEYRING", "1");
    command.args(["run", "--no-session", "--no-profile", "--with-builtin", "developer", "-q"]);
    let ran = command.args(["--output-format", "stream-json", "-i", "-"]).output().expect("it starts");
    place.assert_mended(&ran);
    assert_eq!(events(&ran, "complete").len(), 1);
}

/// A newly pinned version has to be recorded again, otherwise our readers are tested against old output.
#[test]
fn every_pinned_agent_has_its_streams_recorded() {
    let streams = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/streams");
    for name in ["claude", "codex", "opencode", "gemini", "goose"] {
        let folder = streams.join(format!("{name}-{}", agents::version(name)));
        for case in ["edit-and-run", "401", "denied", "verdict"] {
            let text = std::fs::read_to_string(folder.join(format!("{case}.jsonl")));
            let text = text.unwrap_or_else(|_| panic!("{name} {case}: run `cargo xtask record-streams {name}`"));
            let broken = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_err()).count();
            assert!(!text.is_empty() && broken == 0, "{name} {case}: {broken} lines are no JSON");
        }
    }
}
