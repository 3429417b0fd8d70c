//! The seal: a maker's files become a tree and a commit in the engine's repository. Only files count; the maker's
//! changes to its own `.git` have no effect, because it is never read.
//!
//! In a copy, the status of tracked files is compared with the index written at checkout; in an overlay, the files in
//! the upper layer were touched. Git reads only touched files, with the engine's repository and configuration, so the
//! same attributes convert content in both directions. Objects are not synced one by one: after a power loss the round
//! finds its sealed commit missing and ends interrupted, never with another tree.

use std::fs;
use std::path::{Path, PathBuf};

use super::base::{BasePool, ReadyBase};
use super::catalogue::PathCatalogue;
use super::plan::SealPlan;
use super::sealed::{SealLimits, SealedTree};
use super::survey::{self, CheckoutSurvey, SurveyScope, UnsealableKind};
use super::untracked::{IgnoreRules, is_litter};
use super::{
    CheckoutMethod, Workspace, WorkspaceError, blocking, changes::changes, external, git_hazards, index, io, prepared,
    withheld,
};
use crate::git::{CommitMetadata, EngineRepo, GitError, GitErrorKind, Oid};

pub(super) async fn seal(
    bases: &BasePool,
    workspace: &Workspace,
    words: &CommitMetadata,
    limits: SealLimits,
) -> Result<SealedTree, WorkspaceError> {
    let (engine, base) = (&bases.engine, &workspace.base);
    let ready = bases.ready(base).await?;
    let (catalogue, mut survey) = survey_tracked(workspace, &ready, bases.oid_len()).await?;
    if !survey.barred.is_empty() {
        return unchanged(&ready, SealPlan::from_barred(survey.barred));
    }
    if survey.has_untracked || !survey.odd.is_empty() {
        let rules = IgnoreRules::read(engine, workspace, &ready, &catalogue, &survey).await?;
        if survey.has_untracked {
            let new = rules.survey_new_files(&survey).await?;
            survey.changed.extend(new.changed);
            survey.odd.extend(new.odd);
        }
        rules.drop_ignored(&mut survey).await?;
        let (root, dir) = (workspace.root.clone(), workspace.dir.clone());
        survey = blocking(move || {
            prepared::drop_prepared(&root, &dir, &mut survey);
            Ok(survey)
        })
        .await?;
    }
    let (catalogue, mut survey) = external::drop_unchanged(engine, workspace, &ready, catalogue, survey).await?;
    withheld::drop_withheld(&mut survey, workspace.withheld());
    let mut plan = SealPlan::new(survey, &catalogue, limits);
    withheld::refuse_folders(&mut plan, workspace.withheld());
    if plan.is_empty() {
        return unchanged(&ready, plan);
    }
    let tree = write_tree(engine, workspace, &ready.index(), &plan).await?;
    let changes = changes(engine, base, &tree, &plan).await?;
    if changes.is_empty() {
        // Files were touched, but their content is the same.
        return Ok(SealedTree { tree, commit: base.clone(), changes, refused: plan.refused });
    }
    let commit = engine.commit(&tree, base, words).await?;
    let index = workspace.root.join(format!("index-{commit}"));
    fs::rename(seal_index(workspace), &index).map_err(io("rename", &index))?;
    Ok(SealedTree { tree, commit, changes, refused: plan.refused })
}

fn unchanged(ready: &ReadyBase, plan: SealPlan) -> Result<SealedTree, WorkspaceError> {
    let (tree, commit) = (ready.tree()?, ready.commit.clone());
    Ok(SealedTree { tree, commit, changes: Vec::new(), refused: plan.refused })
}

pub(super) async fn read_sealed(
    engine: &EngineRepo,
    workspace: &Workspace,
    commit: &Oid,
) -> Result<SealedTree, WorkspaceError> {
    let tree = engine.tree_of(commit).await?;
    let changes = changes(engine, &workspace.base, &tree, &SealPlan::default()).await?;
    Ok(SealedTree { tree, commit: commit.clone(), changes, refused: Vec::new() })
}

async fn survey_tracked(
    workspace: &Workspace,
    ready: &ReadyBase,
    oid_len: usize,
) -> Result<(PathCatalogue, CheckoutSurvey), WorkspaceError> {
    let view = view_of(workspace);
    let (ready, index, dir) = (ready.clone(), workspace.index(), workspace.dir.clone());
    blocking(move || {
        let catalogue = ready.catalogue(oid_len)?;
        let stats = if view == SurveyScope::Whole { index::read(&index, oid_len)? } else { Vec::new() };
        let mut survey = survey::tracked(&dir, &catalogue, &stats, view)?;
        let guard = git_hazards::find_hazards(&dir, &catalogue, view)?;
        let unreadable = guard.unreadable.into_iter().filter(|path| !is_litter(path));
        survey.odd.extend(unreadable.map(|path| (path, UnsealableKind::Unreadable)));
        survey.barred = guard.barred;
        Ok((catalogue, survey))
    })
    .await
}

/// Deletions come first, so that a file may replace a folder and a folder a file.
async fn write_tree(
    engine: &EngineRepo,
    workspace: &Workspace,
    base_index: &Path,
    plan: &SealPlan,
) -> Result<Oid, WorkspaceError> {
    let index = seal_index(workspace);
    // The base's index has no file stats, so git reads every file in its input.
    fs::copy(base_index, &index).map_err(io("copy", &index))?;
    engine.remove_from_index(&index, &plan.deleted).await?;
    if !plan.files.is_empty() {
        let paths = plan.files.iter().map(|file| file.path.as_slice()).collect::<Vec<_>>().join(&0);
        let update = engine.call("git.update-index").index(&index).work_tree(&workspace.dir);
        let add = update.in_folder(&workspace.dir).args(["--add", "-z", "--stdin"]).stdin(paths);
        engine.git().run(add).await.map_err(|error| moving_or(error, &workspace.dir))?;
    }
    Ok(engine.write_tree(&index).await?)
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
fn moving_or(error: GitError, dir: &Path) -> WorkspaceError {
    let gone = error.stderr.contains("does not exist") || error.stderr.contains("No such file");
    if gone && matches!(error.kind, GitErrorKind::Failed(_)) {
        return WorkspaceError::Moving(dir.display().to_string());
    }
    error.into()
}
