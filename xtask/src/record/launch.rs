//! The command lines of the agents: headless, with a fresh home, the scripted model as their provider, and nothing of the
//! developer's environment.

use super::case::LaunchMode;
use super::{program, write};
use crate::agents;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An agent that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordedAgent {
    Claude,
    Codex,
    Opencode,
    Gemini,
    Goose,
}

/// The folders of one recording.
pub(super) struct RecordingDir {
    pub(super) root: PathBuf,
}

pub(super) const PROMPT: &str = "\
Mend the sum in calc.py.

[data diff of calc.py m1
@@ -1,4 +1,4 @@
 def add(a, b):
-    return a - b
+    return a + b
 
 print(add(2, 3))
m1]

Role: checker

nonce: n-1
tree: t-1
candidate: c-1
";

impl RecordingDir {
    /// An empty folder with a small repository.
    pub(super) fn create(root: &Path) -> Result<Self, String> {
        if root.exists() {
            std::fs::remove_dir_all(root).map_err(|error| format!("remove `{}`: {error}", root.display()))?;
        }
        let place = Self { root: root.to_path_buf() };
        for name in ["home", "tmp", "codex", "work"] {
            std::fs::create_dir_all(place.file(name)).map_err(|error| format!("make `{name}`: {error}"))?;
        }
        write(&place.file("work/calc.py"), "def add(a, b):\n    return a - b\n\nprint(add(2, 3))\n")?;
        write(&place.prompt(), PROMPT)?;
        for words in ["init -q", "add .", "-c user.name=x -c user.email=x@localhost commit -qm base"] {
            let mut git = Command::new("git");
            git.env_clear()
                .env("PATH", "/usr/bin:/bin")
                .env("HOME", place.file("home"))
                .current_dir(place.file("work"));
            crate::command::run({
                git.args(words.split(' '));
                git
            })?;
        }
        Ok(place)
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(super) fn prompt(&self) -> PathBuf {
        self.file("prompt")
    }
}

impl RecordedAgent {
    pub(super) const ALL: [Self; 5] = [Self::Claude, Self::Codex, Self::Opencode, Self::Gemini, Self::Goose];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Gemini => "gemini",
            Self::Goose => "goose",
        }
    }

    pub(super) fn package(self) -> &'static str {
        match self {
            Self::Claude => "@anthropic-ai/claude-code",
            Self::Codex => "@openai/codex",
            Self::Opencode => "opencode-ai",
            Self::Gemini => "@google/gemini-cli",
            Self::Goose => "@aaif/goose-binary-linux-x64",
        }
    }

    /// The factor of the time limit; this agent may start more slowly than the others.
    pub(super) fn timeout_factor(self) -> u32 {
        if self == Self::Opencode { 2 } else { 1 }
    }

    pub(super) fn command(self, how: LaunchMode, place: &RecordingDir, address: &str) -> Result<Command, String> {
        let mut command = Command::new(program(self.name()));
        let path = format!("{}:/usr/bin:/bin", agents::bin_dir().display());
        command.env_clear().env("PATH", path).env("HOME", place.file("home")).env("TMPDIR", place.file("tmp"));
        command.current_dir(place.file("work"));
        match self {
            Self::Claude => claude(&mut command, how, address),
            Self::Codex => codex(&mut command, how, place, address)?,
            Self::Opencode => opencode(&mut command, how, address),
            Self::Gemini => gemini(&mut command, how, place, address)?,
            Self::Goose => goose(&mut command, how, address),
        }
        Ok(command)
    }
}

/// The form of a verdict, as far as the recordings need it.
fn schema() -> serde_json::Value {
    json!({
        "type": "object", "additionalProperties": false,
        "required": ["nonce", "tree", "candidate", "verdict", "summary", "scores"],
        "properties": {
            "nonce": { "type": "string" }, "tree": { "type": "string" }, "candidate": { "type": "string" },
            "verdict": { "type": "string", "enum": ["pass", "fail", "escalate"] }, "summary": { "type": "string" },
            "scores": { "type": "array", "items": { "type": "object" } },
        },
    })
}

fn claude(command: &mut Command, how: LaunchMode, address: &str) {
    command.env("ANTHROPIC_BASE_URL", format!("http://{address}"));
    match how {
        LaunchMode::Subscription => command.env("CLAUDE_CODE_OAUTH_TOKEN", "dummy"),
        _ => command.env("ANTHROPIC_API_KEY", "dummy"),
    };
    command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").env("CLAUDE_CODE_MAX_RETRIES", "2");
    command.args(["-p", "--output-format", "stream-json", "--verbose", "--setting-sources=", "--strict-mcp-config"]);
    command.args(["--no-session-persistence", "--model", "claude-opus-5-5"]);
    match how {
        LaunchMode::ReadOnly => command.args(["--permission-mode", "default", "--max-turns", "40"]),
        LaunchMode::FewTurns => command.args(["--permission-mode", "acceptEdits", "--max-turns", "2"]),
        _ => command.args(["--permission-mode", "acceptEdits", "--max-turns", "40"]),
    };
    if how == LaunchMode::Schema {
        command.args(["--json-schema", &schema().to_string()]);
    }
    if how != LaunchMode::ReadOnly {
        // This flag is last because it takes every following argument.
        command.args(["--allowedTools", "Bash"]);
    }
}

fn codex(command: &mut Command, how: LaunchMode, place: &RecordingDir, address: &str) -> Result<(), String> {
    command.env("CODEX_HOME", place.file("codex")).env("SCRIPTED_KEY", "dummy");
    command.args(["exec", "--json", "--ephemeral", "--ignore-user-config", "--ignore-rules", "-m", "gpt-5.5"]);
    command.args(["-s", if how == LaunchMode::ReadOnly { "read-only" } else { "workspace-write" }]);
    command.arg("-C").arg(place.file("work")).args(["--disable", "plugins", "--disable", "apps"]);
    let provider = format!(
        "model_providers.scripted={{name=\"scripted\",base_url=\"http://{address}/v1\",env_key=\"SCRIPTED_KEY\",\
         wire_api=\"responses\",request_max_retries=1,stream_max_retries=1}}"
    );
    for setting in ["analytics.enabled=false", "project_doc_max_bytes=0", "model_provider=scripted", &provider] {
        command.args(["-c", setting]);
    }
    if how == LaunchMode::Schema {
        write(&place.file("schema.json"), &schema().to_string())?;
        command.arg("--output-schema").arg(place.file("schema.json"));
    }
    command.arg("-");
    Ok(())
}

fn opencode(command: &mut Command, how: LaunchMode, address: &str) {
    for name in ["PROJECT_CONFIG", "CLAUDE_CODE", "AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"] {
        command.env(format!("OPENCODE_DISABLE_{name}"), "1");
    }
    let permission = match how {
        LaunchMode::ReadOnly => json!({ "*": "deny", "read": "allow" }),
        LaunchMode::Acp | LaunchMode::AcpDenied => json!({ "*": "ask" }),
        _ => json!({ "*": "deny", "read": "allow", "edit": "allow", "bash": "allow" }),
    };
    let model = json!({
        "tool_call": true, "limit": { "context": 200_000, "output": 8000 }, "cost": { "input": 1, "output": 5 },
    });
    let options = json!({ "baseURL": format!("http://{address}/v1"), "apiKey": "dummy" });
    let config = json!({
        "autoupdate": false, "share": "disabled", "snapshot": false,
        "model": "scripted/m1", "small_model": "scripted/m1", "enabled_providers": ["scripted"],
        "provider": { "scripted": { "npm": "@ai-sdk/openai-compatible", "options": options, "models": { "m1": model } } },
        "permission": permission,
    });
    command.env("OPENCODE_CONFIG_CONTENT", config.to_string());
    if how.is_acp() {
        command.arg("acp");
        return;
    }
    command.args(["run", "--format", "json", "--pure", "--title", "recording"]);
    // Only its log reports requests that it repeats.
    command.args(["--print-logs", "--log-level", "ERROR"]);
}

fn gemini(command: &mut Command, how: LaunchMode, place: &RecordingDir, address: &str) -> Result<(), String> {
    let turns = if how == LaunchMode::FewTurns { 2 } else { 40 };
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": true } },
        "general": { "enableAutoUpdate": false, "maxAttempts": 2 },
        "privacy": { "usageStatisticsEnabled": false }, "telemetry": { "enabled": false },
        "model": { "maxSessionTurns": turns },
    });
    write(&place.file("home/.gemini/settings.json"), &settings.to_string())?;
    command.env("GEMINI_API_KEY", "dummy").env("GOOGLE_GEMINI_BASE_URL", format!("http://{address}"));
    command.env("GEMINI_CLI_NO_RELAUNCH", "true");
    if how.is_acp() {
        command.args(["--acp", "--skip-trust", "-m", "gemini-2.5-pro"]);
        return Ok(());
    }
    let mode = if how == LaunchMode::ReadOnly { "default" } else { "yolo" };
    command.args(["-o", "stream-json", "--skip-trust", "--approval-mode", mode, "-m", "gemini-2.5-pro"]);
    Ok(())
}

fn goose(command: &mut Command, how: LaunchMode, address: &str) {
    command.env("GOOSE_PROVIDER", "openai").env("GOOSE_MODEL", "m1").env("OPENAI_HOST", format!("http://{address}"));
    command
        .env("OPENAI_API_KEY", "dummy")
        .env("GOOSE_MODE", if how.is_acp() { "approve" } else { "auto" })
        .env("GOOSE_DISABLE_KEYRING", "1");
    command.env("CONTEXT_FILE_NAMES", "[\"NONE\"]");
    if how.is_acp() {
        command.args(["acp", "--with-builtin", "developer"]);
        return;
    }
    command.args(["run", "--no-session", "--no-profile", "--with-builtin", "developer", "-q"]);
    command.args(["--output-format", "stream-json", "-i", "-"]);
}
