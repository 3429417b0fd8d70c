//! The rows of the fake forge's state: issues, pull requests, comments, reviews, checks and labels, and their drafts.

/// An issue, or a pull request if it has a [`FakePull`].
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields have the names of the forges' own")]
pub struct FakeItem {
    pub number: u64,
    pub id: u64,
    pub title: String,
    pub body: Option<String>,
    pub author: String,
    pub open: bool,
    pub labels: Vec<String>,
    pub assignees: Vec<String>,
    pub created: String,
    pub updated: String,
    pub closed: Option<String>,
    pub closed_by: Option<String>,
    pub pull: Option<FakePull>,
}

/// The part of a pull request that an issue does not have.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields have the names of the forges' own")]
pub struct FakePull {
    pub head_branch: String,
    pub head: String,
    pub base_branch: String,
    /// The commit of the base branch when the pull request was created.
    pub base: String,
    pub draft: bool,
    pub merged: Option<FakeMerge>,
    /// The accounts whose review was requested and is missing.
    pub reviewers: Vec<String>,
}

/// The merge of a pull request.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields have the names of the forges' own")]
pub struct FakeMerge {
    pub at: String,
    pub by: String,
    pub commit: String,
}

/// A comment on an item, or on a line of its change.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields have the names of the forges' own")]
pub struct FakeComment {
    pub id: u64,
    pub item: u64,
    pub author: String,
    pub body: String,
    pub created: String,
    pub updated: String,
    /// The line, for an inline comment.
    pub place: Option<FakePlace>,
    pub review: Option<u64>,
    /// The first comment of its thread.
    pub thread: u64,
    pub resolved: bool,
}

/// A line of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields have the names of the forges' own")]
pub struct FakePlace {
    pub path: String,
    pub line: u64,
    pub start_line: Option<u64>,
    /// `RIGHT` for the new file, `LEFT` for the old one.
    pub side: String,
    pub commit: String,
}

/// A review.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields have the names of the forges' own")]
pub struct FakeReview {
    pub id: u64,
    pub item: u64,
    pub author: String,
    /// `APPROVED`, `CHANGES_REQUESTED`, `COMMENTED` or `PENDING`.
    pub state: String,
    pub body: String,
    pub commit: String,
    pub submitted: String,
}

/// A change of an item's labels.
#[derive(Debug, Clone)]
pub(super) struct FakeLabelEvent {
    pub(super) id: u64,
    pub(super) item: u64,
    /// `None` for a deleted account.
    pub(super) actor: Option<String>,
    pub(super) label: String,
    pub(super) is_added: bool,
    pub(super) at: String,
}

/// The origin of a check's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FakeCheckKind {
    /// A check run of an app, or a job.
    Run,
    /// A commit status.
    Status,
}

/// The result of a build server on a commit.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields have the names of the forges' own")]
pub struct FakeCheck {
    pub id: u64,
    pub name: String,
    pub head: String,
    pub kind: FakeCheckKind,
    /// `queued`, `in_progress` or `completed`.
    pub status: String,
    /// `success`, `failure` and the others of GitHub.
    pub conclusion: Option<String>,
    pub title: Option<String>,
    pub text: Option<String>,
    pub url: Option<String>,
    pub author: String,
    pub created: String,
    pub updated: String,
}

/// A label of a repository.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields have the names of the forges' own")]
pub struct FakeLabel {
    pub id: u64,
    pub name: String,
    pub color: String,
    pub text: Option<String>,
}

/// An item before it has a number.
#[derive(Debug, Default)]
pub(super) struct NewItem {
    pub(super) title: String,
    pub(super) body: Option<String>,
    pub(super) author: String,
    pub(super) labels: Vec<String>,
    pub(super) assignees: Vec<String>,
    pub(super) pull: Option<FakePull>,
}

/// A comment before it has an id.
#[derive(Debug, Default)]
pub(super) struct NewComment {
    pub(super) item: u64,
    pub(super) author: String,
    pub(super) body: String,
    pub(super) place: Option<FakePlace>,
    pub(super) review: Option<u64>,
    pub(super) thread: Option<u64>,
}

/// A review before it has an id.
#[derive(Debug)]
pub(super) struct NewReview {
    pub(super) author: String,
    pub(super) state: String,
    pub(super) body: String,
    pub(super) commit: String,
}

/// A check before it has an id.
#[derive(Debug)]
pub(super) struct NewCheck {
    pub(super) name: String,
    pub(super) head: String,
    pub(super) kind: FakeCheckKind,
    pub(super) status: String,
    pub(super) conclusion: Option<String>,
    pub(super) title: Option<String>,
    pub(super) text: Option<String>,
    pub(super) url: Option<String>,
    pub(super) author: String,
}
