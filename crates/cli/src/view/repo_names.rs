//! Names of repositories in lists. A list names them only if it has more than one.

use std::collections::{BTreeMap, BTreeSet};

/// The names of the repositories in a list.
#[derive(Debug, Default)]
pub(crate) struct RepoNames(BTreeMap<String, String>);

impl RepoNames {
    /// The names of these repositories; none if they are one and the same.
    pub(crate) fn new<'r>(ids: impl Iterator<Item = &'r str>) -> Self {
        let ids: BTreeSet<&str> = ids.collect();
        if ids.len() < 2 {
            return Self::default();
        }
        let short = |id: &str| id.rsplit_once('-').map_or(id, |(name, _)| name).to_owned();
        let is_shared = |name: &str| ids.iter().filter(|id| short(id) == name).count() > 1;
        // The suffix distinguishes repositories of one name, so it is shown only then.
        let named = |id: &&str| {
            let name = Some(short(id)).filter(|name| !is_shared(name));
            ((*id).to_owned(), name.unwrap_or_else(|| (*id).to_owned()))
        };
        Self(ids.iter().map(named).collect())
    }

    /// A loop with its repository, if the list has several: `api/fix-tests`.
    pub(crate) fn title(&self, repo: &str, loop_name: &str) -> String {
        self.0.get(repo).map_or_else(|| loop_name.to_owned(), |repo| format!("{repo}/{loop_name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_named_only_when_there_are_several_and_never_ambiguously() {
        let title = |ids: &[&str], repo: &str| RepoNames::new(ids.iter().copied()).title(repo, "fix");
        assert_eq!(title(&["api-1f", "api-1f"], "api-1f"), "fix");
        assert_eq!(title(&["api-1f", "web-2a"], "api-1f"), "api/fix");
        assert_eq!(title(&["api-1f", "api-2a", "web-2a"], "api-2a"), "api-2a/fix");
    }
}
