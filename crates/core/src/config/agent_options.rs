//! Options of agents in the user's own configuration: the effort of their model, further variables and arguments. They
//! hold for every loop, and no repository can set them.

use crate::spec::AgentUse;
use crate::spec::problem::ProblemKind;
use crate::spec::reader::value::SpecValue;
use crate::words::worded;
use serde::Serialize;
use std::collections::BTreeMap;

/// The agents that have options, by their words.
pub type AgentOptionsTable = BTreeMap<String, AgentOptions>;

/// Most variables and arguments of one agent.
const ENTRIES_MAX: usize = 64;

/// The options of one agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AgentOptions {
    /// How long its model thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<ModelEffort>,
    /// Variables beside those that Loopwright sets, which take precedence.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Arguments after those of Loopwright.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

worded! {
    /// How long a model thinks before it answers.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum ModelEffort {
        /// Hardly.
        Minimal = "minimal",
        /// Briefly.
        Low = "low",
        /// As usual.
        Medium = "medium",
        /// Longer.
        High = "high",
        /// Much longer.
        Xhigh = "xhigh",
        /// As long as the model can.
        Max = "max",
    }
}

impl ModelEffort {
    /// The levels that an agent's program accepts; none if it has no such option.
    #[must_use]
    pub fn levels_of(agent: AgentUse) -> &'static [Self] {
        match agent {
            AgentUse::Claude => &[Self::Low, Self::Medium, Self::High, Self::Xhigh, Self::Max],
            AgentUse::Codex => &[Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Xhigh],
            AgentUse::Gemini => &[Self::Minimal, Self::Low, Self::Medium, Self::High],
            AgentUse::Opencode | AgentUse::Acp => &Self::ALL,
            AgentUse::Command | AgentUse::Scripted => &[],
        }
    }
}

/// The agents whose program Loopwright starts with arguments of its own.
const WITH_OPTIONS: [AgentUse; 5] =
    [AgentUse::Claude, AgentUse::Codex, AgentUse::Opencode, AgentUse::Gemini, AgentUse::Acp];

pub(super) fn read(at: &SpecValue<'_>) -> Option<AgentOptionsTable> {
    let fields = at.fields(&WITH_OPTIONS.map(AgentUse::word).join(" "))?;
    let one = |agent: AgentUse| {
        let options = fields.option(agent.word(), |at| options(agent, at))?;
        Some((agent.word().to_owned(), options))
    };
    Some(WITH_OPTIONS.into_iter().filter_map(one).collect())
}

fn options(agent: AgentUse, at: &SpecValue<'_>) -> Option<AgentOptions> {
    let fields = at.fields("effort env args")?;
    let effort = fields.option("effort", |at| effort(agent, at));
    let mut options = AgentOptions { effort, ..AgentOptions::default() };
    fields.set("env", &mut options.env, variables);
    fields.set("args", &mut options.args, SpecValue::texts);
    if options.env.len() > ENTRIES_MAX || options.args.len() > ENTRIES_MAX {
        let what = format!("more than {ENTRIES_MAX} variables or arguments for one agent");
        at.add_problem(ProblemKind::Value, what, None);
    }
    if options.args.iter().any(|word| word.contains('\0')) {
        at.add_problem(ProblemKind::Value, "an argument has a NUL character".to_owned(), None);
    }
    Some(options)
}

fn effort(agent: AgentUse, at: &SpecValue<'_>) -> Option<ModelEffort> {
    let levels = ModelEffort::levels_of(agent);
    if levels.is_empty() {
        let what = format!("`{}` has no option for the effort of its model", agent.word());
        at.add_problem(ProblemKind::Value, what, Some("leave `effort` out, or name another model".to_owned()));
        return None;
    }
    let words: Vec<(&str, ModelEffort)> = levels.iter().map(|level| (level.word(), *level)).collect();
    at.word(&words)
}

pub(super) fn variables(at: &SpecValue<'_>) -> Option<BTreeMap<String, String>> {
    let variables = at.map_of("a mapping of variable to its value", SpecValue::text)?;
    for (name, value) in &variables {
        if let Some(why) = problem_of(name, value) {
            let hint =
                "upper-case letters, digits and underscores; the value is visible to the agent, so it is no secret";
            at.add_problem(ProblemKind::Value, format!("the variable `{name}` {why}"), Some(hint.to_owned()));
        }
    }
    Some(variables)
}

fn problem_of(name: &str, value: &str) -> Option<&'static str> {
    if !super::providers::is_variable(name) {
        return Some("has no valid name");
    }
    if name.starts_with("LOOPWRIGHT_") || ["PATH", "HOME", "TMPDIR"].contains(&name) || name.starts_with("LD_") {
        return Some("is set by Loopwright");
    }
    value.contains('\0').then_some("has a NUL character")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_config_file;

    #[test]
    fn options_are_read_for_each_agent() {
        let text = "agent_options:\n  claude: { effort: max, env: { MAX_THINKING_TOKENS: \"8000\" } }\n  \
            codex: { effort: minimal, args: [--enable, x] }\n";
        let config = read_config_file("config.yaml", text.as_bytes()).expect("a good file");
        let claude = &config.agent_options["claude"];
        assert_eq!((claude.effort, claude.env["MAX_THINKING_TOKENS"].as_str()), (Some(ModelEffort::Max), "8000"));
        assert_eq!(config.agent_options["codex"].args, ["--enable", "x"]);
    }

    #[test]
    fn options_that_an_agent_does_not_have_are_refused() {
        for (text, why) in [
            ("agent_options: { gemini: { effort: max } }", "wants one of"),
            ("agent_options: { codex: { effort: max } }", "wants one of"),
            ("agent_options: { command: { args: [x] } }", "command"),
            ("agent_options: { claude: { env: { PATH: /x } } }", "is set by Loopwright"),
            ("agent_options: { claude: { env: { LOOPWRIGHT_NONCE: x } } }", "is set by Loopwright"),
            ("agent_options: { claude: { env: { lower: x } } }", "has no valid name"),
        ] {
            let message = read_config_file("config.yaml", text.as_bytes()).expect_err(text).to_string();
            assert!(message.contains(why), "{text}: {message}");
        }
    }
}
