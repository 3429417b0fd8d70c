//! The calls that read Gitea.

use super::{Gitea, rows};
use crate::api::{CallResult, RemoteComment, RemoteCommit, RemoteIssue, RemotePull, unix_ms};
use crate::base_url::{encode, encode_path};
use crate::http::HttpCall;
use crate::hub_repo::state;
use crate::hub_rows::{HubComment, HubItem, HubPull};
use hyper::Method;
use hyper::header::{ACCEPT, HeaderValue};
use loopwright_core::forge::{
    CheckRun, CheckState, CommentKind, CommentsOf, ForgePage, ItemQuery, LabelChange, PageToken, PullFile, split_diff,
};
use std::fmt::Write as _;

/// Gitea's largest page, unless the server's configuration changes it.
const PAGE_ROWS: u64 = 50;
/// The most pages of a timeline.
const TIMELINE_PAGES_MAX: usize = 20;
/// The most pages of reviews.
const REVIEW_PAGES_MAX: usize = 20;

impl Gitea {
    pub(super) async fn read_pulls(
        &self,
        query: &ItemQuery,
        from: Option<&PageToken>,
    ) -> CallResult<ForgePage<RemotePull>> {
        let mut first = format!("state={}&sort=oldest&limit={PAGE_ROWS}&page=1", state(query));
        if let Some(base) = &query.base_branch {
            // Writing into a string cannot fail.
            let _ = write!(first, "&base_branch={}", encode(base));
        }
        let page = self.hub.client.page::<HubPull>(&self.hub.path("/pulls"), &first, from).await?;
        Ok(ForgePage { rows: page.rows.into_iter().map(rows::pull_row).collect(), next: page.next })
    }

    /// Gitea lists the newest issue first, so pages are read from the last to the first.
    pub(super) async fn read_issues(
        &self,
        query: &ItemQuery,
        from: Option<&PageToken>,
    ) -> CallResult<ForgePage<RemoteIssue>> {
        let page = match from.and_then(|token| token.0.parse::<u64>().ok()) {
            Some(page) => page,
            None => self.last_issue_page(query).await?,
        };
        let text = format!("{}&page={page}", issue_query(query));
        let mut rows: Vec<HubItem> = self.hub.client.get(&self.hub.path("/issues"), &text).await?;
        rows.reverse();
        let next = (page > 1).then(|| PageToken((page - 1).to_string()));
        Ok(ForgePage { rows: rows.into_iter().map(HubItem::row).collect(), next })
    }

    async fn last_issue_page(&self, query: &ItemQuery) -> CallResult<u64> {
        let text = format!("{}&page=1", issue_query(query));
        let answer = self.hub.client.send(HttpCall::new(Method::GET, self.hub.path("/issues")).query(text)).await?;
        let total = answer.header("x-total-count").and_then(|total| total.parse::<u64>().ok()).unwrap_or(0);
        Ok(total.div_ceil(PAGE_ROWS).max(1))
    }

    pub(super) async fn read_reviews(&self, pull: u64) -> CallResult<Vec<HubComment>> {
        let path = self.hub.path(&format!("/pulls/{pull}/reviews"));
        let mut reviews = self.hub.client.all_rows::<HubComment>(&path, "limit=50&page=1", REVIEW_PAGES_MAX).await?;
        // The others are drafts and requests for a review.
        reviews.retain(|review| !matches!(review.state.as_deref(), Some("PENDING" | "REQUEST_REVIEW")));
        Ok(reviews)
    }

    pub(super) async fn read_comments(&self, of: CommentsOf) -> CallResult<Vec<RemoteComment>> {
        let (CommentsOf::Pull(number) | CommentsOf::Issue(number)) = of;
        let path = self.hub.path(&format!("/issues/{number}/comments"));
        let plain: Vec<HubComment> = self.hub.client.get(&path, "").await?;
        let mut comments: Vec<RemoteComment> = plain.into_iter().map(|row| row.row(CommentKind::Plain)).collect();
        if let CommentsOf::Pull(_) = of {
            for review in self.read_reviews(number).await? {
                let path = self.hub.path(&format!("/pulls/{number}/reviews/{}/comments", review.id));
                let lines: Vec<HubComment> = match review.comments_count {
                    0 => Vec::new(),
                    _ => self.hub.client.get(&path, "").await?,
                };
                comments.push(review.row(CommentKind::Review));
                comments.extend(lines.into_iter().map(|line| line.row(CommentKind::Inline)));
            }
        }
        Ok(comments)
    }

    pub(super) async fn read_label_changes(&self, of: CommentsOf) -> CallResult<Vec<LabelChange>> {
        let (CommentsOf::Pull(number) | CommentsOf::Issue(number)) = of;
        let path = self.hub.path(&format!("/issues/{number}/timeline"));
        let first = "limit=50&page=1";
        let entries = self.hub.client.all_rows::<rows::GiteaTimelineEntry>(&path, first, TIMELINE_PAGES_MAX).await?;
        Ok(entries.into_iter().filter_map(rows::GiteaTimelineEntry::label_change).collect())
    }

    /// Gitea's list of files has no patches, and its diff has everything.
    pub(super) async fn read_changed_files(&self, pull: u64) -> CallResult<Vec<PullFile>> {
        let call = HttpCall::new(Method::GET, self.hub.path(&format!("/pulls/{pull}.diff")));
        let answer = self.hub.client.send(call.header(ACCEPT, HeaderValue::from_static("text/plain"))).await?;
        Ok(split_diff(&String::from_utf8_lossy(&answer.body)))
    }

    pub(super) async fn read_checks(&self, commit: &str, branch: Option<&str>) -> CallResult<Vec<CheckRun>> {
        let path = self.hub.path(&format!("/commits/{}/status", encode(commit)));
        let combined: Option<rows::GiteaCombinedStatus> = self.hub.client.find(&path, "limit=50&page=1").await?;
        let statuses = combined.and_then(|combined| combined.statuses).unwrap_or_default();
        Ok(statuses.into_iter().map(|status| row(status, commit, branch)).collect())
    }

    pub(super) async fn read_contained(&self, branch: &str, commit: &str) -> CallResult<Option<RemoteCommit>> {
        let range = self.hub.path(&format!("/compare/{}...{}", encode_path(branch), encode(commit)));
        let compared: Option<rows::GiteaComparison> = self.hub.client.find(&range, "").await?;
        if compared.is_none_or(|compared| compared.total_commits > 0) {
            return Ok(None);
        }
        let commit: rows::GiteaCommit =
            self.hub.client.get(&self.hub.path(&format!("/git/commits/{commit}")), "").await?;
        let at_ms = commit.created.map_or(0, |time| unix_ms(&time));
        Ok(Some(RemoteCommit { url: commit.html_url, at_ms }))
    }
}

fn row(status: rows::GiteaStatus, commit: &str, branch: Option<&str>) -> CheckRun {
    CheckRun {
        name: status.context,
        state: match status.status.as_str() {
            "success" | "skipped" | "warning" => CheckState::Passed,
            "failure" | "error" => CheckState::Failed,
            _ => CheckState::Pending,
        },
        head: commit.to_owned(),
        branch: branch.map(str::to_owned),
        title: status.description.clone(),
        body: status.description.unwrap_or_default(),
    }
}

fn issue_query(query: &ItemQuery) -> String {
    let mut text = format!("type=issues&state={}&limit={PAGE_ROWS}", state(query));
    if !query.labels.is_empty() {
        let _ = write!(text, "&labels={}", encode(&query.labels.join(",")));
    }
    if let Some(assignee) = &query.assignee {
        let _ = write!(text, "&assigned_by={}", encode(assignee));
    }
    if let [author] = query.author.as_slice() {
        let _ = write!(text, "&created_by={}", encode(author));
    }
    text
}
