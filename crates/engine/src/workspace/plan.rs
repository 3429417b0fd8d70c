//! Decides which surveyed files will be written, and which ones policy refuses: names, sizes, symlinks, and names that
//! differ from others of the tree only by case.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::catalogue::{AFTER_SLASH, PathCatalogue, fold_of, with_folders};
use super::names::{self, NameProblem};
use super::sealed::{RefusedPath, SealLimits, SealRefusal};
use super::survey::{CheckoutSurvey, SurveyedFile, UnsealableKind};

/// The files to be written, after policy.
#[derive(Debug, Default)]
pub(super) struct SealPlan {
    pub(super) files: Vec<SurveyedFile>,
    pub(super) deleted: Vec<Vec<u8>>,
    pub(super) refused: Vec<RefusedPath>,
}

impl SealPlan {
    /// Applies policy to a survey over a base.
    pub(super) fn new(survey: CheckoutSurvey, catalogue: &PathCatalogue, limits: SealLimits) -> Self {
        let mut plan = Self { deleted: survey.deleted, ..Self::default() };
        let odd: BTreeSet<(Vec<u8>, UnsealableKind)> = survey.odd.into_iter().collect();
        for (path, odd) in odd {
            plan.refuse(&path, odd.into());
        }
        let collisions = collisions(&survey.changed, catalogue, &plan.deleted);
        for file in survey.changed {
            match judge(&file, &collisions, limits) {
                Ok(()) => plan.files.push(file),
                Err(why) => plan.refuse(&file.path, why),
            }
        }
        plan.limit(limits);
        plan
    }

    /// A plan that writes nothing, because git must not be started.
    pub(super) fn from_barred(barred: Vec<(Vec<u8>, UnsealableKind)>) -> Self {
        let mut plan = Self::default();
        barred.into_iter().collect::<BTreeSet<_>>().into_iter().for_each(|(path, odd)| plan.refuse(&path, odd.into()));
        plan
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.deleted.is_empty()
    }

    pub(super) fn refuse(&mut self, path: &[u8], why: SealRefusal) {
        self.refused.push(RefusedPath { path: printable(path), why });
    }

    /// A candidate that exceeds a limit is not written at all: a partial change is of no use.
    fn limit(&mut self, limits: SealLimits) {
        let bytes: u64 = self.files.iter().map(|file| file.size).sum();
        let why = if self.files.len() + self.deleted.len() > limits.files_max {
            SealRefusal::TooManyFiles(limits.files_max)
        } else if bytes > limits.bytes_max {
            SealRefusal::TooManyBytes(limits.bytes_max)
        } else {
            return;
        };
        self.refuse(b".", why);
        self.files.clear();
        self.deleted.clear();
    }
}

/// Names are checked only if the maker chose them; symlinks and sizes are always checked.
fn judge(file: &SurveyedFile, collisions: &HashSet<Vec<u8>>, limits: SealLimits) -> Result<(), SealRefusal> {
    let text = match names::check_path(&file.path) {
        Ok(text) => text,
        Err(problem) if file.is_new || problem == NameProblem::NotUtf8 => return Err(problem.into()),
        Err(_) => std::str::from_utf8(&file.path).map_err(|_| NameProblem::NotUtf8)?,
    };
    if collisions.contains(&file.path) {
        return Err(NameProblem::CaseCollision.into());
    }
    if file.size > limits.file_bytes_max {
        return Err(SealRefusal::FileTooLarge(limits.file_bytes_max));
    }
    match &file.target {
        None => Ok(()),
        Some(target) => match std::str::from_utf8(target) {
            Ok(target) if names::target_is_inside(text, target) => Ok(()),
            _ => Err(SealRefusal::SymlinkOutside),
        },
    }
}

/// New paths that differ from another path of the resulting tree, or from one of its folders, only by case.
fn collisions(changed: &[SurveyedFile], catalogue: &PathCatalogue, deleted: &[Vec<u8>]) -> HashSet<Vec<u8>> {
    let mut deleted: Vec<&[u8]> = deleted.iter().map(Vec::as_slice).collect();
    deleted.sort_unstable();
    let new = || changed.iter().filter(|file| file.is_new).map(|file| file.path.as_slice());
    let mut spellings: HashMap<String, HashSet<Vec<u8>>> = HashMap::new();
    for part in new().flat_map(with_folders) {
        let same = match spellings.entry(fold_of(part)) {
            Slot::Occupied(known) => known.into_mut(),
            Slot::Vacant(free) => {
                let kept = kept_spellings(free.key(), catalogue, &deleted);
                free.insert(kept)
            }
        };
        if !same.contains(part) {
            same.insert(part.to_vec());
        }
    }
    let is_shared = |part: &[u8]| spellings.get(&fold_of(part)).is_some_and(|same| same.len() > 1);
    new().filter(|path| with_folders(path).any(is_shared)).map(<[u8]>::to_vec).collect()
}

/// The base's spellings of a path or folder that is not deleted.
fn kept_spellings(fold: &str, catalogue: &PathCatalogue, deleted: &[&[u8]]) -> HashSet<Vec<u8>> {
    let is_kept = |spelling: &&Vec<u8>| {
        let first_from = |end: &[u8]| {
            let end = [spelling.as_slice(), end].concat();
            deleted.partition_point(|path| *path < end.as_slice())
        };
        let has_file = catalogue.has(spelling) && deleted.binary_search(&spelling.as_slice()).is_err();
        has_file || catalogue.below(spelling).len() > first_from(AFTER_SLASH) - first_from(b"/")
    };
    catalogue.spellings(fold).iter().filter(is_kept).cloned().collect()
}

fn printable(path: &[u8]) -> String {
    String::from_utf8_lossy(path).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(512).collect()
}

#[cfg(test)]
mod tests {
    use super::super::index::{IndexEntry, PLAIN};
    use super::*;
    use proptest::prelude::*;

    /// Compares every path of the resulting tree with every other.
    fn by_comparing(new: &BTreeSet<Vec<u8>>, kept: &BTreeSet<Vec<u8>>) -> HashSet<Vec<u8>> {
        let parts: Vec<&[u8]> = kept.iter().chain(new).flat_map(|path| with_folders(path)).collect();
        let collides = |part: &[u8]| parts.iter().any(|other| *other != part && fold_of(other) == fold_of(part));
        new.iter().filter(|path| with_folders(path).any(collides)).cloned().collect()
    }

    fn paths(count: usize) -> impl Strategy<Value = BTreeSet<Vec<u8>>> {
        let part = prop::sample::select(vec!["a", "A", "b", "B", "a-b", "a0", "Σ", "ς", "d", "D", "e"]);
        let path = prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/").into_bytes());
        prop::collection::btree_set(path, 0..count)
    }

    proptest! {
        #[test]
        fn collisions_are_those_that_a_look_at_the_whole_tree_finds(
            base in paths(12), new in paths(6), gone in prop::collection::vec(any::<bool>(), 12)
        ) {
            let inside = |path: &[u8], folder: &[u8]| path.starts_with(&[folder, b"/"].concat());
            let base: BTreeSet<_> = base.iter().filter(|path| !base.iter().any(|other| inside(other, path))).cloned().collect();
            let gone = |at: usize, path: &Vec<u8>| gone[at] || new.iter().any(|new| inside(new, path) || inside(path, new));
            let (deleted, kept): (Vec<_>, Vec<_>) = base.iter().cloned().enumerate().partition(|(at, path)| gone(*at, path));
            let (deleted, kept): (Vec<_>, BTreeSet<_>) =
                (deleted.into_iter().map(|(_, path)| path).collect(), kept.into_iter().map(|(_, path)| path).collect());
            let new: BTreeSet<_> = new.difference(&kept).filter(|path| !new.iter().any(|other| inside(other, path))).cloned().collect();
            let entries: Vec<_> = base.iter().map(|path| IndexEntry::without_stats(path.clone(), PLAIN)).collect();
            let changed = new.iter().map(|path| SurveyedFile { path: path.clone(), mode: PLAIN, size: 0, target: None, is_new: true });
            let changed: Vec<_> = changed.collect();
            let found = collisions(&changed, &PathCatalogue::new(entries), &deleted);
            prop_assert_eq!(found, by_comparing(&new, &kept));
        }
    }
}
