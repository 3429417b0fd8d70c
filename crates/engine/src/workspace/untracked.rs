//! Finds the new files of a workspace: those that base does not have and no `.gitignore` excludes. Git applies the
//! rules; it never sees a maker's own repository or configuration.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::PathBuf;

use super::base::ReadyBase;
use super::catalogue::PathCatalogue;
use super::survey::{self, CheckoutSurvey, PR_BODY, UnsealableKind};
use super::{CheckoutMethod, Workspace, WorkspaceError, blocking, io, seal};
use crate::git::{EngineRepo, GitCall, TREE_MAX};

/// Leftovers of test runs, whether the repository ignores them or not: they are not part of a change, and some of them
/// run in place of the code beside them. If base itself has such files, they are treated like all others.
const LITTER: [&str; 12] = [
    "--exclude=__pycache__/",
    "--exclude=*.py[co]",
    "--exclude=.pytest_cache/",
    "--exclude=.mypy_cache/",
    "--exclude=.ruff_cache/",
    "--exclude=.nyc_output/",
    "--exclude=node_modules/",
    "--exclude=**/target/debug/",
    "--exclude=**/target/release/",
    "--exclude=**/target/.rustc_info.json",
    "--exclude=**/target/.rustdoc_fingerprint.json",
    "--exclude=**/target/CACHEDIR.TAG",
];

/// An index with the paths that are not new, and in an overlay also the base's ignore rules that no file of the upper
/// layer replaced: git applies it to the files of a workspace.
pub(super) struct IgnoreRules<'a> {
    engine: &'a EngineRepo,
    workspace: &'a Workspace,
    catalogue: &'a PathCatalogue,
    index: PathBuf,
}

impl<'a> IgnoreRules<'a> {
    /// In an overlay the index must not contain rules that were deleted or are no longer a file.
    pub(super) async fn read(
        engine: &'a EngineRepo,
        workspace: &'a Workspace,
        ready: &ReadyBase,
        catalogue: &'a PathCatalogue,
        survey: &CheckoutSurvey,
    ) -> Result<Self, WorkspaceError> {
        let rules = |index| Self { engine, workspace, catalogue, index };
        if workspace.method() == CheckoutMethod::Copy {
            return Ok(rules(ready.index()));
        }
        let is_rules = |path: &[u8]| path.split(|byte| *byte == b'/').next_back() == Some(b".gitignore");
        let linked = survey.changed.iter().filter(|file| file.target.is_some()).map(|file| &file.path);
        let odd = survey.odd.iter().map(|(path, _)| path);
        let gone = survey.deleted.iter().chain(linked).chain(odd).map(Vec::as_slice);
        let known: Vec<&[u8]> = gone.filter(|path| is_rules(path) && catalogue.has(path)).collect();
        if known.is_empty() {
            return Ok(rules(ready.ignore_index()));
        }
        let index = workspace.root.join("index.rules");
        fs::copy(ready.ignore_index(), &index).map_err(io("copy", &index))?;
        engine.remove_from_index(&index, &known).await?;
        Ok(rules(index))
    }

    fn call(&self, site: &'static str) -> GitCall {
        let dir = &self.workspace.dir;
        self.engine.call(site).index(&self.index).work_tree(dir).in_folder(dir).out_max(TREE_MAX)
    }

    /// New files that no `.gitignore` of the checkout excludes.
    pub(super) async fn survey_new_files(&self, seen: &CheckoutSurvey) -> Result<CheckoutSurvey, WorkspaceError> {
        let call = self.call("git.ls-files").args(["-z", "--others", "--exclude-standard"]).args(LITTER);
        let answer = self.engine.git().run(call).await?;
        // In an overlay git does not know the tracked paths, so they are removed here, and folders of the base with
        // them.
        let is_known = |path: &[u8]| match path.strip_suffix(b"/") {
            Some(folder) => self.catalogue.has_below(folder),
            None => self.catalogue.has(path),
        };
        // In a folder that can only be listed, git reports names that cannot be examined.
        let shut = |path: &[u8]| {
            let mut folders = seen.odd.iter().filter(|(_, odd)| *odd == UnsealableKind::Unreadable);
            folders.any(|(folder, _)| path.strip_prefix(folder.as_slice()).is_some_and(|rest| rest.starts_with(b"/")))
        };
        // Files in a submodule are judged with the submodule.
        let in_submodule = |path: &[u8]| self.catalogue.is_in_submodule(path);
        let is_new = |path: &&[u8]| {
            !path.is_empty() && *path != PR_BODY && !shut(path) && !is_known(path) && !in_submodule(path)
        };
        let listed: Vec<_> = answer.stdout.split(|byte| *byte == 0).filter(is_new).map(<[u8]>::to_vec).collect();
        let (dir, view) = (self.workspace.dir.clone(), seal::view_of(self.workspace));
        blocking(move || survey::untracked(&dir, &listed, view)).await
    }

    /// Drops special files and unreadable new folders that a `.gitignore` excludes, such as a server's socket.
    pub(super) async fn drop_ignored(&self, survey: &mut CheckoutSurvey) -> Result<(), WorkspaceError> {
        let may_go = |path: &[u8], odd: UnsealableKind| match odd {
            UnsealableKind::Special => true,
            // Dropping the folder would also drop the files that base has in it.
            UnsealableKind::Unreadable => !self.catalogue.has_below(path),
            UnsealableKind::ManyNames
            | UnsealableKind::NestedRepository
            | UnsealableKind::Submodule
            | UnsealableKind::LargeFile => false,
        };
        let asked: BTreeSet<_> = survey.odd.iter().filter(|one| may_go(&one.0, one.1)).cloned().collect();
        // The prefix prevents git from reading a leading colon as a pattern.
        let paths: Vec<Vec<u8>> = asked.iter().map(|(path, _)| [b"./", path.as_slice()].concat()).collect();
        if paths.is_empty() {
            return Ok(());
        }
        // This verb does not support literal paths and fails if they are set.
        let call = self.call("git.check-ignore").env("GIT_LITERAL_PATHSPECS", "0").args(["-z", "--stdin"]);
        let answer = self.engine.git().run(call.stdin(paths.join(&0)).allow_exit_one()).await?;
        let ignored: HashSet<&[u8]> = answer.stdout.split(|byte| *byte == 0).filter_map(|path| path.get(2..)).collect();
        survey.odd.retain(|one| !asked.contains(one) || !ignored.contains(one.0.as_slice()));
        Ok(())
    }
}

/// Whether a folder is among the [`LITTER`], or in it.
pub(super) fn is_litter(folder: &[u8]) -> bool {
    let anywhere: [&[u8]; 6] =
        [b"__pycache__", b".pytest_cache", b".mypy_cache", b".ruff_cache", b".nyc_output", b"node_modules"];
    let parts: Vec<&[u8]> = folder.split(|byte| *byte == b'/').collect();
    let is_build = |pair: &[&[u8]]| pair[0] == b"target" && (pair[1] == b"debug" || pair[1] == b"release");
    parts.windows(2).any(is_build) || parts.iter().any(|part| anywhere.contains(part))
}
