//! The calls that read GitHub.

use super::{GitHub, rows};
use crate::api::{CallResult, RemoteComment, RemoteCommit, RemoteIssue, RemotePull, TokenSource, unix_ms};
use crate::base_url::{encode, encode_path};
use crate::http::HttpCall;
use crate::hub_repo::state;
use crate::hub_rows::{HubComment, HubItem, HubPull, HubUser};
use crate::inspect::ForgeFinding;
use hyper::Method;
use loopwright_core::forge::{
    CheckRun, CheckState, CommentKind, CommentsOf, ForgePage, ItemQuery, LabelChange, PageToken, PullFile,
};
use std::fmt::Write as _;

/// The most bytes of a check's output; the end is kept, because the error is there.
const OUTPUT_MAX: usize = 16 << 10;

/// The most pages of an issue's events.
const EVENT_PAGES_MAX: usize = 20;

/// The most pages of changed files.
const FILE_PAGES_MAX: usize = 3;

impl GitHub {
    pub(super) async fn read_pulls(
        &self,
        query: &ItemQuery,
        from: Option<&PageToken>,
    ) -> CallResult<ForgePage<RemotePull>> {
        let mut first = format!("state={}&sort=created&direction=asc&per_page=100", state(query));
        if let Some(base) = &query.base_branch {
            let _ = write!(first, "&base={}", encode(base));
        }
        let page = self.hub.client.page::<HubPull>(&self.hub.path("/pulls"), &first, from).await?;
        Ok(ForgePage { rows: page.rows.into_iter().map(HubPull::row).collect(), next: page.next })
    }

    /// GitHub lists pull requests among the issues.
    pub(super) async fn read_issues(
        &self,
        query: &str,
        from: Option<&PageToken>,
    ) -> CallResult<ForgePage<RemoteIssue>> {
        let page = self.hub.client.page::<HubItem>(&self.hub.path("/issues"), query, from).await?;
        let issues = page.rows.into_iter().filter(|issue| issue.pull_request.is_none());
        Ok(ForgePage { rows: issues.map(HubItem::row).collect(), next: page.next })
    }

    pub(super) async fn read_comments(
        &self,
        of: CommentsOf,
        from: Option<&PageToken>,
    ) -> CallResult<ForgePage<RemoteComment>> {
        let (CommentsOf::Pull(number) | CommentsOf::Issue(number)) = of;
        let mut paths = vec![self.hub.path(&format!("/issues/{number}/comments"))];
        if let CommentsOf::Pull(_) = of {
            paths.push(self.hub.path(&format!("/pulls/{number}/reviews")));
            paths.push(self.hub.path(&format!("/pulls/{number}/comments")));
        }
        let (at, page) = self.hub.client.chained_page::<HubComment>(&paths, "per_page=100", from).await?;
        let kind = [CommentKind::Plain, CommentKind::Review, CommentKind::Inline][at.min(2)];
        // A pending review is a draft that only its author sees.
        let visible = page.rows.into_iter().filter(|row| row.state.as_deref() != Some("PENDING"));
        Ok(ForgePage { rows: visible.map(|row| row.row(kind)).collect(), next: page.next })
    }

    /// GitHub lists at most 3,000 files, 100 a page.
    pub(super) async fn read_changed_files(&self, pull: u64) -> CallResult<Vec<PullFile>> {
        let path = self.hub.path(&format!("/pulls/{pull}/files"));
        let (files, _) = self.hub.client.first_rows::<rows::GitHubFile>(&path, "per_page=100", FILE_PAGES_MAX).await?;
        Ok(files.into_iter().map(|file| PullFile { path: file.filename, patch: file.patch }).collect())
    }

    pub(super) async fn read_checks(&self, commit: &str, branch: Option<&str>) -> CallResult<Vec<CheckRun>> {
        let of_commit = |rest: &str| self.hub.path(&format!("/commits/{}/{rest}", encode(commit)));
        let mut checks = Vec::new();
        let query = "filter=latest&per_page=100";
        let runs: Option<rows::GitHubCheckRuns> = self.hub.client.find(&of_commit("check-runs"), query).await?;
        for run in runs.into_iter().flat_map(|runs| runs.check_runs) {
            checks.push(self.check_row(run, commit, branch).await?);
        }
        let combined: Option<rows::GitHubCombinedStatus> =
            self.hub.client.find(&of_commit("status"), "per_page=100").await?;
        checks.extend(combined.into_iter().flat_map(|combined| combined.statuses).map(|status| CheckRun {
            name: status.context,
            state: match status.state.as_str() {
                "success" => CheckState::Passed,
                "failure" | "error" => CheckState::Failed,
                _ => CheckState::Pending,
            },
            head: commit.to_owned(),
            branch: branch.map(str::to_owned),
            title: status.description.clone(),
            body: status.description.unwrap_or_default(),
        }));
        Ok(checks)
    }

    async fn check_row(&self, run: rows::GitHubCheck, commit: &str, branch: Option<&str>) -> CallResult<CheckRun> {
        let state = check_state(&run);
        let output = run.output.unwrap_or_default();
        let mut body = [output.summary, output.text].into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        if state == CheckState::Failed && output.annotations_count > 0 {
            body.push_str(&self.annotations(run.id).await?);
        }
        let start = body.ceil_char_boundary(body.len().saturating_sub(OUTPUT_MAX));
        Ok(CheckRun {
            name: run.name,
            state,
            head: commit.to_owned(),
            branch: branch.map(str::to_owned),
            title: output.title,
            body: body.split_off(start),
        })
    }

    /// The errors that a check reports on lines. Logs themselves are on another host, which gets no request.
    async fn annotations(&self, check: u64) -> CallResult<String> {
        let path = self.hub.path(&format!("/check-runs/{check}/annotations"));
        let all: Option<Vec<rows::GitHubAnnotation>> = self.hub.client.find(&path, "per_page=50").await?;
        let mut text = String::new();
        for one in all.into_iter().flatten() {
            let (path, message) = (one.path.unwrap_or_default(), one.message.unwrap_or_default());
            // Writing into a string cannot fail.
            let _ = write!(text, "\n{path}:{}: {message}", one.start_line.unwrap_or_default());
        }
        Ok(text)
    }

    pub(super) async fn read_label_changes(&self, of: CommentsOf) -> CallResult<Vec<LabelChange>> {
        let (CommentsOf::Pull(number) | CommentsOf::Issue(number)) = of;
        let path = self.hub.path(&format!("/issues/{number}/events"));
        let events = self.hub.client.all_rows::<rows::GitHubEvent>(&path, "per_page=100", EVENT_PAGES_MAX).await?;
        Ok(events.into_iter().filter_map(rows::GitHubEvent::label_change).collect())
    }

    pub(super) async fn read_contained(&self, branch: &str, commit: &str) -> CallResult<Option<RemoteCommit>> {
        let range = format!("/compare/{}...{}", encode_path(branch), encode(commit));
        let compared: Option<rows::GitHubComparison> =
            self.hub.client.find(&self.hub.path(&range), "per_page=1").await?;
        if !compared.is_some_and(|compared| matches!(compared.status.as_str(), "identical" | "behind")) {
            return Ok(None);
        }
        let commit: rows::GitHubCommit =
            self.hub.client.get(&self.hub.path(&format!("/git/commits/{commit}")), "").await?;
        Ok(Some(RemoteCommit { url: commit.html_url, at_ms: unix_ms(&commit.committer.date) }))
    }

    /// An App's token has no account of its own.
    pub(super) async fn read_account(&self) -> CallResult<(String, Option<ForgeFinding>)> {
        let path = if matches!(self.hub.client.token, TokenSource::App(_)) { "/rate_limit" } else { "/user" };
        let answer = self.hub.client.send(HttpCall::new(Method::GET, path)).await?;
        let user: Option<HubUser> = serde_json::from_slice(&answer.body).ok();
        let name = user.map_or_else(|| "a GitHub App".to_owned(), |user| format!("`{}`", user.login));
        let scopes = answer.header("x-oauth-scopes").map(|scopes| {
            match scopes.split(',').any(|scope| matches!(scope.trim(), "repo" | "public_repo")) {
                true => ForgeFinding::good("scopes", format!("the token has the scopes `{scopes}`")),
                false => ForgeFinding::bad(
                    "scopes",
                    format!("the token has the scopes `{scopes}`; pushes and pull requests need `repo`"),
                ),
            }
        });
        Ok((name, scopes))
    }
}

/// The filters of GitHub's listing of issues.
pub(super) fn issue_query(query: &ItemQuery) -> String {
    let mut text = format!("state={}&sort=created&direction=asc&per_page=100", state(query));
    if !query.labels.is_empty() {
        let _ = write!(text, "&labels={}", encode(&query.labels.join(",")));
    }
    let person = |name: &Option<String>| name.as_ref().map(|name| encode(name));
    if let Some(assignee) = person(&query.assignee) {
        let _ = write!(text, "&assignee={assignee}");
    }
    if let [author] = query.author.as_slice() {
        let _ = write!(text, "&creator={}", encode(author));
    }
    text
}

/// A run that was cancelled or replaced has neither passed nor failed.
fn check_state(run: &rows::GitHubCheck) -> CheckState {
    match (run.status.as_str(), run.conclusion.as_deref()) {
        ("completed", Some("success" | "neutral" | "skipped")) => CheckState::Passed,
        ("completed", Some("cancelled" | "stale")) => CheckState::Pending,
        ("completed", Some(_)) => CheckState::Failed,
        _ => CheckState::Pending,
    }
}
