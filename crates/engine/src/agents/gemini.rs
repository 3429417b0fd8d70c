//! Gemini CLI: its headless mode with a stream of JSON. Its settings are a file of this start's own, its tools are
//! exactly those of the role, and the repository's settings are hidden. Tested with 0.61.0.
//!
//! It reports its usage once, in its last event. For failed requests it often reports only text; the exit code then
//! holds the low byte of the status.

use super::driver::{
    AgentDialect, AgentStreamReader, ProgramLaunch, ProviderAccess, in_home, login_files, own_folder, plain_brief,
    provider_access,
};
use super::stream_observer::{StreamObserver, UsageFigure};
use super::tools::{self, AgentTool};
use super::{AgentCapabilities, AgentError, AgentInvocation, json};
use crate::proc::RunEnd;
use loopwright_core::budget::{BudgetLimit, Tokens};
use loopwright_core::provider::{ProviderTrouble, TroubleKind};
use loopwright_core::spec::Role;
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// The provider it connects to.
const PROVIDER: &str = "google";
/// Bytes of a message that are stored.
const MESSAGE_MAX: usize = 1 << 20;
/// Most calls whose results are awaited at once.
const CALLS_MAX: usize = 256;
/// The statuses that its exit code may be the low byte of.
const STATUSES: [u16; 14] = [400, 401, 402, 403, 404, 408, 409, 413, 429, 500, 502, 503, 504, 529];
/// Its message for an interrupted answer.
const CUT: &str = "API Error: terminated";
/// Its own exit codes: no sign-in, no input, a wrong setting, no turns left.
const EXIT_AUTH: i32 = 41;
const EXIT_INPUT: i32 = 42;
const EXIT_CONFIG: i32 = 52;
const EXIT_TURNS: i32 = 53;

/// Gemini CLI.
pub(super) struct GeminiDialect;

impl AgentDialect for GeminiDialect {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities { structured_output: false, ..AgentCapabilities::DRIVEN }
    }

    fn launch(&self, invocation: &AgentInvocation) -> Result<ProgramLaunch, AgentError> {
        let tools = tools::tools_for(invocation)?;
        let settings = settings(invocation, &tools).to_string();
        let mut files = vec![(own_folder(invocation).join(".gemini/settings.json"), settings.into_bytes())];
        files.extend(login_files(invocation, ".gemini/oauth_creds.json"));
        Ok(ProgramLaunch {
            args: args(invocation, &tools),
            env: env(invocation)?,
            stdin: plain_brief(&invocation.prompt).into_bytes(),
            files,
            // It reads this name whatever the settings are; they can only add names.
            hidden: vec!["GEMINI.md"],
            hidden_below: vec!["GEMINI.md"],
            // Settings, hooks, servers, commands and variables.
            needs_hidden: vec![".gemini"],
        })
    }

    fn reader(&self, _: &AgentInvocation) -> Box<dyn AgentStreamReader> {
        Box::<GeminiReader>::default()
    }
}

fn args(invocation: &AgentInvocation, tools: &[AgentTool]) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["-o", "stream-json", "--skip-trust"].map(OsString::from).into();
    let mut option = |name: &str, value: OsString| args.extend([name.into(), value]);
    // There is no person to ask. Tools outside the role's list do not exist for it, so this allows nothing more.
    let asks_nobody = tools
        .iter()
        .any(|tool| matches!(tool, AgentTool::Edit | AgentTool::Write | AgentTool::Bash | AgentTool::WebFetch));
    option("--approval-mode", if asks_nobody { "yolo" } else { "default" }.into());
    // A name that no extension has: none is loaded.
    option("--extensions", "none".into());
    if let Some(model) = &invocation.model {
        let model = model.strip_prefix("google/").unwrap_or(model);
        option("--model", model.into());
    }
    if invocation.role == Role::Maker {
        option("--include-directories", invocation.view.inside_path(&invocation.outbox).into());
    }
    if let Some(items) = &invocation.items {
        option("--include-directories", invocation.view.inside_path(items).into());
    }
    args
}

fn settings(invocation: &AgentInvocation, tools: &[AgentTool]) -> Value {
    let names: Vec<&str> = tools.iter().flat_map(|tool| names(*tool)).copied().collect();
    let sign_in = match provider_access(invocation, PROVIDER) {
        Ok(ProviderAccess::Own) => "oauth-personal",
        Ok(ProviderAccess::Proxy(_)) | Err(_) => "gemini-api-key",
    };
    let mut settings = json!({
        "security": { "auth": { "selectedType": sign_in }, "folderTrust": { "enabled": true } },
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false, "maxAttempts": 3 },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        "tools": { "core": names },
        "skills": { "enabled": false },
        "advanced": { "ignoreLocalEnv": true },
        // A checker must also see the files that the repository asks tools to ignore.
        "context": { "fileFiltering": {
            "respectGitIgnore": invocation.role == Role::Maker, "respectGeminiIgnore": false,
        } },
        "model": {},
    });
    if let Some(turns) = invocation.limits.turns {
        settings["model"]["maxSessionTurns"] = turns.into();
    }
    settings
}

fn names(tool: AgentTool) -> &'static [&'static str] {
    match tool {
        AgentTool::Read => &["read_file"],
        AgentTool::Glob => &["glob", "list_directory"],
        AgentTool::Grep => &["grep_search"],
        AgentTool::Edit => &["replace"],
        AgentTool::Write => &["write_file"],
        AgentTool::Bash => &["run_shell_command"],
        AgentTool::WebFetch => &["web_fetch"],
    }
}

fn env(invocation: &AgentInvocation) -> Result<Vec<(OsString, OsString)>, AgentError> {
    let to_provider = match provider_access(invocation, PROVIDER)? {
        ProviderAccess::Proxy(url) => {
            vec![("GOOGLE_GEMINI_BASE_URL", url.into()), ("GEMINI_API_KEY", invocation.endpoints.token.clone().into())]
        }
        ProviderAccess::Own => Vec::new(),
    };
    let pairs: [(&str, OsString); 4] = [
        ("GEMINI_CLI_HOME", in_home(invocation, &own_folder(invocation)).into()),
        // It would start itself again and not forward signals.
        ("GEMINI_CLI_NO_RELAUNCH", "true".into()),
        // It would ask a proxy for a tunnel even to this address.
        ("NO_PROXY", "127.0.0.1,localhost".into()),
        ("no_proxy", "127.0.0.1,localhost".into()),
    ];
    Ok(to_provider.into_iter().chain(pairs).map(|(name, value)| (name.into(), value)).collect())
}

#[derive(Default)]
struct GeminiReader {
    /// Its text since its last tool.
    message: String,
    /// Calls without a result: their id and tool.
    calls: Vec<(String, String)>,
    /// The model is sending output: the following output belongs to the same turn.
    speaking: bool,
    /// It sent text after its last tool.
    spoke: bool,
    /// Its last complaint.
    complaint: Option<String>,
    /// The failure, until its exit code gives the status.
    failed: Option<String>,
    /// A request failed, and nothing was received since.
    retried: Option<(Option<u16>, String)>,
    /// The final usage report could not be read.
    doubtful: bool,
    /// The status of an error on its standard error.
    status: Option<u16>,
    /// The last line of its standard error.
    last_words: String,
}

impl AgentStreamReader for GeminiReader {
    fn line(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        let Some(kind) = json::kind(line) else { return };
        match kind.as_ref() {
            "init" => init(line, hearing),
            "message" => self.message(line, hearing),
            "tool_use" => self.tool_use(line, hearing),
            "tool_result" => self.tool_result(line, hearing),
            "error" => self.complains(line, hearing),
            "result" => self.result(line, hearing),
            _ => (),
        }
    }

    fn error_line(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        let text = json::lossy_text(line);
        if text.starts_with("Attempt ") && text.contains(" failed") {
            let status = text.split_once("with status ").and_then(|(_, rest)| rest.get(..3)?.parse().ok());
            hearing.retries(status);
            self.retried = Some((status, text.chars().take(1000).collect()));
        }
        let words = text.trim();
        let told = words.strip_prefix("status: ").or_else(|| words.strip_prefix("code: "));
        let told = told.and_then(|told| told.trim_end_matches(',').parse().ok());
        self.status = told.filter(|status| (400..600).contains(status)).or(self.status);
        if !words.is_empty() {
            self.last_words = text.chars().take(1000).collect();
        }
    }

    fn end(&mut self, how: RunEnd, hearing: &mut StreamObserver<'_>) {
        self.finish_message(hearing);
        if self.doubtful {
            hearing.usage_unknown();
        }
        let code = if let RunEnd::Exited(code) = how { Some(code) } else { None };
        let rest = code.and_then(|code| STATUSES.into_iter().find(|status| i32::from(status & 0xff) == code));
        if let Some(failed) = self.failed.take() {
            // Its text may name a status, which is more exact than an exit code.
            let heard = ProviderTrouble::classify(None, &failed, 0);
            return hearing.trouble_from_text(heard.status.or(rest).or(self.status), &failed);
        }
        if hearing.is_done() || hearing.is_troubled() {
            return;
        }
        match (code, self.retried.take()) {
            (Some(EXIT_TURNS), _) => hearing.hit_own_limit(BudgetLimit::Turns),
            (Some(EXIT_AUTH), _) => self.trouble(TroubleKind::Auth, hearing),
            (Some(EXIT_INPUT | EXIT_CONFIG), _) => self.trouble(TroubleKind::BadRequest, hearing),
            (_, Some((status, said))) if how != RunEnd::Cancelled => hearing.transient_trouble(status, &said),
            _ => (),
        }
    }
}

/// Whether a message is the user's, by its start: it is the whole brief, often most of the stream, and is not needed.
/// Inside a string the quotes would have backslashes.
fn is_users(line: &[u8]) -> bool {
    const USER: &[u8] = b",\"role\":\"user\",";
    line[..line.len().min(200)].windows(USER.len()).any(|part| part == USER)
}

fn init(line: &[u8], hearing: &mut StreamObserver<'_>) {
    #[derive(Deserialize)]
    struct Init<'a> {
        #[serde(borrow, default)]
        session_id: Option<Cow<'a, str>>,
        #[serde(borrow, default)]
        model: Option<Cow<'a, str>>,
    }
    let text = json::lossy_text(line);
    if let Ok(init) = serde_json::from_str::<Init<'_>>(&text) {
        hearing.started(init.session_id.as_deref(), init.model.as_deref(), None);
    }
}

impl GeminiReader {
    fn trouble(&self, kind: TroubleKind, hearing: &mut StreamObserver<'_>) {
        hearing.trouble(ProviderTrouble::new(kind, None, &self.last_words));
    }

    /// Output of the model: the first after a tool starts a turn.
    fn on_model_output(&mut self, hearing: &mut StreamObserver<'_>) {
        self.retried = None;
        if !std::mem::replace(&mut self.speaking, true) {
            hearing.turn();
        }
    }

    /// Ends its message.
    fn finish_message(&mut self, hearing: &mut StreamObserver<'_>) {
        if !self.message.is_empty() {
            hearing.message(&self.message);
            self.message.clear();
        }
    }

    fn message(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        #[derive(Deserialize)]
        struct Message<'a> {
            #[serde(borrow, default)]
            role: Cow<'a, str>,
            #[serde(borrow, default)]
            content: Cow<'a, str>,
            #[serde(default)]
            delta: bool,
        }
        if is_users(line) {
            return;
        }
        let text = json::lossy_text(line);
        let Ok(message) = serde_json::from_str::<Message<'_>>(&text) else { return };
        if message.role != "assistant" {
            return;
        }
        self.on_model_output(hearing);
        self.spoke = true;
        if !message.delta {
            self.finish_message(hearing);
        }
        let room = MESSAGE_MAX.saturating_sub(self.message.len());
        self.message.push_str(&message.content[..message.content.floor_char_boundary(room)]);
    }

    fn tool_use(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        #[derive(Deserialize)]
        struct Used<'a> {
            #[serde(borrow, default)]
            tool_name: Cow<'a, str>,
            #[serde(borrow, default)]
            tool_id: Cow<'a, str>,
            #[serde(borrow, default)]
            parameters: Option<Input<'a>>,
        }
        /// The same for a tool with unknown parameters.
        #[derive(Deserialize)]
        struct Other<'a> {
            #[serde(borrow, default)]
            tool_name: Cow<'a, str>,
            #[serde(borrow, default)]
            tool_id: Cow<'a, str>,
        }
        #[derive(Deserialize)]
        struct Input<'a> {
            #[serde(borrow, default)]
            command: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            file_path: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            pattern: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            dir_path: Option<Cow<'a, str>>,
        }
        self.on_model_output(hearing);
        self.finish_message(hearing);
        let text = json::lossy_text(line);
        let other = || serde_json::from_str::<Other<'_>>(&text).ok();
        let other = || other().map(|Other { tool_name, tool_id }| Used { tool_name, tool_id, parameters: None });
        let Some(used) = serde_json::from_str::<Used<'_>>(&text).ok().or_else(other) else { return };
        let what =
            used.parameters.and_then(|input| input.command.or(input.file_path).or(input.pattern).or(input.dir_path));
        hearing.tool(&used.tool_name, json::first_line(what.as_deref().unwrap_or_default()));
        if self.calls.len() < CALLS_MAX {
            self.calls.push((used.tool_id.into_owned(), used.tool_name.into_owned()));
        }
    }

    fn tool_result(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        #[derive(Deserialize)]
        struct Done<'a> {
            #[serde(borrow, default)]
            tool_id: Cow<'a, str>,
            #[serde(borrow, default)]
            error: Option<Failure<'a>>,
        }
        self.speaking = false;
        self.spoke = false;
        let text = json::lossy_text(line);
        let Ok(done) = serde_json::from_str::<Done<'_>>(&text) else { return };
        let Some(at) = self.calls.iter().position(|(id, _)| *id == done.tool_id) else { return };
        let (_, tool) = self.calls.swap_remove(at);
        if done.error.is_some_and(|error| matches!(error.kind.as_ref(), "tool_not_registered" | "policy_violation")) {
            hearing.denied(&tool);
        }
    }

    fn complains(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        #[derive(Deserialize)]
        struct Complaint<'a> {
            #[serde(borrow, default)]
            severity: Cow<'a, str>,
            #[serde(borrow, default)]
            message: Cow<'a, str>,
        }
        let text = json::lossy_text(line);
        let Ok(complaint) = serde_json::from_str::<Complaint<'_>>(&text) else { return };
        if complaint.severity == "error" {
            self.complaint = Some(complaint.message.into_owned());
        } else {
            hearing.note(json::first_line(&complaint.message));
        }
    }

    fn result(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        self.finish_message(hearing);
        self.retried = None;
        hearing.mark_done();
        let text = json::lossy_text(line);
        let Ok(end) = serde_json::from_str::<End<'_>>(&text) else {
            self.doubtful = true;
            return hearing.trouble(ProviderTrouble::new(TroubleKind::Unclear, None, "its last event cannot be read"));
        };
        for (model, used) in &end.stats.models {
            hearing.usage(model, (*used).into(), UsageFigure::Total);
        }
        if end.status == "success" {
            self.succeeded(hearing);
        } else {
            self.fails(end.error, hearing);
        }
    }

    /// It always ends with text, except when the provider interrupted an answer and it did not notice.
    fn succeeded(&self, hearing: &mut StreamObserver<'_>) {
        if !self.spoke {
            let text = "it ended without a final message, as it does when an answer is interrupted";
            hearing.trouble(ProviderTrouble::new(TroubleKind::Unclear, None, text));
        }
    }

    fn fails(&mut self, error: Option<Failure<'_>>, hearing: &mut StreamObserver<'_>) {
        if error.as_ref().is_some_and(|error| error.kind == "FatalTurnLimitedError") {
            return hearing.hit_own_limit(BudgetLimit::Turns);
        }
        let said = error.map(|error| error.message.into_owned()).or_else(|| self.complaint.take()).unwrap_or_default();
        if said.contains("response was blocked") {
            return hearing.trouble(ProviderTrouble::new(TroubleKind::Declined, None, &said));
        }
        if said.contains(CUT) {
            return hearing.trouble(ProviderTrouble::new(TroubleKind::Network, None, &said));
        }
        self.failed = Some(said);
    }
}

#[derive(Deserialize)]
struct Failure<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
}

#[derive(Deserialize)]
struct End<'a> {
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow, default)]
    error: Option<Failure<'a>>,
    #[serde(borrow)]
    stats: Stats<'a>,
}

#[derive(Deserialize)]
struct Stats<'a> {
    #[serde(borrow, default)]
    models: BTreeMap<Cow<'a, str>, ModelStats>,
}

#[derive(Deserialize, Clone, Copy)]
struct ModelStats {
    #[serde(default)]
    total_tokens: u64,
    /// Includes the tokens read from a cache.
    input_tokens: u64,
    output_tokens: u64,
    #[serde(default)]
    cached: u64,
}

impl From<ModelStats> for Tokens {
    /// Thought tokens are only in the total.
    fn from(stats: ModelStats) -> Self {
        Self {
            input: stats.input_tokens.saturating_sub(stats.cached),
            output: stats.total_tokens.saturating_sub(stats.input_tokens).max(stats.output_tokens),
            cache_read: stats.cached,
            cache_write: 0,
        }
    }
}

#[cfg(test)]
mod tests;
