//! The calls that change something on GitLab, except reviews.

use super::{GitLab, rows};
use crate::api::{CallResult, PullDraft, RemoteComment, RemoteIssue, RemotePull};
use crate::base_url::encode;
use hyper::Method;
use loopwright_core::forge::CommentsOf;
use serde_json::{Value, json};

impl GitLab {
    pub(super) async fn write_merge_request(&self, new: &PullDraft<'_>) -> CallResult<RemotePull> {
        let title = if new.draft { rows::draft_title(new.title) } else { new.title.to_owned() };
        let body = json!({
            "source_branch": new.branch,
            "target_branch": new.base_branch,
            "title": title,
            "description": new.body,
            "labels": new.labels.join(","),
            "reviewer_ids": self.user_ids(new.reviewers).await?,
        });
        let one: rows::GitLabMergeRequest = self.client.post(&self.path("/merge_requests"), &body).await?;
        Ok(one.row())
    }

    /// GitLab's interface wants the numbers of accounts; an unknown account is left out.
    async fn user_ids(&self, names: &[String]) -> CallResult<Vec<u64>> {
        let mut ids = Vec::new();
        for name in names {
            let found: Vec<rows::GitLabUser> = self.client.get("/users", &format!("username={}", encode(name))).await?;
            ids.extend(found.into_iter().filter(|user| user.username == *name).map(|user| user.id));
        }
        Ok(ids)
    }

    pub(super) async fn write_text(&self, pull: &RemotePull, title: &str, body: &str) -> CallResult<()> {
        let title = if pull.row.draft { rows::draft_title(title) } else { title.to_owned() };
        let path = self.item_path(CommentsOf::Pull(pull.row.about.number));
        let text = json!({ "title": title, "description": body });
        self.client.write::<Value>(Method::PUT, &path, &text).await.map(drop)
    }

    pub(super) async fn write_issue(&self, title: &str, body: &str, labels: &[String]) -> CallResult<RemoteIssue> {
        let body = json!({ "title": title, "description": body, "labels": labels.join(",") });
        let issue: rows::GitLabIssue = self.client.post(&self.path("/issues"), &body).await?;
        Ok(issue.row())
    }

    pub(super) async fn write_labels(&self, number: u64, labels: &[String]) -> CallResult<()> {
        let path = self.item_path(CommentsOf::Issue(number));
        let body = json!({ "add_labels": labels.join(",") });
        self.client.write::<Value>(Method::PUT, &path, &body).await.map(drop)
    }

    pub(super) async fn write_note(&self, of: CommentsOf, body: &str) -> CallResult<RemoteComment> {
        let path = format!("{}/notes", self.item_path(of));
        let note: rows::GitLabNote = self.client.post(&path, &json!({ "body": body })).await?;
        Ok(self.note_row(of, note))
    }

    pub(super) async fn write_status(&self, commit: &str, context: &str, text: &str) -> CallResult<()> {
        let path = self.path(&format!("/statuses/{commit}"));
        let body = json!({ "state": "success", "name": context, "description": text });
        self.client.post::<Value>(&path, &body).await.map(drop)
    }
}
