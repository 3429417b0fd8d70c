//! Creates, finds and removes workspaces of rounds. A workspace is built under a temporary name and renamed when
//! complete, so that an incomplete one is never used; it is renamed before it is deleted in the background.

use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::external::ExternalLayer;
use super::folder::{copy_files, copy_with_time, half_name, is_ours, marked_dir, private_dir, remove_tree, unique};
use super::layers::CommitLayers;
use super::{
    CheckoutFiles, CheckoutMethod, Workspace, WorkspaceError, WorkspaceOptions, Workspaces, blocking, io, names, pool,
    prepared, skeleton, withheld,
};
use crate::git::Oid;

/// The file that names a workspace's base; written last, so its presence means "complete".
pub(super) const COMPLETE: &str = "base";
/// The file that names the layers below an overlay, one per line; a copy has no such file.
const LOWER: &str = "lower";
/// The coarsest file-system clock in use ticks every two seconds.
const TICKS_MAX: u32 = 3000;

impl Workspaces {
    /// Creates the workspace of a round at `base`, on a branch `loop/<loop>/<round>` of its own private repository. A
    /// workspace that an earlier run of the same round left is discarded first.
    ///
    /// # Errors
    /// `BadName` for names that are not valid as a folder or branch; `Foreign` when a folder that is not Loopwright's
    /// is in the way; `Full` when there is too little disk space; otherwise the error of git or the file system.
    pub async fn create(
        &self,
        loop_name: &str,
        round: &str,
        base: &Oid,
        making: &WorkspaceOptions,
    ) -> Result<Workspace, WorkspaceError> {
        names::check_plain(loop_name)?;
        let root = self.round_root(round)?;
        self.discard(round).await?;
        pool::make_room(&self.bases, base).await?;
        let half = half_name(&root);
        let branch = format!("loop/{loop_name}/{round}");
        let external = self.bases.external(base, making.external).await?;
        let start = match making.withheld.as_deref() {
            None | Some([]) => base.clone(),
            Some(withheld) => self.base_without(base, withheld).await?,
        };
        let lower = match making.method {
            CheckoutMethod::Copy => {
                let workspace = Workspace::in_folder(half.clone(), round, base.clone(), None);
                self.copied(&workspace, &start, &branch, external.as_ref()).await.map(|()| None)?
            }
            CheckoutMethod::Overlay => {
                let layers = self.bases.layers(&start).await?.with_external(external.as_ref());
                let lower = layers.with_git(reject_git_layers(&making.extra_lower)?);
                let workspace = Workspace::in_folder(half.clone(), round, base.clone(), Some(lower.clone()));
                overlaid(&workspace, &start, &branch, &lower)?;
                self.add_external(&workspace, external.as_ref(), &layers).await?;
                Some(lower)
            }
        };
        if let Some(withheld) = &making.withheld {
            withheld::write(&half, withheld)?;
        }
        fs::rename(&half, &root).map_err(io("rename", &half))?;
        let made = Workspace::in_folder(root, round, base.clone(), lower);
        Ok(Workspace { withheld: making.withheld.clone(), ..made })
    }

    /// The workspace that a round already has, if it is complete and its layers still exist.
    ///
    /// # Errors
    /// When the round's name is not valid or its folder cannot be read.
    pub fn reopen(&self, round: &str) -> Result<Option<Workspace>, WorkspaceError> {
        let root = self.round_root(round)?;
        let path = root.join(COMPLETE);
        if !is_ours(&root) || !path.is_file() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(io("read", &path))?;
        let lower = lower_of(&root)?;
        let is_whole = lower.iter().flatten().all(|layer| layer.is_dir());
        let base = text.trim().parse().ok().filter(|_| is_whole);
        let withheld = withheld::read(&root)?;
        Ok(base.map(|base| Workspace { withheld, ..Workspace::in_folder(root, round, base, lower) }))
    }

    /// Removes the workspace of a round, if there is one. Its path is free when this returns; its bytes are deleted in
    /// the background (seconds for a large checkout).
    ///
    /// # Errors
    /// `Foreign` when the folder does not carry Loopwright's mark; it is not changed.
    pub async fn discard(&self, round: &str) -> Result<(), WorkspaceError> {
        let root = self.round_root(round)?;
        if fs::symlink_metadata(&root).is_err() {
            return Ok(());
        }
        if !is_ours(&root) {
            return Err(WorkspaceError::Foreign(root));
        }
        let trash = self.root.join("trash").join(unique(round));
        fs::rename(&root, &trash).map_err(io("rename", &root))?;
        // The next sweep repeats a failed removal, so this one runs in the background.
        drop(tokio::task::spawn_blocking(move || remove_tree(&trash)));
        Ok(())
    }

    /// The folders of rounds and set-ups, by name.
    pub(crate) fn folders(&self) -> Vec<(String, PathBuf)> {
        let listed = fs::read_dir(self.root.join("rounds")).into_iter().flatten().flatten();
        let ours = listed.map(|entry| entry.path()).filter(|path| is_ours(path));
        ours.filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), path))).collect()
    }

    /// Whether a workspace uses something in this folder.
    pub(crate) fn is_in_use(&self, folder: &Path) -> bool {
        let stands = |root: &Path| {
            let lower = lower_of(root).ok().flatten().unwrap_or_default();
            lower.into_iter().chain(prepared::layer_of(root)).any(|layer| layer.starts_with(folder))
        };
        self.folders().iter().any(|(_, root)| root != folder && stands(root))
    }

    /// Records the external content of an overlay, and gives it an index in which git finds it unchanged.
    async fn add_external(
        &self,
        workspace: &Workspace,
        external: Option<&ExternalLayer>,
        layers: &CommitLayers,
    ) -> Result<(), WorkspaceError> {
        let Some(external) = external else { return Ok(()) };
        external.record(workspace)?;
        self.hide_external(external, layers, &workspace.dir.join(".git")).await
    }

    /// Copies the index of layers into a repository above them, with large files marked as unchanged.
    pub(super) async fn hide_external(
        &self,
        external: &ExternalLayer,
        layers: &CommitLayers,
        git_dir: &Path,
    ) -> Result<(), WorkspaceError> {
        let (Some(theirs), index) = (layers.index(), git_dir.join("index")) else { return Ok(()) };
        copy_with_time(&theirs, &index).map_err(io("copy", &theirs))?;
        external.hide_from_status(self.engine(), &index, self.bases.oid_len()).await
    }

    async fn copied(
        &self,
        workspace: &Workspace,
        start: &Oid,
        branch: &str,
        external: Option<&ExternalLayer>,
    ) -> Result<(), WorkspaceError> {
        let ready = {
            let _one = self.bases.lock().await?;
            // Snapshots for gates copy base's own objects.
            let base = self.bases.ready_locked(&workspace.base).await?;
            self.bases.full_pack(&base).await?;
            let ready = self.bases.ready_locked(start).await?;
            self.bases.full_pack(&ready).await?;
            ready
        };
        make_folders(workspace)?;
        let index = workspace.index();
        fs::copy(ready.index(), &index).map_err(io("copy", &index))?;
        self.engine().checkout_index(&index, &workspace.dir).await?;
        if let Some(external) = external {
            external.record(workspace)?;
            self.bases.fill_external(workspace, &index, &workspace.dir).await?;
        }
        let (git_dir, format) = (workspace.dir.join(".git"), self.repo().format);
        let (workspace, branch, own_index) = (workspace.clone(), branch.to_owned(), git_dir.join("index"));
        let start = start.clone();
        let made = blocking(move || {
            let (complete, base) = (workspace.root.join(COMPLETE), &workspace.base);
            let packs = skeleton::write_body(&git_dir, format, &ready.shallow()).map_err(io("create", &git_dir))?;
            copy_files(&ready.packs(), &packs).map_err(io("copy", &packs))?;
            skeleton::write_head(&git_dir, &branch, &start).map_err(io("create", &git_dir))?;
            copy_with_time(&index, &git_dir.join("index")).map_err(io("copy", &index))?;
            wait_for_tick(&index, &complete, base.as_str()).map_err(io("write", &complete))
        });
        made.await?;
        match external {
            Some(external) => external.hide_from_status(self.engine(), &own_index, self.bases.oid_len()).await,
            None => Ok(()),
        }
    }
}

/// The cost does not depend on the number of files in the base.
fn overlaid(workspace: &Workspace, start: &Oid, branch: &str, lower: &[PathBuf]) -> Result<(), WorkspaceError> {
    make_folders(workspace)?;
    let (root, git_dir) = (&workspace.root, workspace.dir.join(".git"));
    private_dir(&git_dir).map_err(io("create", &git_dir))?;
    skeleton::write_head(&git_dir, branch, start).map_err(io("create", &git_dir))?;
    let list = lower.iter().flat_map(|path| [path.as_os_str().as_encoded_bytes(), b"\n"].concat());
    fs::write(root.join(LOWER), list.collect::<Vec<u8>>()).map_err(io("write", root))?;
    fs::write(root.join(COMPLETE), workspace.base.as_str()).map_err(io("write", root))
}

/// Creates the round's folder and its initial subfolders.
fn make_folders(workspace: &Workspace) -> Result<(), WorkspaceError> {
    marked_dir(&workspace.root).map_err(io("create", &workspace.root))?;
    let scratch = match &workspace.files {
        CheckoutFiles::Overlay { work, .. } => Some(work),
        CheckoutFiles::Folder(_) | CheckoutFiles::Layers(_) => None,
    };
    let folders = [&workspace.dir, &workspace.home, &workspace.tmp, &workspace.outbox];
    folders.into_iter().chain(scratch).try_for_each(|dir| private_dir(dir).map_err(io("create", dir)))
}

/// Refuses extra layers that contain a repository: it would hide the base's own.
pub(super) fn reject_git_layers(extra: &[PathBuf]) -> Result<&[PathBuf], WorkspaceError> {
    match extra.iter().find(|layer| fs::symlink_metadata(layer.join(".git")).is_ok()) {
        Some(layer) => Err(WorkspaceError::BadLayer(layer.clone())),
        None => Ok(extra),
    }
}

/// The layers below the overlay in a round's folder; `None` for a copy.
pub(super) fn lower_of(root: &Path) -> Result<Option<Vec<PathBuf>>, WorkspaceError> {
    let path = root.join(LOWER);
    match fs::read(&path) {
        Ok(bytes) => {
            let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            Ok(Some(lines.map(|line| PathBuf::from(std::ffi::OsStr::from_bytes(line))).collect()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("read", &path)(error)),
    }
}

/// Rewrites `path` until the file system gives it a later time than `index`. From then on no change can have a time
/// that the index knows, so a file with an unchanged status has unchanged content. A tick is at most 4 ms on Linux.
#[expect(clippy::disallowed_methods, reason = "waits for the file system's clock, which no event announces")]
fn wait_for_tick(index: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    let written = fs::metadata(index)?.modified()?;
    for _ in 0..TICKS_MAX {
        fs::File::create(path)?.write_all(text.as_bytes())?;
        if fs::metadata(path)?.modified()? > written {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(std::io::Error::other("the file system's clock does not advance"))
}
