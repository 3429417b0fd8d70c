//! Codex: `codex exec` with its stream of JSON. Tested with 0.166.0.
//!
//! It runs commands and changes files with one tool that cannot be split, so the sandbox restricts a role: a role that
//! only reads has a read-only workspace. Codex's own sandbox needs permissions that Loopwright's sandbox denies, and is
//! used only if there is no other.

use super::driver::{
    AgentDialect, AgentStreamReader, ProgramLaunch, in_home, launch_env, login_files, own_folder, provider_url,
};
use super::stream_observer::{StreamObserver, UsageFigure};
use super::tools::{self, AgentTool, ToolGround};
use super::{AgentCapabilities, AgentError, AgentInvocation, McpServer, json};
use crate::proc::{RunEnd, StdinSource};
use loopwright_core::budget::Tokens;
use loopwright_core::provider::ProviderTrouble;
use loopwright_core::spec::{AgentUse, Role};
use loopwright_core::verdict;
use serde::Deserialize;
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;

/// The provider it connects to, and its name in the configuration.
const PROVIDER: &str = "openai";
/// The variable with the token that it sends to the provider.
const TOKEN: &str = "LOOPWRIGHT_PROVIDER_TOKEN";
/// The model name for its usage when the user chose no model: it does not report one.
const UNREPORTED_MODEL: &str = "codex-default";
/// The start of its message that it retries.
const RETRYING: &str = "Reconnecting";

/// Codex.
pub(super) static DIALECT: AgentDialect = AgentDialect {
    capabilities: AgentCapabilities { tool_allowlist: false, ..AgentCapabilities::DRIVEN },
    package: "@openai/codex",
    login: ".codex/auth.json",
    login_hosts: &["chatgpt.com", "auth.openai.com"],
    launch,
    reader: |invocation| {
        let model = invocation.model.clone().unwrap_or_else(|| UNREPORTED_MODEL.to_owned());
        Box::new(CodexReader { model, failure: None, is_waiting: false, is_at_work: false })
    },
};

fn launch(invocation: &AgentInvocation) -> Result<ProgramLaunch, AgentError> {
    let url = provider_url(invocation, PROVIDER)?;
    let reach = CodexSandbox::for_tools(invocation)?;
    let folder = own_folder(invocation);
    // The folder has to exist, and writing a file creates it.
    let schema = folder.join("verdict.schema.json");
    let mut files = vec![(schema.clone(), verdict::schema().to_string().into_bytes())];
    files.extend(login_files(invocation, "auth.json"));
    let token = url.map(|_| (TOKEN, invocation.endpoints.token.clone().into()));
    Ok(ProgramLaunch {
        args: args(invocation, url, reach, &schema),
        env: launch_env(token.into_iter().chain([("CODEX_HOME", in_home(invocation, &folder).into())])),
        stdin: StdinSource::Bytes(invocation.prompt.clone().into_bytes()),
        files,
        ..ProgramLaunch::default()
    })
}

/// The setting of Codex's own sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CodexSandbox {
    /// None: Loopwright's sandbox confines it.
    Walls,
    /// It may change the workspace.
    Workspace,
    /// It may read.
    Reading,
}

impl CodexSandbox {
    /// The setting that a list of tools requires, if Codex can enforce it.
    fn for_tools(invocation: &AgentInvocation) -> Result<Self, AgentError> {
        let tools = tools::tools_for(invocation)?;
        let ground = tools::ground_of(invocation);
        tools::ensure_kept(AgentUse::Codex, &tools, ground)?;
        let writes = tools.contains(&AgentTool::Edit) || tools.contains(&AgentTool::Write);
        Ok(match (writes, ground) {
            (_, ToolGround::ReadOnly | ToolGround::Writable) => Self::Walls,
            (true, ToolGround::Open) => Self::Workspace,
            (false, ToolGround::Open) => Self::Reading,
        })
    }

    fn word(self) -> &'static str {
        match self {
            Self::Walls => "danger-full-access",
            Self::Workspace => "workspace-write",
            Self::Reading => "read-only",
        }
    }
}

fn args(invocation: &AgentInvocation, url: Option<&str>, reach: CodexSandbox, schema: &Path) -> Vec<OsString> {
    // Nothing of the user's or the repository's is loaded, and an unknown option is an error.
    let fixed = [
        "exec",
        "--json",
        "--strict-config",
        "--ephemeral",
        "--ignore-user-config",
        "--ignore-rules",
        "--skip-git-repo-check",
    ];
    let mut args: Vec<OsString> = fixed.map(OsString::from).into();
    let mut option = |name: &str, value: OsString| args.extend([name.into(), value]);
    option("--sandbox", reach.word().into());
    if let Some(model) = &invocation.model {
        option("--model", model.into());
    }
    if reach == CodexSandbox::Workspace {
        option("--add-dir", invocation.view.inside_path(&invocation.outbox).into());
    }
    if invocation.role == Role::Checker {
        option("--output-schema", in_home(invocation, schema).into());
    }
    for feature in ["plugins", "apps", "hooks", "unbounded_connection_retries"] {
        option("--disable", feature.into());
    }
    let effort = invocation.options.effort.map(|effort| format!("model_reasoning_effort=\"{effort}\""));
    let servers = servers(invocation);
    for setting in settings(url).into_iter().chain(effort).chain(servers) {
        option("--config", setting.into());
    }
    args.push("-".into());
    args
}

/// Settings as `key=TOML`. Instruction files and skills of the repository are not read.
fn settings(url: Option<&str>) -> Vec<String> {
    let fixed = [
        "project_doc_max_bytes=0",
        "skills.include_instructions=false",
        "skills.bundled.enabled=false",
        "web_search=\"disabled\"",
        "analytics.enabled=false",
        "check_for_update_on_startup=false",
    ];
    url.into_iter().flat_map(provider).chain(fixed.map(str::to_owned)).collect()
}

/// The servers for its tools. Their tools need no approval: there is no person to ask.
fn servers(invocation: &AgentInvocation) -> Vec<String> {
    let one = |server: &McpServer| {
        let key = format!("mcp_servers.{}", server.name);
        let env: Vec<String> =
            server.env.iter().map(|(name, value)| format!("{name}={}", Value::from(value.as_str()))).collect();
        [
            format!("{key}.command={}", Value::from(server.program.as_str())),
            format!("{key}.args={}", Value::from(server.args.clone())),
            format!("{key}.env={{{}}}", env.join(",")),
            format!("{key}.default_tools_approval_mode=\"approve\""),
        ]
    };
    invocation.mcp_servers.iter().flat_map(one).collect()
}

/// The configuration of its program for the Agent Client Protocol, as a file. The variable with the token is the one of
/// OpenAI's clients.
pub(super) fn acp_settings(invocation: &AgentInvocation) -> String {
    let named = invocation.endpoints.provider.as_deref().unwrap_or(PROVIDER);
    let url = invocation.endpoints.urls.get(named).map(String::as_str);
    // Its own sandbox cannot start inside Loopwright's.
    let reach = CodexSandbox::for_tools(invocation).unwrap_or(CodexSandbox::Reading);
    let model = invocation.model.iter().map(|model| format!("model={}", Value::from(model.as_str())));
    let own = [format!("sandbox_mode=\"{}\"", reach.word()), "approval_policy=\"never\"".to_owned()];
    let lines = settings(url).into_iter().chain(own).chain(model);
    let lines: Vec<String> = lines.map(|line| line.replace(TOKEN, "OPENAI_API_KEY")).collect();
    lines.join("\n") + "\n"
}

/// The proxy as a provider in its configuration.
fn provider(url: &str) -> [String; 2] {
    // A JSON string is also a TOML string, except for characters that no URL has.
    let url = serde_json::Value::from(url);
    let provider = format!(
        "model_providers.loopwright={{name=\"loopwright\",base_url={url},env_key=\"{TOKEN}\",wire_api=\"responses\",\
         request_max_retries=2,stream_max_retries=2}}"
    );
    [provider, "model_provider=\"loopwright\"".to_owned()]
}

struct CodexReader {
    model: String,
    /// The last failure that it reported.
    failure: Option<String>,
    /// It waits for its provider's limit to reset.
    is_waiting: bool,
    /// Its provider has answered.
    is_at_work: bool,
}

impl AgentStreamReader for CodexReader {
    fn line(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        let Some(kind) = json::kind(line) else { return };
        match kind.as_ref() {
            "thread.started" => hearing.started(Some(&self.model), None),
            "turn.started" => hearing.turn(),
            "item.started" => {
                self.goes_on(hearing);
                begun(line, hearing);
            }
            "item.completed" => {
                self.goes_on(hearing);
                completed(line, hearing);
            }
            "turn.completed" => self.done(line, hearing),
            "turn.failed" => self.failed(line, hearing),
            "error" => self.error(line, hearing),
            _ => (),
        }
    }

    fn end(&mut self, _: RunEnd, hearing: &mut StreamObserver<'_>) {
        // It ended before it could report that its turn failed.
        if let Some(failure) = self.failure.take().filter(|_| !hearing.is_done()) {
            hearing.trouble_from_text(None, &failure);
        }
    }
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    command: Option<String>,
    tool: Option<String>,
    #[serde(default)]
    changes: Vec<FileChange>,
}

#[derive(Deserialize)]
struct FileChange {
    #[serde(default)]
    path: String,
}

#[derive(Deserialize)]
struct ItemEvent {
    item: Item,
}

impl CodexReader {
    fn done(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        #[derive(Deserialize)]
        struct Event {
            usage: CodexUsage,
        }
        self.goes_on(hearing);
        self.failure = None;
        hearing.mark_done();
        match json::read::<Event>(line) {
            Some(event) => hearing.usage(&self.model, event.usage.into(), UsageFigure::Total),
            None => hearing.usage_unknown(),
        }
    }

    fn failed(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        let text = failure_text(line).or_else(|| self.failure.take()).unwrap_or_else(|| "its turn failed".to_owned());
        hearing.mark_done();
        hearing.trouble_from_text(None, &text);
        if !self.is_at_work {
            hearing.count_refusal_as_unused();
        }
    }

    fn error(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        let Some(text) = failure_text(line) else { return };
        if !text.starts_with(RETRYING) {
            self.failure = Some(text);
            return;
        }
        let trouble = ProviderTrouble::classify(None, &text, 0);
        hearing.retries(trouble.status);
        // Codex would wait as long as the provider requests, possibly for hours; the round waits instead.
        if trouble.status == Some(429) {
            self.is_waiting = true;
            hearing.trouble_from_text(None, &text);
            hearing.mark_done();
            if !self.is_at_work {
                hearing.count_refusal_as_unused();
            }
        }
    }

    fn goes_on(&mut self, hearing: &mut StreamObserver<'_>) {
        self.is_at_work = true;
        if std::mem::take(&mut self.is_waiting) {
            hearing.clear_trouble();
        }
    }
}

/// The failure in its own text, as it is reported: in an event of its own, or at the end of the turn.
fn failure_text(line: &[u8]) -> Option<String> {
    let event: Value = json::read(line)?;
    let words = event["error"]["message"].as_str().or_else(|| event["message"].as_str())?;
    Some(words.chars().take(4000).collect())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CodexUsage {
    input_tokens: u64,
    cached_input_tokens: u64,
    cache_write_input_tokens: u64,
    output_tokens: u64,
}

impl From<CodexUsage> for Tokens {
    /// Its input includes tokens read from a cache and written to one.
    fn from(usage: CodexUsage) -> Self {
        let cached = usage.cached_input_tokens.saturating_add(usage.cache_write_input_tokens);
        Self {
            input: usage.input_tokens.saturating_sub(cached),
            output: usage.output_tokens,
            cache_read: usage.cached_input_tokens,
            cache_write: usage.cache_write_input_tokens,
        }
    }
}

/// A tool is used. Each use counts as a turn of the model, because Codex does not report turns.
fn begun(line: &[u8], hearing: &mut StreamObserver<'_>) {
    let Some(ItemEvent { item }) = json::read(line) else { return };
    let what = match item.kind.as_str() {
        "command_execution" => item.command.as_deref().unwrap_or_default(),
        "file_change" => item.changes.first().map_or("", |change| &change.path),
        "mcp_tool_call" => item.tool.as_deref().unwrap_or_default(),
        _ => return,
    };
    hearing.turn();
    hearing.tool(&item.kind, json::first_line(what));
}

fn completed(line: &[u8], hearing: &mut StreamObserver<'_>) {
    // A command was already reported when it started, and its output is not part of the answer.
    const START: usize = 120;
    if memchr::memmem::find(&line[..line.len().min(START)], b"\"type\":\"agent_message\"").is_none() {
        return;
    }
    if let Some(ItemEvent { item: Item { text: Some(said), .. } }) = json::read(line) {
        hearing.message(&said);
    }
}

#[cfg(test)]
mod tests;
