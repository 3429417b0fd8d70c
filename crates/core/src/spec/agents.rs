//! The programs behind the roles.

use super::Argv;
use super::problem::quoted;
use crate::words::worded;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

worded! {
    /// A role in a round: its own process, context, tools, workspace and budget.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Role {
        /// Writes the brief and the plan.
        Planner = "planner",
        /// Does the work.
        Maker = "maker",
        /// Exercises the application.
        Prover = "prover",
        /// Looks for holes.
        Attacker = "attacker",
        /// Judges the candidate.
        Checker = "checker",
    }
}

worded! {
    /// The program behind a role.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum AgentUse {
        /// Claude Code.
        Claude = "claude",
        /// Codex.
        Codex = "codex",
        /// opencode.
        Opencode = "opencode",
        /// Gemini CLI.
        Gemini = "gemini",
        /// Any agent that supports the Agent Client Protocol.
        Acp = "acp",
        /// Any command.
        Command = "command",
        /// A script: deterministic, needs no model.
        Scripted = "scripted",
    }
}

/// The agent of a role and its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AgentSpec {
    /// The program.
    #[serde(rename = "use")]
    pub agent: AgentUse,
    /// The model, if the agent offers a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tools the role may use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The command line of a `command` agent; `{prompt}` at most once, otherwise the brief comes on stdin.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub run: Argv,
    /// The script of a `scripted` agent, relative to `.loopwright/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Agents that take over, in this order, while the first is unavailable or its provider blocks it: `codex`, or with
    /// a model `claude/haiku`. The same agent with another model keeps the other settings of the role; a different agent
    /// keeps only its tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
}

impl AgentSpec {
    /// An agent with default settings.
    #[must_use]
    pub fn new(agent: AgentUse) -> Self {
        Self { agent, model: None, tools: Vec::new(), run: Vec::new(), script: None, fallback: Vec::new() }
    }

    /// The agents of the role in the order in which they are tried. Words that name no agent are left out; the rules
    /// report them.
    #[must_use]
    pub fn chain(&self) -> Vec<Self> {
        let first = Self { fallback: Vec::new(), ..self.clone() };
        std::iter::once(first).chain(self.fallback.iter().filter_map(|word| self.parse_fallback(word).ok())).collect()
    }

    /// The agent that one word of `fallback` names: `AGENT` or `AGENT/MODEL`, and `scripted/SCRIPT`. The same agent
    /// keeps the role's other settings; a different one keeps only its tools.
    pub(crate) fn parse_fallback(&self, word: &str) -> Result<Self, String> {
        let (name, detail) = word.split_once('/').map_or((word, None), |(name, detail)| (name, Some(detail)));
        let Some(agent) = AgentUse::ALL.into_iter().find(|agent| agent.word() == name) else {
            return Err(format!("{} is not an agent", quoted(name)));
        };
        if detail.is_some_and(|detail| detail.trim().is_empty()) {
            return Err(format!("{} names nothing after the slash", quoted(word)));
        }
        let detail = detail.map(str::to_owned);
        let same = agent == self.agent;
        match agent {
            AgentUse::Scripted if detail.is_none() => Err("`scripted` needs its script: `scripted/NAME`".to_owned()),
            AgentUse::Scripted => Ok(Self { tools: self.tools.clone(), script: detail, ..Self::new(agent) }),
            AgentUse::Command | AgentUse::Acp if !same => {
                Err(format!("`{name}` needs a `run`, which only the role's own agent has"))
            }
            _ if same => Ok(Self { model: detail, fallback: Vec::new(), ..self.clone() }),
            _ => Ok(Self { model: detail, tools: self.tools.clone(), ..Self::new(agent) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(spec: &AgentSpec) -> Vec<String> {
        let label = |agent: &AgentSpec| format!("{}:{}", agent.agent.word(), agent.model.as_deref().unwrap_or("-"));
        spec.chain().iter().map(label).collect()
    }

    #[test]
    fn chain_is_the_agent_and_then_its_fallbacks() {
        let words = ["claude/haiku", "codex", "opencode/anthropic/claude-sonnet-4", "nobody"].map(str::to_owned);
        let mut spec =
            AgentSpec { model: Some("opus".into()), fallback: words.into(), ..AgentSpec::new(AgentUse::Claude) };
        spec.tools = vec!["Read".into()];
        assert_eq!(
            labels(&spec),
            ["claude:opus", "claude:haiku", "codex:-", "opencode:anthropic/claude-sonnet-4"],
            "a word that names no agent is not part of the chain"
        );
        assert!(spec.chain().iter().all(|agent| agent.tools == ["Read"] && agent.fallback.is_empty()));
    }

    #[test]
    fn fallbacks_that_cannot_be_started_are_reported() {
        let claude = AgentSpec::new(AgentUse::Claude);
        for (word, why) in [
            ("nobody", "is not an agent"),
            ("codex/", "nothing after the slash"),
            ("scripted", "needs its script"),
            ("command", "needs a `run`"),
            ("acp/gpt-5", "needs a `run`"),
        ] {
            let message = claude.parse_fallback(word).expect_err(word);
            assert!(message.contains(why), "{word}: {message}");
        }
        let acp = AgentSpec { run: vec!["agent".into()], ..AgentSpec::new(AgentUse::Acp) };
        assert_eq!(acp.parse_fallback("acp/gpt-5").map(|agent| agent.run), Ok(vec!["agent".to_owned()]));
    }
}
