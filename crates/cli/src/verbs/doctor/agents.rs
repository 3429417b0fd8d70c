//! The agents in `doctor`: their programs, their capabilities, and their access to models.

use super::{DoctorCheck, DoctorStatus};
use crate::context::{AgentAccess, AgentAvailability, CommandContext};
use loopwright::agents::{AgentCapabilities, install_hint};
use loopwright::proc::ProcessRunner;
use loopwright::seam::Seam;
use serde::Serialize;
use std::os::unix::fs::DirBuilderExt as _;

/// One agent of the document.
#[derive(Debug, Serialize)]
pub(super) struct DoctorAgent {
    /// The word in loop files.
    agent: &'static str,
    /// Its program, if installed.
    program: Option<String>,
    version: Option<String>,
    /// Its capabilities, in words; empty when it is not installed.
    can: Vec<&'static str>,
    /// How it gets access to its model: `key`, `keyless`, `login`, or `none`.
    access: &'static str,
    /// Its provider and the source of the key, if it uses one. Never the key.
    provider: Option<String>,
    key: Option<String>,
    /// Whether a loop that names it can run here.
    usable: bool,
    /// The fix if not.
    fix: Option<String>,
}

/// All agents, and a line about each.
pub(super) async fn check_agents(cx: &CommandContext) -> Vec<(DoctorAgent, DoctorCheck)> {
    let repo = cx.repo().await.ok();
    let candidates = match AgentAvailability::read_all(cx, repo.as_ref().map(|repo| repo.work_tree.as_path())) {
        Ok(candidates) => candidates,
        // The check of the store reports an unreadable configuration.
        Err(_) => return Vec::new(),
    };
    let mut checked = Vec::new();
    for candidate in candidates {
        let version = version(&candidate).await;
        let agent = agent(&candidate, version);
        let check = check(&candidate, &agent);
        checked.push((agent, check));
    }
    checked
}

/// Runs a program to get its version only if no file has it, and then in an empty folder.
async fn version(candidate: &AgentAvailability) -> Option<String> {
    let installed = candidate.installed.as_ref()?;
    if installed.version.is_some() {
        return installed.version.clone();
    }
    let scratch = std::env::temp_dir().join(format!("loopwright-doctor-{}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&scratch).ok()?;
    let version = installed.query_version(&ProcessRunner::new(Seam::none()), &scratch).await;
    // The files that a program left there are useless; the system's clean-up of temporary files removes the rest.
    let _ = std::fs::remove_dir_all(&scratch);
    version
}

fn agent(candidate: &AgentAvailability, version: Option<String>) -> DoctorAgent {
    let (access, provider, key) = match &candidate.access {
        AgentAccess::Key(provider, place) => ("key", Some(provider.clone()), Some(place.clone())),
        AgentAccess::Keyless(provider) => ("keyless", Some(provider.clone()), None),
        AgentAccess::Login => ("login", None, None),
        AgentAccess::Missing(_) | AgentAccess::NotNeeded => ("none", None, None),
    };
    let fix = match (&candidate.installed, &candidate.access) {
        (None, _) => install_hint(candidate.agent),
        (Some(_), AgentAccess::Missing(hint)) => Some(hint.clone()),
        (Some(_), AgentAccess::Key(..) | AgentAccess::Keyless(_) | AgentAccess::Login | AgentAccess::NotNeeded) => None,
    };
    let program = candidate.installed.as_ref().map(|installed| installed.program.to_string_lossy().into_owned());
    let can = candidate.capabilities.map(words).unwrap_or_default();
    let (agent, usable) = (candidate.agent.word(), candidate.is_usable());
    DoctorAgent { agent, program, version, can, access, provider, key, usable, fix }
}

/// Capabilities in words for people.
fn words(can: AgentCapabilities) -> Vec<&'static str> {
    let all = [
        (can.usage, "reports its usage"),
        (can.tool_allowlist, "accepts a list of allowed tools"),
        (can.structured_output, "answers with a schema"),
        (can.answers && !can.structured_output, "gives its verdict as a message"),
        (can.session_isolation, "starts fresh"),
        (can.proxy, "never holds a key"),
        (can.confined, "runs confined"),
    ];
    all.into_iter().filter(|(able, _)| *able).map(|(_, word)| word).collect()
}

fn check(candidate: &AgentAvailability, agent: &DoctorAgent) -> DoctorCheck {
    let name = format!("agent {}", agent.agent);
    if candidate.installed.is_none() {
        return DoctorCheck { fix: agent.fix.clone(), ..DoctorCheck::info(&name, "not installed") };
    }
    let version = agent.version.as_deref().unwrap_or("unknown version");
    let can = if agent.can.is_empty() { "not driven by this build".to_owned() } else { agent.can.join(", ") };
    let access = match &candidate.access {
        AgentAccess::Key(provider, place) => format!("uses {provider} with the key in {place}"),
        AgentAccess::Keyless(provider) => format!("uses {provider}, which needs no key"),
        AgentAccess::Login => "uses its own sign-in, which is then in its HOME".to_owned(),
        AgentAccess::Missing(_) => "has no key for its model provider".to_owned(),
        AgentAccess::NotNeeded => "needs no model provider".to_owned(),
    };
    let status = if candidate.is_usable() { DoctorStatus::Ok } else { DoctorStatus::Gap };
    DoctorCheck { status, fix: agent.fix.clone(), ..DoctorCheck::ok(&name, format!("{version}; {access}; {can}")) }
}
