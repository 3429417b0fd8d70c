//! Gemini CLI: its headless mode with a stream of JSON. Its settings are a file of this start's own, its tools are
//! exactly those of the role, and the repository's settings are hidden. Tested with 0.61.0.
//!
//! It reports its usage once, in its last event. For failed requests it often reports only text; the exit code then
//! holds the low byte of the status.

use super::driver::{
    AgentDialect, AgentStreamReader, ProgramLaunch, in_home, launch_env, login_files, own_folder, plain_brief,
    provider_url, provider_vars,
};
use super::steering_files::{self, INSTRUCTION_FILES};
use super::stream_observer::{StreamObserver, UsageFigure};
use super::tools::{self, AgentTool};
use super::{AgentCapabilities, AgentError, AgentInvocation, json, mcp_servers};
use crate::proc::{RunEnd, StdinSource};
use loopwright_core::budget::{BudgetLimit, Tokens};
use loopwright_core::config::ModelEffort;
use loopwright_core::provider::{ProviderTrouble, TroubleKind};
use loopwright_core::spec::Role;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// The provider it connects to.
const PROVIDER: &str = "google";
/// Bytes of a message that are stored.
const MESSAGE_MAX: usize = 1 << 20;
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
pub(super) static DIALECT: AgentDialect = AgentDialect {
    capabilities: AgentCapabilities { structured_output: false, ..AgentCapabilities::DRIVEN },
    package: "@google/gemini-cli",
    login: ".gemini/oauth_creds.json",
    login_hosts: &["cloudcode-pa.googleapis.com", "oauth2.googleapis.com"],
    launch,
    reader: |_| Box::<GeminiReader>::default(),
};

fn launch(invocation: &AgentInvocation) -> Result<ProgramLaunch, AgentError> {
    let tools = tools::tools_for(invocation)?;
    let mut files = vec![settings_file(invocation, &settings(invocation, &tools))];
    files.extend(login_files(invocation, ".gemini/oauth_creds.json"));
    Ok(ProgramLaunch {
        args: args(invocation, &tools),
        env: env(invocation)?,
        stdin: StdinSource::Bytes(plain_brief(&invocation.prompt).into_bytes()),
        files,
        // It reads `GEMINI.md` whatever the settings are; they can only add names.
        hidden: steering_files::at_top(),
        hidden_below: INSTRUCTION_FILES.to_vec(),
        // Settings, hooks, servers, commands and variables.
        needs_hidden: vec![".gemini"],
    })
}

/// The settings of one start as a file below HOME.
pub(super) fn settings_file(invocation: &AgentInvocation, settings: &Value) -> (PathBuf, Vec<u8>) {
    (own_folder(invocation).join(".gemini/settings.json"), settings.to_string().into_bytes())
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
    let of_servers = invocation.mcp_servers.iter().map(|server| format!("mcp_{}_*", server.name));
    let own = tools.iter().flat_map(|tool| names(*tool)).map(|name| (*name).to_owned());
    let names: Vec<String> = own.chain(of_servers).collect();
    let signs_in = matches!(provider_url(invocation, PROVIDER), Ok(None));
    let mut settings = quiet_settings(if signs_in { "oauth-personal" } else { "gemini-api-key" });
    settings["tools"] = json!({ "core": names });
    // A checker must also see the files that the repository asks tools to ignore.
    settings["context"] = json!({ "fileFiltering": {
        "respectGitIgnore": invocation.role == Role::Maker, "respectGeminiIgnore": false,
    } });
    if !invocation.mcp_servers.is_empty() {
        // A trusted server is used without a question.
        settings["mcpServers"] = mcp_servers::by_name(invocation, &[("trust", true.into())]);
    }
    if let Some(effort) = invocation.options.effort {
        let thinking = thinking(invocation.model.as_deref().unwrap_or_default(), effort);
        let asked = json!({ "generateContentConfig": { "thinkingConfig": thinking } });
        settings["modelConfigs"] = json!({ "customOverrides": [{ "match": scope(invocation), "modelConfig": asked }] });
    }
    settings["model"] = json!({});
    if let Some(turns) = invocation.limits.turns {
        settings["model"]["maxSessionTurns"] = turns.into();
    }
    settings
}

/// The requests for which the effort holds: those to the named model, or all of its own.
fn scope(invocation: &AgentInvocation) -> Value {
    let model = invocation.model.as_deref().map(|model| model.strip_prefix("google/").unwrap_or(model));
    model.map_or_else(|| json!({ "overrideScope": "core" }), |model| json!({ "model": model }))
}

/// An effort as the models of a generation want it: as a number of tokens up to 2.5, and later as a word.
fn thinking(model: &str, effort: ModelEffort) -> Value {
    if model.contains("gemini-2") || model.contains("gemini-1") {
        let tokens = match effort {
            ModelEffort::Minimal => 128,
            ModelEffort::Low => 1024,
            ModelEffort::Medium => 8192,
            ModelEffort::High | ModelEffort::Xhigh | ModelEffort::Max => 24_576,
        };
        return json!({ "thinkingBudget": tokens });
    }
    json!({ "thinkingLevel": effort.word().to_ascii_uppercase() })
}

/// Settings of every start: the sign-in method, no updates, no telemetry, no skills, nothing of the repository.
pub(super) fn quiet_settings(sign_in: &str) -> Value {
    json!({
        "security": { "auth": { "selectedType": sign_in }, "folderTrust": { "enabled": true } },
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false, "maxAttempts": 3 },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        "skills": { "enabled": false },
        "advanced": { "ignoreLocalEnv": true },
    })
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
    let mut vars = provider_vars(invocation, PROVIDER, ["GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"])?;
    vars.push(("GEMINI_CLI_HOME", in_home(invocation, &own_folder(invocation)).into()));
    // It would start itself again and not forward signals.
    vars.push(("GEMINI_CLI_NO_RELAUNCH", "true".into()));
    Ok(launch_env(vars))
}

#[derive(Default)]
struct GeminiReader {
    /// Its text since its last tool.
    message: String,
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
            "tool_result" => (self.speaking, self.spoke) = (false, false),
            "error" => self.complains(line, hearing),
            "result" => self.result(line, hearing),
            _ => (),
        }
    }

    fn error_line(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        let text = String::from_utf8_lossy(line);
        if text.starts_with("Attempt ") && text.contains(" failed") {
            let status = text.split_once("with status ").and_then(|(_, rest)| rest.get(..3)?.parse().ok());
            hearing.retries(status);
            self.retried = Some((status, text.chars().take(1000).collect()));
        }
        let words = text.trim();
        let code = words.strip_prefix("status: ").or_else(|| words.strip_prefix("code: "));
        let code = code.and_then(|code| code.trim_end_matches(',').parse().ok());
        self.status = code.filter(|status| (400..600).contains(status)).or(self.status);
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
            (Some(EXIT_TURNS), _) => hearing.meet(BudgetLimit::Turns),
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
    if let Some(init) = json::read::<Value>(line) {
        hearing.started(init["model"].as_str(), None);
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
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Message {
            role: String,
            content: String,
            delta: bool,
        }
        if is_users(line) {
            return;
        }
        let Some(message) = json::read::<Message>(line).filter(|message| message.role == "assistant") else { return };
        self.on_model_output(hearing);
        self.spoke = true;
        if !message.delta {
            self.finish_message(hearing);
        }
        let room = MESSAGE_MAX.saturating_sub(self.message.len());
        self.message.push_str(&message.content[..message.content.floor_char_boundary(room)]);
    }

    fn tool_use(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Used {
            tool_name: String,
            parameters: Option<Box<RawValue>>,
        }
        self.on_model_output(hearing);
        self.finish_message(hearing);
        let Some(used) = json::read::<Used>(line) else { return };
        hearing.tool(&used.tool_name, &json::tool_input(used.parameters.as_deref()));
    }

    fn complains(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        let Some(complaint) = json::read::<Value>(line) else { return };
        let message = complaint["message"].as_str().unwrap_or_default();
        if complaint["severity"] == "error" {
            self.complaint = Some(message.to_owned());
        } else {
            hearing.note(json::first_line(message));
        }
    }

    fn result(&mut self, line: &[u8], hearing: &mut StreamObserver<'_>) {
        self.finish_message(hearing);
        self.retried = None;
        hearing.mark_done();
        let Some(end) = json::read::<End>(line) else {
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

    fn fails(&mut self, error: Option<Failure>, hearing: &mut StreamObserver<'_>) {
        if error.as_ref().is_some_and(|error| error.kind == "FatalTurnLimitedError") {
            return hearing.meet(BudgetLimit::Turns);
        }
        let said = error.map(|error| error.message).or_else(|| self.complaint.take()).unwrap_or_default();
        if said.contains("response was blocked") {
            return hearing.trouble(ProviderTrouble::new(TroubleKind::Declined, None, &said));
        }
        if said.contains(CUT) {
            return hearing.trouble(ProviderTrouble::new(TroubleKind::Network, None, &said));
        }
        self.failed = Some(said);
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Failure {
    #[serde(rename = "type")]
    kind: String,
    message: String,
}

#[derive(Deserialize)]
struct End {
    status: String,
    error: Option<Failure>,
    stats: Stats,
}

#[derive(Deserialize)]
struct Stats {
    #[serde(default)]
    models: BTreeMap<String, ModelStats>,
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
