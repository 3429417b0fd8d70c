//! Claude Code: `claude -p` with its stream of JSON. It loads no settings, hooks, servers or memory of the user or the
//! repository, and its tools are exactly those of the role. Tested with 2.1.325.

use super::driver::{
    AgentDialect, AgentStreamReader, ProgramLaunch, in_home, launch_env, login_files, own_folder, plain_brief,
    provider_vars,
};
use super::stream_observer::{StreamObserver, UsageFigure, max_tokens};
use super::tools::{self, AgentTool};
use super::{AgentCapabilities, AgentError, AgentInvocation, json, mcp_servers};
use crate::egress::CloudApi;
use crate::proc::{RunEnd, StdinSource};
use loopwright_core::budget::{BudgetLimit, Tokens};
use loopwright_core::provider::{ProviderTrouble, TroubleKind};
use loopwright_core::spec::Role;
use loopwright_core::verdict;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;

/// Messages whose usage is remembered, so that none is counted twice.
const MESSAGES_MAX: usize = 100_000;
/// Its model name for messages that it writes itself.
const SYNTHETIC: &str = "<synthetic>";
/// The approximate number of bytes of text, code or JSON per token. Claude reports a message's complete output tokens
/// only at the very end.
const BYTES_A_TOKEN: u64 = 3;

/// Claude Code.
pub(super) static DIALECT: AgentDialect = AgentDialect {
    capabilities: AgentCapabilities::DRIVEN,
    package: "@anthropic-ai/claude-code",
    login: ".claude/.credentials.json",
    login_hosts: &["api.anthropic.com", "console.anthropic.com"],
    launch,
    reader: |_| Box::<ClaudeReader>::default(),
};

fn launch(invocation: &AgentInvocation) -> Result<ProgramLaunch, AgentError> {
    Ok(ProgramLaunch {
        args: args(invocation)?,
        env: env(invocation)?,
        stdin: StdinSource::Bytes(plain_brief(&invocation.prompt).into_bytes()),
        files: login_files(invocation, ".credentials.json"),
        ..ProgramLaunch::default()
    })
}

/// List options take every following word, so each list is one word and the brief is sent on standard input.
fn args(invocation: &AgentInvocation) -> Result<Vec<OsString>, AgentError> {
    let tools = tools::tools_for(invocation)?.into_iter().map(AgentTool::word).collect::<Vec<_>>().join(",");
    // The name of a server allows all its tools.
    let servers: String = invocation.mcp_servers.iter().map(|server| format!(",mcp__{}", server.name)).collect();
    let mut args: Vec<OsString> =
        ["-p", "--output-format", "stream-json", "--verbose"].into_iter().map(OsString::from).collect();
    // No settings of the user or the repository, and no servers except those on this command line.
    args.extend(["--setting-sources=", "--strict-mcp-config", "--no-session-persistence"].map(OsString::from));
    let mut option = |name: &str, value: OsString| args.extend([name.into(), value]);
    option("--tools", tools.clone().into());
    // The tools that are allowed without asking: there is no person to ask.
    option("--allowedTools", (tools + &servers).into());
    if !invocation.mcp_servers.is_empty() {
        let servers = serde_json::json!({ "mcpServers": mcp_servers::by_name(invocation, &[]) });
        option("--mcp-config", servers.to_string().into());
    }
    let room = &invocation.view;
    if invocation.role == Role::Maker {
        option("--add-dir", room.inside_path(&invocation.outbox).into());
    }
    if let Some(items) = &invocation.items {
        option("--add-dir", room.inside_path(items).into());
    }
    if let Some(model) = &invocation.model {
        option("--model", model.into());
    }
    if let Some(effort) = invocation.options.effort {
        option("--effort", effort.word().into());
    }
    if let Some(turns) = invocation.limits.turns {
        option("--max-turns", turns.to_string().into());
    }
    if invocation.role == Role::Checker {
        option("--json-schema", verdict::schema().to_string().into());
    }
    Ok(args)
}

fn env(invocation: &AgentInvocation) -> Result<Vec<(OsString, OsString)>, AgentError> {
    let mut vars = access_vars(invocation)?;
    let folder = in_home(invocation, &own_folder(invocation));
    vars.extend([
        ("CLAUDE_CONFIG_DIR", folder.into()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
        // After a few failed requests the round waits instead: it knows until when, and which other agents there are.
        ("CLAUDE_CODE_MAX_RETRIES", "2".into()),
        ("DISABLE_AUTOUPDATER", "1".into()),
        ("DISABLE_TELEMETRY", "1".into()),
        ("DISABLE_ERROR_REPORTING", "1".into()),
    ]);
    Ok(launch_env(vars))
}

/// The variables for its provider: Anthropic's own interface, or that of a cloud.
fn access_vars(invocation: &AgentInvocation) -> Result<Vec<(&'static str, OsString)>, AgentError> {
    let endpoints = &invocation.endpoints;
    let cloud = endpoints.clouds.get(endpoints.provider.as_deref().unwrap_or("anthropic"));
    let names = match cloud {
        None => ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"],
        Some(CloudApi::Bedrock { .. }) => ["ANTHROPIC_BEDROCK_BASE_URL", "AWS_BEARER_TOKEN_BEDROCK"],
        Some(CloudApi::Vertex { .. }) => ["ANTHROPIC_VERTEX_BASE_URL", "ANTHROPIC_AUTH_TOKEN"],
    };
    let mut vars = provider_vars(invocation, "anthropic", names)?;
    match cloud {
        None => {}
        Some(CloudApi::Bedrock { region }) => {
            vars.extend([("CLAUDE_CODE_USE_BEDROCK", "1".into()), ("AWS_REGION", region.into())]);
        }
        Some(CloudApi::Vertex { project, location }) => vars.extend([
            ("CLAUDE_CODE_USE_VERTEX", "1".into()),
            ("CLAUDE_CODE_SKIP_VERTEX_AUTH", "1".into()),
            ("ANTHROPIC_VERTEX_PROJECT_ID", project.into()),
            ("CLOUD_ML_REGION", location.into()),
        ]),
    }
    Ok(vars)
}

#[derive(Default)]
struct ClaudeReader {
    /// Each message's usage, and the output estimated from its content.
    messages: HashMap<u64, (Tokens, u64)>,
    /// The reported usage, without estimates.
    certain: Tokens,
    /// An event with usage in it could not be read.
    doubtful: bool,
    /// The final usage report was received.
    accounted: bool,
    /// The time at which its subscription's limit resets.
    resets_at_ms: Option<i64>,
}

impl AgentStreamReader for ClaudeReader {
    fn line(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        let Some(kind) = json::kind(line) else { return };
        match kind.as_ref() {
            "assistant" => self.assistant(line, hearing),
            "system" => system(line, hearing),
            "rate_limit_event" => self.window(line),
            "result" => self.result(line, hearing),
            _ => (),
        }
    }

    fn end(&mut self, _: RunEnd, hearing: &mut StreamObserver<'_>) {
        if self.doubtful && !self.accounted {
            hearing.usage_unknown();
        }
    }
}

#[derive(Deserialize)]
struct Assistant {
    message: Message,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Message {
    id: String,
    model: String,
    content: Vec<Block>,
    usage: Option<ClaudeUsage>,
}

#[derive(Deserialize)]
struct Block {
    text: Option<String>,
    thinking: Option<Box<RawValue>>,
    name: Option<String>,
    input: Option<Box<RawValue>>,
}

/// The usage of one answer, or of a model.
#[derive(Deserialize, Clone, Copy, Default)]
#[serde(default)]
struct ClaudeUsage {
    #[serde(alias = "inputTokens")]
    input_tokens: u64,
    #[serde(alias = "outputTokens")]
    output_tokens: u64,
    #[serde(alias = "cacheReadInputTokens")]
    cache_read_input_tokens: u64,
    #[serde(alias = "cacheCreationInputTokens")]
    cache_creation_input_tokens: u64,
}

impl From<ClaudeUsage> for Tokens {
    fn from(usage: ClaudeUsage) -> Self {
        Self {
            input: usage.input_tokens,
            output: usage.output_tokens,
            cache_read: usage.cache_read_input_tokens,
            cache_write: usage.cache_creation_input_tokens,
        }
    }
}

impl ClaudeReader {
    fn assistant(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        let Some(Assistant { message }) = json::read(line) else {
            self.doubtful = true;
            return;
        };
        if message.model != SYNTHETIC {
            self.count(&message, hearing);
        }
        for block in &message.content {
            if let Some(said) = &block.text {
                hearing.message(said);
            }
            if let Some(name) = &block.name {
                hearing.tool(name, &json::tool_input(block.input.as_deref()));
            }
        }
    }

    /// One message arrives as several events, each with the usage that was known when it started.
    fn count(&mut self, message: &Message, hearing: &mut StreamObserver<'_>) {
        let key = json::short_id(&message.id);
        let is_new = !self.messages.contains_key(&key);
        if is_new {
            hearing.turn();
        }
        let reported = Tokens::from(message.usage.unwrap_or_default());
        let bytes: usize = message.content.iter().map(Block::size).sum();
        let (before, guess) = self.messages.get(&key).copied().unwrap_or_default();
        let (now, guessed) =
            (max_tokens(before, reported), guess.saturating_add((bytes as u64).div_ceil(BYTES_A_TOKEN)));
        if is_new && self.messages.len() >= MESSAGES_MAX {
            self.messages.clear();
        }
        self.messages.insert(key, (now, guessed));
        self.certain = self.certain.plus(now.less(before));
        let with_guess = |tokens: Tokens, guess: u64| Tokens { output: tokens.output.max(guess), ..tokens };
        let more = with_guess(now, guessed).less(with_guess(before, guess));
        if is_new || more.total() > 0 {
            hearing.usage(plain(&message.model), more, UsageFigure::Step);
        }
    }

    fn window(&mut self, line: &[u8]) {
        let event = json::read::<Value>(line).unwrap_or_default();
        if let Some(seconds) = event["rate_limit_info"]["resetsAt"].as_i64() {
            self.resets_at_ms = seconds.checked_mul(1000);
        }
    }

    fn result(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        hearing.mark_done();
        let Some(end) = json::read::<End>(line) else {
            self.doubtful = true;
            return hearing.trouble(ProviderTrouble::new(TroubleKind::Unclear, None, "its last event cannot be read"));
        };
        self.account(&end, hearing);
        if let Some(answer) = end.structured_output.as_ref().filter(|answer| answer.get() != "null") {
            hearing.structured_answer(answer.get());
        }
        if let Some(said) = end.result.as_ref().filter(|_| !end.is_error) {
            hearing.final_message(said);
        }
        self.judge(&end, hearing);
    }

    fn account(&mut self, end: &End, hearing: &mut StreamObserver<'_>) {
        let models = end.model_usage.iter().map(|(model, used)| (plain(model), Tokens::from(*used)));
        let models: Vec<_> = models.collect();
        let sum = models.iter().fold(Tokens::default(), |sum, (_, tokens)| sum.plus(*tokens));
        // A report of zero usage counts too: no request was answered.
        let Some(total) = end.usage.map(Tokens::from).or((!models.is_empty()).then_some(sum)) else { return };
        self.accounted = true;
        self.certain = max_tokens(self.certain, total);
        hearing.account(&models, self.certain);
        self.certain = max_tokens(self.certain, sum);
    }

    fn judge(&self, end: &End, hearing: &mut StreamObserver<'_>) {
        match end.subtype.as_str() {
            "error_max_turns" => return hearing.meet(BudgetLimit::Turns),
            "error_max_budget_usd" => return hearing.meet(BudgetLimit::Usd),
            "success" if !end.is_error => return,
            _ => (),
        }
        let said = end.result.clone().filter(|said| !said.is_empty());
        let said = said.unwrap_or_else(|| format!("{}: {}", end.subtype, end.errors.join("; ")));
        if end.stop_reason.as_deref() == Some("refusal") {
            return hearing.trouble(ProviderTrouble::new(TroubleKind::Declined, None, &said));
        }
        if end.terminal_reason.as_deref() == Some("prompt_too_long") {
            return hearing.trouble(ProviderTrouble::new(TroubleKind::Context, end.api_error_status, &said));
        }
        hearing.trouble_from_text(end.api_error_status, &said);
        if let Some(at) = self.resets_at_ms {
            hearing.trouble_until(at);
        }
    }
}

impl Block {
    /// The approximate number of bytes that a model wrote for it.
    fn size(&self) -> usize {
        let raw = |value: &Option<Box<RawValue>>| value.as_ref().map_or(0, |value| value.get().len());
        self.text.as_ref().map_or(0, String::len) + raw(&self.thinking) + raw(&self.input)
    }
}

/// A model's name without the suffix in brackets about its context size.
fn plain(model: &str) -> &str {
    model.split('[').next().unwrap_or(model)
}

fn system(line: &[u8], hearing: &mut StreamObserver<'_>) {
    let event = json::read::<Value>(line).unwrap_or_default();
    match event["subtype"].as_str() {
        Some("init") => {
            let version = event["claude_code_version"].as_str();
            hearing.started(event["model"].as_str(), version);
        }
        Some("api_retry") => hearing.retries(json::status(&event["error_status"])),
        Some(_) | None => (),
    }
}

#[derive(Deserialize)]
struct End {
    #[serde(default)]
    subtype: String,
    is_error: bool,
    result: Option<String>,
    #[serde(default)]
    errors: Vec<String>,
    stop_reason: Option<String>,
    terminal_reason: Option<String>,
    api_error_status: Option<u16>,
    usage: Option<ClaudeUsage>,
    #[serde(default, rename = "modelUsage")]
    model_usage: BTreeMap<String, ClaudeUsage>,
    structured_output: Option<Box<RawValue>>,
}

#[cfg(test)]
mod tests;
