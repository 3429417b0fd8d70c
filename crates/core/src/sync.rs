//! The comparison behind `sync`: a file of the repository, the copy at a global place, and the copy that was written
//! there last. A copy that was edited there is never replaced or removed, and a copy of another origin never is.

use crate::words::worded;

worded! {
    /// The state of one copy.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum CopyState {
        /// It is the repository's file.
        Same = "same",
        /// It does not exist yet.
        New = "new",
        /// Only the repository's file has changed since it was written.
        Outdated = "outdated",
        /// Only the copy has changed since it was written.
        Edited = "edited",
        /// The repository's file was deleted, and the copy is as it was written.
        Deleted = "deleted",
        /// Both have changed, or the file there was not written by `sync` for this repository.
        Conflict = "conflict",
    }
}

impl CopyState {
    /// Compares three hashes: of the repository's file, of the copy there, and of the copy as this repository wrote it.
    #[must_use]
    pub fn compare(ours: &str, there: Option<&str>, written: Option<&str>) -> Self {
        match (there, written) {
            (Some(there), _) if there == ours => Self::Same,
            (None, _) => Self::New,
            (Some(there), Some(written)) if there == written => Self::Outdated,
            (Some(_), Some(written)) if written == ours => Self::Edited,
            (Some(_), _) => Self::Conflict,
        }
    }

    /// The same for a copy whose file the repository does not have any more; `None` if the copy is gone, too.
    #[must_use]
    pub fn of_deleted(there: Option<&str>, written: &str) -> Option<Self> {
        there.map(|there| if there == written { Self::Deleted } else { Self::Edited })
    }

    /// Whether the repository's file may be written there.
    #[must_use]
    pub fn may_write(self) -> bool {
        matches!(self, Self::New | Self::Outdated)
    }
}

/// A Markdown file as a skill. A skill needs a name and a description; a file without front matter gets both.
#[must_use]
pub fn as_skill(name: &str, text: &str) -> String {
    if text.starts_with("---\n") || text.starts_with("---\r\n") {
        return text.to_owned();
    }
    let line = text.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty());
    let about: String = line.unwrap_or(name).chars().take(1000).collect();
    let about = serde_json::Value::String(about);
    format!("---\nname: {name}\ndescription: {about}\n---\n\n{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_is_written_only_where_nothing_would_be_lost() {
        let table = [
            ("a", None, None, "new", true),
            ("a", None, Some("a"), "new", true),
            ("a", Some("a"), None, "same", false),
            ("a", Some("a"), Some("b"), "same", false),
            ("b", Some("a"), Some("a"), "outdated", true),
            ("a", Some("b"), Some("a"), "edited", false),
            ("b", Some("c"), Some("a"), "conflict", false),
            ("a", Some("b"), None, "conflict", false),
        ];
        for (ours, there, written, word, may) in table {
            let state = CopyState::compare(ours, there, written);
            assert_eq!((state.word(), state.may_write()), (word, may), "{ours} {there:?} {written:?}");
        }
    }

    #[test]
    fn copy_of_a_deleted_file_is_removed_only_as_it_was_written() {
        assert_eq!(CopyState::of_deleted(Some("a"), "a"), Some(CopyState::Deleted));
        assert_eq!(CopyState::of_deleted(Some("b"), "a"), Some(CopyState::Edited));
        assert_eq!(CopyState::of_deleted(None, "a"), None);
        assert!(!CopyState::Deleted.may_write());
    }

    #[test]
    fn skill_without_front_matter_gets_a_name_and_a_description() {
        assert_eq!(as_skill("x", "---\nname: y\n---\n"), "---\nname: y\n---\n");
        assert_eq!(
            as_skill("x", "# Find: it\nText.\n"),
            "---\nname: x\ndescription: \"Find: it\"\n---\n\n# Find: it\nText.\n"
        );
    }
}
