//! Files besides the spec that a round depends on, by content hash, for the record: its loop file, the repository's
//! configuration, scripts, skills and prompts.

use super::config::REPOSITORY_FILE;
use super::{CheckedLoopFile, prompts, read_bytes, script_path};
use loopwright::git::UserRepo;
use loopwright_core::spec::AgentSpec;
use std::path::PathBuf;

/// The path and hash of each file that exists; the preflight has already reported a missing or unreadable one.
pub(crate) fn hash_inputs(repo: &UserRepo, file: &CheckedLoopFile) -> Vec<(String, String)> {
    let tree = &repo.work_tree;
    let agents = file.spec.agents.values().flat_map(AgentSpec::chain);
    let scripts = agents.filter_map(|agent| script_path(&agent, tree));
    let skills = file.spec.skills.iter().map(|name| tree.join(".loopwright/skills").join(name));
    let words = prompts::replaceable_texts().map(|(_, file)| tree.join(file));
    let own = [tree.join(&file.file), tree.join(REPOSITORY_FILE)];
    let files = own.into_iter().chain(scripts).chain(skills).chain(words);
    let mut paths: Vec<PathBuf> = files.collect();
    paths.dedup();
    let hash = |path: PathBuf| {
        let bytes = read_bytes(&path).ok()?;
        let shown = path.strip_prefix(tree).unwrap_or(&path).to_string_lossy().into_owned();
        Some((shown, loopwright_core::hash::hash_bytes(&bytes)))
    };
    paths.into_iter().filter_map(hash).collect()
}
