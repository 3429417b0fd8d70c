//! Rules of the agents of roles, in loop files and in configuration files.

use super::{RuleViolation, Rules, paths};
use crate::spec::agents::agent_words;
use crate::spec::path::SpecPath;
use crate::spec::problem::quoted;
use crate::spec::reader::value::listed;
use crate::spec::{AgentSpec, AgentUse, LoopSpec, is_provider_name};

pub(super) fn check(rules: &mut Rules, spec: &LoopSpec) {
    for (role, agent) in &spec.agents {
        one(rules, &SpecPath::root_key("agents").key(role.word()), agent);
    }
}

/// Violations of an agent outside a loop file.
pub(crate) fn agent_violations(path: &SpecPath, agent: &AgentSpec) -> Vec<RuleViolation> {
    let mut rules = Rules::default();
    one(&mut rules, path, agent);
    rules.0
}

fn one(rules: &mut Rules, path: &SpecPath, agent: &AgentSpec) {
    command(rules, path, agent);
    script(rules, path, agent);
    fallback(rules, path, agent);
    provider(rules, path, agent);
    mcp_servers(rules, path, agent);
    if agent.cost.is_some() && agent.agent != AgentUse::Command {
        let what = format!("`{path}.cost` is only for `use: command`: the usage of other agents is counted");
        rules.report(path.key("cost"), what, "leave `cost` out");
    }
}

fn provider(rules: &mut Rules, path: &SpecPath, agent: &AgentSpec) {
    let Some(name) = &agent.provider else { return };
    if agent.agent == AgentUse::Scripted {
        let what = format!("`{path}` uses `scripted`, which has no provider");
        rules.report(path.key("provider"), what, "leave `provider` out");
    } else if !is_provider_name(name) {
        let what = format!("{} is not the name of a provider", quoted(name));
        rules.report(
            path.key("provider"),
            what,
            "letters, digits and dashes, as in `providers:` of your configuration",
        );
    }
}

fn mcp_servers(rules: &mut Rules, path: &SpecPath, agent: &AgentSpec) {
    if let (AgentUse::Command | AgentUse::Scripted, false) = (agent.agent, agent.mcp_servers.is_empty()) {
        let what = format!("`{path}` uses `{}`, which starts no servers for its tools", agent.agent.word());
        rules.report(path.key("mcp_servers"), what, "leave `mcp_servers` out");
    }
    for (at, name) in agent.mcp_servers.iter().enumerate().filter(|(_, name)| !is_provider_name(name)) {
        let what = format!("{} is not the name of a server", quoted(name));
        let hint = "letters, digits and dashes, as in `mcp_servers:` of your configuration";
        rules.report(path.key("mcp_servers").index(at), what, hint);
    }
}

fn fallback(rules: &mut Rules, path: &SpecPath, agent: &AgentSpec) {
    let mut before = vec![AgentSpec { fallback: Vec::new(), ..agent.clone() }];
    for (at, word) in agent.fallback.iter().enumerate() {
        let path = path.key("fallback").index(at);
        match agent.parse_fallback(word) {
            Err(what) => {
                let hint =
                    format!("`AGENT`, `AGENT/MODEL` or `AGENT@PROVIDER/MODEL`, with one of {}", listed(&agent_words()));
                rules.object_with(path, what, Some(hint));
            }
            Ok(next) if before.contains(&next) => {
                let what = format!("{} is in the chain already", quoted(word));
                rules.report(path, what, "name another agent, or another model: `claude/haiku`");
            }
            Ok(next) => {
                if let Some(script) = &next.script {
                    paths::relative(rules, path, script);
                }
                before.push(next);
            }
        }
    }
}

fn command(rules: &mut Rules, path: &SpecPath, agent: &AgentSpec) {
    let prompts: usize = agent.run.iter().map(|word| word.matches("{prompt}").count()).sum();
    match agent.agent {
        AgentUse::Command if agent.run.is_empty() => {
            let what = format!("`{path}` uses `command` without `run`");
            rules.missing(path.clone(), &what, "write `run: [./my-agent, --fast]`");
        }
        AgentUse::Acp if agent.run.is_empty() => {
            let what = format!("`{path}` uses `acp` without `run`");
            rules.missing(path.clone(), &what, "write `run: [goose, acp]`");
        }
        AgentUse::Command | AgentUse::Acp => rules.command(path.key("run"), &agent.run),
        other if !agent.run.is_empty() => {
            let what = format!("`{path}` uses `{}`, which takes no `run`", other.word());
            rules.report(path.key("run"), what, "`run` goes with `use: command` and `use: acp`");
        }
        _ => {}
    }
    if prompts > 1 {
        let what = format!("`{{prompt}}` appears {prompts} times in `{path}.run`");
        rules.report(path.key("run"), what, "at most once; without it the brief comes on stdin");
    }
}

fn script(rules: &mut Rules, path: &SpecPath, agent: &AgentSpec) {
    match (&agent.script, agent.agent) {
        (None, AgentUse::Scripted) => {
            let what = format!("`{path}` uses `scripted` without `script`");
            rules.missing(path.clone(), &what, "write `script: fix.script`");
        }
        (Some(script), AgentUse::Scripted) => drop(paths::relative(rules, path.key("script"), script)),
        (Some(_), other) => {
            let what = format!("`{path}` uses `{}`, which takes no `script`", other.word());
            rules.report(path.key("script"), what, "`script` goes with `use: scripted`");
        }
        (None, _) => {}
    }
}
