//! Gitea's and Forgejo's API, version 1. It resembles GitHub's; the differences are drafts by title, labels by id,
//! issues in one order only, and pages of at most 50 rows.

mod read;
mod rows;
mod write;

use crate::api::{
    ApiClient, CallResult, ForgeApi, ForgeWords, LabelMoment, PullDraft, RemoteComment, RemoteCommit, RemoteIssue,
    RemotePull, RemoteRepository, ReviewDraft,
};
use crate::base_url::{encode, encode_path};
use crate::hub_repo::HubRepo;
use crate::hub_rows::{HubItem, HubPull};
use crate::inspect::ForgeFinding;
use loopwright_core::answer::CommandForm;
use loopwright_core::forge::{
    CheckRun, CommentKind, CommentsOf, ForgePage, ItemQuery, LabelChange, PageToken, PullFile,
};

pub(crate) const WORDS: ForgeWords = ForgeWords {
    name: "Gitea",
    pull: "pull request",
    scopes: "the scopes `write:repository`, `write:issue` and `read:user`",
    rights: "write access",
    push_user: "oauth2",
    labels: LabelMoment::Created,
    commands: CommandForm::Slash,
};

/// One repository on Gitea or Forgejo.
pub(crate) struct Gitea {
    hub: HubRepo,
}

impl Gitea {
    pub(crate) fn new(client: ApiClient) -> Self {
        Self { hub: HubRepo::new(client) }
    }
}

impl ForgeApi for Gitea {
    fn client(&self) -> &ApiClient {
        &self.hub.client
    }

    async fn branch_head(&self, branch: &str) -> CallResult<Option<String>> {
        let path = self.hub.path(&format!("/branches/{}", encode_path(branch)));
        let found: Option<rows::GiteaBranch> = self.hub.client.find(&path, "").await?;
        Ok(found.map(|found| found.commit.id))
    }

    /// Gitea looks up one pull request by base and head, in any state.
    async fn branch_pulls(&self, branch: &str, base: &str) -> CallResult<Vec<RemotePull>> {
        let path = self.hub.path(&format!("/pulls/{}/{}", encode(base), encode(branch)));
        let found: Option<HubPull> = self.hub.client.find(&path, "").await?;
        if found.is_none() {
            // A missing repository has the same answer, and must not look like a free branch.
            self.repository().await?;
        }
        Ok(found.into_iter().filter(|pull| pull.is_of(branch)).map(rows::pull_row).collect())
    }

    async fn pull(&self, number: u64) -> CallResult<RemotePull> {
        Ok(rows::pull_row(self.hub.pull(number).await?))
    }

    async fn issue(&self, number: u64) -> CallResult<RemoteIssue> {
        self.hub.issue(number).await
    }

    async fn create_pull(&self, new: &PullDraft<'_>) -> CallResult<RemotePull> {
        self.write_pull(new).await
    }

    async fn finish_pull(&self, number: u64, new: &PullDraft<'_>) -> CallResult<()> {
        self.write_reviewers(number, new).await
    }

    async fn edit_pull(&self, pull: &RemotePull, title: &str, body: &str) -> CallResult<()> {
        self.write_text(pull, title, body).await
    }

    async fn create_issue(&self, title: &str, body: &str, labels: &[String]) -> CallResult<RemoteIssue> {
        self.write_issue(title, body, labels).await
    }

    async fn add_labels(&self, issue: u64, labels: &[String]) -> CallResult<()> {
        self.write_labels(issue, labels).await
    }

    async fn add_comment(&self, of: CommentsOf, body: &str) -> CallResult<RemoteComment> {
        self.hub.add_comment(of, body).await
    }

    async fn add_review(&self, pull: &RemotePull, new: &ReviewDraft<'_>) -> CallResult<RemoteComment> {
        self.write_review(pull, new).await
    }

    async fn find_review(&self, pull: u64, new: &ReviewDraft<'_>) -> CallResult<Option<RemoteComment>> {
        let reviews = self.read_reviews(pull).await?;
        Ok(reviews.into_iter().find(|review| review.has(new.marker)).map(|review| review.row(CommentKind::Review)))
    }

    async fn contained(&self, branch: &str, commit: &str) -> CallResult<Option<RemoteCommit>> {
        self.read_contained(branch, commit).await
    }

    async fn set_status(&self, commit: &str, context: &str, text: &str) -> CallResult<()> {
        self.hub.set_status(commit, context, text).await
    }

    async fn pulls(&self, query: &ItemQuery, from: Option<&PageToken>) -> CallResult<ForgePage<RemotePull>> {
        self.read_pulls(query, from).await
    }

    async fn issues(&self, query: &ItemQuery, from: Option<&PageToken>) -> CallResult<ForgePage<RemoteIssue>> {
        self.read_issues(query, from).await
    }

    async fn newest_issues(&self, from: Option<&PageToken>) -> CallResult<ForgePage<RemoteIssue>> {
        let first = "type=issues&state=all&limit=50&page=1";
        let page = self.hub.client.page::<HubItem>(&self.hub.path("/issues"), first, from).await?;
        Ok(ForgePage { rows: page.rows.into_iter().map(HubItem::row).collect(), next: page.next })
    }

    async fn comments(&self, of: CommentsOf, from: Option<&PageToken>) -> CallResult<ForgePage<RemoteComment>> {
        Ok(ForgePage::cut(self.read_comments(of).await?, from))
    }

    async fn plain_comments(&self, of: CommentsOf, from: Option<&PageToken>) -> CallResult<ForgePage<RemoteComment>> {
        // A pull request has the comments of the issue with its number.
        let (CommentsOf::Pull(number) | CommentsOf::Issue(number)) = of;
        Ok(ForgePage::cut(self.read_comments(CommentsOf::Issue(number)).await?, from))
    }

    async fn label_changes(&self, of: CommentsOf) -> CallResult<Vec<LabelChange>> {
        self.read_label_changes(of).await
    }

    async fn checks(&self, commit: &str, branch: Option<&str>) -> CallResult<Vec<CheckRun>> {
        self.read_checks(commit, branch).await
    }

    async fn changed_files(&self, pull: u64) -> CallResult<Vec<PullFile>> {
        self.read_changed_files(pull).await
    }

    async fn own_account(&self) -> CallResult<Option<String>> {
        Ok(Some(self.hub.user().await?.id.to_string()))
    }

    async fn repository(&self) -> CallResult<RemoteRepository> {
        self.hub.repository().await
    }

    async fn is_protected(&self, branch: &str) -> CallResult<Option<bool>> {
        let path = self.hub.path(&format!("/branches/{}", encode_path(branch)));
        let found: Option<rows::GiteaBranch> = self.hub.client.find(&path, "").await?;
        Ok(found.map(|found| found.protected))
    }

    async fn account(&self) -> CallResult<(String, Option<ForgeFinding>)> {
        let user = self.hub.user().await?;
        Ok((format!("`{}`", user.login), None))
    }
}
