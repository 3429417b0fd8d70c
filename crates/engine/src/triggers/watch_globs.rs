//! The folders that a loop's `files:` globs can match, so that no others are watched.

use loopwright_core::paths::Globs;

/// The globs of one loop or of several.
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
