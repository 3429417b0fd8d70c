//! Finds the new files of a workspace: those that base does not have and no `.gitignore` excludes. Git applies the
//! rules; it never sees a maker's own repository or configuration.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::base::ReadyBase;
use super::catalogue::PathCatalogue;
use super::survey::{self, CheckoutSurvey, PR_BODY, UnsealableKind};
use super::{CheckoutMethod, Workspace, WorkspaceError, Workspaces, blocking, io, seal};
use crate::git::TREE_MAX;

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

impl Workspaces {
    /// An index with the paths that are not new, and in an overlay also the base's ignore rules that no file of the
    /// upper layer replaced. It must not contain rules that were deleted or are no longer a file.
    pub(super) async fn ignore_rules(
        &self,
        workspace: &Workspace,
        ready: &ReadyBase,
        survey: &CheckoutSurvey,
        catalogue: &PathCatalogue,
    ) -> Result<PathBuf, WorkspaceError> {
        if workspace.method() == CheckoutMethod::Copy {
            return Ok(ready.index());
        }
        let is_rules = |path: &[u8]| path.split(|byte| *byte == b'/').next_back() == Some(b".gitignore");
        let linked = survey.changed.iter().filter(|file| file.target.is_some()).map(|file| &file.path);
        let odd = survey.odd.iter().map(|(path, _)| path);
        let gone = survey.deleted.iter().chain(linked).chain(odd).map(Vec::as_slice);
        let known: Vec<&[u8]> = gone.filter(|path| is_rules(path) && catalogue.has(path)).collect();
        if known.is_empty() {
            return Ok(ready.ignore_index());
        }
        let rules = workspace.root.join("index.rules");
        fs::copy(ready.ignore_index(), &rules).map_err(io("copy", &rules))?;
        let call = self.engine.call("git.update-index").unflushed().index(&rules).work_tree(&workspace.dir);
        let call = call.in_folder(&workspace.dir).args(["--force-remove", "-z", "--stdin"]);
        self.git().run(call.stdin(known.join(&0))).await?;
        Ok(rules)
    }

    /// New files that no `.gitignore` of the checkout excludes.
    pub(super) async fn survey_new_files(
        &self,
        workspace: &Workspace,
        rules: &Path,
        catalogue: &PathCatalogue,
        seen: &CheckoutSurvey,
    ) -> Result<CheckoutSurvey, WorkspaceError> {
        let call = self.engine.call("git.ls-files").index(rules).work_tree(&workspace.dir).out_max(TREE_MAX);
        let answer = self
            .git()
            .run(call.in_folder(&workspace.dir).args(["-z", "--others", "--exclude-standard"]).args(LITTER))
            .await?;
        // In an overlay git does not know the tracked paths, so they are removed here, and folders of the base with
        // them.
        let is_known = |path: &[u8]| match path.strip_suffix(b"/") {
            Some(folder) => catalogue.has_below(folder),
            None => catalogue.has(path),
        };
        // In a folder that can only be listed, git reports names that cannot be examined.
        let shut = |path: &[u8]| {
            let folders = seen.odd.iter().filter(|(_, odd)| *odd == UnsealableKind::Unreadable);
            folders
                .into_iter()
                .any(|(folder, _)| path.strip_prefix(folder.as_slice()).is_some_and(|rest| rest.starts_with(b"/")))
        };
        let is_new = |path: &&[u8]| !path.is_empty() && *path != PR_BODY && !shut(path) && !is_known(path);
        let listed: Vec<_> = answer.stdout.split(|byte| *byte == 0).filter(is_new).map(<[u8]>::to_vec).collect();
        let (dir, view) = (workspace.dir.clone(), seal::view_of(workspace));
        blocking(move || survey::untracked(&dir, &listed, view)).await
    }

    /// Drops special files and unreadable new folders that a `.gitignore` excludes, such as a server's socket.
    pub(super) async fn drop_ignored(
        &self,
        workspace: &Workspace,
        rules: &Path,
        catalogue: &PathCatalogue,
        survey: &mut CheckoutSurvey,
    ) -> Result<(), WorkspaceError> {
        let may_go = |path: &[u8], odd: UnsealableKind| match odd {
            UnsealableKind::Special => true,
            // Dropping the folder would also drop the files that base has in it.
            UnsealableKind::Unreadable => !catalogue.has_below(path),
            UnsealableKind::NestedRepository | UnsealableKind::Submodule => false,
        };
        let asked: BTreeSet<_> = survey.odd.iter().filter(|one| may_go(&one.0, one.1)).cloned().collect();
        // The prefix prevents git from reading a leading colon as a pattern.
        let paths: Vec<Vec<u8>> = asked.iter().map(|(path, _)| [b"./", path.as_slice()].concat()).collect();
        if paths.is_empty() {
            return Ok(());
        }
        let call =
            self.engine.call("git.check-ignore").index(rules).work_tree(&workspace.dir).in_folder(&workspace.dir);
        // This verb does not support literal paths and fails if they are set.
        let call = call.env("GIT_LITERAL_PATHSPECS", "0").args(["-z", "--stdin"]).stdin(paths.join(&0));
        let answer = self.git().run(call.out_max(TREE_MAX).allow_exit_one()).await?;
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
