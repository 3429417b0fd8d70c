//! The calls that change something on GitHub.

use super::GitHub;
use crate::api::{CallResult, PullDraft, RemoteComment, RemoteIssue, RemotePull, ReviewDraft};
use crate::hub_rows::{HubItem, HubPull};
use hyper::Method;
use loopwright_core::outbox::{DiffSide, InlineComment, ReviewDecision};
use serde_json::{Value, json};

impl GitHub {
    pub(super) async fn write_pull(&self, new: &PullDraft<'_>) -> CallResult<RemotePull> {
        let body = json!({
            "title": new.title, "body": new.body, "head": new.branch, "base": new.base_branch, "draft": new.draft,
        });
        let pull: HubPull = self.hub.client.post(&self.hub.path("/pulls"), &body).await?;
        Ok(pull.row())
    }

    /// Reviewers come first: a pull request with its labels is complete.
    pub(super) async fn write_people_and_labels(&self, number: u64, new: &PullDraft<'_>) -> CallResult<()> {
        let mut asked = Ok(());
        if !new.reviewers.is_empty() {
            let (teams, people): (Vec<_>, Vec<_>) = new.reviewers.iter().partition(|name| name.contains('/'));
            let teams: Vec<&str> = teams.iter().filter_map(|team| team.split('/').nth(1)).collect();
            let body = json!({ "reviewers": people, "team_reviewers": teams });
            let path = self.hub.path(&format!("/pulls/{number}/requested_reviewers"));
            asked = self.hub.client.post::<Value>(&path, &body).await.map(drop);
            // An account that may not review does not keep the labels away.
            if matches!(&asked, Err(error) if error.kind != crate::api::ApiErrorKind::Rejected) {
                return asked;
            }
        }
        let labelled = if new.labels.is_empty() { Ok(()) } else { self.write_labels(number, new.labels).await };
        labelled.and(asked)
    }

    pub(super) async fn write_labels(&self, number: u64, labels: &[String]) -> CallResult<()> {
        let path = self.hub.path(&format!("/issues/{number}/labels"));
        self.hub.client.post::<Value>(&path, &json!({ "labels": labels })).await.map(drop)
    }

    pub(super) async fn write_text(&self, number: u64, title: &str, body: &str) -> CallResult<()> {
        let path = self.hub.path(&format!("/pulls/{number}"));
        let text = json!({ "title": title, "body": body });
        self.hub.client.write::<Value>(Method::PATCH, &path, &text).await.map(drop)
    }

    pub(super) async fn write_issue(&self, title: &str, body: &str, labels: &[String]) -> CallResult<RemoteIssue> {
        let body = json!({ "title": title, "body": body, "labels": labels });
        let issue: HubItem = self.hub.client.post(&self.hub.path("/issues"), &body).await?;
        Ok(issue.row())
    }

    pub(super) async fn write_review(&self, pull: &RemotePull, new: &ReviewDraft<'_>) -> CallResult<RemoteComment> {
        let event = match new.decision {
            Some(ReviewDecision::Approve) => "APPROVE",
            Some(ReviewDecision::RequestChanges) => "REQUEST_CHANGES",
            None => "COMMENT",
        };
        let comments: Vec<Value> = new.comments.iter().map(line_comment).collect();
        self.hub.add_review(pull, event, new.body, &comments).await
    }
}

fn line_comment(comment: &InlineComment) -> Value {
    let side = if comment.side == DiffSide::Left { "LEFT" } else { "RIGHT" };
    let mut body = json!({ "path": comment.path, "line": comment.line, "side": side, "body": comment.body });
    if let Some(start) = comment.start_line.filter(|start| *start < comment.line) {
        body["start_line"] = json!(start);
        body["start_side"] = json!(side);
    }
    body
}
