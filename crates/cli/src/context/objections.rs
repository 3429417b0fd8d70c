//! What a loop needs around it besides a well-formed file: scripts, skills, a forge this build has, gate scripts in base.

use super::{Context, Finding, LoopFile, bindings};
use crate::error::CommandError;
use loopwright::agents::Scripted;
use loopwright::git::UserRepo;
use loopwright_core::spec::{AgentUse, LoopSpec, Role};
use std::path::Path;

impl Context {
    /// Everything that stands against running a loop, all at once.
    pub(crate) async fn objections(&self, repo: &UserRepo, file: &LoopFile) -> Result<Vec<Finding>, CommandError> {
        let spec = file.spec.spec();
        let mut found = scripts(spec, &repo.work_tree, &file.file);
        found.extend(skills(spec, &repo.work_tree, &file.file));
        Ok(found)
    }
}

fn scripts(spec: &LoopSpec, work_tree: &Path, file: &str) -> Vec<Finding> {
    let named = spec.agents.iter().filter(|(_, agent)| agent.agent == AgentUse::Scripted);
    let paths = named.filter_map(|(role, agent)| Some((*role, bindings::script_path(agent, work_tree)?)));
    paths.filter_map(|(role, path)| script(role, &path, file)).collect()
}

fn script(role: Role, path: &Path, file: &str) -> Option<Finding> {
    let role = role.word();
    let shown = path.display();
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
