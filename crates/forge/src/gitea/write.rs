//! The calls that change something on Gitea.

use super::{Gitea, rows};
use crate::api::{ApiErrorKind, CallResult, PullDraft, RemoteComment, RemoteIssue, RemotePull, ReviewDraft};
use crate::hub_rows::{HubItem, HubLabel, HubPull};
use hyper::Method;
use loopwright_core::outbox::{DiffSide, InlineComment, ReviewDecision};
use serde_json::{Value, json};

/// The most pages of labels.
const LABEL_PAGES_MAX: usize = 20;
/// The colour of a label that Loopwright creates.
const LABEL_COLOUR: &str = "#ededed";

impl Gitea {
    pub(super) async fn write_pull(&self, new: &PullDraft<'_>) -> CallResult<RemotePull> {
        let title = if new.draft { rows::draft_title(new.title) } else { new.title.to_owned() };
        let labels = self.label_ids(new.labels).await?;
        let body = json!({
            "title": title, "body": new.body, "head": new.branch, "base": new.base_branch, "labels": labels,
        });
        let pull: HubPull = self.hub.client.post(&self.hub.path("/pulls"), &body).await?;
        Ok(pull.row())
    }

    pub(super) async fn write_reviewers(&self, number: u64, new: &PullDraft<'_>) -> CallResult<()> {
        if new.reviewers.is_empty() {
            return Ok(());
        }
        let path = self.hub.path(&format!("/pulls/{number}/requested_reviewers"));
        self.hub.client.post::<Value>(&path, &json!({ "reviewers": new.reviewers })).await.map(drop)
    }

    /// Gitea's interface wants the numbers of labels. A label that does not exist is created; one that the token may
    /// not create is left out.
    async fn label_ids(&self, names: &[String]) -> CallResult<Vec<i64>> {
        let path = self.hub.path("/labels");
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let (known, _) = self.hub.client.first_rows::<HubLabel>(&path, "limit=50&page=1", LABEL_PAGES_MAX).await?;
        let mut ids = Vec::new();
        for name in names {
            if let Some(label) = known.iter().find(|label| label.name == *name) {
                ids.push(label.id);
                continue;
            }
            match self.hub.client.post::<HubLabel>(&path, &json!({ "name": name, "color": LABEL_COLOUR })).await {
                Ok(label) => ids.push(label.id),
                Err(error) if matches!(error.kind, ApiErrorKind::Access | ApiErrorKind::Rejected) => {}
                // A label is no visible item, so a lost answer leaves no doubt about one.
                Err(error) => return Err(crate::api::ApiError { writes: false, ..error }),
            }
        }
        Ok(ids)
    }

    pub(super) async fn write_labels(&self, number: u64, labels: &[String]) -> CallResult<()> {
        let path = self.hub.path(&format!("/issues/{number}/labels"));
        let labels = self.label_ids(labels).await?;
        self.hub.client.post::<Value>(&path, &json!({ "labels": labels })).await.map(drop)
    }

    pub(super) async fn write_text(&self, pull: &RemotePull, title: &str, body: &str) -> CallResult<()> {
        let path = self.hub.path(&format!("/pulls/{}", pull.row.about.number));
        let title = if pull.row.draft { rows::draft_title(title) } else { title.to_owned() };
        let text = json!({ "title": title, "body": body });
        self.hub.client.write::<Value>(Method::PATCH, &path, &text).await.map(drop)
    }

    pub(super) async fn write_issue(&self, title: &str, body: &str, labels: &[String]) -> CallResult<RemoteIssue> {
        let labels = self.label_ids(labels).await?;
        let body = json!({ "title": title, "body": body, "labels": labels });
        let issue: HubItem = self.hub.client.post(&self.hub.path("/issues"), &body).await?;
        Ok(issue.row())
    }

    pub(super) async fn write_review(&self, pull: &RemotePull, new: &ReviewDraft<'_>) -> CallResult<RemoteComment> {
        let event = match new.decision {
            Some(ReviewDecision::Approve) => "APPROVED",
            Some(ReviewDecision::RequestChanges) => "REQUEST_CHANGES",
            None => "COMMENT",
        };
        let comments: Vec<Value> = new.comments.iter().map(line_comment).collect();
        self.hub.add_review(pull, event, new.body, &comments).await
    }
}

/// Gitea has no ranges, so the text names one.
fn line_comment(comment: &InlineComment) -> Value {
    let text = match comment.start_line.filter(|start| *start < comment.line) {
        Some(start) => format!("Lines {start} to {}:\n\n{}", comment.line, comment.body),
        None => comment.body.clone(),
    };
    let (old, new) = if comment.side == DiffSide::Left { (comment.line, 0) } else { (0, comment.line) };
    json!({ "path": comment.path, "body": text, "old_position": old, "new_position": new })
}
