//! Withheld tests: a workspace can start from a commit without some files of base, so that neither its files nor its
//! git objects contain them. The seal maps its files back onto base: a missing withheld file is not a deletion, and a
//! file that the maker writes in its place does not count.
//!
//! The commit has no parents: the history of base contains the withheld files too.

use std::fs;
use std::path::Path;

use super::folder::unique;
use super::plan::SealPlan;
use super::sealed::SealRefusal;
use super::survey::CheckoutSurvey;
use super::{Workspace, WorkspaceError, Workspaces, io};
use crate::git::{CommitMetadata, Oid};

/// The file in a round's folder that lists the withheld paths, each followed by a zero byte.
const LIST: &str = "withheld";

/// The decision of the round in this folder: the withheld paths, or `None` if there is none yet.
pub(super) fn read(root: &Path) -> Result<Option<Vec<String>>, WorkspaceError> {
    let path = root.join(LIST);
    match fs::read(&path) {
        Ok(bytes) => {
            let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
            Ok(Some(parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("read", &path)(error)),
    }
}

/// Records the decision.
pub(super) fn write(root: &Path, withheld: &[String]) -> Result<(), WorkspaceError> {
    let path = root.join(LIST);
    let list: String = withheld.iter().map(|one| format!("{one}\0")).collect();
    fs::write(&path, list).map_err(io("write", &path))
}

impl Workspaces {
    /// A commit of base's files without some of them and without history, readable in the engine's repository.
    pub(super) async fn base_without(&self, base: &Oid, withheld: &[String]) -> Result<Oid, WorkspaceError> {
        let index = self.root.join(unique("index.withheld"));
        let source = self.bases.ready(base).await?.index();
        fs::copy(&source, &index).map_err(io("copy", &source))?;
        let engine = self.engine();
        engine.remove_from_index(&index, withheld).await?;
        let tree = engine.write_tree(&index).await?;
        fs::remove_file(&index).map_err(io("remove", &index))?;
        let words = CommitMetadata {
            message: "base without the withheld tests".to_owned(),
            name: "loopwright".to_owned(),
            email: "loopwright@localhost".to_owned(),
            at_unix: 0,
        };
        Ok(engine.root_commit(&tree, &words).await?)
    }

    /// The commit as roles may see it: without the withheld tests.
    ///
    /// # Errors
    /// When git or the file system fails.
    pub async fn shown_commit(&self, workspace: &Workspace, commit: &Oid) -> Result<Oid, WorkspaceError> {
        match workspace.withheld() {
            [] => Ok(commit.clone()),
            withheld => self.commit_without(workspace, commit, withheld).await,
        }
    }
}

impl Workspace {
    /// The paths of base that this workspace does not have.
    #[must_use]
    pub fn withheld(&self) -> &[String] {
        self.withheld.as_deref().unwrap_or_default()
    }

    /// Records that nothing is withheld, so that a resumed round does not decide again.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn withhold_nothing(&mut self) -> Result<(), WorkspaceError> {
        write(&self.root, &[])?;
        self.withheld = Some(Vec::new());
        Ok(())
    }
}

/// Drops everything about withheld paths from a survey: base's versions stay.
pub(super) fn drop_withheld(survey: &mut CheckoutSurvey, withheld: &[String]) {
    if withheld.is_empty() {
        return;
    }
    let is_withheld = |path: &[u8]| withheld.iter().any(|one| is_at_or_below(path, one.as_bytes()));
    survey.deleted.retain(|path| !is_withheld(path));
    survey.changed.retain(|file| !is_withheld(&file.path));
}

/// Refuses files in the place of a folder that holds withheld tests: both cannot be in one tree.
pub(super) fn refuse_folders(plan: &mut SealPlan, withheld: &[String]) {
    let covers =
        |path: &[u8]| withheld.iter().any(|one| one.as_bytes() != path && is_at_or_below(one.as_bytes(), path));
    let (kept, refused) = std::mem::take(&mut plan.files).into_iter().partition(|file| !covers(&file.path));
    plan.files = kept;
    refused.into_iter().for_each(|file| plan.refuse(&file.path, SealRefusal::Withheld));
}

fn is_at_or_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}
