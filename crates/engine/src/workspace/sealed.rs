//! The result of a seal: the tree, its changes, the refused paths, and the limits. [`super::seal`] computes it.

use std::fmt;

use super::names::NameProblem;
use super::survey::UnsealableKind;
use crate::git::Oid;

/// Limits of one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealLimits {
    /// Changed files.
    pub files_max: usize,
    /// Bytes in all changed files together.
    pub bytes_max: u64,
    /// Bytes in one changed file.
    pub file_bytes_max: u64,
}

impl Default for SealLimits {
    fn default() -> Self {
        Self { files_max: 10_000, bytes_max: 256 << 20, file_bytes_max: 100 << 20 }
    }
}

/// A candidate's files after the seal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedTree {
    /// The tree in the engine's repository.
    pub tree: Oid,
    /// The engine's commit of that tree on the base; the base itself when nothing changed.
    pub commit: Oid,
    /// The differences from the base, by path.
    pub changes: Vec<SealedChange>,
    /// The paths that could not be sealed. The tree has them as in the base; a candidate with any must not ship.
    pub refused: Vec<RefusedPath>,
}

impl SealedTree {
    /// True when the tree is the base's.
    pub fn is_unchanged(&self) -> bool {
        self.changes.is_empty()
    }
}

/// How a path changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeStatus {
    /// New in the tree.
    Added,
    /// Changed content or a changed executable bit.
    Modified,
    /// Removed from the tree.
    Deleted,
    /// A file became a symlink, or a symlink a file.
    TypeChanged,
}

/// One changed path; a rename is a deletion and an addition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedChange {
    /// Path from the root.
    pub path: String,
    /// The kind of change.
    pub status: ChangeStatus,
    /// Git's mode in the base, 0 if it did not exist.
    pub mode_before: u32,
    /// Git's mode in the sealed tree, 0 if it is deleted.
    pub mode_after: u32,
    /// Lines added; 0 for binary content.
    pub lines_added: u64,
    /// Lines removed; 0 for binary content.
    pub lines_removed: u64,
    /// Git treats the content as binary.
    pub binary: bool,
    /// Bytes of the file in the workspace; 0 if it is deleted.
    pub size: u64,
}

/// A path that was not sealed, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedPath {
    /// The path, made printable.
    pub path: String,
    /// The reason.
    pub why: SealRefusal,
}

impl fmt::Display for RefusedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

/// Why a path is not sealed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealRefusal {
    /// A pipe, socket or device.
    #[error("not a file, symlink or folder")]
    Special,
    /// A file with several hard links.
    #[error("a hard link: the file has another name, which may lie outside the tree")]
    ManyNames,
    /// A symlink that leads, or could lead, out of the tree.
    #[error("the symlink leads outside the tree")]
    SymlinkOutside,
    /// A repository inside the checkout.
    #[error("a nested git repository")]
    NestedRepository,
    /// A submodule was filled, replaced or removed.
    #[error("a submodule was changed, and a round cannot change submodules")]
    Submodule,
    /// The content of a file that Git LFS stores was changed, or a new file belongs there.
    #[error("Git LFS stores this file, and a round cannot change or add such files")]
    LargeFile,
    /// A file in the place of a folder that holds withheld tests.
    #[error("it takes the place of a folder with withheld tests")]
    Withheld,
    /// The permissions do not allow reading it.
    #[error("it cannot be read")]
    Unreadable,
    /// The name itself is the problem.
    #[error(transparent)]
    Name(#[from] NameProblem),
    /// More changed files than allowed.
    #[error("more than {0} changed files")]
    TooManyFiles(usize),
    /// More bytes than allowed in all changed files.
    #[error("more than {0} bytes in changed files")]
    TooManyBytes(u64),
    /// More bytes than allowed in this file.
    #[error("larger than {0} bytes")]
    FileTooLarge(u64),
}

impl From<UnsealableKind> for SealRefusal {
    fn from(odd: UnsealableKind) -> Self {
        match odd {
            UnsealableKind::Special => Self::Special,
            UnsealableKind::ManyNames => Self::ManyNames,
            UnsealableKind::NestedRepository => Self::NestedRepository,
            UnsealableKind::Submodule => Self::Submodule,
            UnsealableKind::LargeFile => Self::LargeFile,
            UnsealableKind::Unreadable => Self::Unreadable,
        }
    }
}
