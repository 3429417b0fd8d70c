//! One repository on GitHub or Gitea, and the calls that are the same on both.

use crate::api::{ApiClient, CallResult, RemoteComment, RemoteIssue, RemotePull, RemoteRepository};
use crate::base_url::encode_path;
use crate::hub_rows::{HubComment, HubItem, HubPull, HubRepository, HubUser};
use loopwright_core::forge::{CommentKind, CommentsOf, ItemQuery, ItemState};
use serde_json::{Value, json};

/// A repository with its client.
pub(crate) struct HubRepo {
    pub(crate) client: ApiClient,
    /// `/repos/<owner>/<name>`.
    root: String,
}

impl HubRepo {
    pub(crate) fn new(client: ApiClient) -> Self {
        Self { root: format!("/repos/{}", encode_path(&client.repository)), client }
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("{}{rest}", self.root)
    }

    pub(crate) async fn pull(&self, number: u64) -> CallResult<HubPull> {
        self.client.get(&self.path(&format!("/pulls/{number}")), "").await
    }

    pub(crate) async fn issue(&self, number: u64) -> CallResult<RemoteIssue> {
        let issue: HubItem = self.client.get(&self.path(&format!("/issues/{number}")), "").await?;
        Ok(issue.row())
    }

    pub(crate) async fn repository(&self) -> CallResult<RemoteRepository> {
        let repo: HubRepository = self.client.get(&self.root, "").await?;
        Ok(repo.row())
    }

    /// The account of the token.
    pub(crate) async fn user(&self) -> CallResult<HubUser> {
        self.client.get("/user", "").await
    }

    /// A pull request's comments are those of the issue with its number.
    pub(crate) async fn add_comment(&self, of: CommentsOf, body: &str) -> CallResult<RemoteComment> {
        let (CommentsOf::Pull(number) | CommentsOf::Issue(number)) = of;
        let path = self.path(&format!("/issues/{number}/comments"));
        let comment: HubComment = self.client.post(&path, &json!({ "body": body })).await?;
        Ok(comment.row(CommentKind::Plain))
    }

    /// One review with all its comments: the forge creates the whole or nothing.
    pub(crate) async fn add_review(
        &self,
        pull: &RemotePull,
        event: &str,
        body: &str,
        comments: &[Value],
    ) -> CallResult<RemoteComment> {
        let body = json!({ "commit_id": pull.row.head, "body": body, "event": event, "comments": comments });
        let path = self.path(&format!("/pulls/{}/reviews", pull.row.about.number));
        let review: HubComment = self.client.post(&path, &body).await?;
        Ok(review.row(CommentKind::Review))
    }

    pub(crate) async fn set_status(&self, commit: &str, context: &str, text: &str) -> CallResult<()> {
        let path = self.path(&format!("/statuses/{commit}"));
        let body = json!({ "state": "success", "context": context, "description": text });
        self.client.post::<Value>(&path, &body).await.map(drop)
    }
}

/// The word for a query's state.
pub(crate) fn state(query: &ItemQuery) -> &'static str {
    match query.state {
        Some(ItemState::Open) => "open",
        Some(ItemState::Closed | ItemState::Merged) => "closed",
        None => "all",
    }
}
