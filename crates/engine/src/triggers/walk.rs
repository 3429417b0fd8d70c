//! Finds the folders of a working copy to watch. It leaves out git's own folder, ignored folders, folders that no glob
//! can match, and our state directory.

use super::inotify::{Inotify, WatchFailure};
use loopwright_core::paths::Globs;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The most watches of one process. A kernel allows a user at least 8,192, and each costs it about a kilobyte.
pub(super) const WATCHES_MAX: usize = 8192;
/// The most files that are read below new folders.
const FILES_MAX: usize = 10_000;

/// The scope of a walk.
#[derive(Debug, Clone)]
pub(super) struct WalkScope {
    /// The working copy.
    pub(super) root: PathBuf,
    /// The state directory, wherever it is.
    pub(super) state: PathBuf,
    /// The globs of the loops.
    pub(super) reach: WatchGlobs,
    /// Folders that git ignores.
    pub(super) ignored: BTreeSet<String>,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(super) struct WalkResult {
    /// New watches: number, folder, its path relative to the root.
    pub(super) watches: Vec<(i32, PathBuf, String)>,
    /// Files below, by their path relative to the root.
    pub(super) files: Vec<String>,
    /// The limit was reached before all folders were watched.
    pub(super) is_full: bool,
}

/// Watches folders and everything below them. A folder is watched before it is read, so that no change is missed.
pub(super) fn walk(inotify: &Inotify, ground: &WalkScope, start: &[String], room: usize) -> WalkResult {
    let mut found = WalkResult::default();
    let mut waiting: Vec<String> = start.to_vec();
    while let Some(folder) = waiting.pop() {
        if ground.is_left_out(&folder) {
            continue;
        }
        let path = ground.root.join(&folder);
        if found.watches.len() >= room {
            found.is_full = true;
            return found;
        }
        match inotify.watch(&path) {
            Ok(wd) => found.watches.push((wd, path.clone(), folder.clone())),
            Err(WatchFailure::Absent) => continue,
            Err(WatchFailure::Full) => {
                found.is_full = true;
                return found;
            }
        }
        read(&path, &folder, &mut waiting, &mut found.files);
    }
    found
}

fn read(path: &Path, folder: &str, waiting: &mut Vec<String>, files: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        let child = join(folder, &entry.file_name().to_string_lossy());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => waiting.push(child),
            Ok(_) if files.len() < FILES_MAX => files.push(child),
            Ok(_) | Err(_) => {}
        }
    }
}

impl WalkScope {
    fn is_left_out(&self, folder: &str) -> bool {
        let name = folder.rsplit('/').next().unwrap_or(folder);
        name == ".git"
            || self.ignored.contains(folder)
            || !self.reach.may_contain(folder)
            || self.root.join(folder) == self.state
    }
}

/// A path below a folder, relative to the root.
pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The `files:` globs of one loop or of several, and the folders that they can match.
#[derive(Debug, Clone, Default)]
pub(super) struct WatchGlobs {
    globs: Globs,
    /// The part of each glob before its first wildcard, without a trailing slash.
    heads: Vec<String>,
}

impl WatchGlobs {
    /// Invalid globs match nothing; loops with invalid globs are refused earlier.
    pub(super) fn from_globs<S: AsRef<str>>(patterns: &[S]) -> Self {
        let heads = patterns.iter().map(|pattern| head(pattern.as_ref())).collect();
        Globs::new(patterns).map(|globs| Self { globs, heads }).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        self.globs.matches(path)
    }

    /// The folders that no glob matches and that contain a matching path. Such a folder counts as changed when it
    /// arrives: its files are those of an earlier moment if it was only moved away and back.
    pub(super) fn roots_of<'f>(&self, folders: &'f [String], paths: &[String]) -> impl Iterator<Item = &'f String> {
        let contains = |folder: &str| paths.iter().any(|path| self.matches(path) && is_within(path, folder));
        folders.iter().filter(move |folder| !self.matches(folder) && contains(folder))
    }

    /// Whether a folder, by its path relative to the root, can contain a match now or later.
    pub(super) fn may_contain(&self, folder: &str) -> bool {
        self.heads.iter().any(|head| is_within(head, folder) || is_within(folder, head))
    }
}

/// Whether a path is a folder or lies in it; every path lies in the root, whose name is empty.
fn is_within(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn head(pattern: &str) -> String {
    let plain = pattern.strip_prefix("./").unwrap_or(pattern).trim_end_matches('/');
    let literal = plain.split('/').take_while(|part| !part.contains(['*', '?', '[', '{', '\\']));
    literal.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_that_can_hold_a_match_are_reached() {
        let reach = WatchGlobs::from_globs(&["src/**", "docs/guide/*.md", "Cargo.toml"]);
        let table = [
            ("", true),
            ("src", true),
            ("src/a/b", true),
            ("srcs", false),
            ("docs", true),
            ("docs/guide", true),
            ("docs/other", false),
            ("target", false),
        ];
        for (folder, expected) in table {
            assert_eq!(reach.may_contain(folder), expected, "{folder}");
        }
        assert!(reach.matches("src/a.rs") && reach.matches("Cargo.toml") && !reach.matches("docs/guide/a.txt"));
    }

    #[test]
    fn leading_wildcard_reaches_everything_and_no_glob_reaches_nothing() {
        assert!(WatchGlobs::from_globs(&["**/*.rs"]).may_contain("deep/down"));
        assert!(!WatchGlobs::from_globs::<&str>(&[]).may_contain(""));
        assert!(WatchGlobs::from_globs::<&str>(&[]).is_empty());
    }
}
