//! Codex: `codex exec` with its stream of JSON. Tested with 0.166.0.
//!
//! It runs commands and changes files with one tool that cannot be split, so the sandbox restricts a role: a role that
//! only reads has a read-only workspace. Codex's own sandbox needs permissions that Loopwright's sandbox denies, and is
//! used only if there is no other.

use super::driver::{
    AgentDialect, AgentStreamReader, ProgramLaunch, ProviderAccess, in_home, login_files, own_folder, provider_access,
};
use super::stream_observer::{StreamObserver, UsageFigure};
use super::tools::{self, AgentTool, unsupported_error};
use super::{AgentCapabilities, AgentError, AgentInvocation, json};
use crate::proc::RunEnd;
use loopwright_core::budget::Tokens;
use loopwright_core::provider::ProviderTrouble;
use loopwright_core::spec::Role;
use loopwright_core::verdict;
use serde::Deserialize;
use std::borrow::Cow;
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
pub(super) struct CodexDialect;

impl AgentDialect for CodexDialect {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities { tool_allowlist: false, ..AgentCapabilities::DRIVEN }
    }

    fn launch(&self, invocation: &AgentInvocation) -> Result<ProgramLaunch, AgentError> {
        let way = provider_access(invocation, PROVIDER)?;
        let reach = CodexSandbox::for_tools(invocation)?;
        let folder = own_folder(invocation);
        // The folder has to exist, and writing a file creates it.
        let schema = folder.join("verdict.schema.json");
        let mut files = vec![(schema.clone(), verdict::schema().to_string().into_bytes())];
        files.extend(login_files(invocation, "auth.json"));
        let token = match way {
            ProviderAccess::Proxy(_) => Some((TOKEN, OsString::from(&invocation.endpoints.token))),
            ProviderAccess::Own => None,
        };
        let env = [
            ("CODEX_HOME", in_home(invocation, &folder).into()),
            ("NO_PROXY", "127.0.0.1,localhost".into()),
            ("no_proxy", "127.0.0.1,localhost".into()),
        ];
        Ok(ProgramLaunch {
            args: args(invocation, &way, reach, &schema),
            env: token.into_iter().chain(env).map(|(name, value)| (name.into(), value)).collect(),
            stdin: invocation.prompt.clone().into_bytes(),
            files,
            ..ProgramLaunch::default()
        })
    }

    fn reader(&self, invocation: &AgentInvocation) -> Box<dyn AgentStreamReader> {
        let model = invocation.model.clone().unwrap_or_else(|| UNREPORTED_MODEL.to_owned());
        Box::new(CodexReader { model, failure: None, is_waiting: false, is_at_work: false })
    }
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
        let has = |tool| tools.contains(&tool);
        let refuse = |what: &str| Err(unsupported_error(format!("codex cannot be restricted to {what}"), HINT));
        if has(AgentTool::WebFetch) {
            return refuse("`WebFetch`: it has no such tool");
        }
        let (writes, runs) = (has(AgentTool::Edit) || has(AgentTool::Write), has(AgentTool::Bash));
        let room = &invocation.view;
        match (writes, runs) {
            (true, false) => refuse("a list without `Bash`: it changes files by running commands"),
            (true, true) if room.confine().is_some() => Ok(Self::Walls),
            (true, true) => Ok(Self::Workspace),
            (false, _) if room.confine().is_none() => Ok(Self::Reading),
            (false, _) if room.is_read_only() => Ok(Self::Walls),
            (false, _) => refuse("a list without `Edit` and `Write` in a writable workspace"),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Walls => "danger-full-access",
            Self::Workspace => "workspace-write",
            Self::Reading => "read-only",
        }
    }
}

const HINT: &str = "leave `tools` out for codex, or choose another agent for this role";

fn args(invocation: &AgentInvocation, way: &ProviderAccess<'_>, reach: CodexSandbox, schema: &Path) -> Vec<OsString> {
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
    for setting in settings(way) {
        option("--config", setting.into());
    }
    args.push("-".into());
    args
}

/// Settings as `key=TOML`. Instruction files and skills of the repository are not read.
fn settings(way: &ProviderAccess<'_>) -> Vec<String> {
    let provider = match way {
        ProviderAccess::Proxy(url) => provider(url).into(),
        ProviderAccess::Own => Vec::new(),
    };
    let fixed = [
        "project_doc_max_bytes=0",
        "skills.include_instructions=false",
        "skills.bundled.enabled=false",
        "web_search=\"disabled\"",
        "analytics.enabled=false",
        "check_for_update_on_startup=false",
    ];
    provider.into_iter().chain(fixed.map(str::to_owned)).collect()
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
            "thread.started" => started(line, &self.model, hearing),
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
struct Item<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    command: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    changes: Vec<FileChange<'a>>,
}

#[derive(Deserialize)]
struct FileChange<'a> {
    #[serde(borrow, default)]
    path: Cow<'a, str>,
}

#[derive(Deserialize)]
struct ItemEvent<'a> {
    #[serde(borrow)]
    item: Item<'a>,
}

/// A failure as it is reported: in an event of its own, or at the end of the turn.
#[derive(Deserialize)]
struct Failure<'a> {
    #[serde(borrow, default)]
    message: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<ErrorText<'a>>,
}

#[derive(Deserialize)]
struct ErrorText<'a> {
    #[serde(borrow, default)]
    message: Cow<'a, str>,
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
        match serde_json::from_slice::<Event>(line) {
            Ok(event) => hearing.usage(&self.model, event.usage.into(), UsageFigure::Total),
            Err(_) => hearing.usage_unknown(),
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

/// The failure, in its own text.
fn failure_text(line: &[u8]) -> Option<String> {
    let text = json::lossy_text(line);
    let failure: Failure<'_> = serde_json::from_str(&text).ok()?;
    let words = failure.error.map(|error| error.message).or(failure.message)?;
    Some(words.chars().take(4000).collect())
}

#[derive(Deserialize)]
struct CodexUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    cached_input_tokens: u64,
    #[serde(default)]
    cache_write_input_tokens: u64,
    #[serde(default)]
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

fn started(line: &[u8], model: &str, hearing: &mut StreamObserver<'_>) {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow, default)]
        thread_id: Option<Cow<'a, str>>,
    }
    let thread = serde_json::from_slice::<Event<'_>>(line).ok().and_then(|event| event.thread_id);
    hearing.started(thread.as_deref(), Some(model), None);
}

/// A tool is used. Each use counts as a turn of the model, because Codex does not report turns.
fn begun(line: &[u8], hearing: &mut StreamObserver<'_>) {
    let text = json::lossy_text(line);
    let Ok(ItemEvent { item }) = serde_json::from_str::<ItemEvent<'_>>(&text) else { return };
    let what = match item.kind.as_ref() {
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
    let text = json::lossy_text(line);
    if let Ok(ItemEvent { item: Item { text: Some(said), .. } }) = serde_json::from_str::<ItemEvent<'_>>(&text) {
        hearing.message(&said);
    }
}

#[cfg(test)]
mod tests;
