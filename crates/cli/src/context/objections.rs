//! What a loop needs around it besides a well-formed file: scripts, skills, a forge this build has, gate scripts in base.

use super::{Context, Finding, LoopFile, bindings};
use crate::error::CommandError;
use loopwright::agents::Scripted;
use loopwright::gates::{self, GateEnv, Program, ResolveError, ResolvedRun};
use loopwright::git::UserRepo;
use loopwright_core::spec::{AgentUse, LoopSpec, Role};
use std::path::Path;

/// What stands against running a loop, and what is worth knowing before.
#[derive(Debug, Default)]
pub(crate) struct Objections {
    /// Reasons not to run it.
    pub(crate) findings: Vec<Finding>,
    /// What will go wrong on this machine only.
    pub(crate) notes: Vec<String>,
}

impl Context {
    /// Everything that stands against running a loop, all at once.
    pub(crate) async fn objections(&self, repo: &UserRepo, file: &LoopFile) -> Result<Objections, CommandError> {
        let spec = file.spec.spec();
        let mut found = Objections { findings: scripts(spec, &repo.work_tree, &file.file), notes: Vec::new() };
        found.findings.extend(skills(spec, &repo.work_tree, &file.file));
        self.gate_programs(repo, file, &mut found).await?;
        Ok(found)
    }

    /// Gate scripts come from base, so one that base does not have can never run.
    async fn gate_programs(
        &self,
        repo: &UserRepo,
        file: &LoopFile,
        found: &mut Objections,
    ) -> Result<(), CommandError> {
        let spec = &file.spec;
        if spec.gates.is_empty() {
            return Ok(());
        }
        let git = self.git();
        let base = git.head(repo, spec.base.as_deref()).await?;
        let paths = git.paths(repo, &base.commit).await?;
        let env = GateEnv { extra_path: self.extra_path(Some(&repo.work_tree)), ..GateEnv::default() };
        match gates::resolve(&spec.gates, &paths, &env) {
            Ok(resolved) => found.notes.extend(resolved.runs().filter_map(not_installed)),
            Err(errors) => found.findings.extend(errors.iter().map(|error| gate_script(error, &file.file))),
        }
        Ok(())
    }
}

fn not_installed(run: &ResolvedRun) -> Option<String> {
    match &run.program {
        Program::Missing(name) => Some(format!("gate `{}`: `{name}` is not installed on this machine", run.gate.name)),
        Program::Installed(_) | Program::Script(_) => None,
    }
}

fn gate_script(error: &ResolveError, file: &str) -> Finding {
    let finding = Finding::of_file(file, error.to_string());
    match error {
        ResolveError::NotInBase { .. } => finding.with_hint("commit the script; gates run what base has"),
        ResolveError::Outside { .. } | ResolveError::Empty(_) => finding,
    }
}

fn scripts(spec: &LoopSpec, work_tree: &Path, file: &str) -> Vec<Finding> {
    let named = spec.agents.iter().filter(|(_, agent)| agent.agent == AgentUse::Scripted);
    let paths = named.filter_map(|(role, agent)| Some((*role, bindings::script_path(agent, work_tree)?)));
    paths.filter_map(|(role, path)| script(role, &path, work_tree, file)).collect()
}

fn script(role: Role, path: &Path, work_tree: &Path, file: &str) -> Option<Finding> {
    let role = role.word();
    let shown = path.strip_prefix(work_tree).unwrap_or(path).display();
    let text = match super::read_bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()) {
        Ok(text) => text,
        Err(error) => {
            let finding = Finding::of_file(file, format!("script of the {role} `{shown}`: {error}"));
            return Some(finding.with_hint("`script:` is relative to `.loopwright/`"));
        }
    };
    let error = Scripted::check(&text).err()?;
    Some(Finding::of_file(file, format!("script of the {role} `{shown}`: {error}")))
}

fn skills(spec: &LoopSpec, work_tree: &Path, file: &str) -> Vec<Finding> {
    let folder = work_tree.join(".loopwright").join("skills");
    let missing = spec.skills.iter().filter(|name| !folder.join(name).is_file());
    let finding = |name: &String| {
        Finding::of_file(file, format!("skill `{name}` is not in .loopwright/skills/"))
            .with_hint("write it, or take it out of `skills`")
    };
    missing.map(finding).collect()
}
