//! Content that a commit names but does not hold: the files of submodules, and large files that Git LFS stores. A loop
//! opts in to each (`submodules: on`, `lfs: on`).
//!
//! The content of a base is a layer above its files, built once. It comes only from the user's own clones and LFS
//! store, by hash: no address that a commit names is ever contacted. The candidate keeps the base's commit of a
//! submodule and the base's pointer of a large file, so the seal refuses every edit to this content ([`edits`]).

mod edits;
mod large_files;
mod submodules;

use std::ffi::OsStr;
use std::fs;
use std::io as std_io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use loopwright_core::spec::{LoopSpec, OnOff};

use super::base::BasePool;
use super::folder::{half_name, private_dir, remove_tree};
use super::index::{self, GITLINK, IndexEntry};
use super::{Workspace, WorkspaceError, io};
use crate::git::{EngineRepo, Oid};
use crate::sandbox_view::copy_tree;

pub(super) use edits::drop_unchanged;

/// The file in a workspace's folder that names its layer of external content.
const RECORD: &str = "external";

/// The kinds of external content that a workspace includes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExternalContent {
    /// The files of submodules.
    pub submodules: OnOff,
    /// The content of large files.
    pub lfs: OnOff,
}

impl From<&LoopSpec> for ExternalContent {
    fn from(spec: &LoopSpec) -> Self {
        Self { submodules: spec.submodules, lfs: spec.lfs }
    }
}

impl ExternalContent {
    /// The folder of its layer in a base; `None` if there is no such content.
    fn folder_name(self) -> Option<&'static str> {
        match (self.submodules, self.lfs) {
            (OnOff::Off, OnOff::Off) => None,
            (OnOff::On, OnOff::Off) => Some("external-submodules"),
            (OnOff::Off, OnOff::On) => Some("external-lfs"),
            (OnOff::On, OnOff::On) => Some("external-all"),
        }
    }
}

/// The external content of one base on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExternalLayer {
    root: PathBuf,
}

impl ExternalLayer {
    /// The layer: submodules at their paths, and large files at theirs.
    pub(super) fn files(&self) -> PathBuf {
        self.root.join("files")
    }

    /// The pointers of the large files, at the same paths.
    fn pointers(&self) -> PathBuf {
        self.root.join("pointers")
    }

    /// The layer that a workspace was created with.
    pub(super) fn of(workspace_root: &Path) -> Option<Self> {
        let bytes = fs::read(workspace_root.join(RECORD)).ok()?;
        Some(Self { root: PathBuf::from(OsStr::from_bytes(&bytes)) })
    }

    /// Records that a workspace was created with this layer.
    pub(super) fn record(&self, workspace: &Workspace) -> Result<(), WorkspaceError> {
        let path = workspace.root.join(RECORD);
        fs::write(&path, self.root.as_os_str().as_bytes()).map_err(io("write", &path))
    }

    /// Copies the content of these entries into a checkout of them.
    pub(super) fn fill(&self, dest: &Path, entries: &[IndexEntry]) -> std_io::Result<()> {
        let files = self.files();
        for entry in entries {
            let path = Path::new(OsStr::from_bytes(&entry.path));
            let (from, to) = (files.join(path), dest.join(path));
            match fs::symlink_metadata(&from) {
                Ok(found) if found.is_dir() && entry.mode == GITLINK => {
                    fs::create_dir_all(&to)?;
                    copy_tree(&from, &to)?;
                }
                Ok(found) if found.is_file() && entry.mode != GITLINK => drop(fs::copy(&from, &to)?),
                _ => {}
            }
        }
        Ok(())
    }

    /// Marks the large files of an index as unchanged: git would compare their content with the pointers, and report
    /// all of them as modified.
    pub(super) async fn hide_from_status(
        &self,
        engine: &EngineRepo,
        index: &Path,
        oid_len: usize,
    ) -> Result<(), WorkspaceError> {
        let pointers = self.pointers();
        let is_large = |entry: &IndexEntry| pointers.join(OsStr::from_bytes(&entry.path)).is_file();
        let large: Vec<_> = index::read(index, oid_len)?.into_iter().filter(is_large).map(|entry| entry.path).collect();
        if large.is_empty() {
            return Ok(());
        }
        let folder = index.parent().unwrap_or(&self.root);
        let call = engine.call("git.update-index").unflushed().index(index).work_tree(folder).in_folder(folder);
        let call = call.args(["--assume-unchanged", "-z", "--stdin"]).stdin(large.join(&0));
        Ok(engine.git().run(call).await.map(drop)?)
    }
}

impl BasePool {
    /// The external content of a base, collected unless it exists.
    ///
    /// # Errors
    /// When a submodule has no local clone with its commit, or a large file is not in the local store.
    pub(super) async fn external(
        &self,
        commit: &Oid,
        content: ExternalContent,
    ) -> Result<Option<ExternalLayer>, WorkspaceError> {
        let Some(name) = content.folder_name() else { return Ok(None) };
        let _one = self.lock().await?;
        let ready = self.ready_locked(commit).await?;
        let root = ready.dir.join(name);
        if !root.is_dir() {
            let half = half_name(&root);
            let built = self.collect(commit, content, &ExternalLayer { root: half.clone() }).await;
            if let Err(error) = built {
                // The next start collects it again; a leftover is removed with its base.
                let _ = remove_tree(&half);
                return Err(error);
            }
            fs::rename(&half, &root).map_err(io("rename", &half))?;
        }
        Ok(Some(ExternalLayer { root }))
    }

    async fn collect(
        &self,
        commit: &Oid,
        content: ExternalContent,
        layer: &ExternalLayer,
    ) -> Result<(), WorkspaceError> {
        private_dir(&layer.root).map_err(io("create", &layer.root))?;
        for folder in [layer.files(), layer.pointers()] {
            fs::create_dir(&folder).map_err(io("create", &folder))?;
        }
        let mut collection = large_files::LargeFiles::new(&self.engine, layer, self.oid_len());
        if content.lfs == OnOff::On {
            let index = self.dir(commit).join("index");
            collection.fetch(&index, &self.repo.common_dir, Path::new("")).await?;
        }
        if content.submodules == OnOff::On {
            let large = (content.lfs == OnOff::On).then_some(&mut collection);
            submodules::collect(self, commit, layer, large).await?;
        }
        Ok(())
    }
}

/// A path of a commit as text for messages.
fn shown(path: &Path) -> String {
    path.to_string_lossy().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(512).collect()
}
