//! The repository of a gate that runs with other files than its commit's, such as falsified tests: one commit of exactly
//! the files that the program sees. An object with the files' other version would show which tests are falsified, and
//! the right answers of tests that the maker never saw.

use std::fs;
use std::path::Path;

use super::external::ExternalLayer;
use super::folder::{copy_with_time, unique};
use super::snapshot::BRANCH;
use super::{CheckoutFiles, CommitSnapshot, Workspace, WorkspaceError, Workspaces, io, skeleton};
use crate::git::{CommitMetadata, Oid};

impl Workspaces {
    /// Writes the repository into a snapshot without one. `changed` are the paths that differ from `commit`; the
    /// snapshot's own folder has them.
    ///
    /// # Errors
    /// When git or the file system fails.
    pub async fn add_single_commit(
        &self,
        workspace: &Workspace,
        snapshot: &CommitSnapshot,
        commit: &Oid,
        changed: &[String],
    ) -> Result<(), WorkspaceError> {
        let Some(dest) = snapshot.files.written_folder() else { return Ok(()) };
        let index = workspace.root.join(unique("index.single"));
        let source = match snapshot.files {
            // The index with the times of the layers' files, so that git does not read them all.
            CheckoutFiles::Overlay { .. } => self.bases.layers_of(workspace, commit).await?.index(),
            CheckoutFiles::Folder(_) | CheckoutFiles::Layers(_) => None,
        };
        let source = match source {
            Some(source) => source,
            None => self.index_of(workspace, commit).await?,
        };
        copy_with_time(&source, &index).map_err(io("copy", &source))?;
        self.update_index(&index, dest, changed).await?;
        if let Some(external) = ExternalLayer::of(&workspace.root) {
            external.hide_from_status(self.engine(), &index, self.bases.oid_len()).await?;
        }
        let tree = self.engine().write_tree(&index).await?;
        let words = CommitMetadata {
            message: "Continue".to_owned(),
            name: "dev".to_owned(),
            email: "dev@localhost".to_owned(),
            at_unix: 0,
        };
        let own = self.engine().root_commit(&tree, &words).await?;
        let git_dir = dest.join(".git");
        let no_boundary = git_dir.join("shallow");
        let packs = skeleton::write_body(&git_dir, self.repo().format, &no_boundary).map_err(io("create", &git_dir))?;
        skeleton::write_head(&git_dir, BRANCH, &own).map_err(io("create", &git_dir))?;
        self.engine().pack_into(&packs, &format!("{own}\n")).await?;
        copy_with_time(&index, &git_dir.join("index")).map_err(io("copy", &index))?;
        fs::remove_file(&index).map_err(io("remove", &index))
    }

    /// Takes these files of a folder into an index, as far as they are plain files there.
    async fn update_index(&self, index: &Path, folder: &Path, paths: &[String]) -> Result<(), WorkspaceError> {
        let is_file = |path: &&String| fs::symlink_metadata(folder.join(path)).is_ok_and(|found| found.is_file());
        let present: Vec<&str> = paths.iter().filter(is_file).map(String::as_str).collect();
        if present.is_empty() {
            return Ok(());
        }
        let call = self.engine().call("git.update-index").unflushed().index(index).work_tree(folder).in_folder(folder);
        let call = call.args(["--add", "--replace", "-z", "--stdin"]).stdin(present.join("\0"));
        self.engine().git().run(call).await?;
        Ok(())
    }
}
