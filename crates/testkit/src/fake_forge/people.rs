//! People and build servers on the fake forge: everything that happens there without Loopwright, and a view of the
//! state for assertions.

use super::FakeForge;
use super::changes::without_draft_prefix;
use super::state::{
    FakeCheck, FakeCheckKind, FakeComment, FakeItem, FakeLabel, FakePlace, FakeReview, NewCheck, NewComment, NewItem,
    NewReview, RepoState,
};
use std::path::Path;

/// A repository of the forge, for tests.
#[derive(Debug, Clone)]
pub struct FakeRepo<'a> {
    forge: &'a FakeForge,
    name: String,
}

/// An issue or a comment on a line that a person writes.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "the fields have the names of the forges' own")]
pub struct IssueDraft<'a> {
    pub author: &'a str,
    pub title: &'a str,
    pub body: &'a str,
    pub labels: &'a [&'a str],
    pub assignees: &'a [&'a str],
}

impl<'a> FakeRepo<'a> {
    pub(super) fn new(forge: &'a FakeForge, name: &str) -> Self {
        Self { forge, name: name.to_owned() }
    }

    /// The address for `git clone` and `git push`.
    #[must_use]
    pub fn clone_url(&self) -> String {
        format!("{}/{}.git", self.forge.url(), self.name)
    }

    /// `owner/name`.
    #[must_use]
    pub fn full_name(&self) -> &str {
        &self.name
    }

    /// Its folder on disk, for tests that look at it with git.
    #[must_use]
    pub fn path(&self) -> std::path::PathBuf {
        self.read(|repo| repo.git.path().to_path_buf())
    }

    fn read<T>(&self, look: impl FnOnce(&RepoState) -> T) -> T {
        let state = self.forge.state();
        look(state.repo(&self.name).unwrap_or_else(|| panic!("no repository `{}`", self.name)))
    }

    fn change<T>(&self, act: impl FnOnce(&mut RepoState, &str) -> T) -> T {
        let mut state = self.forge.state();
        let now = state.next_time();
        let repo = state.repo_mut(&self.name).unwrap_or_else(|| panic!("no repository `{}`", self.name));
        act(repo, &now)
    }

    fn change_item(&self, number: u64, act: impl FnOnce(&mut FakeItem, &str)) {
        self.change(|repo, now| {
            let item = repo.items.get_mut(&number).unwrap_or_else(|| panic!("no item {number}"));
            item.updated = now.to_owned();
            act(item, now);
        });
    }

    /// Gives an account write access.
    pub fn add_writer(&self, user: &str) -> &Self {
        self.forge.state().user_id(user);
        self.change(|repo, _| repo.writers.push(user.to_owned()));
        self
    }

    /// Takes an account's write access away.
    pub fn remove_writer(&self, user: &str) -> &Self {
        self.change(|repo, _| repo.writers.retain(|known| known != user));
        self
    }

    /// Hides the repository from accounts without write access.
    pub fn make_private(&self) -> &Self {
        self.change(|repo, _| repo.private = true);
        self
    }

    /// Makes the repository read-only.
    pub fn archive(&self) -> &Self {
        self.change(|repo, _| repo.archived = true);
        self
    }

    /// Ends the read-only state.
    pub fn unarchive(&self) -> &Self {
        self.change(|repo, _| repo.archived = false);
        self
    }

    /// Refuses every push to a branch.
    pub fn protect(&self, branch: &str) -> &Self {
        self.change(|repo, _| {
            repo.protected.push(branch.to_owned());
            repo.git.protect(&repo.protected);
        });
        self
    }

    /// Ends the protection of a branch.
    pub fn unprotect(&self, branch: &str) -> &Self {
        self.change(|repo, _| {
            repo.protected.retain(|known| known != branch);
            repo.git.protect(&repo.protected);
        });
        self
    }

    /// Takes all branches of a repository on this machine, with force.
    pub fn copy_branches_from(&self, source: &Path) -> &Self {
        self.change(|repo, _| {
            repo.git.copy_from(source);
            repo.refresh();
        });
        self
    }

    /// A person commits to a branch, which starts at the default branch if it does not exist; returns the commit.
    pub fn push_commit(&self, branch: &str, message: &str) -> String {
        self.push_file(branch, "PERSON.md", message, message)
    }

    /// A person commits a file to a branch, which starts at the default branch if it does not exist.
    pub fn push_file(&self, branch: &str, path: &str, content: &str, message: &str) -> String {
        self.change(|repo, _| {
            let parent = repo.branches.get(branch).or_else(|| repo.branches.get(&repo.default_branch)).cloned();
            let commit = repo.git.add_commit(branch, parent.as_deref(), path, content, message);
            repo.refresh();
            commit
        })
    }

    /// A person replaces the commits of a branch by one on top of the default branch; returns it.
    pub fn force_push(&self, branch: &str, message: &str) -> String {
        self.change(|repo, _| {
            let parent = repo.branches.get(&repo.default_branch).cloned();
            let commit = repo.git.add_commit(branch, parent.as_deref(), "PERSON.md", message, message);
            repo.refresh();
            commit
        })
    }

    /// A person deletes a branch. Forges close the pull requests that come from it.
    pub fn delete_branch(&self, branch: &str) {
        self.change(|repo, now| {
            repo.delete_branch(branch, now).unwrap_or_else(|error| panic!("delete `{branch}`: {error}"));
        });
    }

    /// Reads the branches again, after a push that bypassed the forge.
    pub fn refresh(&self) {
        self.change(|repo, _| repo.refresh());
    }

    /// The commit of a branch.
    #[must_use]
    pub fn branch(&self, name: &str) -> Option<String> {
        self.read(|repo| repo.branches.get(name).cloned())
    }

    /// The names of all branches.
    #[must_use]
    pub fn branches(&self) -> Vec<String> {
        self.read(|repo| repo.branches.keys().cloned().collect())
    }

    /// A person opens an issue; returns its number.
    pub fn open_issue(&self, issue: &IssueDraft<'_>) -> u64 {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let draft = NewItem {
            title: issue.title.to_owned(),
            body: Some(issue.body.to_owned()),
            author: issue.author.to_owned(),
            labels: list(issue.labels),
            assignees: list(issue.assignees),
            pull: None,
        };
        self.forge.state().add_item(&self.name, draft)
    }

    /// A person opens a pull request of a branch into the default branch; returns its number.
    ///
    /// # Panics
    /// If there is no such branch.
    pub fn open_pull(&self, author: &str, branch: &str, title: &str, body: &str) -> u64 {
        let pull = self.read(|repo| repo.new_pull(branch, &repo.default_branch, false));
        let pull = Some(pull.unwrap_or_else(|| panic!("no branch `{branch}`")));
        let (title, body, author) = (title.to_owned(), Some(body.to_owned()), author.to_owned());
        self.forge.state().add_item(&self.name, NewItem { title, body, author, pull, ..NewItem::default() })
    }

    /// A person closes an issue or a pull request.
    pub fn close_item(&self, number: u64) {
        self.change_item(number, |item, now| item.close("person", now));
    }

    /// A person opens an issue or a pull request again.
    pub fn reopen_item(&self, number: u64) {
        self.change_item(number, |item, _| item.reopen());
    }

    /// A person merges a pull request; returns the merge commit.
    pub fn merge_pull(&self, number: u64) -> String {
        self.change(|repo, now| {
            let merged = repo.merge_pull(number, false, "person", now);
            merged.unwrap_or_else(|error| panic!("merge {number}: {error}"))
        })
    }

    /// A person gives a pull request another base branch.
    pub fn retarget_pull(&self, number: u64, base: &str) {
        self.change_item(number, |item, _| item.pull.as_mut().expect("a pull request").base_branch = base.to_owned());
    }

    /// A person changes a title.
    pub fn edit_title(&self, number: u64, title: &str) {
        self.change_item(number, |item, _| item.set_title(title));
    }

    /// A person changes a text.
    pub fn edit_body(&self, number: u64, body: &str) {
        self.change_item(number, |item, _| item.body = Some(body.to_owned()));
    }

    /// A person marks a pull request as ready for review.
    pub fn mark_ready(&self, number: u64) {
        self.change_item(number, |item, _| {
            let title = without_draft_prefix(&item.title).to_owned();
            item.title = title;
            item.pull.as_mut().expect("a pull request").draft = false;
        });
    }

    /// A person adds a label.
    pub fn add_label(&self, number: u64, label: &str) {
        self.add_label_as(number, Some("person"), label);
    }

    /// An account adds a label; `None` for one that was deleted since.
    pub fn add_label_as(&self, number: u64, account: Option<&str>, label: &str) {
        self.change(|repo, _| repo.add_label(label).id);
        self.change_item(number, |item, _| item.add_label(label));
        self.forge.state().note_labels(account);
    }

    /// A person removes a label.
    pub fn remove_label(&self, number: u64, label: &str) {
        self.change_item(number, |item, _| item.labels.retain(|known| known != label));
        self.forge.state().note_labels(Some("person"));
    }

    /// A person comments on an issue or a pull request; returns the comment's id.
    pub fn comment(&self, number: u64, author: &str, body: &str) -> u64 {
        let draft =
            NewComment { item: number, author: author.to_owned(), body: body.to_owned(), ..NewComment::default() };
        self.forge.state().add_comment(&self.name, draft)
    }

    /// A person comments on a line of a pull request; returns the comment's id.
    pub fn comment_inline(&self, number: u64, author: &str, path: &str, line: u64, body: &str) -> u64 {
        let commit = self.pull(number).pull.expect("a pull request").head;
        let review = self.review(number, author, "COMMENTED", "");
        let place = FakePlace { path: path.to_owned(), line, start_line: None, side: "RIGHT".to_owned(), commit };
        let draft = NewComment {
            item: number,
            author: author.to_owned(),
            body: body.to_owned(),
            place: Some(place),
            review: Some(review),
            thread: None,
        };
        self.forge.state().add_comment(&self.name, draft)
    }

    /// The person who wrote a comment changes its text.
    pub fn edit_comment(&self, id: u64, body: &str) {
        self.change(|repo, now| {
            for comment in repo.comments.iter_mut().filter(|comment| comment.id == id) {
                comment.body = body.to_owned();
                comment.updated = now.to_owned();
            }
        });
    }

    /// A person deletes a comment.
    pub fn delete_comment(&self, id: u64) {
        self.change(|repo, _| repo.comments.retain(|comment| comment.id != id));
    }

    /// A person reviews a pull request: `APPROVED`, `CHANGES_REQUESTED` or `COMMENTED`; returns the review's id.
    pub fn review(&self, number: u64, author: &str, state: &str, body: &str) -> u64 {
        let commit = self.pull(number).pull.expect("a pull request").head;
        let review = NewReview { author: author.to_owned(), state: state.to_owned(), body: body.to_owned(), commit };
        self.forge.state().add_review(&self.name, number, review)
    }

    /// A build server reports a check run: `success`, `failure` or another conclusion of GitHub.
    pub fn report_check(&self, name: &str, head: &str, conclusion: &str, text: &str) -> u64 {
        self.add_check(FakeCheckKind::Run, name, head, conclusion, text)
    }

    /// A build server reports a commit status: `success`, `failure`, `error` or `pending`.
    pub fn report_status(&self, name: &str, head: &str, state: &str, text: &str) -> u64 {
        self.add_check(FakeCheckKind::Status, name, head, state, text)
    }

    /// A build server reports a failed check run.
    pub fn fail_check(&self, name: &str, head: &str) -> u64 {
        self.report_check(name, head, "failure", "1 test failed")
    }

    fn add_check(&self, kind: FakeCheckKind, name: &str, head: &str, result: &str, text: &str) -> u64 {
        let pending = result == "pending";
        let check = NewCheck {
            name: name.to_owned(),
            head: head.to_owned(),
            kind,
            status: if pending { "in_progress" } else { "completed" }.to_owned(),
            conclusion: (!pending).then(|| result.to_owned()),
            title: Some(text.to_owned()),
            text: Some(text.to_owned()),
            url: None,
            author: "ci".to_owned(),
        };
        self.forge.state().add_check(&self.name, check)
    }

    /// An issue or a pull request.
    ///
    /// # Panics
    /// If there is none with this number.
    #[must_use]
    pub fn item(&self, number: u64) -> FakeItem {
        self.read(|repo| repo.items.get(&number).cloned()).unwrap_or_else(|| panic!("no item {number}"))
    }

    fn pull(&self, number: u64) -> FakeItem {
        self.item(number)
    }

    /// All pull requests, also closed ones, oldest first.
    #[must_use]
    pub fn pulls(&self) -> Vec<FakeItem> {
        self.read(|repo| repo.items.values().filter(|item| item.pull.is_some()).cloned().collect())
    }

    /// All issues, also closed ones, oldest first.
    #[must_use]
    pub fn issues(&self) -> Vec<FakeItem> {
        self.read(|repo| repo.items.values().filter(|item| item.pull.is_none()).cloned().collect())
    }

    /// The comments of an item, oldest first; inline comments have a place.
    #[must_use]
    pub fn comments(&self, number: u64) -> Vec<FakeComment> {
        self.read(|repo| repo.comments.iter().filter(|comment| comment.item == number).cloned().collect())
    }

    /// The reviews of a pull request, oldest first.
    #[must_use]
    pub fn reviews(&self, number: u64) -> Vec<FakeReview> {
        self.read(|repo| repo.reviews.iter().filter(|review| review.item == number).cloned().collect())
    }

    /// The checks and statuses, oldest first.
    #[must_use]
    pub fn checks(&self) -> Vec<FakeCheck> {
        self.read(|repo| repo.checks.clone())
    }

    /// The labels of the repository.
    #[must_use]
    pub fn labels(&self) -> Vec<FakeLabel> {
        self.read(|repo| repo.labels.clone())
    }
}
