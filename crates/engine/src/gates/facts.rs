//! The facts about a sealed candidate that gates and examinations use, read once from the engine's repository.

use super::GatesError;
use crate::git::{EngineRepo, Oid};
use crate::workspace::{ChangeStatus, SealedChange, SealedTree};
use loopwright_core::gate::added_lines::AddedLines;
use loopwright_core::paths::{ChangeKind, PathChange};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Largest file that is read; the seal's default limit is smaller.
pub(super) const BLOB_BYTES_MAX: usize = 128 << 20;

/// Limit for all versions of all changed files together: twice the seal's own limit, plus space for their names.
const CHANGED_BYTES_MAX: usize = 640 << 20;

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

/// The facts about a candidate.
#[derive(Debug, Clone, Default)]
pub struct CandidateFacts {
    /// The changed paths.
    pub changes: Vec<PathChange>,
    /// The changed files, in the order of `changes`.
    pub files: Vec<FileFact>,
    /// The lines that were added.
    pub added: Vec<AddedLines>,
    /// Every path of base.
    pub base_paths: Arc<BTreeSet<String>>,
}

impl CandidateFacts {
    /// Reads base and the sealed tree.
    ///
    /// # Errors
    /// Git fails, or a sealed file cannot be read. A file that was not read is never reported as examined.
    pub async fn gather(engine: &EngineRepo, base: &Oid, sealed: &SealedTree) -> Result<Self, GatesError> {
        let base_paths = base_paths(engine, base).await?;
        let mut facts = Self { base_paths, ..Self::default() };
        let sides =
            |change: &SealedChange| [(base.clone(), change.mode_before), (sealed.tree.clone(), change.mode_after)];
        let wanted = sealed.changes.iter().flat_map(|change| sides(change).map(|(tree, mode)| (tree, change, mode)));
        let wanted: Vec<_> = wanted.filter(|(_, _, mode)| has_content(*mode)).collect();
        let names: Vec<_> = wanted.iter().map(|(tree, change, _)| (tree, change.path.as_str())).collect();
        let mut contents = engine.read_blobs(&names, CHANGED_BYTES_MAX).await?.into_iter();
        for change in &sealed.changes {
            let before = next(&mut contents, change, change.mode_before)?;
            let after = next(&mut contents, change, change.mode_after)?;
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
pub async fn base_paths(engine: &EngineRepo, base: &Oid) -> Result<Arc<BTreeSet<String>>, GatesError> {
    Ok(engine.paths(base).await?)
}

fn has_content(mode: u32) -> bool {
    mode != 0 && mode != SUBMODULE
}

/// The next content, if this side of the change has one.
fn next(
    contents: &mut impl Iterator<Item = Option<Vec<u8>>>,
    change: &SealedChange,
    mode: u32,
) -> Result<Option<Vec<u8>>, GatesError> {
    if !has_content(mode) {
        return Ok(None);
    }
    contents.next().flatten().map(Some).ok_or_else(|| GatesError::Unreadable(change.path.clone()))
}

fn to_core(change: &SealedChange) -> PathChange {
    let kind = match change.status {
        ChangeStatus::Added => ChangeKind::Added,
        ChangeStatus::Modified | ChangeStatus::TypeChanged => ChangeKind::Modified,
        ChangeStatus::Deleted => ChangeKind::Deleted,
    };
    PathChange {
        path: change.path.clone(),
        kind,
        added: change.lines_added,
        removed: change.lines_removed,
        binary: change.binary,
    }
}
