//! The interface between the algorithms that all forges share and the three HTTP interfaces: the calls that each of them
//! has, and rows in common terms. The calls decide nothing.

mod client;
mod error;
mod time;
mod words;

pub(crate) use client::{ApiClient, TokenSource};
pub(crate) use error::{ApiError, ApiErrorKind};
pub(crate) use time::unix_ms;
pub(crate) use words::{ForgeWords, LabelMoment};

use crate::inspect::ForgeFinding;
use loopwright_core::forge::{
    CheckRun, CommentsOf, ForgeComment, ForgePage, Issue, ItemQuery, LabelChange, PageToken, PullFile, PullRequest,
};
use loopwright_core::outbox::{InlineComment, ReviewDecision};

/// A pull request with its address and times.
#[derive(Debug, Clone)]
pub(crate) struct RemotePull {
    pub(crate) row: PullRequest,
    pub(crate) url: String,
    pub(crate) created_ms: i64,
    pub(crate) updated_ms: i64,
    /// Whether someone is asked to review it.
    pub(crate) has_reviewers: bool,
}

/// An issue with its address and times.
#[derive(Debug, Clone)]
pub(crate) struct RemoteIssue {
    pub(crate) row: Issue,
    pub(crate) url: String,
    pub(crate) created_ms: i64,
    pub(crate) updated_ms: i64,
}

/// A comment with its address and time.
#[derive(Debug, Clone)]
pub(crate) struct RemoteComment {
    pub(crate) row: ForgeComment,
    pub(crate) url: String,
    pub(crate) created_ms: i64,
    /// The commit that a review is about.
    pub(crate) head: Option<String>,
}

/// A commit on a branch.
#[derive(Debug, Clone)]
pub(crate) struct RemoteCommit {
    pub(crate) url: String,
    pub(crate) at_ms: i64,
}

/// A repository.
#[derive(Debug, Clone)]
pub(crate) struct RemoteRepository {
    pub(crate) default_branch: String,
    pub(crate) archived: bool,
    /// `None` if the forge does not report it.
    pub(crate) may_push: Option<bool>,
    /// `None` if the forge does not report it.
    pub(crate) has_issues: Option<bool>,
}

/// A pull request to create.
#[derive(Debug)]
pub(crate) struct PullDraft<'a> {
    pub(crate) title: &'a str,
    pub(crate) body: &'a str,
    pub(crate) branch: &'a str,
    pub(crate) base_branch: &'a str,
    pub(crate) draft: bool,
    pub(crate) labels: &'a [String],
    pub(crate) reviewers: &'a [String],
}

/// A review or line comments to create.
#[derive(Debug)]
pub(crate) struct ReviewDraft<'a> {
    pub(crate) decision: Option<ReviewDecision>,
    /// The text with the marker.
    pub(crate) body: &'a str,
    pub(crate) marker: &'a str,
    pub(crate) comments: &'a [InlineComment],
}

/// The answer of a call.
pub(crate) type CallResult<T> = Result<T, ApiError>;

/// The calls of one forge, for one repository.
pub(crate) trait ForgeApi: Send + Sync + 'static {
    /// The client, with the forge's name and words.
    fn client(&self) -> &ApiClient;

    /// The commit of a branch; `None` if there is no such branch.
    fn branch_head(&self, branch: &str) -> impl Future<Output = CallResult<Option<String>>> + Send;

    /// The pull requests of a branch of this repository, in every state.
    fn branch_pulls(&self, branch: &str, base: &str) -> impl Future<Output = CallResult<Vec<RemotePull>>> + Send;

    /// One pull request.
    fn pull(&self, number: u64) -> impl Future<Output = CallResult<RemotePull>> + Send;

    /// One issue.
    fn issue(&self, number: u64) -> impl Future<Output = CallResult<RemoteIssue>> + Send;

    /// Creates a pull request. Labels and reviewers may need [`ForgeApi::finish_pull`].
    fn create_pull(&self, new: &PullDraft<'_>) -> impl Future<Output = CallResult<RemotePull>> + Send;

    /// Adds the labels and reviewers that creating a pull request could not add.
    fn finish_pull(&self, number: u64, new: &PullDraft<'_>) -> impl Future<Output = CallResult<()>> + Send;

    /// Replaces the title and text of a pull request.
    fn edit_pull(&self, pull: &RemotePull, title: &str, body: &str) -> impl Future<Output = CallResult<()>> + Send;

    /// Creates an issue.
    fn create_issue(
        &self,
        title: &str,
        body: &str,
        labels: &[String],
    ) -> impl Future<Output = CallResult<RemoteIssue>> + Send;

    /// Adds labels to an issue.
    fn add_labels(&self, issue: u64, labels: &[String]) -> impl Future<Output = CallResult<()>> + Send;

    /// Adds a comment.
    fn add_comment(&self, of: CommentsOf, body: &str) -> impl Future<Output = CallResult<RemoteComment>> + Send;

    /// Adds a review or line comments, bound to the pull request's head.
    fn add_review(
        &self,
        pull: &RemotePull,
        new: &ReviewDraft<'_>,
    ) -> impl Future<Output = CallResult<RemoteComment>> + Send;

    /// The comment that ends a review with this marker; `None` if the review is missing or incomplete.
    fn find_review(
        &self,
        pull: u64,
        new: &ReviewDraft<'_>,
    ) -> impl Future<Output = CallResult<Option<RemoteComment>>> + Send;

    /// The commit, if the branch contains it.
    fn contained(&self, branch: &str, commit: &str) -> impl Future<Output = CallResult<Option<RemoteCommit>>> + Send;

    /// Sets a successful commit status.
    fn set_status(&self, commit: &str, context: &str, text: &str) -> impl Future<Output = CallResult<()>> + Send;

    /// Pull requests, oldest first.
    fn pulls(
        &self,
        query: &ItemQuery,
        from: Option<&PageToken>,
    ) -> impl Future<Output = CallResult<ForgePage<RemotePull>>> + Send;

    /// Issues without pull requests, oldest first.
    fn issues(
        &self,
        query: &ItemQuery,
        from: Option<&PageToken>,
    ) -> impl Future<Output = CallResult<ForgePage<RemoteIssue>>> + Send;

    /// Issues in every state, newest first.
    fn newest_issues(
        &self,
        from: Option<&PageToken>,
    ) -> impl Future<Output = CallResult<ForgePage<RemoteIssue>>> + Send;

    /// Comments of every kind.
    fn comments(
        &self,
        of: CommentsOf,
        from: Option<&PageToken>,
    ) -> impl Future<Output = CallResult<ForgePage<RemoteComment>>> + Send;

    /// The plain comments of an item, among which its conversation is; GitLab lists all kinds together.
    fn plain_comments(
        &self,
        of: CommentsOf,
        from: Option<&PageToken>,
    ) -> impl Future<Output = CallResult<ForgePage<RemoteComment>>> + Send;

    /// The changes of the labels of an item, oldest first.
    fn label_changes(&self, of: CommentsOf) -> impl Future<Output = CallResult<Vec<LabelChange>>> + Send;

    /// The checks of a commit, each with the branch.
    fn checks(&self, commit: &str, branch: Option<&str>) -> impl Future<Output = CallResult<Vec<CheckRun>>> + Send;

    /// The files that a pull request changes, as many as the interface lists.
    fn changed_files(&self, pull: u64) -> impl Future<Output = CallResult<Vec<PullFile>>> + Send;

    /// The id of the connection's account; `None` for a GitHub App, which is no account.
    fn own_account(&self) -> impl Future<Output = CallResult<Option<String>>> + Send;

    /// The repository.
    fn repository(&self) -> impl Future<Output = CallResult<RemoteRepository>> + Send;

    /// Whether a branch is protected; `None` if there is no such branch.
    fn is_protected(&self, branch: &str) -> impl Future<Output = CallResult<Option<bool>>> + Send;

    /// Reads the account of the token: the account's name, and a finding about the token's scopes if the forge reports
    /// them.
    fn account(&self) -> impl Future<Output = CallResult<(String, Option<ForgeFinding>)>> + Send;
}
