//! Profiles of programs that use the protocol: how each is configured for its model, what it would load from the
//! repository, and what its usage figures mean. An unknown program gets the most common variables, and its usage is
//! unknown.

use super::super::AgentInvocation;
use super::super::driver::{in_home, launch_env, own_folder};
use super::super::providers::provider_of_model;
use super::super::steering_files::STEERING_PLACES;
use super::super::{AgentError, codex, gemini, mcp_servers, opencode};
use loopwright_core::budget::Tokens;
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A program by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcpAgentProfile {
    /// Reports the usage of its last call only.
    Goose,
    /// Reports the usage of a turn by model, in an extension.
    Gemini,
    /// Reports the usage of a turn.
    Claude,
    /// Reports the usage of a turn.
    Codex,
    /// Reports the usage of a turn.
    Copilot,
    /// Does not report its usage.
    Qwen,
    /// Reports the usage of its last call only.
    Opencode,
    /// Any other program.
    Other,
}

impl AcpAgentProfile {
    /// The program that a path names.
    pub(super) fn from_path(program: &Path) -> Self {
        let name = program.file_stem().unwrap_or_default().to_string_lossy();
        match name.as_ref() {
            "goose" => Self::Goose,
            "gemini" => Self::Gemini,
            "claude-agent-acp" | "claude-code-acp" => Self::Claude,
            "codex-acp" => Self::Codex,
            "copilot" => Self::Copilot,
            "qwen" => Self::Qwen,
            "opencode" => Self::Opencode,
            _ => Self::Other,
        }
    }

    /// Whether its usage report is complete.
    pub(super) fn reports_usage(self) -> bool {
        matches!(self, Self::Gemini | Self::Claude | Self::Codex | Self::Copilot)
    }

    /// Whether a mode named `default` asks before it changes or runs anything.
    pub(super) fn default_asks(self) -> bool {
        matches!(self, Self::Gemini | Self::Claude | Self::Qwen)
    }

    /// The files and folders that would configure it. Without a sandbox, a repository that has one is refused.
    pub(super) fn settings(self) -> Vec<&'static str> {
        match self {
            Self::Goose => vec![".goose"],
            Self::Gemini => vec![".gemini", ".env"],
            Self::Claude => vec![".claude", ".mcp.json"],
            Self::Codex => vec![".codex"],
            Self::Qwen => vec![".qwen", ".env"],
            Self::Opencode => vec![".opencode", "opencode.json", "opencode.jsonc"],
            Self::Copilot | Self::Other => STEERING_PLACES.to_vec(),
        }
    }

    /// The variables for its folders of settings and sessions. HOME is not among them: it holds files prepared for the
    /// loop's commands.
    fn homes(self) -> &'static [&'static str] {
        match self {
            Self::Goose => &["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"],
            Self::Gemini => &["GEMINI_CLI_HOME"],
            Self::Claude => &["CLAUDE_CONFIG_DIR"],
            Self::Codex => &["CODEX_HOME"],
            Self::Copilot => &["COPILOT_HOME"],
            Self::Qwen => &["QWEN_HOME", "XDG_CONFIG_HOME"],
            Self::Opencode | Self::Other => &["XDG_CONFIG_HOME"],
        }
    }

    /// The variables for the address and the token of its usual kind of provider.
    fn usual_variables(self) -> (&'static str, &'static str) {
        match self {
            Self::Claude => ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
            Self::Gemini => ("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
            Self::Goose | Self::Codex | Self::Copilot | Self::Qwen | Self::Opencode | Self::Other => {
                ("OPENAI_BASE_URL", "OPENAI_API_KEY")
            }
        }
    }

    /// Whether it does nothing without a model's name.
    pub(super) fn needs_model(self) -> bool {
        matches!(self, Self::Goose)
    }

    /// Whether a variable sets its model, so that its session need not offer a choice.
    pub(super) fn takes_model_from_variable(self) -> bool {
        matches!(self, Self::Copilot | Self::Opencode)
    }

    /// Whether it takes the servers for its tools from a session. Copilot takes only those with an address.
    pub(super) fn takes_servers_from_session(self) -> bool {
        self != Self::Copilot
    }

    /// Arguments with the servers for its tools, if it does not take them from a session.
    pub(super) fn server_args(self, invocation: &AgentInvocation) -> Vec<String> {
        if self.takes_servers_from_session() || invocation.mcp_servers.is_empty() {
            return Vec::new();
        }
        let more = [("type", "local".into()), ("tools", json!(["*"]))];
        let servers = json!({ "mcpServers": mcp_servers::by_name(invocation, &more) });
        vec!["--additional-mcp-config".to_owned(), servers.to_string()]
    }

    /// Settings files below HOME. Writing one also creates the folder of its settings.
    pub(super) fn files(self, invocation: &AgentInvocation) -> Vec<(PathBuf, Vec<u8>)> {
        match self {
            // The sign-in method, no updates, no telemetry, no skills.
            Self::Gemini => {
                vec![gemini::settings_file(invocation, &gemini::quiet_settings("gemini-api-key"))]
            }
            Self::Codex => {
                vec![(own_folder(invocation).join("config.toml"), codex::acp_settings(invocation).into_bytes())]
            }
            Self::Copilot => vec![(own_folder(invocation).join(".made"), Vec::new())],
            Self::Opencode => opencode::installed(invocation),
            // No reports about its use, and no updates.
            Self::Qwen => {
                let quiet = json!({
                    "privacy": { "usageStatisticsEnabled": false }, "general": { "enableAutoUpdate": false },
                });
                vec![(own_folder(invocation).join("settings.json"), quiet.to_string().into_bytes())]
            }
            Self::Goose | Self::Claude | Self::Other => Vec::new(),
        }
    }

    /// Variables that set its providers and turn off background activity. They contain no key: the token is invalid
    /// outside.
    ///
    /// # Errors
    /// The program has no access to a provider, or cannot keep the role's list of tools.
    pub(super) fn env(self, invocation: &AgentInvocation) -> Result<Vec<(OsString, OsString)>, AgentError> {
        if self == Self::Opencode {
            return opencode::env(invocation);
        }
        let endpoints = &invocation.endpoints;
        let mut env: Vec<(&'static str, String)> = Vec::new();
        for (provider, url) in &endpoints.urls {
            let (at, key) = match provider.as_str() {
                "anthropic" => ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
                "openai" => ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
                "google" => ("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
                named if endpoints.provider.as_deref() == Some(named) => self.usual_variables(),
                _ => continue,
            };
            env.extend([(at, url.clone()), (key, endpoints.token.clone())]);
        }
        let folder = in_home(invocation, &own_folder(invocation)).display().to_string();
        env.extend(self.homes().iter().map(|name| (*name, folder.clone())));
        match self {
            Self::Goose => env.extend(goose(invocation)),
            Self::Gemini => {
                env.extend([("GEMINI_CLI_NO_RELAUNCH", "true".into()), ("GEMINI_TELEMETRY_ENABLED", "false".into())]);
                env.extend(invocation.model.clone().map(|model| ("GEMINI_MODEL", model)));
            }
            Self::Claude => env.extend(invocation.model.clone().map(|model| ("ANTHROPIC_MODEL", model))),
            Self::Qwen => env.extend(invocation.model.clone().map(|model| ("OPENAI_MODEL", model))),
            Self::Copilot => env.extend(copilot(invocation)),
            Self::Codex | Self::Opencode | Self::Other => (),
        }
        env.extend(["DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY"].map(|name| (name, "1".to_owned())));
        Ok(launch_env(env.into_iter().map(|(name, value)| (name, value.into()))))
    }

    /// The usage by model in the result of a prompt, if it is complete. `None` means unknown.
    pub(super) fn usage(self, result: &str, model: Option<&str>) -> Option<Vec<(String, Tokens)>> {
        match self {
            // It does not report the calls by which it chooses a model.
            Self::Gemini => model.and_then(|_| quota(result)),
            Self::Claude | Self::Codex | Self::Copilot => {
                turn(result).map(|tokens| vec![(model.unwrap_or_default().to_owned(), tokens)])
            }
            Self::Goose | Self::Qwen | Self::Opencode | Self::Other => None,
        }
    }
}

/// The provider for Copilot, which then needs no account: the one that the loop file names, the one that the model's
/// name implies, or the first available one.
fn copilot(invocation: &AgentInvocation) -> Vec<(&'static str, String)> {
    let endpoints = &invocation.endpoints;
    let named = endpoints.provider.as_deref().or(invocation.model.as_deref().and_then(provider_of_model));
    let order = named.into_iter().chain(["openai", "anthropic"]);
    let found = order.into_iter().find_map(|name| endpoints.urls.get_key_value(name));
    let mut env = vec![("COPILOT_AUTO_UPDATE", "false".to_owned()), ("COPILOT_OFFLINE", "true".to_owned())];
    if let Some((name, url)) = found {
        let kind = if name == "anthropic" { "anthropic" } else { "openai" };
        env.extend([
            ("COPILOT_PROVIDER_TYPE", kind.to_owned()),
            ("COPILOT_PROVIDER_BASE_URL", url.clone()),
            ("COPILOT_PROVIDER_API_KEY", endpoints.token.clone()),
        ]);
    }
    env.extend(invocation.model.clone().map(|model| ("COPILOT_MODEL", model)));
    env
}

/// The provider for goose: the one that the model's name implies, or the first available one.
fn goose(invocation: &AgentInvocation) -> Vec<(&'static str, String)> {
    let endpoints = &invocation.endpoints;
    let named = invocation.model.as_deref().and_then(provider_of_model);
    let order = named.into_iter().chain(["openai", "anthropic", "google"]);
    let provider = order.into_iter().find(|provider| endpoints.urls.contains_key(*provider));
    // A provider of the user's own is one that it reaches as it reaches OpenAI.
    let provider = provider.or(endpoints.provider.as_ref().map(|_| "openai"));
    let mut env = vec![
        ("GOOSE_DISABLE_KEYRING", "1".to_owned()),
        ("GOOSE_TELEMETRY_ENABLED", "false".to_owned()),
        // Instruction files: none.
        ("CONTEXT_FILE_NAMES", "[]".to_owned()),
    ];
    env.extend(provider.map(|provider| ("GOOSE_PROVIDER", provider.to_owned())));
    env.extend(invocation.model.clone().map(|model| ("GOOSE_MODEL", model)));
    env.extend(endpoints.urls.get("anthropic").map(|url| ("ANTHROPIC_HOST", url.clone())));
    if let Some(url) = endpoints.urls.get("google") {
        env.extend([("GOOGLE_HOST", url.clone()), ("GOOGLE_API_KEY", endpoints.token.clone())]);
    }
    env
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    #[serde(default)]
    total_tokens: u64,
    input_tokens: u64,
    output_tokens: u64,
    cached_read_tokens: Option<u64>,
    cached_write_tokens: Option<u64>,
}

/// The usage of a turn. Some programs count cached input in the input; the total shows which.
fn turn(result: &str) -> Option<Tokens> {
    #[derive(Deserialize)]
    struct UsageReport {
        usage: Usage,
    }
    let UsageReport { usage } = serde_json::from_str(result).ok()?;
    let (cache_read, cache_write) = (usage.cached_read_tokens.unwrap_or(0), usage.cached_write_tokens.unwrap_or(0));
    let cached = cache_read.saturating_add(cache_write);
    let plain = usage.input_tokens.saturating_add(usage.output_tokens);
    let is_apart = usage.total_tokens == 0 || usage.total_tokens >= plain.saturating_add(cached);
    let input = if is_apart { usage.input_tokens } else { usage.input_tokens.saturating_sub(cached) };
    // Thoughts are output too, if they are counted separately.
    let rest = usage.total_tokens.saturating_sub(input.saturating_add(cached));
    Some(Tokens { input, output: usage.output_tokens.max(rest), cache_read, cache_write })
}

/// Gemini's own usage report. It counts cached input in the input, and cannot distinguish them.
fn quota(result: &str) -> Option<Vec<(String, Tokens)>> {
    let tokens = |used: &Value| {
        let count = &used["token_count"];
        let (input, output) = (count["input_tokens"].as_u64()?, count["output_tokens"].as_u64()?);
        Some(Tokens { input, output, ..Tokens::default() })
    };
    let quota = &serde_json::from_str::<Value>(result).ok()?["_meta"]["quota"];
    let model = |used: &Value| Some((used["model"].as_str()?.to_owned(), tokens(used)?));
    let models = quota["model_usage"].as_array()?.iter().map(model).collect::<Option<Vec<_>>>()?;
    let sum = models.iter().fold(Tokens::default(), |sum, (_, tokens)| sum.plus(*tokens));
    // A report whose parts do not add up, or that is empty, is ignored.
    (sum.total() > 0 && Some(sum) == tokens(quota)).then_some(models)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_a_turn_is_split_by_its_total() {
        let cases = [
            (
                r#"{"usage":{"totalTokens":2440,"inputTokens":300,"outputTokens":40,"cachedReadTokens":2100}}"#,
                (300, 40, 2100),
            ),
            (
                r#"{"usage":{"totalTokens":2440,"inputTokens":2400,"outputTokens":40,"cachedReadTokens":2100}}"#,
                (300, 40, 2100),
            ),
            (r#"{"usage":{"totalTokens":450,"inputTokens":300,"outputTokens":40,"thoughtTokens":110}}"#, (300, 150, 0)),
            (r#"{"usage":{"inputTokens":300,"outputTokens":40}}"#, (300, 40, 0)),
        ];
        for (result, (input, output, cache_read)) in cases {
            let expected = Tokens { input, output, cache_read, ..Tokens::default() };
            assert_eq!(turn(result), Some(expected), "{result}");
        }
        assert_eq!(turn(r#"{"stopReason":"end_turn"}"#), None);
        assert_eq!(turn(r#"{"usage":{"inputTokens":-1,"outputTokens":40}}"#), None);
    }

    #[test]
    fn only_figures_of_a_complete_turn_are_used() {
        let last_call =
            r#"{"stopReason":"end_turn","usage":{"totalTokens":2440,"inputTokens":2400,"outputTokens":40}}"#;
        for known in [AcpAgentProfile::Goose, AcpAgentProfile::Opencode, AcpAgentProfile::Qwen, AcpAgentProfile::Other]
        {
            assert_eq!(known.usage(last_call, Some("m")), None, "{known:?}");
        }
        assert!(AcpAgentProfile::Codex.usage(last_call, Some("m")).is_some());
        let quota = r#"{"_meta":{"quota":{"token_count":{"input_tokens":5,"output_tokens":2},"model_usage":[{"model":"g","token_count":{"input_tokens":5,"output_tokens":2}}]}}}"#;
        let expected = Tokens { input: 5, output: 2, ..Tokens::default() };
        assert_eq!(AcpAgentProfile::Gemini.usage(quota, Some("g")), Some(vec![("g".to_owned(), expected)]));
        assert_eq!(AcpAgentProfile::Gemini.usage(quota, None), None);
        assert_eq!(
            AcpAgentProfile::Gemini.usage(&quota.replace(":5,", ":6,").replacen(":6,", ":5,", 1), Some("g")),
            None
        );
    }
}
