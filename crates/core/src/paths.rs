//! The paths that a change may touch: globs, protected paths and allowed paths; sensitive paths have their own file.
//!
//! Paths are repository-relative with `/`, as git writes them. The caller decides how to handle a violation.

mod harmful;
mod manifest;
mod sensitive;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};

pub use harmful::find_harmful;
pub use sensitive::{ChangedFile, RUNS_BEFORE_TESTS, SensitiveKind, SensitivePath, find_sensitive, is_runner_config};

/// How a path changed between base and the sealed tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// A new path; base does not have it.
    Added,
    /// Changed content, mode or type.
    Modified,
    /// A deleted path.
    Deleted,
    /// The same file under another name.
    Renamed {
        /// Its name in base.
        from: String,
    },
}

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    /// Its path in the sealed tree; its path in base if deleted.
    pub path: String,
    /// How it changed.
    pub kind: ChangeKind,
    /// Added lines; 0 for binary files.
    pub added: u64,
    /// Removed lines; 0 for binary files.
    pub removed: u64,
    /// Whether either version is not text.
    pub binary: bool,
}

impl PathChange {
    /// A change without counted lines.
    #[must_use]
    pub fn new(path: impl Into<String>, kind: ChangeKind) -> Self {
        Self { path: path.into(), kind, added: 0, removed: 0, binary: false }
    }

    /// All paths it touches: both ends of a rename.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let from = match &self.kind {
            ChangeKind::Renamed { from } => Some(from.as_str()),
            ChangeKind::Added | ChangeKind::Modified | ChangeKind::Deleted => None,
        };
        from.into_iter().chain([self.path.as_str()])
    }
}

/// A pattern that is not a glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a glob: {why}")]
pub struct GlobError {
    /// The pattern.
    pub pattern: String,
    /// The problem with the pattern.
    pub why: String,
}

/// A set of globs over repository paths: `*` stays within a folder, `**` does not, and a folder's name matches
/// everything in it.
#[derive(Debug, Clone, Default)]
pub struct Globs(GlobSet);

#[derive(Clone, Copy)]
enum Case {
    Kept,
    Ignored,
}

impl Globs {
    /// Compiles patterns.
    ///
    /// # Errors
    /// The first pattern that is not a glob.
    pub fn new<S: AsRef<str>>(patterns: &[S]) -> Result<Self, GlobError> {
        Self::build(patterns, Case::Kept)
    }

    fn build<S: AsRef<str>>(patterns: &[S], case: Case) -> Result<Self, GlobError> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let bad = |error: &globset::Error| GlobError { pattern: pattern.to_owned(), why: error.kind().to_string() };
            let plain = pattern.strip_prefix("./").unwrap_or(pattern).trim_end_matches('/');
            for text in [plain.to_owned(), format!("{plain}/**")] {
                let mut glob = GlobBuilder::new(&text);
                glob.literal_separator(true).case_insensitive(matches!(case, Case::Ignored));
                set.add(glob.build().map_err(|error| bad(&error))?);
            }
        }
        let set = set.build().map_err(|error| GlobError { pattern: String::new(), why: error.kind().to_string() })?;
        Ok(Self(set))
    }

    /// Whether any of the globs matches the path or one of its parent folders.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        self.0.is_match(path)
    }

    /// Whether there is no glob at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether a path may match both globs. A set of characters or alternatives counts as anything, so the answer may be true
/// without need, and never false without need.
#[must_use]
pub fn globs_meet(one: &str, other: &str) -> bool {
    let parts = |glob: &str| {
        let plain = glob.strip_prefix("./").unwrap_or(glob).trim_end_matches('/').to_owned();
        // Alternatives may contain a separator.
        let known = plain.split(['{', '[', '\\']).next().unwrap_or_default().len();
        let mut parts: Vec<String> = plain.split('/').map(str::to_owned).collect();
        if known < plain.len() {
            parts = plain[..known]
                .rsplit_once('/')
                .map_or(Vec::new(), |(head, _)| head.split('/').map(str::to_owned).collect());
        }
        parts.push("**".to_owned());
        parts
    };
    let parts_meet = |one: &String, other: &String| {
        let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
        sequences_meet(&one, &other, |c| *c == '*', |one, other| one == other || *one == '?' || *other == '?')
    };
    sequences_meet(&parts(one), &parts(other), |part| part == "**", parts_meet)
}

/// Whether two sequences have a common instance; an element that is `any` stands for any number of elements.
fn sequences_meet<T>(one: &[T], other: &[T], any: impl Fn(&T) -> bool, same: impl Fn(&T, &T) -> bool) -> bool {
    // Whether the ends behind each position of `other` match the end of `one` behind the current one.
    let mut behind = vec![false; other.len() + 1];
    for at in (0..=one.len()).rev() {
        let mut row = vec![false; other.len() + 1];
        for to in (0..=other.len()).rev() {
            row[to] = match (one.get(at), other.get(to)) {
                (None, None) => true,
                (Some(mine), theirs) if any(mine) => behind[to] || (theirs.is_some() && row[to + 1]),
                (mine, Some(theirs)) if any(theirs) => row[to + 1] || (mine.is_some() && behind[to]),
                (Some(mine), Some(theirs)) => same(mine, theirs) && behind[to + 1],
                (Some(_), None) | (None, Some(_)) => false,
            };
        }
        behind = row;
    }
    behind[0]
}

/// A change's effect on protected paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtectedFindings {
    /// Files of base that were changed, renamed or deleted, as short sentences.
    pub violations: Vec<String>,
    /// New files under these paths, which are allowed and reported.
    pub notes: Vec<String>,
}

/// The paths whose existing files may not change.
#[derive(Debug, Clone)]
pub struct ProtectedPaths(Globs);

impl ProtectedPaths {
    /// Compiles the loop's `protect`.
    ///
    /// # Errors
    /// A pattern is not a glob.
    pub fn new<S: AsRef<str>>(patterns: &[S]) -> Result<Self, GlobError> {
        Globs::new(patterns).map(Self)
    }

    /// Checks every change; `in_base` returns whether base has a path.
    pub fn violations(&self, changes: &[PathChange], in_base: impl Fn(&str) -> bool) -> ProtectedFindings {
        let mut found = ProtectedFindings::default();
        for change in changes {
            let is_here = self.0.matches(&change.path);
            match &change.kind {
                ChangeKind::Deleted if is_here => found.violations.push(format!("`{}` was deleted", change.path)),
                ChangeKind::Renamed { from } if self.0.matches(from) => {
                    found.violations.push(format!("`{from}` was renamed to `{}`", change.path));
                }
                ChangeKind::Modified if is_here => found.violations.push(format!("`{}` was changed", change.path)),
                // An added or moved file can replace a file of base.
                ChangeKind::Added | ChangeKind::Renamed { .. } if is_here && in_base(&change.path) => {
                    found.violations.push(format!("`{}` was replaced", change.path));
                }
                ChangeKind::Added | ChangeKind::Renamed { .. } if is_here => {
                    found.notes.push(format!("`{}` is new under a protected path", change.path));
                }
                _ => {}
            }
        }
        found
    }
}

/// Paths outside the loop's `allow_paths`; an empty list allows every path.
///
/// # Errors
/// A pattern is not a glob.
pub fn outside_allowed<S: AsRef<str>>(patterns: &[S], changes: &[PathChange]) -> Result<Vec<String>, GlobError> {
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let allowed = Globs::new(patterns)?;
    let paths = changes.iter().flat_map(PathChange::paths).filter(|path| !allowed.matches(path));
    Ok(paths.map(|path| format!("`{path}` is outside the allowed paths")).collect())
}

#[cfg(test)]
mod tests;
