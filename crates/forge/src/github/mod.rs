//! GitHub's REST API: pull requests, issues, comments, reviews, checks and statuses.

mod app;
mod read;
mod rows;
mod write;

pub(crate) use app::AppTokens;
pub use app::GitHubApp;

use crate::api::{
    ApiClient, CallResult, ForgeApi, ForgeWords, LabelMoment, PullDraft, RemoteComment, RemoteCommit, RemoteIssue,
    RemotePull, RemoteRepository, ReviewDraft,
};
use crate::base_url::{encode, encode_path};
use crate::hub_repo::HubRepo;
use crate::hub_rows::{HubComment, HubPull};
use crate::inspect::ForgeFinding;
use hyper::header::{ACCEPT, HeaderName, HeaderValue};
use loopwright_core::answer::CommandForm;
use loopwright_core::forge::{
    CheckRun, CommentKind, CommentsOf, ForgePage, ItemQuery, LabelChange, PageToken, PullFile,
};

pub(crate) const WORDS: ForgeWords = ForgeWords {
    name: "GitHub",
    pull: "pull request",
    scopes: "the scope `repo`, or, if it is fine-grained, read and write access to Contents, Pull requests and Issues",
    rights: "write access",
    push_user: "x-access-token",
    labels: LabelMoment::Later,
    commands: CommandForm::Slash,
};

/// One repository on GitHub.
pub(crate) struct GitHub {
    hub: HubRepo,
    owner: String,
}

impl GitHub {
    pub(crate) fn new(mut client: ApiClient) -> Self {
        client.headers = vec![
            (ACCEPT, HeaderValue::from_static("application/vnd.github+json")),
            (HeaderName::from_static("x-github-api-version"), HeaderValue::from_static("2022-11-28")),
        ];
        let owner = client.repository.split('/').next().unwrap_or_default().to_owned();
        Self { hub: HubRepo::new(client), owner }
    }
}

impl ForgeApi for GitHub {
    fn client(&self) -> &ApiClient {
        &self.hub.client
    }

    async fn branch_head(&self, branch: &str) -> CallResult<Option<String>> {
        let path = self.hub.path(&format!("/git/ref/heads/{}", encode_path(branch)));
        let found: Option<rows::GitHubReference> = self.hub.client.find(&path, "").await?;
        Ok(found.map(|found| found.object.sha))
    }

    async fn branch_pulls(&self, branch: &str, _: &str) -> CallResult<Vec<RemotePull>> {
        let head = encode(&format!("{}:{branch}", self.owner));
        let query = format!("state=all&head={head}&per_page=100");
        let pulls = self.hub.client.all_rows::<HubPull>(&self.hub.path("/pulls"), &query, 5).await?;
        // An older server ignores the filter.
        Ok(pulls.into_iter().filter(|pull| pull.is_of(branch)).map(HubPull::row).collect())
    }

    async fn pull(&self, number: u64) -> CallResult<RemotePull> {
        Ok(self.hub.pull(number).await?.row())
    }

    async fn issue(&self, number: u64) -> CallResult<RemoteIssue> {
        self.hub.issue(number).await
    }

    async fn create_pull(&self, new: &PullDraft<'_>) -> CallResult<RemotePull> {
        self.write_pull(new).await
    }

    async fn finish_pull(&self, number: u64, new: &PullDraft<'_>) -> CallResult<()> {
        self.write_people_and_labels(number, new).await
    }

    async fn edit_pull(&self, pull: &RemotePull, title: &str, body: &str) -> CallResult<()> {
        self.write_text(pull.row.about.number, title, body).await
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
        let path = self.hub.path(&format!("/pulls/{pull}/reviews"));
        let reviews = self.hub.client.all_rows::<HubComment>(&path, "per_page=100", 20).await?;
        let found = reviews.into_iter().find(|review| review.has(new.marker));
        Ok(found.map(|review| review.row(CommentKind::Review)))
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
        self.read_issues(&read::issue_query(query), from).await
    }

    async fn newest_issues(&self, from: Option<&PageToken>) -> CallResult<ForgePage<RemoteIssue>> {
        self.read_issues("state=all&sort=created&direction=desc&per_page=100", from).await
    }

    async fn comments(&self, of: CommentsOf, from: Option<&PageToken>) -> CallResult<ForgePage<RemoteComment>> {
        self.read_comments(of, from).await
    }

    async fn plain_comments(&self, of: CommentsOf, from: Option<&PageToken>) -> CallResult<ForgePage<RemoteComment>> {
        // A pull request has the comments of the issue with its number.
        let (CommentsOf::Pull(number) | CommentsOf::Issue(number)) = of;
        self.read_comments(CommentsOf::Issue(number), from).await
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
        if matches!(self.hub.client.token, crate::api::TokenSource::App(_)) {
            return Ok(None);
        }
        Ok(Some(self.hub.user().await?.id.to_string()))
    }

    async fn repository(&self) -> CallResult<RemoteRepository> {
        self.hub.repository().await
    }

    async fn is_protected(&self, branch: &str) -> CallResult<Option<bool>> {
        let path = self.hub.path(&format!("/branches/{}", encode_path(branch)));
        let found: Option<rows::GitHubBranch> = self.hub.client.find(&path, "").await?;
        Ok(found.map(|found| found.protected))
    }

    async fn account(&self) -> CallResult<(String, Option<ForgeFinding>)> {
        self.read_account().await
    }
}
