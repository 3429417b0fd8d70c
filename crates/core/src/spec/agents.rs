//! The programs behind the roles.

use super::problem::quoted;
use super::{Argv, Ceilings};
use crate::units::Usd;
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

/// Programs with a word of their own, which stands for `acp` with this command line.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("goose", &["goose", "acp", "--with-builtin", "developer"]),
    ("qwen", &["qwen", "--acp", "--auth-type", "openai"]),
    ("copilot", &["copilot", "--acp"]),
];

/// Every word that names an agent.
pub(crate) fn agent_words() -> Vec<&'static str> {
    AgentUse::ALL.map(AgentUse::word).into_iter().chain(PROGRAMS.map(|(word, _)| word)).collect()
}

fn words_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "description": "The program.", "enum": agent_words() })
}

/// The agent of a role and its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AgentSpec {
    /// The program.
    #[serde(rename = "use")]
    #[schemars(schema_with = "words_schema")]
    pub agent: AgentUse,
    /// The model, if the agent offers a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider that serves the model, by its name in the user's configuration; by default the agent's usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Tools the role may use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Servers of the Model Context Protocol that the role may use, by their names in the user's configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<String>,
    /// The command line of a `command` agent; `{prompt}` at most once, otherwise the brief comes on stdin.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub run: Argv,
    /// The script of a `scripted` agent, relative to `.loopwright/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Agents that take over, in this order, while the first is unavailable or its provider blocks it: `codex`, with a
    /// model `claude/haiku`, with another provider `claude@house/haiku`. The same agent with another model keeps the other settings of the role; a different agent
    /// keeps only its tools and servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
    /// The cost of one start of a `command` agent, in US dollars, for a program that pays for its model in its own way.
    /// Without it a start that used no provider of Loopwright costs nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Usd>,
    /// Ceilings for one start of this role alone, besides those of `budget.role`. `wall` is its timeout.
    #[serde(skip_serializing_if = "super::is_default")]
    pub budget: Ceilings,
}

impl AgentSpec {
    /// An agent with default settings.
    #[must_use]
    pub fn new(agent: AgentUse) -> Self {
        Self {
            agent,
            model: None,
            provider: None,
            tools: Vec::new(),
            mcp_servers: Vec::new(),
            run: Vec::new(),
            script: None,
            fallback: Vec::new(),
            cost: None,
            budget: Ceilings::default(),
        }
    }

    /// The agent that a word names, with default settings.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        if let Some(agent) = AgentUse::ALL.into_iter().find(|agent| agent.word() == word) {
            return Some(Self::new(agent));
        }
        let (_, argv) = PROGRAMS.into_iter().find(|(known, _)| *known == word)?;
        let run = argv.iter().map(|part| (*part).to_owned()).collect();
        Some(Self { run, ..Self::new(AgentUse::Acp) })
    }

    /// The agents of the role in the order in which they are tried. Words that name no agent are left out; the rules
    /// report them.
    #[must_use]
    pub fn chain(&self) -> Vec<Self> {
        let first = Self { fallback: Vec::new(), ..self.clone() };
        std::iter::once(first).chain(self.fallback.iter().filter_map(|word| self.parse_fallback(word).ok())).collect()
    }

    /// The agent that one word of `fallback` names: `AGENT`, `AGENT/MODEL`, `AGENT@PROVIDER` or `AGENT@PROVIDER/MODEL`,
    /// and `scripted/SCRIPT`. The same agent keeps the role's other settings; a different one keeps only its tools and
    /// servers.
    pub(crate) fn parse_fallback(&self, word: &str) -> Result<Self, String> {
        let (name, detail) = word.split_once('/').map_or((word, None), |(name, detail)| (name, Some(detail)));
        let (name, provider) = name.split_once('@').map_or((name, None), |(name, provider)| (name, Some(provider)));
        let Some(named) = Self::named(name) else { return Err(format!("{} is not an agent", quoted(name))) };
        let agent = named.agent;
        if detail.is_some_and(|detail| detail.trim().is_empty()) {
            return Err(format!("{} names nothing after the slash", quoted(word)));
        }
        if provider.is_some_and(|provider| !is_provider_name(provider)) {
            return Err(format!("{} names no provider after the at sign", quoted(word)));
        }
        let (detail, provider) = (detail.map(str::to_owned), provider.map(str::to_owned));
        let same = agent == self.agent && (named.run.is_empty() || named.run == self.run);
        match agent {
            AgentUse::Scripted if detail.is_none() => Err("`scripted` needs its script: `scripted/NAME`".to_owned()),
            AgentUse::Scripted if provider.is_some() => Err("`scripted` has no provider".to_owned()),
            AgentUse::Scripted => Ok(Self { tools: self.tools.clone(), script: detail, ..Self::new(agent) }),
            AgentUse::Command | AgentUse::Acp if !same && named.run.is_empty() => {
                Err(format!("`{name}` needs a `run`, which only the role's own agent has"))
            }
            _ if same => Ok(Self {
                model: detail,
                provider: provider.or(self.provider.clone()),
                fallback: Vec::new(),
                ..self.clone()
            }),
            _ => {
                let (tools, mcp_servers) = (self.tools.clone(), self.mcp_servers.clone());
                Ok(Self { model: detail, provider, tools, mcp_servers, ..named })
            }
        }
    }
}

/// Whether this can be the name of a provider: it is a part of the paths at which agents reach it.
pub(crate) fn is_provider_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
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
        spec.mcp_servers = vec!["docs".into()];
        assert_eq!(
            labels(&spec),
            ["claude:opus", "claude:haiku", "codex:-", "opencode:anthropic/claude-sonnet-4"],
            "a word that names no agent is not part of the chain"
        );
        assert!(spec.chain().iter().all(|agent| agent.tools == ["Read"] && agent.fallback.is_empty()));
        assert!(spec.chain().iter().all(|agent| agent.mcp_servers == ["docs"]));
    }

    #[test]
    fn role_that_is_not_named_has_the_makers_agent_without_its_tools_and_servers() {
        let mut spec = crate::spec::LoopSpec::new("x", "y", crate::level::LoopLevel::L2Assisted);
        let (tools, fallback) = (vec!["Edit".to_owned()], vec!["codex".to_owned()]);
        let mcp_servers = vec!["docs".to_owned()];
        let maker =
            AgentSpec { tools, fallback, mcp_servers, model: Some("opus".into()), ..AgentSpec::new(AgentUse::Claude) };
        spec.agents.insert(Role::Maker, maker);
        let tools = |role: Role| spec.chain(role).into_iter().map(|agent| agent.tools.len()).collect::<Vec<_>>();
        assert_eq!((tools(Role::Maker), tools(Role::Checker)), (vec![1, 1], vec![0, 0]));
        assert_eq!(spec.chain(Role::Checker)[0].model.as_deref(), Some("opus"));
        assert!(spec.chain(Role::Checker).iter().all(|agent| agent.mcp_servers.is_empty()));
        spec.agents.insert(Role::Checker, AgentSpec { tools: vec!["Read".into()], ..AgentSpec::new(AgentUse::Claude) });
        assert_eq!(spec.chain(Role::Checker)[0].tools, ["Read"], "a named checker keeps its own");
    }

    #[test]
    fn programs_of_the_agent_client_protocol_have_words_of_their_own() {
        let goose = AgentSpec::named("goose").expect("a program");
        assert_eq!(
            (goose.agent, goose.run.join(" ")),
            (AgentUse::Acp, "goose acp --with-builtin developer".to_owned())
        );
        assert_eq!(AgentSpec::named("claude"), Some(AgentSpec::new(AgentUse::Claude)));
        assert_eq!(AgentSpec::named("nobody"), None);
        let claude = AgentSpec { tools: vec!["Read".into()], ..AgentSpec::new(AgentUse::Claude) };
        let next = claude.parse_fallback("copilot@house/gpt-5.5").expect("a fallback");
        assert_eq!((next.run.join(" "), next.tools), ("copilot --acp".to_owned(), vec!["Read".to_owned()]));
        assert_eq!((next.provider.as_deref(), next.model.as_deref()), (Some("house"), Some("gpt-5.5")));
        let other = goose.parse_fallback("qwen/gpt-5.5").expect("a fallback");
        assert_eq!(other.run[0], "qwen");
        let same = AgentSpec { provider: Some("house".into()), ..goose.clone() }.parse_fallback("goose/gpt-5.4");
        assert_eq!(same.map(|agent| (agent.provider, agent.run == goose.run)), Ok((Some("house".into()), true)));
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
            ("claude@", "no provider after the at sign"),
            ("claude@a b/haiku", "no provider after the at sign"),
            ("scripted@house/x", "has no provider"),
        ] {
            let message = claude.parse_fallback(word).expect_err(word);
            assert!(message.contains(why), "{word}: {message}");
        }
        let house = AgentSpec { provider: Some("house".into()), ..AgentSpec::new(AgentUse::Claude) };
        let providers = |word: &str| house.parse_fallback(word).map(|agent| (agent.provider, agent.model));
        assert_eq!(providers("claude@far/haiku"), Ok((Some("far".into()), Some("haiku".into()))));
        assert_eq!(providers("claude@far"), Ok((Some("far".into()), None)));
        assert_eq!(providers("claude/haiku"), Ok((Some("house".into()), Some("haiku".into()))));
        assert_eq!(providers("codex"), Ok((None, None)), "another agent has its usual provider");
        let acp = AgentSpec { run: vec!["agent".into()], ..AgentSpec::new(AgentUse::Acp) };
        assert_eq!(acp.parse_fallback("acp/gpt-5").map(|agent| agent.run), Ok(vec!["agent".to_owned()]));
    }
}
