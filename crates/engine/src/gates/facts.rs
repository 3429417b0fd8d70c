//! Everything about a sealed candidate that gates and examinations look at, read once from the engine's repository.

use super::GatesError;
use crate::git::{EngineRepo, Oid};
use crate::workspace::{Change as SealedChange, ChangeStatus, Sealed};
use loopwright_core::gate::lines::AddedLines;
use loopwright_core::paths::{Change, ChangeKind};
use std::collections::BTreeSet;

/// Largest file that is read; what seals is smaller by default.
pub(super) const BLOB_BYTES_MAX: usize = 128 << 20;

/// Git's mode of a submodule, which has no content here.
const SUBMODULE: u32 = 0o160_000;

/// Both versions of a changed file.
#[derive(Debug, Clone)]
pub struct FileFact {
    /// Its path.
    pub path: String,
    /// Its bytes in base.
    pub before: Option<Vec<u8>>,
    /// Its bytes in the candidate.
    pub after: Option<Vec<u8>>,
}

/// What is known of a candidate.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// What changed.
    pub changes: Vec<Change>,
    /// The changed files, in the order of `changes`.
    pub files: Vec<FileFact>,
    /// The lines that were added.
    pub added: Vec<AddedLines>,
    /// Every path of base.
    pub base_paths: BTreeSet<String>,
}

impl Facts {
    /// Reads base and the sealed tree.
    ///
    /// # Errors
    /// Git fails, or a sealed file can not be read: nothing is said about a file that was not seen.
    pub async fn gather(engine: &EngineRepo, base: &Oid, sealed: &Sealed) -> Result<Self, GatesError> {
        let base_paths = base_paths(engine, base).await?;
        let mut facts = Self { base_paths, ..Self::default() };
        for change in &sealed.changes {
            let before = read(engine, base, &change.path, change.mode_before).await?;
            let after = read(engine, &sealed.tree, &change.path, change.mode_after).await?;
            let (old, new) = (before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
            facts.added.push(AddedLines::between(&change.path, old, new));
            facts.files.push(FileFact { path: change.path.clone(), before, after });
            facts.changes.push(to_core(change));
        }
        Ok(facts)
    }
}

/// Every path of a commit, for [`super::resolve`].
///
/// # Errors
/// Git fails.
pub async fn base_paths(engine: &EngineRepo, base: &Oid) -> Result<BTreeSet<String>, GatesError> {
    Ok(engine.list_tree(base).await?.into_iter().map(|entry| entry.path).collect())
}

async fn read(engine: &EngineRepo, tree: &Oid, path: &str, mode: u32) -> Result<Option<Vec<u8>>, GatesError> {
    if mode == 0 || mode == SUBMODULE {
        return Ok(None);
    }
    let bytes = engine.read_blob(tree, path, BLOB_BYTES_MAX).await?;
    bytes.map(Some).ok_or_else(|| GatesError::Unreadable(path.to_owned()))
}

fn to_core(change: &SealedChange) -> Change {
    let kind = match change.status {
        ChangeStatus::Added => ChangeKind::Added,
        ChangeStatus::Modified | ChangeStatus::TypeChanged => ChangeKind::Modified,
        ChangeStatus::Deleted => ChangeKind::Deleted,
    };
    Change {
        path: change.path.clone(),
        kind,
        added: change.lines_added,
        removed: change.lines_removed,
        binary: change.binary,
    }
}
