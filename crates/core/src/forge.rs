//! Reading a forge: the trait that every forge implements, its rows, and the filters. Writing is [`crate::deliver`];
//! this module has no side effects.
//!
//! A forge filters as far as its own interface allows. The filters here decide in the end, so that every forge returns
//! the same rows for the same query.

use crate::BoxFuture;
use crate::answer::CommandForm;
use std::num::NonZeroUsize;

/// The largest number of rows of one page.
pub const PAGE_ROWS_MAX: usize = 100;

/// The largest number of changed files that are read of one pull request.
pub const CHANGED_FILES_MAX: usize = 300;

/// The largest number of pages that [`count_open_pulls`] reads: filtered listings may have empty pages.
const COUNT_PAGES_MAX: usize = 1000;

/// Whether something on a forge is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemState {
    /// It is open.
    Open,
    /// It was closed without a merge.
    Closed,
    /// It was merged.
    Merged,
}

/// A pull request, or a merge request on forges that call it so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// The title, the text and the people.
    pub about: ForgeItem,
    /// Whether it is a draft.
    pub draft: bool,
    /// The source branch.
    pub branch: String,
    /// The current commit of the source branch.
    pub head: String,
    /// The target branch.
    pub base_branch: String,
}

/// An issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// The title, the text and the people.
    pub about: ForgeItem,
}

/// The common part of a pull request and an issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeItem {
    /// Its number on the forge.
    pub number: u64,
    /// Its title.
    pub title: Option<String>,
    /// Its text.
    pub body: String,
    /// The account that wrote it; for an item of a loop, the loop's name.
    pub author: Option<String>,
    /// The loop that wrote it, from the marker in its text.
    pub loop_name: Option<String>,
    /// Whether it is open.
    pub state: ItemState,
    /// Its labels.
    pub labels: Vec<String>,
    /// The accounts it is assigned to.
    pub assignees: Vec<String>,
}

/// The kind of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommentKind {
    /// A comment on the whole item.
    Plain,
    /// A review.
    Review,
    /// Comments on lines of the change.
    Inline,
    /// Labels that were added.
    Labels,
}

/// A comment on a pull request or an issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeComment {
    /// Its id on the forge, unique within its item.
    pub id: String,
    /// Its kind.
    pub kind: CommentKind,
    /// The account that wrote it.
    pub author: Option<String>,
    /// The id of that account, which stays the same when the account is renamed.
    pub author_id: Option<String>,
    /// When it was written, in milliseconds since 1970; 0 if the forge does not say.
    pub created_ms: i64,
    /// Whether its text was changed after it was written.
    pub is_edited: bool,
    /// The loop that wrote it, from the marker in its text.
    pub loop_name: Option<String>,
    /// Its text.
    pub body: String,
}

/// A change of an item's labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelChange {
    /// Its id, unique among the changes of the item.
    pub id: String,
    /// The label.
    pub label: String,
    /// Whether the label was added; otherwise it was removed.
    pub is_added: bool,
    /// The name of the account that changed it, if the forge reports it.
    pub account: Option<String>,
    /// The id of that account.
    pub account_id: Option<String>,
    /// When, by the forge's clock.
    pub at_ms: i64,
}

/// The state of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckState {
    /// It has not finished.
    Pending,
    /// It passed.
    Passed,
    /// It failed.
    Failed,
}

/// A check of a build server on a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRun {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: CheckState,
    /// The commit that it ran on.
    pub head: String,
    /// The branch that it ran for, if the forge knows it.
    pub branch: Option<String>,
    /// A summary in one line.
    pub title: Option<String>,
    /// Its output, truncated.
    pub body: String,
}

/// A file that a pull request changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullFile {
    /// Its path; the new one if it was renamed.
    pub path: String,
    /// Its part of the unified diff. `None` if the forge shows none, as for a binary or a very large file.
    pub patch: Option<String>,
}

/// Splits a unified diff at its file headers. Every line of a file has a prefix in the diff, so no file can forge a header.
#[must_use]
pub fn split_diff(diff: &str) -> Vec<PullFile> {
    let mut files: Vec<(String, String)> = Vec::new();
    for line in diff.lines() {
        if let Some(names) = line.strip_prefix("diff --git ") {
            let path = names.rsplit_once(" b/").map_or(names, |(_, path)| path).to_owned();
            files.push((path, String::new()));
        }
        if let Some((_, text)) = files.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    files.into_iter().map(|(path, text)| PullFile { path, patch: Some(text) }).collect()
}

/// The item that comments belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommentsOf {
    /// A pull request by its number.
    Pull(u64),
    /// An issue by its number.
    Issue(u64),
}

/// A query for pull requests or issues. An empty query matches all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemQuery {
    /// The state.
    pub state: Option<ItemState>,
    /// The item has all of these labels.
    pub labels: Vec<String>,
    /// The item has none of these labels.
    pub not_labels: Vec<String>,
    /// One of these accounts wrote it.
    pub author: Vec<String>,
    /// This account is assigned to it.
    pub assignee: Option<String>,
    /// Its text mentions this account.
    pub mention: Option<String>,
    /// Its title or its text contains this, ignoring case.
    pub text: Option<String>,
    /// This loop wrote it.
    pub loop_name: Option<String>,
    /// Pull requests only: the target branch.
    pub base_branch: Option<String>,
}

impl ItemQuery {
    /// Matches all open items.
    #[must_use]
    pub fn open() -> Self {
        Self { state: Some(ItemState::Open), ..Self::default() }
    }

    /// Whether the query matches a pull request.
    #[must_use]
    pub fn wants_pull(&self, pull: &PullRequest) -> bool {
        self.base_branch.as_ref().is_none_or(|branch| *branch == pull.base_branch) && self.wants(&pull.about)
    }

    /// Whether the query matches an issue.
    #[must_use]
    pub fn wants_issue(&self, issue: &Issue) -> bool {
        self.wants(&issue.about)
    }

    fn wants(&self, item: &ForgeItem) -> bool {
        let is_author = |name: &String| item.author.as_ref() == Some(name);
        self.state.is_none_or(|state| state == item.state)
            && self.labels.iter().all(|label| item.labels.contains(label))
            && !self.not_labels.iter().any(|label| item.labels.contains(label))
            && (self.author.is_empty() || self.author.iter().any(is_author))
            && self.assignee.as_ref().is_none_or(|name| item.assignees.contains(name))
            && self.mention.as_ref().is_none_or(|name| mentions(&item.body, name))
            && self.text.as_ref().is_none_or(|text| contains(item, &text.to_lowercase()))
            && self.loop_name.as_ref().is_none_or(|name| item.loop_name.as_ref() == Some(name))
    }
}

fn contains(item: &ForgeItem, text: &str) -> bool {
    let title = item.title.as_deref().unwrap_or_default();
    [title, &item.body].into_iter().any(|part| part.to_lowercase().contains(text))
}

/// Whether a text contains `@name` as a separate word.
fn mentions(text: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let mention = format!("@{}", name.to_lowercase());
    let text = text.to_lowercase();
    text.match_indices(&mention).any(|(at, found)| {
        let (before, after) = (&text[..at], &text[at + found.len()..]);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    })
}

/// A query for checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckQuery {
    /// Their state.
    pub state: Option<CheckState>,
    /// The branch they ran for, or whose last commit they ran on. `None` matches checks of every branch.
    pub branch: Option<String>,
    /// Further commits that count as the branch's last one, such as that of the user's own clone. Without a branch, only
    /// checks of these commits match, if there are any.
    pub heads: Vec<String>,
}

impl CheckQuery {
    /// Whether the query matches a check; `tip` is the commit that the forge has on the branch.
    #[must_use]
    pub fn wants(&self, check: &CheckRun, tip: Option<&str>) -> bool {
        let is_head = self.heads.contains(&check.head);
        let is_there = match &self.branch {
            Some(branch) => check.branch.as_ref() == Some(branch) || tip == Some(&check.head) || is_head,
            None => self.heads.is_empty() || is_head,
        };
        self.state.is_none_or(|state| state == check.state) && is_there
    }
}

/// The start of the next page in a listing; only the forge that created the token can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageToken(pub String);

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgePage<T> {
    /// At most [`PAGE_ROWS_MAX`] rows. A page may be empty and have a next one.
    pub rows: Vec<T>,
    /// The next page; `None` after the last.
    pub next: Option<PageToken>,
}

impl<T> ForgePage<T> {
    /// Takes one page from a complete list of rows; the token is the number of rows before the page.
    #[must_use]
    pub fn cut(rows: impl IntoIterator<Item = T>, from: Option<&PageToken>) -> Self {
        let skip = from.and_then(|token| token.0.parse().ok()).unwrap_or(0);
        let mut rest = rows.into_iter().skip(skip);
        let rows: Vec<T> = rest.by_ref().take(PAGE_ROWS_MAX).collect();
        let next = rest.next().map(|_| PageToken((skip + rows.len()).to_string()));
        Self { rows, next }
    }
}

/// The reason why a forge could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForgeError {
    /// The forge refuses the request: a token without the scope, a repository that does not exist.
    #[error("{0}")]
    Refused(String),
    /// The forge cannot answer now.
    #[error("{text}")]
    Unavailable {
        /// The message for people.
        text: String,
        /// The time from which a retry makes sense, if the forge reports it.
        retry_at_ms: Option<i64>,
    },
}

impl ForgeError {
    /// The forge cannot answer now and does not report for how long.
    #[must_use]
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self::Unavailable { text: text.into(), retry_at_ms: None }
    }
}

/// The answer to one read.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, ForgeError>>;

/// Reads from a forge. Rows are sorted by number, oldest first; a row that changes between two pages may be missing or
/// appear twice.
pub trait ReadForge: Send + Sync {
    /// Pull requests.
    fn pulls<'a>(&'a self, query: &'a ItemQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<PullRequest>>;

    /// The pull requests of one branch into another, in any state.
    fn branch_pulls<'a>(&'a self, branch: &'a str, base_branch: &'a str) -> Answer<'a, Vec<PullRequest>>;

    /// Issues, without pull requests.
    fn issues<'a>(&'a self, query: &'a ItemQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<Issue>>;

    /// Checks.
    fn checks<'a>(&'a self, query: &'a CheckQuery, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<CheckRun>>;

    /// Comments of one pull request or issue.
    fn comments<'a>(&'a self, of: CommentsOf, from: Option<&'a PageToken>) -> Answer<'a, ForgePage<ForgeComment>>;

    /// The changes of the labels of one pull request or issue, oldest first. A forge that does not report them has none.
    fn label_changes(&self, of: CommentsOf) -> Answer<'_, Vec<LabelChange>> {
        let _ = of;
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// The id of the account that this connection uses; `None` if it is no person's account.
    fn own_account(&self) -> Answer<'_, Option<String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// How people begin a command in a comment on this forge.
    fn command_form(&self) -> CommandForm {
        CommandForm::Slash
    }

    /// The files that a pull request changes since it left its target branch, at most [`CHANGED_FILES_MAX`].
    fn changed_files(&self, pull: u64) -> Answer<'_, Vec<PullFile>>;
}

/// Reads pages until there are enough rows or no more pages.
///
/// # Errors
/// If a page cannot be read.
pub async fn read_rows<'a, T>(
    rows_max: NonZeroUsize,
    mut page: impl FnMut(Option<PageToken>) -> Answer<'a, ForgePage<T>>,
) -> Result<Vec<T>, ForgeError> {
    let (mut rows, mut from) = (Vec::new(), None);
    // Filtered listings may have empty pages, so the number of pages has its own limit.
    for _ in 0..rows_max.get() {
        let ForgePage { rows: more, next } = page(from).await?;
        rows.extend(more);
        from = next;
        if from.is_none() || rows.len() >= rows_max.get() {
            break;
        }
    }
    rows.truncate(rows_max.get());
    Ok(rows)
}

/// The number of a loop's open pull requests, counted up to `most`.
///
/// # Errors
/// If the forge cannot be read.
pub async fn count_open_pulls(forge: &dyn ReadForge, loop_name: &str, most: usize) -> Result<usize, ForgeError> {
    let query = ItemQuery { loop_name: Some(loop_name.to_owned()), ..ItemQuery::open() };
    let (mut open, mut from) = (0, None);
    for _ in 0..COUNT_PAGES_MAX {
        let page = forge.pulls(&query, from.as_ref()).await?;
        open += page.rows.len();
        from = page.next;
        if from.is_none() || open >= most {
            return Ok(open.min(most));
        }
    }
    Err(ForgeError::unavailable(format!("more than {COUNT_PAGES_MAX} pages of open pull requests")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item() -> ForgeItem {
        ForgeItem {
            number: 1,
            title: Some("Bump Serde".to_owned()),
            body: "Please look, @Ada-L and @bob.".to_owned(),
            author: Some("eve".to_owned()),
            loop_name: None,
            state: ItemState::Open,
            labels: vec!["deps".to_owned()],
            assignees: vec!["bob".to_owned()],
        }
    }

    #[test]
    fn each_filter_keeps_matching_items_and_drops_the_rest() {
        let some = |text: &str| Some(text.to_owned());
        let list = |text: &str| vec![text.to_owned()];
        let empty = ItemQuery::default;
        let cases = [
            (empty(), true),
            (ItemQuery { state: Some(ItemState::Closed), ..empty() }, false),
            (ItemQuery { labels: list("deps"), ..empty() }, true),
            (ItemQuery { labels: list("bug"), ..empty() }, false),
            (ItemQuery { not_labels: list("deps"), ..empty() }, false),
            (ItemQuery { author: list("eve"), ..empty() }, true),
            (ItemQuery { author: list("ada"), ..empty() }, false),
            (ItemQuery { assignee: some("bob"), ..empty() }, true),
            (ItemQuery { assignee: some("eve"), ..empty() }, false),
            (ItemQuery { mention: some("ada-l"), ..empty() }, true),
            (ItemQuery { mention: some("ada"), ..empty() }, false),
            (ItemQuery { text: some("bump serde"), ..empty() }, true),
            (ItemQuery { text: some("tokio"), ..empty() }, false),
            (ItemQuery { loop_name: some("fixer"), ..empty() }, false),
        ];
        for (query, wanted) in cases {
            assert_eq!(query.wants_issue(&Issue { about: item() }), wanted, "{query:?}");
        }
    }

    #[test]
    fn pages_are_bounded_and_join_without_a_gap() {
        let all: Vec<usize> = (0..PAGE_ROWS_MAX * 2 + 1).collect();
        let first = ForgePage::cut(all.clone(), None);
        let second = ForgePage::cut(all.clone(), first.next.as_ref());
        let third = ForgePage::cut(all.clone(), second.next.as_ref());
        assert_eq!((first.rows.len(), second.rows.len(), third.rows.len()), (PAGE_ROWS_MAX, PAGE_ROWS_MAX, 1));
        assert_eq!(third.next, None);
        assert_eq!([first.rows, second.rows, third.rows].concat(), all);
    }
}
