//! GitLab's API, version 4: merge requests, notes, discussions with positions, approvals and commit statuses.

mod read;
mod review;
mod rows;
mod write;

use crate::api::{
    ApiClient, CallResult, ForgeApi, ForgeWords, LabelMoment, PullDraft, RemoteComment, RemoteCommit, RemoteIssue,
    RemotePull, RemoteRepository, ReviewDraft,
};
use crate::base_url::encode;
use crate::inspect::ForgeFinding;
use loopwright_core::answer::CommandForm;
use loopwright_core::forge::{CheckRun, CommentsOf, ForgePage, ItemQuery, LabelChange, PageToken, PullFile};

pub(crate) const WORDS: ForgeWords = ForgeWords {
    name: "GitLab",
    pull: "merge request",
    scopes: "the scope `api` and at least the role Developer",
    rights: "the role Developer",
    push_user: "oauth2",
    labels: LabelMoment::Created,
    commands: CommandForm::Word,
};

/// One project on GitLab.
pub(crate) struct GitLab {
    client: ApiClient,
    /// `/projects/<encoded path>`.
    project: String,
    /// The address of the project for people.
    web: String,
}

impl GitLab {
    pub(crate) fn new(client: ApiClient) -> Self {
        let base = client.http.base();
        let web = base.with_path(base.path.strip_suffix("/api/v4").unwrap_or(&base.path));
        let web = format!("{web}/{}", client.repository);
        Self { project: format!("/projects/{}", encode(&client.repository)), web, client }
    }

    fn path(&self, rest: &str) -> String {
        format!("{}{rest}", self.project)
    }

    /// The path of an issue or a merge request.
    fn item_path(&self, of: CommentsOf) -> String {
        match of {
            CommentsOf::Pull(number) => self.path(&format!("/merge_requests/{number}")),
            CommentsOf::Issue(number) => self.path(&format!("/issues/{number}")),
        }
    }

    /// The address of a comment for people.
    fn note_url(&self, of: CommentsOf, id: u64) -> String {
        match of {
            CommentsOf::Pull(number) => format!("{}/-/merge_requests/{number}#note_{id}", self.web),
            CommentsOf::Issue(number) => format!("{}/-/issues/{number}#note_{id}", self.web),
        }
    }
}

impl ForgeApi for GitLab {
    fn client(&self) -> &ApiClient {
        &self.client
    }

    async fn branch_head(&self, branch: &str) -> CallResult<Option<String>> {
        let path = self.path(&format!("/repository/branches/{}", encode(branch)));
        let found: Option<rows::GitLabBranch> = self.client.find(&path, "").await?;
        Ok(found.map(|found| found.commit.id))
    }

    async fn branch_pulls(&self, branch: &str, _: &str) -> CallResult<Vec<RemotePull>> {
        let query = format!("state=all&source_branch={}&per_page=100", encode(branch));
        let all = self.client.all_rows::<rows::GitLabMergeRequest>(&self.path("/merge_requests"), &query, 5).await?;
        Ok(all.into_iter().filter(|one| one.is_of(branch)).map(rows::GitLabMergeRequest::row).collect())
    }

    async fn pull(&self, number: u64) -> CallResult<RemotePull> {
        let one: rows::GitLabMergeRequest = self.client.get(&self.item_path(CommentsOf::Pull(number)), "").await?;
        Ok(one.row())
    }

    async fn issue(&self, number: u64) -> CallResult<RemoteIssue> {
        let issue: rows::GitLabIssue = self.client.get(&self.item_path(CommentsOf::Issue(number)), "").await?;
        Ok(issue.row())
    }

    async fn create_pull(&self, new: &PullDraft<'_>) -> CallResult<RemotePull> {
        self.write_merge_request(new).await
    }

    async fn finish_pull(&self, _: u64, _: &PullDraft<'_>) -> CallResult<()> {
        Ok(())
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
        self.write_note(of, body).await
    }

    async fn add_review(&self, pull: &RemotePull, new: &ReviewDraft<'_>) -> CallResult<RemoteComment> {
        self.write_review(pull, new).await
    }

    async fn find_review(&self, pull: u64, new: &ReviewDraft<'_>) -> CallResult<Option<RemoteComment>> {
        Ok(self.review_notes(pull, new).await?.complete(new))
    }

    async fn contained(&self, branch: &str, commit: &str) -> CallResult<Option<RemoteCommit>> {
        self.read_contained(branch, commit).await
    }

    async fn set_status(&self, commit: &str, context: &str, text: &str) -> CallResult<()> {
        self.write_status(commit, context, text).await
    }

    async fn pulls(&self, query: &ItemQuery, from: Option<&PageToken>) -> CallResult<ForgePage<RemotePull>> {
        self.read_merge_requests(query, from).await
    }

    async fn issues(&self, query: &ItemQuery, from: Option<&PageToken>) -> CallResult<ForgePage<RemoteIssue>> {
        self.read_issues(&read::issue_query(query), from).await
    }

    async fn newest_issues(&self, from: Option<&PageToken>) -> CallResult<ForgePage<RemoteIssue>> {
        self.read_issues("order_by=created_at&sort=desc&per_page=100", from).await
    }

    async fn comments(&self, of: CommentsOf, from: Option<&PageToken>) -> CallResult<ForgePage<RemoteComment>> {
        self.read_notes(of, from).await
    }

    async fn plain_comments(&self, of: CommentsOf, from: Option<&PageToken>) -> CallResult<ForgePage<RemoteComment>> {
        self.read_notes(of, from).await
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
        let user: rows::GitLabUser = self.client.get("/user", "").await?;
        Ok(Some(user.id.to_string()))
    }

    async fn repository(&self) -> CallResult<RemoteRepository> {
        let project: rows::GitLabProject = self.client.get(&self.project, "").await?;
        let may_push = Some(project.permissions.is_some_and(|permissions| permissions.may_push()));
        let (default_branch, archived) = (project.default_branch.unwrap_or_default(), project.archived);
        Ok(RemoteRepository { default_branch, archived, may_push, has_issues: None })
    }

    async fn is_protected(&self, branch: &str) -> CallResult<Option<bool>> {
        let path = self.path(&format!("/repository/branches/{}", encode(branch)));
        let found: Option<rows::GitLabBranch> = self.client.find(&path, "").await?;
        Ok(found.map(|found| found.protected))
    }

    async fn account(&self) -> CallResult<(String, Option<ForgeFinding>)> {
        self.read_account().await
    }
}
