//! Private workspaces: a round's own checkout at a pinned base, the seal that turns its files into an
//! engine commit, pristine snapshots of sealed commits, and their removal.
//!
//! Layout under `<state>/workspaces/<repo-id>/` (all folders 0700):
//!
//! ```text
//! engine.git            the engine's own repository
//! bases/<commit>/       a prepared base: index, paths, shallow boundary, tree; pack/ to be copied; files/ and
//!                       git/, the layers under overlays
//! rounds/<round>/       owned-by-loopwright, work/ or upper/ (the maker's), home/ tmp/ outbox/, index, snapshots
//! trash/                removed rounds and bases that are being deleted
//! ```
//!
//! A workspace is either a private copy of all files or, as fast as a mount, a private upper layer over shared ones
//! that are never written to ([`CheckoutMethod`]). Sealing gives the same tree for both.
//!
//! **Invariant:** git never runs *in* a maker's repository. The engine reads the maker's files with its own repository
//! and index; the maker may damage its own `.git` without effect. This module makes no decision about the candidate: it
//! reports refused paths, and the round acts on them.

mod base;
mod catalogue;
mod changes;
mod create;
mod delta;
mod external;
mod files;
mod folder;
mod git_hazards;
mod index;
mod layers;
mod leftovers;
mod names;
mod plan;
mod pool;
mod prepared;
mod removal;
mod seal;
mod sealed;
mod single_commit;
mod skeleton;
mod snapshot;
mod survey;
mod untracked;
mod withheld;

use std::path::{Path, PathBuf};

use crate::git::{CommitMetadata, EngineRepo, Git, GitError, Oid, UserRepo};
use crate::shared_lock::SharedLock;
use base::BasePool;

pub use external::ExternalContent;
pub use files::CheckoutFiles;
pub(crate) use files::leads_to;
pub(crate) use folder::{empty_tree, private_dir, remove_tree, size};
pub use leftovers::{LeftoverScope, sweep};
pub(crate) use leftovers::{left_rounds, remove_left, take_leftovers};
pub use names::NameProblem;
pub(crate) use pool::remove_base;
pub use pool::unused_bases;
#[cfg(test)]
pub(crate) use removal::as_ordinary_user;
pub use sealed::{ChangeStatus, RefusedPath, SealLimits, SealRefusal, SealedChange, SealedTree};
pub use snapshot::{CommitSnapshot, SnapshotKind};

/// The file in a state folder that locks the preparation and removal of bases.
pub(crate) const BASES_LOCK: &str = "bases.lock";

/// All workspaces of one repository. All workspaces of a state folder share one lock for the preparation of bases.
#[derive(Debug, Clone)]
pub struct Workspaces {
    root: PathBuf,
    bases: BasePool,
}

/// The method by which a round gets its files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CheckoutMethod {
    /// A private copy of every file: works everywhere.
    #[default]
    Copy,
    /// Shared layers below a private one, merged by the kernel for each program that works in them.
    Overlay,
}

/// The options of a new workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceOptions {
    /// The method by which it gets its files.
    pub method: CheckoutMethod,
    /// Further layers above the base's, the first on top: the results of a set-up on the base. They contain no `.git`.
    /// Only overlays have them.
    pub extra_lower: Vec<PathBuf>,
    /// The content of submodules and large files that it includes.
    pub external: ExternalContent,
    /// Paths of base that the workspace does not get; `None` if that is not decided yet.
    pub withheld: Option<Vec<String>>,
}

impl From<CheckoutMethod> for WorkspaceOptions {
    fn from(method: CheckoutMethod) -> Self {
        Self { method, ..Self::default() }
    }
}

/// A round's private checkout, complete and ready for a maker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// The round it belongs to.
    pub round: String,
    /// The commit it started from.
    pub base: Oid,
    /// The round's folder, which holds everything below.
    pub root: PathBuf,
    /// The maker's files on the host: its whole checkout if it is a copy, its changes if it is an overlay. Either has
    /// its own private `.git`.
    pub dir: PathBuf,
    /// Its files, as mounted for a program that works in them.
    pub files: CheckoutFiles,
    /// An empty HOME for the round's roles.
    pub home: PathBuf,
    /// A TMPDIR for the round's roles.
    pub tmp: PathBuf,
    /// The folder in which roles stage their outputs.
    pub outbox: PathBuf,
    /// The paths of base that it does not have; `None` if that is not decided yet.
    pub withheld: Option<Vec<String>>,
}

/// Why a workspace could not be created, sealed or removed.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The file system failed.
    #[error("{what} `{}`", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A round or loop name that is not safe as a folder or branch name.
    #[error("`{0}` is not a safe folder or branch name")]
    BadName(String),
    /// A folder that does not carry Loopwright's mark is in the way; it is not changed.
    #[error("`{}` is not a folder of loopwright", .0.display())]
    Foreign(PathBuf),
    /// One of the engine's index files cannot be read.
    #[error("index file `{}` cannot be read: {why}", path.display())]
    BadIndex {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        why: &'static str,
    },
    /// Files changed during the seal, so a process is still writing.
    #[error("the workspace changed while it was sealed: `{0}`")]
    Moving(String),
    /// The file system has too little free space.
    #[error(
        "only {} MiB are free at `{}`, which must keep {} MiB; remove what is not needed (`loopwright gc`)",
        free >> 20, path.display(), floor >> 20
    )]
    Full {
        /// A folder on the file system.
        path: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes that have to stay free.
        floor: u64,
    },
    /// A layer that is to be above a base contains a `.git`, which would hide the base's own.
    #[error("layer `{}` contains a `.git`", .0.display())]
    BadLayer(PathBuf),
    /// No local clone has the commit of a submodule.
    #[error(
        "no local clone of submodule `{path}` has its commit {commit}: run `git submodule update --init --recursive`"
    )]
    SubmoduleMissing {
        /// The submodule's path.
        path: String,
        /// The commit that the base names.
        commit: Oid,
    },
    /// Submodules are too many or nested too deep, or one has an unsafe path.
    #[error("submodule `{0}` is one too many, nested too deep, or has an unsafe path")]
    TooManySubmodules(String),
    /// The local store does not have a large file.
    #[error("the content of `{path}` is not in the local Git LFS store ({why}): run `git lfs fetch`")]
    LargeFileMissing {
        /// The file.
        path: String,
        /// The problem with the store.
        why: String,
    },
    /// The large files of a base are too large together.
    #[error("the files of Git LFS up to `{path}` are larger than {} GiB together", max >> 30)]
    TooManyLargeFiles {
        /// The first file beyond the limit.
        path: String,
        /// The limit in bytes.
        max: u64,
    },
    /// A worker thread ended early.
    #[error("a file-system task ended early")]
    TaskLost,
}

impl Workspaces {
    /// Opens the workspaces of a repository under the state folder, creating missing folders.
    ///
    /// # Errors
    /// When git or the file system fails.
    pub async fn open(git: Git, state: &Path, repo: UserRepo) -> Result<Self, WorkspaceError> {
        let root = state.join("workspaces").join(&repo.id);
        for folder in ["bases", "rounds", "trash"] {
            let path = root.join(folder);
            private_dir(&path).map_err(io("create", &path))?;
        }
        let engine = EngineRepo::open(git, root.join("engine.git"), repo.format).await?;
        let (folder, lock) = (root.join("bases"), SharedLock::new(state.join(BASES_LOCK)));
        Ok(Self { root, bases: BasePool { folder, repo, engine, lock } })
    }

    /// Uses a lock for preparing bases that others also use.
    #[must_use]
    pub fn sharing(mut self, lock: SharedLock) -> Self {
        self.bases.lock = lock;
        self
    }

    /// Makes a base's objects readable in the engine's repository.
    ///
    /// # Errors
    /// `UnknownRef` when the commit is not in the user's repository.
    pub(crate) async fn import(&self, commit: &Oid) -> Result<(), WorkspaceError> {
        let _one = self.bases.lock().await?;
        self.bases.import(commit).await
    }

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
        seal::seal(&self.bases, workspace, words, limits).await
    }

    /// A sealed commit, read back from the engine's repository, which does not store sizes and refusals.
    ///
    /// # Errors
    /// When git fails.
    pub async fn read_sealed(&self, workspace: &Workspace, commit: &Oid) -> Result<SealedTree, WorkspaceError> {
        seal::read_sealed(&self.bases.engine, workspace, commit).await
    }

    /// The engine's repository, for reading sealed trees and naming commits.
    pub fn engine(&self) -> &EngineRepo {
        &self.bases.engine
    }

    /// The lock under which one set-up of the repository at a time runs.
    pub(crate) fn setup_lock(&self) -> SharedLock {
        SharedLock::new(self.root.join("setups.lock"))
    }

    /// The user's repository these workspaces start from.
    pub fn repo(&self) -> &UserRepo {
        &self.bases.repo
    }

    fn round_root(&self, round: &str) -> Result<PathBuf, WorkspaceError> {
        names::check_plain(round)?;
        Ok(self.root.join("rounds").join(round))
    }
}

impl Workspace {
    /// The workspace in `root`: over `lower` layers, or a private copy if `lower` is `None`.
    fn in_folder(root: PathBuf, round: &str, base: Oid, lower: Option<Vec<PathBuf>>) -> Self {
        let inside = |name: &str| root.join(name);
        let files = match lower {
            None => CheckoutFiles::Folder(inside("work")),
            Some(lower) => CheckoutFiles::Overlay { lower, upper: inside("upper"), work: inside("overlay") },
        };
        Self {
            round: round.to_owned(),
            base,
            dir: files.written_folder().unwrap_or(&root).to_owned(),
            files,
            home: inside("home"),
            tmp: inside("tmp"),
            outbox: inside("outbox"),
            withheld: None,
            root,
        }
    }

    /// The method by which it gets its files.
    #[must_use]
    pub fn method(&self) -> CheckoutMethod {
        match self.files {
            CheckoutFiles::Folder(_) => CheckoutMethod::Copy,
            CheckoutFiles::Overlay { .. } | CheckoutFiles::Layers(_) => CheckoutMethod::Overlay,
        }
    }

    /// The index written at checkout of a copy: the status of every file when the maker got it. It is outside the
    /// checkout.
    fn index(&self) -> PathBuf {
        self.root.join("index")
    }
}

/// Wraps an I/O error with the operation and its path.
fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> WorkspaceError {
    let path = path.to_owned();
    move |source| WorkspaceError::Io { what, path, source }
}

/// Runs file-system work on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorkspaceError> + Send + 'static,
) -> Result<T, WorkspaceError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(WorkspaceError::TaskLost))
}
