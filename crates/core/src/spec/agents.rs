//! Which program plays which role.

use super::Argv;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part played in a round: its own process, context, tools, workspace and budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Writes the brief and the plan.
    Planner,
    /// Does the work.
    Maker,
    /// Exercises the application.
    Prover,
    /// Looks for holes.
    Attacker,
    /// Judges the candidate.
    Checker,
}

impl Role {
    /// The word used in files, environment and JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Planner => "planner",
            Self::Maker => "maker",
            Self::Prover => "prover",
            Self::Attacker => "attacker",
            Self::Checker => "checker",
        }
    }

    /// Every role, in the order of a round.
    pub const ALL: [Self; 5] = [Self::Planner, Self::Maker, Self::Prover, Self::Attacker, Self::Checker];
}

/// The program behind a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgentUse {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// opencode.
    Opencode,
    /// Gemini CLI.
    Gemini,
    /// Any agent that speaks the Agent Client Protocol.
    Acp,
    /// Any command.
    Command,
    /// A script: deterministic, needs no model.
    Scripted,
}

impl AgentUse {
    /// The word used in loop files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Gemini => "gemini",
            Self::Acp => "acp",
            Self::Command => "command",
            Self::Scripted => "scripted",
        }
    }

    /// Every agent, for messages.
    pub const ALL: [Self; 7] =
        [Self::Claude, Self::Codex, Self::Opencode, Self::Gemini, Self::Acp, Self::Command, Self::Scripted];
}

/// How a role is played.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AgentSpec {
    /// The program.
    #[serde(rename = "use")]
    pub agent: AgentUse,
    /// The model, where the agent has a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tools the role may use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The command line of a `command` agent; `{prompt}` at most once, else the brief comes on stdin.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub run: Argv,
    /// The script of a `scripted` agent, relative to `.loopwright/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Agents tried when the first is not to be had.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
}

impl AgentSpec {
    /// An agent with nothing else said.
    #[must_use]
    pub fn new(agent: AgentUse) -> Self {
        Self { agent, model: None, tools: Vec::new(), run: Vec::new(), script: None, fallback: Vec::new() }
    }
}
