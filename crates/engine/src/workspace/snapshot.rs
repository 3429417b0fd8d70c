//! Pristine views of sealed commits, each a checkout of its own or layers: for gates a private repository in which git
//! works, for readers plain files without write permission. Every file is read by object name, never from the maker's
//! folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::create::reject_git_layers;
use super::external::ExternalLayer;
use super::folder::{copy_files, copy_with_time, half_name, make_read_only, private_dir, remove_tree, unique};
use super::index::IndexEntry;
use super::{
    CheckoutFiles, CheckoutMethod, Workspace, WorkspaceError, Workspaces, blocking, index, io, names, skeleton,
};
use crate::git::{CommitMetadata, Oid};

/// The branch of a gate's repository. No name in it shows that a judge runs the tests.
pub(super) const BRANCH: &str = "main";

/// The purpose of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotKind {
    /// For gates: writable files and a private `.git` at the commit, because test suites call git.
    WithGit,
    /// For gates with other files than the commit's: writable, and without a `.git` until
    /// [`Workspaces::add_single_commit`] writes one that holds no other version of these files.
    WithOtherFiles,
    /// For the checker: plain files without `.git` and without any write permission.
    ReadOnly,
}

/// A commit's files, separate from the maker's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitSnapshot {
    /// Its files.
    pub files: CheckoutFiles,
    /// The folder with its own files; `drop_snapshots` takes this path.
    pub root: PathBuf,
}

impl Workspaces {
    /// Creates a snapshot of a commit under a `name` in the round's workspace folder, by the workspace's own method.
    /// The commit is the workspace's base or was sealed from it. `extra_lower` are layers that a set-up created over
    /// the base; they are below the commit's changes. An earlier snapshot of that name is removed.
    ///
    /// # Errors
    /// When the name is unsafe, the commit unknown, or the file system fails.
    pub async fn snapshot(
        &self,
        workspace: &Workspace,
        name: &str,
        commit: &Oid,
        kind: SnapshotKind,
        extra_lower: &[PathBuf],
    ) -> Result<CommitSnapshot, WorkspaceError> {
        names::check_plain(name)?;
        let folder = workspace.root.join("snapshots");
        private_dir(&folder).map_err(io("create", &folder))?;
        let dest = folder.join(name);
        if fs::symlink_metadata(&dest).is_ok() {
            self.drop_snapshots(workspace, [dest.clone()]);
        }
        match workspace.method() {
            CheckoutMethod::Copy => self.copy_of(workspace, commit, kind, dest).await,
            CheckoutMethod::Overlay => {
                self.overlay_of(workspace, commit, kind, dest, reject_git_layers(extra_lower)?).await
            }
        }
    }

    async fn overlay_of(
        &self,
        workspace: &Workspace,
        commit: &Oid,
        kind: SnapshotKind,
        root: PathBuf,
        extra: &[PathBuf],
    ) -> Result<CommitSnapshot, WorkspaceError> {
        let layers = self.bases.layers_of(workspace, commit).await?;
        let (upper, work) = (root.join("upper"), root.join("overlay"));
        for folder in [&upper, &work] {
            private_dir(folder).map_err(io("create", folder))?;
        }
        let files = match kind {
            SnapshotKind::WithGit => {
                let git_dir = upper.join(".git");
                skeleton::write_head(&git_dir, BRANCH, commit).map_err(io("create", &git_dir))?;
                if let Some(external) = ExternalLayer::of(&workspace.root) {
                    self.hide_external(&external, &layers, &git_dir).await?;
                }
                CheckoutFiles::Overlay { lower: layers.with_git(extra), upper, work }
            }
            SnapshotKind::WithOtherFiles => CheckoutFiles::Overlay { lower: layers.without_git(extra), upper, work },
            // The kernel requires at least two layers, so an empty folder is on top.
            SnapshotKind::ReadOnly => CheckoutFiles::Layers([vec![upper], layers.without_git(extra)].concat()),
        };
        Ok(CommitSnapshot { files, root })
    }

    async fn copy_of(
        &self,
        workspace: &Workspace,
        commit: &Oid,
        kind: SnapshotKind,
        dest: PathBuf,
    ) -> Result<CommitSnapshot, WorkspaceError> {
        let half = half_name(&dest);
        private_dir(&half).map_err(io("create", &half))?;
        let index = workspace.root.join(unique("index.snapshot"));
        let source = self.index_of(workspace, commit).await?;
        fs::copy(&source, &index).map_err(io("copy", &source))?;
        self.engine().checkout_index(&index, &half).await?;
        if let Some(external) = ExternalLayer::of(&workspace.root) {
            self.bases.fill_external(workspace, &index, &half).await?;
            external.hide_from_status(self.engine(), &index, self.bases.oid_len()).await?;
        }
        match kind {
            SnapshotKind::WithGit => self.add_git(workspace, commit, &half, &index).await?,
            SnapshotKind::WithOtherFiles => {}
            SnapshotKind::ReadOnly => {
                let half = half.clone();
                blocking(move || make_read_only(&half).map_err(io("protect", &half))).await?;
            }
        }
        fs::remove_file(&index).map_err(io("remove", &index))?;
        fs::rename(&half, &dest).map_err(io("rename", &half))?;
        Ok(CommitSnapshot { files: CheckoutFiles::Folder(dest.clone()), root: dest })
    }

    /// Renames folders of a workspace immediately and deletes them in the background, so no caller waits. A folder that
    /// cannot be deleted, because a gate prevents it, is deleted with the round at the latest.
    pub(crate) fn drop_snapshots(&self, workspace: &Workspace, folders: impl IntoIterator<Item = PathBuf>) {
        for folder in folders {
            let gone = workspace.root.join(unique("dropped"));
            let gone = if fs::rename(&folder, &gone).is_ok() { gone } else { folder };
            drop(tokio::task::spawn_blocking(move || remove_tree(&gone)));
        }
    }

    /// Restores the files `paths` of `commit` in a snapshot, byte for byte as in that commit's own checkout, and
    /// replaces whatever is at these paths. Ignores paths that the commit does not have; returns the restored ones.
    ///
    /// # Errors
    /// When git or the file system fails.
    pub async fn restore_paths(
        &self,
        workspace: &Workspace,
        snapshot: &CommitSnapshot,
        commit: &Oid,
        paths: &[String],
    ) -> Result<Vec<String>, WorkspaceError> {
        let index = self.index_of(workspace, commit).await?;
        let entries = index::read(&index, self.bases.oid_len())?;
        let has = |path: &&String| index::find(&entries, path.as_bytes()).is_some();
        let known: Vec<String> = paths.iter().filter(has).cloned().collect();
        let Some(dest) = snapshot.files.written_folder().filter(|_| !known.is_empty()) else { return Ok(Vec::new()) };
        // Checked out in another folder: in place, the candidate's own .gitattributes would convert the content.
        let aside = workspace.root.join(unique("restore"));
        private_dir(&aside).map_err(io("create", &aside))?;
        let call = self.engine().call("git.checkout-index").index(&index).work_tree(&aside).in_folder(&aside);
        self.engine().git().run(call.args(["--quiet", "-z", "--stdin"]).stdin(known.join("\0"))).await?;
        let restored = entries.into_iter().filter(|entry| known.iter().any(|path| path.as_bytes() == entry.path));
        let restored: Vec<IndexEntry> = restored.collect();
        let external = ExternalLayer::of(&workspace.root);
        let (dest, moved) = (dest.to_owned(), known.clone());
        blocking(move || {
            external.map_or(Ok(()), |external| external.fill(&aside, &restored)).map_err(io("fill", &aside))?;
            moved.iter().try_for_each(|path| replace(&aside, &dest, path).map_err(io("restore", &dest.join(path))))?;
            remove_tree(&aside).map_err(io("remove", &aside))
        })
        .await?;
        Ok(known)
    }

    /// A commit like `commit`, of the same base, without some of its files.
    ///
    /// # Errors
    /// When git or the file system fails.
    pub async fn commit_without(
        &self,
        workspace: &Workspace,
        commit: &Oid,
        paths: &[String],
    ) -> Result<Oid, WorkspaceError> {
        let index = workspace.root.join(unique("index.without"));
        let source = self.index_of(workspace, commit).await?;
        fs::copy(&source, &index).map_err(io("copy", &source))?;
        self.engine().remove_from_index(&index, paths).await?;
        let tree = self.engine().write_tree(&index).await?;
        fs::remove_file(&index).map_err(io("remove", &index))?;
        let words = CommitMetadata {
            message: "Continue".to_owned(),
            name: "dev".to_owned(),
            email: "dev@localhost".to_owned(),
            at_unix: 0,
        };
        Ok(self.engine().commit(&tree, &workspace.base, &words).await?)
    }

    /// The index of a commit: the base's, the one from its seal, or a new one.
    pub(super) async fn index_of(&self, workspace: &Workspace, commit: &Oid) -> Result<PathBuf, WorkspaceError> {
        if *commit == workspace.base {
            return Ok(self.bases.ready(commit).await?.index());
        }
        let path = workspace.root.join(format!("index-{commit}"));
        if !path.is_file() {
            let half = workspace.root.join(unique("index.half"));
            self.engine().read_tree(commit, &half).await?;
            fs::rename(&half, &path).map_err(io("rename", &half))?;
        }
        Ok(path)
    }

    async fn add_git(
        &self,
        workspace: &Workspace,
        commit: &Oid,
        dir: &Path,
        index: &Path,
    ) -> Result<(), WorkspaceError> {
        let ready = self.bases.ready(&workspace.base).await?;
        let git_dir = dir.join(".git");
        let packs =
            skeleton::write_body(&git_dir, self.repo().format, &ready.shallow()).map_err(io("create", &git_dir))?;
        copy_files(&ready.packs(), &packs).map_err(io("copy", &packs))?;
        skeleton::write_head(&git_dir, BRANCH, commit).map_err(io("create", &git_dir))?;
        if *commit != workspace.base {
            self.engine().pack_into(&packs, &format!("{commit}\n^{}\n", workspace.base)).await?;
        }
        copy_with_time(index, &git_dir.join("index")).map_err(io("copy", index))
    }
}

/// Moves one file to its destination and creates real folders above it: a symlink or file in the way is removed, never
/// written through.
fn replace(from: &Path, dest: &Path, path: &str) -> std::io::Result<()> {
    let mut place = dest.to_owned();
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    for part in folders.split('/').filter(|part| !part.is_empty()) {
        place.push(part);
        match fs::symlink_metadata(&place) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => fs::remove_file(&place).and_then(|()| fs::create_dir(&place))?,
            Err(_) => fs::create_dir(&place)?,
        }
    }
    place.push(name);
    match fs::symlink_metadata(&place) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(&place)?,
        Ok(_) => fs::remove_file(&place)?,
        Err(_) => {}
    }
    fs::rename(from.join(path), &place)
}
