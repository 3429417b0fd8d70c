//! The places where a gate's programs wrote, for comparison with base's run. It decides nothing: it is
//! for the checker and the approver, about programs that write where the repository's own never did. Programs that were executed and
//! connections are not recorded.

use super::BaseResult;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Most files that are read; with more, nothing is said.
const FILES_MAX: usize = 20_000;
/// Most places that a note names.
const NAMED_MAX: usize = 5;

/// Folders of builds and caches, where every run writes.
const BUILD_FOLDERS: [&str; 15] = [
    ".git",
    "target",
    "build",
    "dist",
    "out",
    "tmp",
    "node_modules",
    "__pycache__",
    ".cache",
    ".pytest_cache",
    ".mypy_cache",
    ".gradle",
    ".npm",
    ".nyc_output",
    "coverage",
];

/// The files below the checkout and HOME, as names that are the same on every machine.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileSurvey(BTreeSet<String>);

impl FileSurvey {
    /// Lists the files of a checkout's own folder and of HOME, outside of build folders. `None` if there are too many,
    /// or a folder cannot be read: then nothing is known.
    pub(super) fn take(checkout: &Path, home: &Path) -> Option<Self> {
        let mut files = BTreeSet::new();
        for (root, name) in [(checkout, "."), (home, "~")] {
            let mut folders = vec![(root.to_owned(), name.to_owned())];
            while let Some((folder, shown)) = folders.pop() {
                for entry in fs::read_dir(&folder).ok()? {
                    let entry = entry.ok()?;
                    let name = entry.file_name().to_string_lossy().into_owned();
                    let is_folder = entry.file_type().ok()?.is_dir();
                    if is_folder && BUILD_FOLDERS.contains(&name.as_str()) {
                        continue;
                    }
                    let shown = format!("{shown}/{name}");
                    if is_folder {
                        folders.push((entry.path(), shown));
                    } else {
                        files.insert(shown);
                    }
                    if files.len() + folders.len() > FILES_MAX {
                        return None;
                    }
                }
            }
        }
        Some(Self(files))
    }

    /// The folders with files that an earlier survey does not have.
    pub(super) fn places_since(&self, before: &Self) -> BTreeSet<String> {
        let folder = |file: &String| file.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        self.0.difference(&before.0).map(folder).collect()
    }
}

/// A note about the places where this run wrote and base's did not.
pub(super) fn note(base: Option<&BaseResult>, wrote: Option<&BTreeSet<String>>) -> Option<String> {
    let known = base?.wrote.as_ref()?;
    let new: Vec<&String> = wrote?.difference(known).collect();
    if new.is_empty() {
        return None;
    }
    let more = new.len().saturating_sub(NAMED_MAX);
    let mut text = new.iter().take(NAMED_MAX).map(|place| format!("`{place}`")).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    Some(format!("wrote files where base's run did not: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_new_files_are_found_outside_of_build_folders() {
        let folder = tempfile::tempdir().expect("a folder");
        let (work, home) = (folder.path().join("work"), folder.path().join("home"));
        for one in ["work/src", "work/target/debug", "home"] {
            fs::create_dir_all(folder.path().join(one)).expect("a folder");
        }
        fs::write(work.join("src/a.rs"), "").expect("a file");
        let before = FileSurvey::take(&work, &home).expect("few files");
        fs::write(work.join("target/debug/a.o"), "").expect("a file");
        assert_eq!(FileSurvey::take(&work, &home).expect("few files").places_since(&before), BTreeSet::new());
        fs::create_dir_all(home.join(".config/own")).expect("a folder");
        fs::write(home.join(".config/own/settings"), "").expect("a file");
        fs::write(work.join("report.txt"), "").expect("a file");
        let places = FileSurvey::take(&work, &home).expect("few files").places_since(&before);
        assert_eq!(places, [".", "~/.config/own"].map(str::to_owned).into());
        assert_eq!(FileSurvey::take(&folder.path().join("missing"), &home), None);
    }
}
