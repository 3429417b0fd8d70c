//! Claude Code: `claude -p` with its stream of JSON. It loads no settings, hooks, servers or memory of the user or the
//! repository, and its tools are exactly those of the role. Tested with 2.1.325.

use super::driver::{
    AgentDialect, AgentStreamReader, ProgramLaunch, ProviderAccess, in_home, login_files, own_folder, plain_brief,
    provider_access,
};
use super::stream_observer::{StreamObserver, UsageFigure, max_tokens};
use super::tools::{self, AgentTool};
use super::{AgentCapabilities, AgentError, AgentInvocation, json};
use crate::proc::RunEnd;
use loopwright_core::budget::{BudgetLimit, Tokens};
use loopwright_core::provider::{ProviderTrouble, TroubleKind};
use loopwright_core::spec::Role;
use loopwright_core::verdict;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The provider it connects to.
const PROVIDER: &str = "anthropic";
/// Messages whose usage is remembered, so that none is counted twice.
const MESSAGES_MAX: usize = 100_000;
/// Its model name for messages that it writes itself.
const SYNTHETIC: &str = "<synthetic>";
/// The approximate number of bytes of text, code or JSON per token. Claude reports a message's complete output tokens
/// only at the very end.
const BYTES_A_TOKEN: u64 = 3;

/// Claude Code.
pub(super) struct ClaudeDialect;

impl AgentDialect for ClaudeDialect {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities::DRIVEN
    }

    fn launch(&self, invocation: &AgentInvocation) -> Result<ProgramLaunch, AgentError> {
        Ok(ProgramLaunch {
            args: args(invocation)?,
            env: env(invocation)?,
            stdin: plain_brief(&invocation.prompt).into_bytes(),
            files: login_files(invocation, ".credentials.json"),
            ..ProgramLaunch::default()
        })
    }

    fn reader(&self, _: &AgentInvocation) -> Box<dyn AgentStreamReader> {
        Box::<ClaudeReader>::default()
    }
}

/// List options take every following word, so each list is one word and the brief is sent on standard input.
fn args(invocation: &AgentInvocation) -> Result<Vec<OsString>, AgentError> {
    let tools = tools::tools_for(invocation)?.into_iter().map(AgentTool::word).collect::<Vec<_>>().join(",");
    let mut args: Vec<OsString> =
        ["-p", "--output-format", "stream-json", "--verbose"].into_iter().map(OsString::from).collect();
    // No settings of the user or the repository, and no servers except those on this command line, which names none.
    args.extend(["--setting-sources=", "--strict-mcp-config", "--no-session-persistence"].map(OsString::from));
    let mut option = |name: &str, value: OsString| args.extend([name.into(), value]);
    option("--tools", tools.clone().into());
    // The tools that are allowed without asking: there is no person to ask.
    option("--allowedTools", tools.into());
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
    if let Some(turns) = invocation.limits.turns {
        option("--max-turns", turns.to_string().into());
    }
    if invocation.role == Role::Checker {
        option("--json-schema", verdict::schema().to_string().into());
    }
    Ok(args)
}

fn env(invocation: &AgentInvocation) -> Result<Vec<(OsString, OsString)>, AgentError> {
    let to_provider = match provider_access(invocation, PROVIDER)? {
        ProviderAccess::Proxy(url) => {
            vec![("ANTHROPIC_BASE_URL", url.into()), ("ANTHROPIC_API_KEY", invocation.endpoints.token.clone().into())]
        }
        ProviderAccess::Own => Vec::new(),
    };
    let folder = in_home(invocation, &own_folder(invocation));
    let pairs: [(&str, OsString); 8] = [
        ("CLAUDE_CONFIG_DIR", folder.into()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
        // After a few failed requests the round waits instead: it knows until when, and which other agents there are.
        ("CLAUDE_CODE_MAX_RETRIES", "2".into()),
        ("DISABLE_AUTOUPDATER", "1".into()),
        ("DISABLE_TELEMETRY", "1".into()),
        ("DISABLE_ERROR_REPORTING", "1".into()),
        ("NO_PROXY", "127.0.0.1,localhost".into()),
        ("no_proxy", "127.0.0.1,localhost".into()),
    ];
    Ok(to_provider.into_iter().chain(pairs).map(|(name, value)| (name.into(), value)).collect())
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
struct Assistant<'a> {
    #[serde(borrow)]
    message: Message<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    model: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Vec<Block<'a>>,
    #[serde(default)]
    usage: Option<ClaudeUsage>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize, Clone, Copy, Default)]
struct ClaudeUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    cache_read_input_tokens: u64,
    #[serde(default)]
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

/// The input of a tool, for any of them.
#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow, default)]
    command: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    file_path: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pattern: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    url: Option<Cow<'a, str>>,
}

impl ClaudeReader {
    fn assistant(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        let text = json::lossy_text(line);
        let Ok(Assistant { message }) = serde_json::from_str::<Assistant<'_>>(&text) else {
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
                used(name, block.input, hearing);
            }
        }
    }

    /// One message arrives as several events, each with the usage that was known when it started.
    fn count(&mut self, message: &Message<'_>, hearing: &mut StreamObserver<'_>) {
        let mut hasher = DefaultHasher::new();
        message.id.hash(&mut hasher);
        let key = hasher.finish();
        let is_new = !self.messages.contains_key(&key);
        if is_new {
            hearing.turn();
        }
        let told = Tokens::from(message.usage.unwrap_or_default());
        let bytes: usize = message.content.iter().map(Block::size).sum();
        let (before, guess) = self.messages.get(&key).copied().unwrap_or_default();
        let (now, guessed) = (max_tokens(before, told), guess.saturating_add((bytes as u64).div_ceil(BYTES_A_TOKEN)));
        if is_new && self.messages.len() >= MESSAGES_MAX {
            self.messages.clear();
        }
        self.messages.insert(key, (now, guessed));
        self.certain = self.certain.plus(step(before, now));
        let with_guess = |tokens: Tokens, guess: u64| Tokens { output: tokens.output.max(guess), ..tokens };
        let more = step(with_guess(before, guess), with_guess(now, guessed));
        if is_new || more.total() > 0 {
            hearing.usage(plain(&message.model), more, UsageFigure::Step);
        }
    }

    fn window(&mut self, line: &[u8]) {
        #[derive(Deserialize)]
        struct Event {
            rate_limit_info: Info,
        }
        #[derive(Deserialize)]
        struct Info {
            #[serde(rename = "resetsAt")]
            resets_at: i64,
        }
        if let Ok(event) = serde_json::from_slice::<Event>(line) {
            self.resets_at_ms = event.rate_limit_info.resets_at.checked_mul(1000);
        }
    }

    fn result(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        let text = json::lossy_text(line);
        hearing.mark_done();
        let Ok(end) = serde_json::from_str::<End<'_>>(&text) else {
            self.doubtful = true;
            return hearing.trouble(ProviderTrouble::new(TroubleKind::Unclear, None, "its last event cannot be read"));
        };
        self.account(&end, hearing);
        if let Some(dollars) = end.total_cost_usd {
            hearing.reported_cost(dollars);
        }
        if let Some(answer) = end.structured_output.filter(|answer| answer.get() != "null") {
            hearing.structured_answer(answer.get());
        }
        match &end.result {
            Some(said) if !end.is_error => hearing.final_message(said),
            Some(_) | None => (),
        }
        self.judge(&end, hearing);
    }

    fn account(&mut self, end: &End<'_>, hearing: &mut StreamObserver<'_>) {
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

    fn judge(&self, end: &End<'_>, hearing: &mut StreamObserver<'_>) {
        match end.subtype.as_ref() {
            "error_max_turns" => return hearing.hit_own_limit(BudgetLimit::Turns),
            "error_max_budget_usd" => return hearing.hit_own_limit(BudgetLimit::Usd),
            "success" if !end.is_error => return,
            _ => (),
        }
        let said = end.result.as_deref().map(str::to_owned).filter(|said| !said.is_empty());
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

impl Block<'_> {
    /// The approximate number of bytes that a model wrote for it.
    fn size(&self) -> usize {
        let raw = |value: Option<&RawValue>| value.map_or(0, |value| value.get().len());
        self.text.as_ref().map_or(0, |text| text.len()) + raw(self.thinking) + raw(self.input)
    }
}

fn step(before: Tokens, now: Tokens) -> Tokens {
    Tokens {
        input: now.input.saturating_sub(before.input),
        output: now.output.saturating_sub(before.output),
        cache_read: now.cache_read.saturating_sub(before.cache_read),
        cache_write: now.cache_write.saturating_sub(before.cache_write),
    }
}

/// A model's name without the suffix in brackets about its context size.
fn plain(model: &str) -> &str {
    model.split('[').next().unwrap_or(model)
}

fn used(name: &str, input: Option<&RawValue>, hearing: &mut StreamObserver<'_>) {
    let input = input.and_then(|input| serde_json::from_str::<Input<'_>>(input.get()).ok());
    let what = input.and_then(|input| input.command.or(input.file_path).or(input.pattern).or(input.url));
    hearing.tool(name, json::first_line(what.as_deref().unwrap_or_default()));
}

fn system(line: &[u8], hearing: &mut StreamObserver<'_>) {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow, default)]
        subtype: Cow<'a, str>,
        #[serde(borrow, default)]
        session_id: Option<Cow<'a, str>>,
        #[serde(borrow, default)]
        model: Option<Cow<'a, str>>,
        #[serde(borrow, default)]
        claude_code_version: Option<Cow<'a, str>>,
        #[serde(borrow, default)]
        tool_name: Option<Cow<'a, str>>,
        #[serde(default)]
        error_status: Option<u16>,
    }
    let text = json::lossy_text(line);
    let Ok(event) = serde_json::from_str::<Event<'_>>(&text) else { return };
    match event.subtype.as_ref() {
        "init" => {
            hearing.started(event.session_id.as_deref(), event.model.as_deref(), event.claude_code_version.as_deref());
        }
        "api_retry" => hearing.retries(event.error_status),
        "permission_denied" => hearing.denied(event.tool_name.as_deref().unwrap_or("a tool")),
        _ => (),
    }
}

#[derive(Deserialize)]
struct End<'a> {
    #[serde(borrow, default)]
    subtype: Cow<'a, str>,
    is_error: bool,
    #[serde(borrow, default)]
    result: Option<Cow<'a, str>>,
    #[serde(default)]
    errors: Vec<String>,
    #[serde(borrow, default)]
    stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    terminal_reason: Option<Cow<'a, str>>,
    #[serde(default)]
    api_error_status: Option<u16>,
    #[serde(default)]
    total_cost_usd: Option<f64>,
    #[serde(default)]
    usage: Option<ClaudeUsage>,
    #[serde(borrow, default, rename = "modelUsage")]
    model_usage: BTreeMap<Cow<'a, str>, ModelUsage>,
    #[serde(borrow, default)]
    structured_output: Option<&'a RawValue>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
struct ModelUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    cache_read_input_tokens: u64,
    #[serde(default)]
    cache_creation_input_tokens: u64,
}

impl From<ModelUsage> for Tokens {
    fn from(used: ModelUsage) -> Self {
        Self {
            input: used.input_tokens,
            output: used.output_tokens,
            cache_read: used.cache_read_input_tokens,
            cache_write: used.cache_creation_input_tokens,
        }
    }
}

#[cfg(test)]
mod tests;
