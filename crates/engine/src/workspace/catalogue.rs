//! The paths of a base, looked up by name: which of them are files, which are folders, and how the base spells names
//! that are equal on a case-insensitive file system.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use super::index::{self, GITLINK, IndexEntry};
use super::names::folded;

/// The paths of one base.
#[derive(Debug)]
pub(super) struct PathCatalogue {
    entries: Vec<IndexEntry>,
    /// The spellings of paths and folders by their folded form. Only new files need it, so it is built on the first
    /// lookup.
    spellings: OnceLock<HashMap<String, Vec<Vec<u8>>>>,
}

impl PathCatalogue {
    /// Expects entries that are sorted by path.
    pub(super) fn new(entries: Vec<IndexEntry>) -> Self {
        Self { entries, spellings: OnceLock::new() }
    }

    /// All entries, by path.
    pub(super) fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// The index of a path in the entries.
    pub(super) fn find(&self, path: &[u8]) -> Option<usize> {
        index::find(&self.entries, path)
    }

    /// Whether the path exists.
    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.find(path).is_some()
    }

    /// The indexes of the paths in a folder and its subfolders.
    pub(super) fn below(&self, folder: &[u8]) -> Range<usize> {
        index::below(&self.entries, folder)
    }

    /// Whether the folder exists.
    pub(super) fn has_below(&self, folder: &[u8]) -> bool {
        !self.below(folder).is_empty()
    }

    /// Whether a submodule is at this path or above it.
    pub(super) fn is_in_submodule(&self, path: &[u8]) -> bool {
        with_folders(path).filter_map(|part| self.find(part)).any(|at| self.entries[at].mode == GITLINK)
    }

    /// Every spelling of a path or folder that folds to this.
    pub(super) fn spellings(&self, fold: &str) -> &[Vec<u8>] {
        self.spellings.get_or_init(|| spellings_of(&self.entries)).get(fold).map_or(&[], Vec::as_slice)
    }
}

fn spellings_of(entries: &[IndexEntry]) -> HashMap<String, Vec<Vec<u8>>> {
    let mut spellings: HashMap<String, Vec<Vec<u8>>> = HashMap::new();
    let mut before: &[u8] = b"";
    for entry in entries {
        for part in with_folders(&entry.path) {
            // Paths of one folder are consecutive, so a folder is added with its first path.
            let is_added = before.get(part.len()) == Some(&b'/') && before.starts_with(part);
            if !is_added {
                spellings.entry(fold_of(part)).or_default().push(part.to_vec());
            }
        }
        before = &entry.path;
    }
    spellings
}

/// The byte after `/`: it sorts right after everything in a folder.
pub(super) const AFTER_SLASH: &[u8] = b"0";

/// The form in which spellings are compared.
pub(super) fn fold_of(path: &[u8]) -> String {
    folded(&String::from_utf8_lossy(path))
}

/// A path's folders, outermost first, and the path itself.
pub(super) fn with_folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let folders = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
    folders.chain(std::iter::once(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::index::PLAIN;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A path of few letters, so that many share folders or differ only by case.
    fn path() -> impl Strategy<Value = Vec<u8>> {
        let part =
            prop::sample::select(vec!["a", "A", "b", "a-b", "a.b", "a0", "Σ", "σ", "ς", "ß", "\u{212a}", "k", "É"]);
        prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/").into_bytes())
    }

    proptest! {
        #[test]
        fn questions_are_answered_as_by_a_look_at_everything(
            paths in prop::collection::btree_set(path(), 0..40),
            asked in prop::collection::vec(path(), 1..10),
        ) {
            // No path is a folder of another, as in a tree.
            let is_leaf = |path: &&Vec<u8>| !paths.iter().any(|other| other.starts_with(&[path.as_slice(), b"/"].concat()));
            let paths: BTreeSet<Vec<u8>> = paths.iter().filter(is_leaf).cloned().collect();
            let entries: Vec<IndexEntry> = paths.iter().map(|path| IndexEntry::without_stats(path.clone(), PLAIN)).collect();
            let catalogue = PathCatalogue::new(entries.clone());
            for (at, entry) in entries.iter().enumerate() {
                prop_assert_eq!(catalogue.find(&entry.path), Some(at));
            }
            for path in &asked {
                prop_assert_eq!(catalogue.has(path), paths.contains(path));
                let inside = [path.as_slice(), b"/"].concat();
                let below: Vec<_> = entries.iter().enumerate().filter(|(_, entry)| entry.path.starts_with(&inside)).map(|(at, _)| at).collect();
                prop_assert_eq!(catalogue.below(path).collect::<Vec<_>>(), below);
                let fold = fold_of(path);
                let same: BTreeSet<&[u8]> = paths.iter().flat_map(|path| with_folders(path)).filter(|part| fold_of(part) == fold).collect();
                let mut found = catalogue.spellings(&fold).to_vec();
                found.sort();
                prop_assert_eq!(found.iter().map(Vec::as_slice).collect::<Vec<_>>(), same.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
