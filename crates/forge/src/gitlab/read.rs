//! The calls that read GitLab.

use super::{GitLab, rows};
use crate::api::{CallResult, RemoteComment, RemoteCommit, RemoteIssue, RemotePull, unix_ms};
use crate::base_url::encode;
use crate::http::HttpCall;
use crate::inspect::ForgeFinding;
use hyper::Method;
use hyper::header::{ACCEPT, HeaderValue};
use loopwright_core::forge::{
    CheckRun, CheckState, CommentKind, CommentsOf, ForgeComment, ForgePage, ItemQuery, ItemState, LabelChange,
    PageToken, PullFile,
};
use loopwright_core::outbox::marker_loop;
use std::fmt::Write as _;

/// The most bytes of a job's log; the end is kept, because the error is there.
const LOG_MAX: usize = 16 << 10;

/// The most pages of label events.
const EVENT_PAGES_MAX: usize = 20;

/// The most pages of changed files.
const FILE_PAGES_MAX: usize = 3;

impl GitLab {
    pub(super) async fn read_merge_requests(
        &self,
        query: &ItemQuery,
        from: Option<&PageToken>,
    ) -> CallResult<ForgePage<RemotePull>> {
        let state = match query.state {
            Some(ItemState::Open) => "opened",
            Some(ItemState::Closed) => "closed",
            Some(ItemState::Merged) => "merged",
            None => "all",
        };
        let mut first = format!("state={state}&scope=all&order_by=created_at&sort=asc&per_page=100");
        // Writing into a string cannot fail.
        if let Some(base) = &query.base_branch {
            let _ = write!(first, "&target_branch={}", encode(base));
        }
        first.push_str(&labels(query));
        let page = self.client.page::<rows::GitLabMergeRequest>(&self.path("/merge_requests"), &first, from).await?;
        Ok(ForgePage { rows: page.rows.into_iter().map(rows::GitLabMergeRequest::row).collect(), next: page.next })
    }

    pub(super) async fn read_issues(
        &self,
        query: &str,
        from: Option<&PageToken>,
    ) -> CallResult<ForgePage<RemoteIssue>> {
        let page = self.client.page::<rows::GitLabIssue>(&self.path("/issues"), query, from).await?;
        Ok(ForgePage { rows: page.rows.into_iter().map(rows::GitLabIssue::row).collect(), next: page.next })
    }

    pub(super) async fn read_notes(
        &self,
        of: CommentsOf,
        from: Option<&PageToken>,
    ) -> CallResult<ForgePage<RemoteComment>> {
        let path = format!("{}/notes", self.item_path(of));
        let first = "order_by=created_at&sort=asc&per_page=100";
        let page = self.client.page::<rows::GitLabNote>(&path, first, from).await?;
        let written = page.rows.into_iter().filter(|note| !note.system);
        Ok(ForgePage { rows: written.map(|note| self.note_row(of, note)).collect(), next: page.next })
    }

    pub(super) async fn read_label_changes(&self, of: CommentsOf) -> CallResult<Vec<LabelChange>> {
        let path = format!("{}/resource_label_events", self.item_path(of));
        let events = self.client.all_rows::<rows::GitLabLabelEvent>(&path, "per_page=100", EVENT_PAGES_MAX).await?;
        Ok(events.into_iter().filter_map(rows::GitLabLabelEvent::label_change).collect())
    }

    pub(super) fn note_row(&self, of: CommentsOf, note: rows::GitLabNote) -> RemoteComment {
        let loop_name = marker_loop(&note.body).map(str::to_owned);
        let place = note.position.and_then(|position| {
            let path = position.new_path.or(position.old_path)?;
            let line = position.new_line.or(position.old_line).map(|line| format!(":{line}")).unwrap_or_default();
            Some(format!("{path}{line}: "))
        });
        let kind = if place.is_some() { CommentKind::Inline } else { CommentKind::Plain };
        let body = format!("{}{}", place.unwrap_or_default(), note.body);
        let (author, author_id) = note.author.map(|user| (user.username, user.id.to_string())).unzip();
        let is_edited = note.updated_at.is_some_and(|updated| updated != note.created_at);
        let (id, created_ms) = (note.id.to_string(), unix_ms(&note.created_at));
        RemoteComment {
            row: ForgeComment { id, kind, author, author_id, created_ms, is_edited, loop_name, body },
            url: self.note_url(of, note.id),
            created_ms,
            head: None,
        }
    }

    pub(super) async fn read_changed_files(&self, pull: u64) -> CallResult<Vec<PullFile>> {
        let path = format!("{}/diffs", self.item_path(CommentsOf::Pull(pull)));
        let (files, _) = self.client.first_rows::<rows::GitLabDiff>(&path, "per_page=100", FILE_PAGES_MAX).await?;
        let row = |file: rows::GitLabDiff| {
            let patch = Some(file.diff).filter(|diff| !diff.is_empty());
            PullFile { path: file.new_path, patch }
        };
        Ok(files.into_iter().map(row).collect())
    }

    /// The jobs of the commit's pipelines and the statuses of other build servers are one list.
    pub(super) async fn read_checks(&self, commit: &str, branch: Option<&str>) -> CallResult<Vec<CheckRun>> {
        let path = self.path(&format!("/repository/commits/{}/statuses", encode(commit)));
        let statuses: Option<Vec<rows::GitLabStatus>> = self.client.find(&path, "per_page=100").await?;
        let mut checks = Vec::new();
        for status in statuses.into_iter().flatten() {
            let state = match status.status.as_str() {
                "success" | "skipped" | "manual" => CheckState::Passed,
                "failed" => CheckState::Failed,
                _ => CheckState::Pending,
            };
            let log = if state == CheckState::Failed { self.log_tail(status.id).await } else { None };
            checks.push(CheckRun {
                name: status.name,
                state,
                head: commit.to_owned(),
                branch: status.branch.or_else(|| branch.map(str::to_owned)),
                title: status.description.clone(),
                body: log.or(status.description).unwrap_or_default(),
            });
        }
        Ok(checks)
    }

    /// The end of a job's log. A status of another build server has none, and a check is useful without it, so every
    /// error means none.
    async fn log_tail(&self, job: u64) -> Option<String> {
        let call = HttpCall::new(Method::GET, self.path(&format!("/jobs/{job}/trace")));
        let answer = self.client.send(call.header(ACCEPT, HeaderValue::from_static("text/plain"))).await.ok()?;
        let start = answer.body.len().saturating_sub(LOG_MAX);
        Some(String::from_utf8_lossy(answer.body.get(start..)?).into_owned())
    }

    pub(super) async fn read_contained(&self, branch: &str, commit: &str) -> CallResult<Option<RemoteCommit>> {
        let range = format!("from={}&to={}", encode(branch), encode(commit));
        let compared: Option<rows::GitLabComparison> =
            self.client.find(&self.path("/repository/compare"), &range).await?;
        if compared.is_none_or(|compared| !compared.commits.is_empty()) {
            return Ok(None);
        }
        let path = self.path(&format!("/repository/commits/{}", encode(commit)));
        let commit: rows::GitLabCommit = self.client.get(&path, "").await?;
        Ok(Some(RemoteCommit { url: commit.web_url, at_ms: unix_ms(&commit.committed_date) }))
    }

    /// Only personal, project and group tokens report their scopes.
    pub(super) async fn read_account(&self) -> CallResult<(String, Option<ForgeFinding>)> {
        let user: rows::GitLabUser = self.client.get("/user", "").await?;
        let facts = self.client.get::<rows::GitLabTokenFacts>("/personal_access_tokens/self", "").await.ok();
        let scopes = facts.map(|facts| {
            let scopes = facts.scopes.join(", ");
            match facts.scopes.iter().any(|scope| scope == "api") {
                true => ForgeFinding::good("scopes", format!("the token has the scopes `{scopes}`")),
                false => {
                    let text = format!("the token has the scopes `{scopes}`; merge requests need `api`");
                    ForgeFinding::bad("scopes", text)
                }
            }
        });
        Ok((format!("`{}`", user.username), scopes))
    }
}

fn labels(query: &ItemQuery) -> String {
    match query.labels.is_empty() {
        true => String::new(),
        false => format!("&labels={}", encode(&query.labels.join(","))),
    }
}

/// The filters of GitLab's listing of issues.
pub(super) fn issue_query(query: &ItemQuery) -> String {
    let state = match query.state {
        Some(ItemState::Open) => "state=opened&",
        Some(ItemState::Closed | ItemState::Merged) => "state=closed&",
        None => "",
    };
    let mut text = format!("{state}scope=all&order_by=created_at&sort=asc&per_page=100{}", labels(query));
    if let [author] = query.author.as_slice() {
        // Writing into a string cannot fail.
        let _ = write!(text, "&author_username={}", encode(author));
    }
    text
}
