//! opencode: `opencode run` with its events as JSON. It loads only the configuration that is given here. Everything
//! that no permission names is denied, so it never asks. Tested with 1.18.33.
//!
//! It has no last event: it completed its work if its last step ended with `stop` and it reported no error. It retries
//! failed requests silently; only its log reports them, so the log is read too.

use super::driver::{AgentDialect, AgentStreamReader, ProgramLaunch, in_home, launch_env, login_files, own_folder};
use super::providers::provider_of_model;
use super::steering_files::{self, INSTRUCTION_FILES};
use super::stream_observer::{StreamObserver, UsageFigure};
use super::tools::{self, AgentTool, unsupported_error};
use super::{AgentCapabilities, AgentError, AgentInvocation, McpServer, json};
use crate::proc::{RunEnd, StdinSource};
use loopwright_core::budget::Tokens;
use loopwright_core::provider::{ProviderTrouble, TroubleKind};
use loopwright_core::spec::AgentUse;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Steps whose usage is remembered, so that none is counted twice.
const STEPS_MAX: usize = 100_000;
/// The name for a model whose name is not known.
const UNKNOWN: &str = "unknown";

/// opencode.
pub(super) static DIALECT: AgentDialect = AgentDialect {
    capabilities: AgentCapabilities { structured_output: false, ..AgentCapabilities::DRIVEN },
    package: "opencode-ai",
    login: ".local/share/opencode/auth.json",
    login_hosts: &[],
    launch,
    reader: |invocation| {
        let model = choose(invocation).ok().and_then(|choice| choice.model.map(str::to_owned));
        Box::new(OpencodeReader { model: model.unwrap_or_else(|| UNKNOWN.to_owned()), ..OpencodeReader::default() })
    },
};

fn launch(invocation: &AgentInvocation) -> Result<ProgramLaunch, AgentError> {
    let words = ["run", "--format", "json", "--pure", "--title", "loopwright"];
    // Only its log reports the requests that it retries.
    let log = ["--print-logs", "--log-level", "ERROR"];
    let effort = invocation.options.effort.iter().flat_map(|effort| ["--variant", effort.word()]);
    Ok(ProgramLaunch {
        args: words.into_iter().chain(log).chain(effort).map(OsString::from).collect(),
        env: env(invocation)?,
        stdin: StdinSource::Bytes(invocation.prompt.clone().into_bytes()),
        files: [installed(invocation), login_files(invocation, "data/opencode/auth.json")].concat(),
        // It reads instructions in the folder of every file that it reads. A variable turns off those at the top.
        hidden: steering_files::at_top(),
        hidden_below: INSTRUCTION_FILES.to_vec(),
        // It runs the plugins in this folder whatever the flags are.
        needs_hidden: vec![".opencode"],
    })
}

/// It would download a package for plugins into its configuration folder, unless the folder looks as if that was done.
pub(super) fn installed(invocation: &AgentInvocation) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = own_folder(invocation).join("config/opencode");
    let lock = json!({ "packages": { "": { "dependencies": { "@opencode-ai/plugin": "*" } } } });
    vec![
        (folder.join("package-lock.json"), lock.to_string().into_bytes()),
        (folder.join("node_modules/.package-lock.json"), b"{}".to_vec()),
    ]
}

/// Its variables, with its configuration; the same for its own command line and for the Agent Client Protocol.
pub(super) fn env(invocation: &AgentInvocation) -> Result<Vec<(OsString, OsString)>, AgentError> {
    let folder = own_folder(invocation);
    let own = |name: &str| in_home(invocation, &folder.join(name)).into_os_string();
    let mut vars = vec![
        ("OPENCODE_CONFIG_CONTENT", config(invocation)?.to_string().into()),
        // The folder in which it searches for a `.opencode` and `.claude` of the user.
        ("OPENCODE_TEST_HOME", own("home")),
        ("XDG_CONFIG_HOME", own("config")),
        ("XDG_DATA_HOME", own("data")),
        ("XDG_STATE_HOME", own("state")),
        ("XDG_CACHE_HOME", own("cache")),
    ];
    let off = [
        "OPENCODE_DISABLE_PROJECT_CONFIG",
        "OPENCODE_DISABLE_CLAUDE_CODE",
        "OPENCODE_DISABLE_EXTERNAL_SKILLS",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
        "OPENCODE_DISABLE_SHARE",
    ];
    vars.extend(off.map(|name| (name, "1".into())));
    Ok(launch_env(vars))
}

/// An accessible provider, and one of its models.
struct Choice<'a> {
    provider: &'a str,
    url: &'a str,
    model: Option<&'a str>,
}

/// `provider/model` names both; a model alone is one of the provider that its name implies, or of the first available one.
fn choose(invocation: &AgentInvocation) -> Result<Choice<'_>, AgentError> {
    let urls = &invocation.endpoints.urls;
    let none = |what: String| {
        let hint = "set the key of a provider, or write `providers: { NAME: { url: …, key_file: … } }` into your configuration";
        unsupported_error(what, hint)
    };
    if let Some(named) = invocation.endpoints.provider.as_deref() {
        let found = urls.get_key_value(named);
        let (provider, url) = found.ok_or_else(|| none(format!("there is no access to the provider `{named}`")))?;
        // A name such as `vendor/model` may be the provider's own.
        let model = invocation.model.as_deref();
        let model = model.map(|model| model.strip_prefix(&format!("{named}/")).unwrap_or(model));
        return Ok(Choice { provider, url, model });
    }
    if let Some((provider, model)) = invocation.model.as_deref().and_then(|name| name.split_once('/')) {
        let found = urls.get_key_value(provider);
        let (provider, url) = found.ok_or_else(|| none(format!("there is no access to the provider `{provider}`")))?;
        return Ok(Choice { provider, url, model: Some(model) });
    }
    let model = invocation.model.as_deref();
    let implied = model.and_then(provider_of_model).and_then(|name| urls.get_key_value(name));
    let (provider, url) =
        implied.or(urls.iter().next()).ok_or_else(|| none("there is no access to any provider".to_owned()))?;
    Ok(Choice { provider, url, model })
}

/// Its configuration. A program that signs in by itself gets its providers from that.
fn config(invocation: &AgentInvocation) -> Result<Value, AgentError> {
    let mut config =
        json!({ "autoupdate": false, "share": "disabled", "snapshot": false, "lsp": false, "formatter": false });
    if !invocation.mcp_servers.is_empty() {
        config["mcp"] = servers(invocation);
    }
    if invocation.endpoints.login.is_some() {
        config["permission"] = permission(invocation)?;
        if let Some(model) = &invocation.model {
            config["model"] = model.as_str().into();
        }
        return Ok(config);
    }
    let Choice { provider, url, model } = choose(invocation)?;
    config["enabled_providers"] = json!([provider]);
    config["permission"] = permission(invocation)?;
    // The library for a provider, and the suffix that it expects in a base URL.
    let (library, end) = match provider {
        "anthropic" => ("@ai-sdk/anthropic", "/v1"),
        "openai" => ("@ai-sdk/openai", ""),
        "google" => ("@ai-sdk/google", "/v1beta"),
        _ => ("@ai-sdk/openai-compatible", ""),
    };
    let base = format!("{}{end}", url.trim_end_matches('/'));
    let mut about = json!({ "npm": library, "options": { "baseURL": base, "apiKey": invocation.endpoints.token } });
    if let Some(model) = model {
        about["models"] = json!({ model: {} });
        config["model"] = format!("{provider}/{model}").into();
        config["small_model"] = config["model"].clone();
    }
    config["provider"] = json!({ provider: about });
    Ok(config)
}

/// The servers for its tools.
fn servers(invocation: &AgentInvocation) -> Value {
    let one = |server: &McpServer| {
        let command: Vec<&String> = std::iter::once(&server.program).chain(&server.args).collect();
        let settings = json!({ "type": "local", "command": command, "environment": server.env, "enabled": true });
        (server.name.clone(), settings)
    };
    Value::Object(invocation.mcp_servers.iter().map(one).collect())
}

/// The permissions; everything else is denied. The last matching rule counts.
fn permission(invocation: &AgentInvocation) -> Result<Value, AgentError> {
    let tools = tools::tools_for(invocation)?;
    let has = |tool: AgentTool| tools.contains(&tool);
    tools::ensure_kept(AgentUse::Opencode, &tools, tools::ground_of(invocation))?;
    let words = [
        (AgentTool::Read, "read"),
        (AgentTool::Glob, "glob"),
        (AgentTool::Glob, "list"),
        (AgentTool::Grep, "grep"),
        (AgentTool::Edit, "edit"),
        (AgentTool::Bash, "bash"),
        (AgentTool::WebFetch, "webfetch"),
    ];
    let mut rules = Map::new();
    rules.insert("*".to_owned(), "deny".into());
    for (_, word) in words.into_iter().filter(|(tool, _)| has(*tool)) {
        rules.insert(word.to_owned(), "allow".into());
    }
    for server in &invocation.mcp_servers {
        rules.insert(format!("{}_*", server.name), "allow".into());
    }
    rules.insert("external_directory".to_owned(), outside(invocation, &tools));
    Ok(rules.into())
}

/// Folders outside the workspace: the role's own, and with commands all, because opencode checks the paths in commands
/// too.
fn outside(invocation: &AgentInvocation, tools: &[AgentTool]) -> Value {
    if tools.contains(&AgentTool::Bash) {
        return "allow".into();
    }
    let mut rules = Map::new();
    rules.insert("*".to_owned(), "deny".into());
    for folder in [Some(&invocation.outbox), invocation.items.as_ref()].into_iter().flatten() {
        rules.insert(invocation.view.inside_path(folder).join("*").display().to_string(), "allow".into());
    }
    rules.into()
}

#[derive(Default)]
struct OpencodeReader {
    /// The requested model.
    model: String,
    /// Steps that were counted.
    steps: HashSet<u64>,
    /// It reported that it has started its work.
    greeted: bool,
    /// Why its last step ended; `None` during a step.
    reason: Option<String>,
    /// A step's usage could not be read.
    doubtful: bool,
    /// A request failed, and nothing was received since.
    failed: Option<String>,
}

impl AgentStreamReader for OpencodeReader {
    fn line(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        let Some(kind) = json::kind(line) else { return };
        match kind.as_ref() {
            "step_start" => self.step_start(hearing),
            "text" => read_text(line, hearing),
            "tool_use" => used(line, hearing),
            "step_finish" => self.step_finish(line, hearing),
            "error" => error(line, hearing),
            _ => (),
        }
    }

    fn error_line(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        let text = String::from_utf8_lossy(line);
        let Some((_, rest)) = text.split_once("message=\"stream error\"") else { return };
        let words = rest.split_once("error.error=").and_then(|(_, value)| {
            let mut values = serde_json::Deserializer::from_str(value).into_iter::<Cow<'_, str>>();
            values.next()?.ok()
        });
        hearing.retries(None);
        self.failed = Some(words.map_or_else(|| "a request failed".to_owned(), Cow::into_owned));
    }

    fn end(&mut self, how: RunEnd, hearing: &mut StreamObserver<'_>) {
        if self.doubtful {
            hearing.usage_unknown();
        }
        if hearing.is_troubled() {
            return;
        }
        let went_well = self.reason.as_deref() == Some("stop") && how == RunEnd::Exited(0);
        if let Some(failed) = self.failed.take().filter(|_| !went_well && how != RunEnd::Cancelled) {
            return hearing.transient_trouble(None, &failed);
        }
        match self.reason.as_deref() {
            Some("stop") => hearing.mark_done(),
            Some("content-filter") => {
                let text = "the answer was withheld by a content filter";
                hearing.trouble(ProviderTrouble::new(TroubleKind::Declined, None, text));
            }
            Some("length") => {
                let text = "its last answer was cut off at the length limit";
                hearing.trouble(ProviderTrouble::new(TroubleKind::Unclear, None, text));
            }
            Some(_) | None => (),
        }
    }
}

#[derive(Deserialize)]
struct Event<P> {
    part: P,
}

#[derive(Deserialize)]
struct Finish {
    #[serde(default)]
    id: String,
    reason: String,
    tokens: StepTokens,
}

#[derive(Deserialize, Clone, Copy)]
struct StepTokens {
    #[serde(default)]
    total: u64,
    input: u64,
    output: u64,
    #[serde(default)]
    reasoning: u64,
    #[serde(default)]
    cache: CacheTokens,
}

#[derive(Deserialize, Clone, Copy, Default)]
#[serde(default)]
struct CacheTokens {
    read: u64,
    write: u64,
}

impl From<StepTokens> for Tokens {
    /// Some providers count thoughts in the output; the total shows which.
    fn from(step: StepTokens) -> Self {
        let prompt = step.input.saturating_add(step.cache.read).saturating_add(step.cache.write);
        let thought = step.output.saturating_add(step.reasoning);
        let output = step.total.saturating_sub(prompt).clamp(step.output, thought);
        let output = if step.total == 0 { thought } else { output };
        Self { input: step.input, output, cache_read: step.cache.read, cache_write: step.cache.write }
    }
}

impl OpencodeReader {
    fn step_start(&mut self, hearing: &mut StreamObserver<'_>) {
        self.reason = None;
        self.failed = None;
        if !std::mem::replace(&mut self.greeted, true) {
            hearing.started(Some(self.model.as_str()).filter(|model| *model != UNKNOWN), None);
        }
        hearing.turn();
    }

    fn step_finish(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        self.failed = None;
        let Some(Event { part }) = json::read::<Event<Finish>>(line) else {
            self.doubtful = true;
            self.reason = None;
            return;
        };
        self.reason = Some(part.reason);
        if self.is_new(&part.id) {
            hearing.usage(&self.model, part.tokens.into(), UsageFigure::Step);
        }
    }

    fn is_new(&mut self, step: &str) -> bool {
        if self.steps.len() >= STEPS_MAX {
            self.steps.clear();
        }
        step.is_empty() || self.steps.insert(json::short_id(step))
    }
}

fn read_text(line: &[u8], hearing: &mut StreamObserver<'_>) {
    #[derive(Deserialize)]
    struct TextPart {
        text: String,
    }
    if let Some(Event { part }) = json::read::<Event<TextPart>>(line) {
        hearing.message(&part.text);
    }
}

/// It reports a tool when the tool has ended.
fn used(line: &[u8], hearing: &mut StreamObserver<'_>) {
    #[derive(Deserialize)]
    struct Used {
        #[serde(default)]
        tool: String,
        state: State,
    }
    #[derive(Deserialize)]
    struct State {
        input: Option<Box<RawValue>>,
    }
    let Some(Event { part: Used { tool, state } }) = json::read::<Event<Used>>(line) else { return };
    hearing.tool(&tool, &json::tool_input(state.input.as_deref()));
}

/// An error is its end: it exits with 1 even if it tries to continue.
fn error(line: &[u8], hearing: &mut StreamObserver<'_>) {
    hearing.mark_done();
    let event = json::read::<Value>(line).unwrap_or_default();
    let (error, data) = (&event["error"], &event["error"]["data"]);
    if !error.is_object() {
        return hearing.trouble(ProviderTrouble::new(TroubleKind::Unclear, None, "an error that cannot be read"));
    }
    let (name, status) = (error["name"].as_str().unwrap_or_default(), json::status(&data["statusCode"]));
    let message = data["message"].as_str().filter(|message| !message.is_empty()).unwrap_or(name);
    let named = match name {
        "ContextOverflowError" => Some(TroubleKind::Context),
        "ProviderAuthError" => Some(TroubleKind::Auth),
        _ => None,
    };
    match named {
        Some(kind) => hearing.trouble(ProviderTrouble::new(kind, status, message)),
        None => hearing.trouble_from_text(status, message),
    }
    let wait = data["responseHeaders"]["retry-after"].as_str().and_then(|wait| wait.trim().parse().ok());
    if let Some(seconds) = wait {
        hearing.trouble_for(Duration::from_secs(seconds));
    }
}

#[cfg(test)]
mod tests;
