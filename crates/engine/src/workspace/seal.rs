//! The seal: a maker's files become a tree and a commit in the engine's repository. Only files count; the maker's
//! changes to its own `.git` have no effect, because it is never read.
//!
//! In a copy, the status of tracked files is compared with the index written at checkout; in an overlay, the files in
//! the upper layer were touched. Git reads only touched files, with the engine's repository and configuration, so the
//! same attributes convert content in both directions. Objects are not synced one by one: after a power loss the round
//! finds its sealed commit missing and ends interrupted, never with another tree.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::base::ReadyBase;
use super::catalogue::PathCatalogue;
use super::plan::SealPlan;
use super::sealed::{SealLimits, SealedTree};
use super::survey::{self, CheckoutSurvey, SurveyScope, UnsealableKind};
use super::untracked::is_litter;
use super::{CheckoutMethod, Workspace, WorkspaceError, Workspaces, blocking, git_hazards, index, io, prepared};
use crate::git::{CommitMetadata, GitError, GitErrorKind, Oid};

/// Size limit of a pull request's text; forges truncate at 64 KiB.
const PR_BODY_MAX: u64 = 256 << 10;

impl Workspaces {
    /// Seals the files of a workspace as they are now. The maker must be dead.
    ///
    /// # Errors
    /// `Moving` when files change during the seal; otherwise the error of git or the file system. A path that policy
    /// does not allow is not an error but in [`SealedTree::refused`].
    pub async fn seal(
        &self,
        workspace: &Workspace,
        words: &CommitMetadata,
        limits: SealLimits,
    ) -> Result<SealedTree, WorkspaceError> {
        let ready = self.ready_base(&workspace.base).await?;
        let (catalogue, mut survey, pr_body) = self.survey(workspace, &ready).await?;
        if !survey.barred.is_empty() {
            let plan = SealPlan::from_barred(survey.barred);
            let (tree, commit) = (ready.tree()?, workspace.base.clone());
            return Ok(SealedTree { tree, commit, changes: Vec::new(), refused: plan.refused, pr_body });
        }
        if survey.has_untracked || !survey.odd.is_empty() {
            let rules = self.ignore_rules(workspace, &ready, &survey, &catalogue).await?;
            if survey.has_untracked {
                let new = self.survey_new_files(workspace, &rules, &catalogue, &survey).await?;
                survey.changed.extend(new.changed);
                survey.odd.extend(new.odd);
            }
            self.drop_ignored(workspace, &rules, &catalogue, &mut survey).await?;
            let (root, dir) = (workspace.root.clone(), workspace.dir.clone());
            survey = blocking(move || {
                prepared::drop_prepared(&root, &dir, &mut survey);
                Ok(survey)
            })
            .await?;
        }
        let plan = SealPlan::new(survey, &catalogue, limits);
        if plan.is_empty() {
            let (tree, commit) = (ready.tree()?, workspace.base.clone());
            return Ok(SealedTree { tree, commit, changes: Vec::new(), refused: plan.refused, pr_body });
        }
        let tree = self.write_tree(workspace, &ready.index(), &plan).await?;
        let changes = self.changes(&workspace.base, &tree, &plan).await?;
        if changes.is_empty() {
            // Files were touched, but their content is the same.
            return Ok(SealedTree { tree, commit: workspace.base.clone(), changes, refused: plan.refused, pr_body });
        }
        let commit = self.engine.commit(&tree, &workspace.base, words).await?;
        let index = workspace.root.join(format!("index-{commit}"));
        fs::rename(seal_index(workspace), &index).map_err(io("rename", &index))?;
        Ok(SealedTree { tree, commit, changes, refused: plan.refused, pr_body })
    }

    /// A sealed commit, read back from the engine's repository, which does not store sizes and refusals.
    ///
    /// # Errors
    /// When git fails.
    pub async fn read_sealed(&self, workspace: &Workspace, commit: &Oid) -> Result<SealedTree, WorkspaceError> {
        let tree = self.engine.tree_of(commit).await?;
        let changes = self.changes(&workspace.base, &tree, &SealPlan::default()).await?;
        Ok(SealedTree { tree, commit: commit.clone(), changes, refused: Vec::new(), pr_body: None })
    }

    pub(super) async fn survey(
        &self,
        workspace: &Workspace,
        ready: &ReadyBase,
    ) -> Result<(PathCatalogue, CheckoutSurvey, Option<Vec<u8>>), WorkspaceError> {
        let view = view_of(workspace);
        let (ready, index, dir, oid_len) = (ready.clone(), workspace.index(), workspace.dir.clone(), self.oid_len());
        blocking(move || {
            let catalogue = ready.catalogue(oid_len)?;
            let stats = if view == SurveyScope::Whole { index::read(&index, oid_len)? } else { Vec::new() };
            let mut survey = survey::tracked(&dir, &catalogue, &stats, view)?;
            let guard = git_hazards::find_hazards(&dir, &catalogue, view)?;
            let unreadable = guard.unreadable.into_iter().filter(|path| !is_litter(path));
            survey.odd.extend(unreadable.map(|path| (path, UnsealableKind::Unreadable)));
            survey.barred = guard.barred;
            let pr_body = if survey.has_pr_body { read_pr_body(&dir) } else { None };
            Ok((catalogue, survey, pr_body))
        })
        .await
    }

    /// Deletions come first, so that a file may replace a folder and a folder a file.
    async fn write_tree(
        &self,
        workspace: &Workspace,
        base_index: &Path,
        plan: &SealPlan,
    ) -> Result<Oid, WorkspaceError> {
        let index = seal_index(workspace);
        // The base's index has no file stats, so git reads every file in its input.
        fs::copy(base_index, &index).map_err(io("copy", &index))?;
        self.remove_from_index(&index, &plan.deleted).await?;
        if !plan.files.is_empty() {
            let paths = plan.files.iter().map(|file| file.path.as_slice()).collect::<Vec<_>>().join(&0);
            let update = self.engine.call("git.update-index").index(&index).work_tree(&workspace.dir);
            let add = update.in_folder(&workspace.dir).args(["--add", "-z", "--stdin"]).stdin(paths);
            self.git().run(add).await.map_err(|error| moving_or(error, &workspace.dir))?;
        }
        self.tree_of_index(&index).await
    }

    /// Removes paths from an index, independent of the files in any folder.
    pub(super) async fn remove_from_index(
        &self,
        index: &Path,
        paths: &[impl AsRef<[u8]>],
    ) -> Result<(), WorkspaceError> {
        if paths.is_empty() {
            return Ok(());
        }
        let paths: Vec<&[u8]> = paths.iter().map(AsRef::as_ref).collect();
        let folder = index.parent().unwrap_or(&self.root);
        let call = self.engine.call("git.update-index").index(index).work_tree(folder).in_folder(folder);
        let call = call.args(["--force-remove", "-z", "--stdin"]).stdin(paths.join(&0));
        Ok(self.git().run(call).await.map(drop)?)
    }

    /// Writes the tree of an index.
    pub(super) async fn tree_of_index(&self, index: &Path) -> Result<Oid, WorkspaceError> {
        let answer = self.git().run(self.engine.call("git.write-tree").index(index)).await?;
        Ok(crate::git::parse_oid(&answer.line())?)
    }
}

pub(super) fn view_of(workspace: &Workspace) -> SurveyScope {
    match workspace.method() {
        CheckoutMethod::Copy => SurveyScope::Whole,
        CheckoutMethod::Overlay => SurveyScope::Upper,
    }
}

fn seal_index(workspace: &Workspace) -> PathBuf {
    workspace.root.join("index.seal")
}

/// Every path existed a moment ago; if git cannot find one now, a process removed it.
pub(super) fn moving_or(error: GitError, dir: &Path) -> WorkspaceError {
    let gone = error.stderr.contains("does not exist") || error.stderr.contains("No such file");
    if gone && matches!(error.kind, GitErrorKind::Failed(_)) {
        return WorkspaceError::Moving(dir.display().to_string());
    }
    error.into()
}

/// Reads the pull request's text; `None` for a symlink, a pipe or an oversized file.
fn read_pr_body(dir: &Path) -> Option<Vec<u8>> {
    let path = dir.join("PR_BODY.md");
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(&path, flags, Mode::empty()).ok()?);
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > PR_BODY_MAX {
        return None;
    }
    let mut text = Vec::new();
    file.take(PR_BODY_MAX).read_to_end(&mut text).ok()?;
    Some(text)
}
