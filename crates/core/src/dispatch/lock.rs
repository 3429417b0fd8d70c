//! Locks between loops: which resources a round reserves while it runs, and when two locks conflict.

use std::fmt;
use std::sync::Arc;

/// Prefix of a lock that is the same for the loops of every repository.
const SHARED: &str = "global:";
/// Prefix of a lock that covers a path and everything below it.
const PATH: &str = "path:";
/// The word in `locks` for the items that the round works on.
pub const OWN_ITEMS: &str = "item";

/// A lock that a round holds from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoundLock {
    /// The repository it applies to; `None` for all repositories.
    place: Option<Arc<str>>,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A branch, an outside item, or a name that loops agree on.
    Word(Arc<str>),
    Path {
        /// The part of the path before the first pattern; empty for the whole repository.
        prefix: Arc<str>,
        /// The path as written.
        text: Arc<str>,
    },
}

/// Whether rounds of a loop lock the items they work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ItemLocks {
    /// Other rounds may work on the same items.
    #[default]
    None,
    /// Rounds of loops with this setting do not work on the same item at once.
    Own,
}

impl RoundLock {
    /// Parses a lock from a loop file of the repository.
    #[must_use]
    pub fn from_text(repo: &str, text: &str) -> Self {
        let what = match text.strip_prefix(PATH) {
            Some(path) => What::Path { prefix: prefix(path).into(), text: text.into() },
            None => What::Word(text.into()),
        };
        Self { place: (!text.starts_with(SHARED)).then(|| repo.into()), what }
    }

    /// The lock on an item, in any revision: `issue-12@…` is `issue:12`.
    #[must_use]
    pub fn for_item(repo: &str, key: &str) -> Self {
        let name = key.rsplit_once('@').map_or(key, |(name, _)| name);
        let numbered = ["issue", "pr"].into_iter().find_map(|kind| {
            let number = name.strip_prefix(kind)?.strip_prefix('-')?;
            number.bytes().all(|byte| byte.is_ascii_digit()).then(|| format!("{kind}:{number}"))
        });
        Self::from_text(repo, &numbered.unwrap_or_else(|| format!("item:{name}")))
    }

    /// The repository it applies to; `None` for all repositories.
    #[must_use]
    pub fn repo(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// Whether two rounds cannot hold these locks at the same time.
    #[must_use]
    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// Whether a round that holds this lock also holds the other.
    pub(super) fn covers(&self, other: &Self) -> bool {
        if self.place != other.place {
            return false;
        }
        match (&self.what, &other.what) {
            (What::Word(word), What::Word(other)) => word == other,
            (What::Path { prefix, .. }, What::Path { prefix: other, .. }) => {
                let rest = other.strip_prefix(&**prefix);
                prefix.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            _ => false,
        }
    }

    /// Whether it can conflict with a lock of a different name.
    pub(super) fn is_path(&self) -> bool {
        matches!(self.what, What::Path { .. })
    }
}

/// The components of a path before the first one with a pattern.
fn prefix(path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    let fixed: Vec<&str> = parts.take_while(|part| !part.contains(['*', '?', '[', '{'])).collect();
    fixed.join("/")
}

/// Removes the locks that another one covers.
pub(super) fn without_covered(locks: impl IntoIterator<Item = RoundLock>) -> Vec<RoundLock> {
    let mut widest: Vec<RoundLock> = Vec::new();
    for lock in locks {
        if !widest.iter().any(|other| other.covers(&lock)) {
            widest.retain(|other| !lock.covers(other));
            widest.push(lock);
        }
    }
    widest
}

impl fmt::Display for RoundLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Word(text) | What::Path { text, .. } => f.write_str(text),
        }
    }
}

impl From<&str> for RoundLock {
    /// A lock that applies to every repository.
    fn from(text: &str) -> Self {
        Self { place: None, ..Self::from_text("", text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_covers_what_is_below_it_and_a_glob_its_fixed_part() {
        let meet =
            |one: &str, other: &str| RoundLock::from_text("r", one).conflicts_with(&RoundLock::from_text("r", other));
        let table = [
            ("path:src/", "path:src/a.rs", true),
            ("path:src", "path:./src//a.rs", true),
            ("path:src/a", "path:src/ab", false),
            ("path:src/**/*.rs", "path:src/deep/b.rs", true),
            ("path:src/*.rs", "path:docs/", false),
            ("path:**/Cargo.toml", "path:docs/a.md", true),
            ("path:docs", "docs", false),
            ("branch:main", "branch:main", true),
            ("branch:main", "branch:maintenance", false),
            ("issue:1", "issue:12", false),
        ];
        for (one, other, expected) in table {
            assert_eq!((meet(one, other), meet(other, one)), (expected, expected), "{one} {other}");
        }
        assert!(
            !RoundLock::from_text("r", "path:src").conflicts_with(&RoundLock::from_text("s", "path:src")),
            "another repository, another path"
        );
        assert!(RoundLock::from_text("r", "global:gpu").conflicts_with(&RoundLock::from_text("s", "global:gpu")));
    }

    #[test]
    fn item_is_the_same_in_whatever_revision() {
        let lock = |key: &str| RoundLock::for_item("r", key).to_string();
        assert_eq!((lock("issue-12@ab").as_str(), lock("pr-7@cd").as_str()), ("issue:12", "pr:7"));
        assert_eq!((lock("ci-build@ab").as_str(), lock("issue-x@ab").as_str()), ("item:ci-build", "item:issue-x"));
        assert!(RoundLock::for_item("r", "issue-12@ab").conflicts_with(&RoundLock::from_text("r", "issue:12")));
    }

    #[test]
    fn of_locks_that_cover_each_other_the_widest_is_held() {
        let held = without_covered(["path:src/a", "x", "path:src", "path:src/b", "x"].map(RoundLock::from));
        assert_eq!(held.iter().map(ToString::to_string).collect::<Vec<_>>(), ["x", "path:src"]);
    }
}
