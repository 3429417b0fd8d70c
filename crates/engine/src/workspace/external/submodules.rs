//! Finds the user's local clones of submodules and writes the files of the recorded commits, also of submodules in
//! submodules. A clone is only read, by git's own file transport, and only the one commit is copied.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use super::large_files::LargeFiles;
use super::{ExternalLayer, shown};
use crate::git::{EngineRepo, GitError, GitErrorKind, Oid};
use crate::workspace::base::BasePool;
use crate::workspace::index::GITLINK;
use crate::workspace::{WorkspaceError, io};

/// Submodules of one base, with those in submodules.
const MODULES_MAX: usize = 500;
/// How deep submodules may contain submodules.
const NESTING_MAX: usize = 10;
/// Bytes of a commit's list of submodules.
const LIST_MAX: usize = 1 << 20;

/// A commit whose submodules are still to be collected.
struct Parent {
    commit: Oid,
    /// Its path in the checkout.
    path: PathBuf,
    /// Folders that may hold the clones of its submodules, under `modules/<name>`.
    git_dirs: Vec<PathBuf>,
    /// Its working copy, for submodules that keep their repository inside.
    work_tree: PathBuf,
    depth: usize,
}

/// Writes the files of every submodule of a commit into the layer.
pub(super) async fn collect(
    bases: &BasePool,
    commit: &Oid,
    layer: &ExternalLayer,
    mut large: Option<&mut LargeFiles<'_>>,
) -> Result<(), WorkspaceError> {
    let (repo, engine) = (&bases.repo, &bases.engine);
    let git_dirs = vec![repo.git_dir.clone(), repo.common_dir.clone()];
    let top =
        Parent { commit: commit.clone(), path: PathBuf::new(), git_dirs, work_tree: repo.work_tree.clone(), depth: 0 };
    let mut waiting = vec![top];
    let mut count = 0;
    while let Some(parent) = waiting.pop() {
        let names = module_names(engine, &parent.commit).await?;
        let links = engine.list_tree(&parent.commit).await?.into_iter().filter(|entry| entry.mode == GITLINK);
        for link in links {
            count += 1;
            let path = parent.path.join(&link.path);
            if count > MODULES_MAX || parent.depth >= NESTING_MAX || !is_plain(Path::new(&link.path)) {
                return Err(WorkspaceError::TooManySubmodules(shown(&path)));
            }
            let clones = parent.clones(names.get(&link.path).map(String::as_str), &link.path);
            let git_dir = import(engine, &link.oid, clones, &path).await?;
            let index = layer.root.join("index");
            write_files(engine, &link.oid, &index, &layer.files().join(&path)).await?;
            if let Some(large) = &mut large {
                large.fetch(&index, &git_dir, &path).await?;
            }
            let work_tree = parent.work_tree.join(&link.path);
            waiting.push(Parent {
                commit: link.oid,
                path,
                git_dirs: vec![git_dir],
                work_tree,
                depth: parent.depth + 1,
            });
        }
    }
    Ok(())
}

impl Parent {
    /// The folders where git keeps the clone of a submodule: absorbed by its parent, or in its working copy.
    fn clones(&self, name: Option<&str>, path: &str) -> Vec<PathBuf> {
        let named = name.filter(|name| is_plain(Path::new(name)));
        let absorbed = self.git_dirs.iter().filter_map(|dir| Some(dir.join("modules").join(named?)));
        let all = absorbed.chain([self.work_tree.join(path).join(".git")]);
        all.filter(|dir| dir.join("HEAD").is_file()).collect()
    }
}

/// A name from a commit must not lead anywhere else.
fn is_plain(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// The name of the submodule at each path, from the commit's `.gitmodules`.
async fn module_names(engine: &EngineRepo, commit: &Oid) -> Result<HashMap<String, String>, WorkspaceError> {
    let Some(text) = engine.read_blob(commit, ".gitmodules", LIST_MAX).await? else { return Ok(HashMap::new()) };
    let call = engine.call("git.config").args(["--file", "-", "-z", "--get-regexp", r"^submodule\..*\.path$"]);
    let answer = engine.git().run(call.stdin(text).allow_exit_one()).await?;
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    let pairs = text.split('\0').filter_map(|line| {
        let (key, path) = line.split_once('\n')?;
        let name = key.strip_prefix("submodule.")?.strip_suffix(".path")?;
        Some((path.trim_end_matches('/').to_owned(), name.to_owned()))
    });
    Ok(pairs.collect())
}

/// Copies a submodule's commit from the first clone that has it, and returns that clone.
async fn import(
    engine: &EngineRepo,
    commit: &Oid,
    clones: Vec<PathBuf>,
    path: &Path,
) -> Result<PathBuf, WorkspaceError> {
    for git_dir in clones {
        match engine.import_files(&git_dir, commit).await {
            Ok(()) => return Ok(git_dir),
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(WorkspaceError::SubmoduleMissing { path: shown(path), commit: commit.clone() })
}

/// Whether the clone lacks the commit, or cannot give it: another clone may have it.
fn is_absent(error: &GitError) -> bool {
    matches!(error.kind, GitErrorKind::UnknownRef | GitErrorKind::Failed(_) | GitErrorKind::Damaged)
}

async fn write_files(engine: &EngineRepo, commit: &Oid, index: &Path, dest: &Path) -> Result<(), WorkspaceError> {
    std::fs::create_dir_all(dest).map_err(io("create", dest))?;
    let _ = std::fs::remove_file(index);
    engine.read_tree(commit, index).await?;
    engine.checkout_index(index, dest).await?;
    Ok(())
}
