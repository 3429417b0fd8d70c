//! Changes of items and branches that people and clients have in common: close, merge, delete, mark as a draft.

use super::state::{FakeItem, FakeMerge, FakePull, RepoState};

/// The beginnings of titles with which GitLab and Gitea mark a draft.
const DRAFT_PREFIXES: [&str; 5] = ["Draft: ", "[Draft] ", "(Draft) ", "WIP: ", "[WIP] "];

pub(super) fn without_draft_prefix(title: &str) -> &str {
    DRAFT_PREFIXES.iter().find_map(|prefix| title.strip_prefix(prefix)).unwrap_or(title)
}

/// Whether GitLab and Gitea show a pull request with this title as a draft.
pub(super) fn is_draft_title(title: &str) -> bool {
    without_draft_prefix(title) != title
}

impl FakeItem {
    /// Changes the title; where the title marks a draft, the mark decides.
    pub(super) fn set_title(&mut self, title: &str) {
        let marks = is_draft_title(&self.title) || is_draft_title(title);
        self.title = title.to_owned();
        if let Some(pull) = self.pull.as_mut().filter(|_| marks) {
            pull.draft = is_draft_title(title);
        }
    }

    pub(super) fn close(&mut self, by: &str, now: &str) {
        if self.open {
            self.open = false;
            self.closed = Some(now.to_owned());
            self.closed_by = Some(by.to_owned());
        }
    }

    pub(super) fn reopen(&mut self) {
        self.open = true;
        self.closed = None;
        self.closed_by = None;
    }

    pub(super) fn add_label(&mut self, label: &str) {
        if !self.labels.iter().any(|known| known == label) {
            self.labels.push(label.to_owned());
        }
    }
}

impl RepoState {
    /// A pull request between two branches that exist.
    pub(super) fn new_pull(&self, head: &str, base: &str, draft: bool) -> Option<FakePull> {
        Some(FakePull {
            head_branch: head.to_owned(),
            head: self.branches.get(head)?.clone(),
            base_branch: base.to_owned(),
            base: self.branches.get(base)?.clone(),
            draft,
            merged: None,
            reviewers: Vec::new(),
        })
    }

    /// Deletes a branch and closes the pull requests from it.
    pub(super) fn delete_branch(&mut self, branch: &str, now: &str) -> Result<(), String> {
        self.git.set_branch(branch, None)?;
        for item in self.items.values_mut() {
            let comes_from = |pull: &FakePull| pull.head_branch == branch || pull.base_branch == branch;
            if item.pull.as_ref().is_some_and(comes_from) {
                item.close("person", now);
            }
        }
        self.refresh();
        Ok(())
    }

    /// Merges an open pull request into its base branch.
    pub(super) fn merge_pull(&mut self, number: u64, squash: bool, by: &str, now: &str) -> Result<String, String> {
        let item = self.items.get(&number).ok_or("no such pull request")?;
        let pull = item.pull.clone().filter(|_| item.open).ok_or("the pull request is not open")?;
        let base = self.branches.get(&pull.base_branch).cloned().ok_or("the base branch does not exist")?;
        let message = format!("{} (#{number})", item.title);
        let commit = self.git.merge(&base, &pull.head, squash, &message)?;
        self.git.set_branch(&pull.base_branch, Some(&commit))?;
        let item = self.items.get_mut(&number).ok_or("no such pull request")?;
        item.close(by, now);
        item.updated = now.to_owned();
        if let Some(pull) = item.pull.as_mut() {
            pull.merged = Some(FakeMerge { at: now.to_owned(), by: by.to_owned(), commit: commit.clone() });
        }
        self.refresh();
        Ok(commit)
    }
}
