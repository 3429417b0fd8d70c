//! `init`: writes `.loopwright/` with a configuration and one example loop that fits the repository and runs at once.
//! It never overwrites a file and asks no questions.

mod detect;
mod example;

pub(super) use detect::detect_test_command;

use super::{CommandContext, CommandError, VerbResult, safe};
use crate::context::{AgentAccess, AgentAvailability};
use loopwright::git::{GitErrorKind, UserRepo};
use loopwright_core::spec::AgentUse;
use serde::Serialize;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// The document of `init --json`.
#[derive(Debug, Serialize)]
struct Document {
    schema: u32,
    written: Vec<String>,
    /// Files that already existed and were not changed.
    kept: Vec<String>,
    /// The command that runs the repository's tests, if one was recognised.
    tests: Option<Vec<String>>,
    /// Agents found on this machine.
    agents: Vec<&'static str>,
    /// The maker of the example loop: the first agent with access to its model, else a script.
    maker: &'static str,
    /// The checker of the example loop.
    checker: &'static str,
    /// Steps that are needed before a loop can run.
    notes: Vec<String>,
}

pub(crate) async fn run(cx: &CommandContext) -> VerbResult {
    let repo = cx.repo().await?;
    let mut notes = missing_commit_notes(cx, &repo).await;
    let root = repo.work_tree;
    let tests = detect_test_command(&root);
    let found = AgentAvailability::read_all(cx, Some(&root))?;
    let cast = ExampleAgents::choose(&found);
    notes.extend(idle(&found));
    let agents = found.iter().filter(|one| one.installed.is_some()).map(|one| one.agent.word()).collect();
    let (maker, checker) = (cast.maker.word(), cast.checker.word());
    let mut document =
        Document { schema: 1, written: Vec::new(), kept: Vec::new(), tests, agents, maker, checker, notes };
    let files = [
        (".loopwright/config.yaml", example::CONFIG.to_owned()),
        (".loopwright/loops/first-look.md", example::loop_file(document.tests.as_deref(), &cast)),
        (".loopwright/first-look.script", example::SCRIPT.to_owned()),
    ];
    for (name, text) in files {
        match write_new(&root.join(name), &text) {
            Ok(()) => document.written.push(name.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => document.kept.push(name.to_owned()),
            Err(error) => return Err(CommandError::failed(format!("write `{name}`: {error}"))),
        }
    }
    Ok(cx.out.answer(&document, || page(&document)))
}

/// The agents of the example loop.
pub(super) struct ExampleAgents {
    maker: AgentUse,
    checker: AgentUse,
    /// Hosts to which an agent with its own sign-in connects itself.
    hosts: Vec<&'static str>,
}

impl ExampleAgents {
    /// The first usable agent, and another one as its checker; a script if there is none.
    fn choose(found: &[AgentAvailability]) -> Self {
        let mut usable = found.iter().filter(|one| one.is_usable());
        let Some(maker) = usable.next() else {
            return Self { maker: AgentUse::Scripted, checker: AgentUse::Scripted, hosts: Vec::new() };
        };
        let checker = usable.next().unwrap_or(maker);
        let own = [maker, checker].into_iter().filter(|one| one.access == AgentAccess::Login);
        let mut hosts: Vec<_> = own.flat_map(|one| loopwright::agents::login_hosts(one.agent)).copied().collect();
        hosts.dedup();
        Self { maker: maker.agent, checker: checker.agent, hosts }
    }
}

/// Agents that are installed but have no access to their model.
fn idle(found: &[AgentAvailability]) -> impl Iterator<Item = String> {
    found.iter().filter(|one| one.installed.is_some()).filter_map(|one| match &one.access {
        AgentAccess::Missing(hint) => Some(format!("{} is installed but has no key: {hint}", one.agent.word())),
        AgentAccess::Key(..) | AgentAccess::Login | AgentAccess::NotNeeded => None,
    })
}

/// A note for a repository without a commit, because loops work on commits.
pub(super) async fn missing_commit_notes(cx: &CommandContext, repo: &UserRepo) -> Vec<String> {
    match cx.git().head(repo, None).await {
        Err(error) if matches!(error.kind, GitErrorKind::NoCommits) => {
            vec!["this repository has no commit yet; a loop needs one: git add -A && git commit -m start".to_owned()]
        }
        _ => Vec::new(),
    }
}

/// Writes a file that must not exist yet; a link in its place is not followed.
pub(super) fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

fn page(document: &Document) -> String {
    let mut lines: Vec<_> = document.written.iter().map(|name| format!("wrote {name}")).collect();
    lines.extend(document.kept.iter().map(|name| format!("kept  {name}: it already exists")));
    match &document.tests {
        Some(run) => lines.push(format!("tests {}", safe(&run.join(" ")))),
        None => lines.push("tests not recognised: add a gate to the loop file".to_owned()),
    }
    lines.push(match document.agents.as_slice() {
        [] => "agents none found; the example uses a script, and any command can be an agent".to_owned(),
        found => format!(
            "agents {}; the example's maker is {}, its checker {}",
            found.join(", "),
            document.maker,
            document.checker
        ),
    });
    lines.extend(document.notes.iter().map(|note| format!("note: {note}")));
    lines.push("next: loopwright check".to_owned());
    if document.tests.is_some() {
        lines.push("next: loopwright gates test first-look".to_owned());
    }
    lines.push("next: loopwright run first-look".to_owned());
    lines.join("\n")
}
