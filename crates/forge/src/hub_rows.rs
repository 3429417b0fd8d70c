//! The JSON that GitHub and Gitea have in common, reduced to the fields that are used, and the conversion to common rows.
//! Gitea's interface began as a copy of GitHub's; a field that only one of them has is optional.

use crate::api::{RemoteComment, RemoteIssue, RemotePull, RemoteRepository, unix_ms};
use loopwright_core::forge::{CommentKind, ForgeComment, ForgeItem, Issue, ItemState, PullRequest};
use loopwright_core::outbox::marker_loop;
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Debug, Deserialize)]
pub(crate) struct HubUser {
    /// Gitea shows a deleted account with a negative number.
    pub(crate) id: i64,
    pub(crate) login: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct HubLabel {
    #[serde(default)]
    pub(crate) id: i64,
    pub(crate) name: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct HubRepository {
    #[serde(default)]
    full_name: String,
    #[serde(default)]
    default_branch: String,
    #[serde(default)]
    archived: bool,
    #[serde(default)]
    has_issues: Option<bool>,
    #[serde(default)]
    permissions: Option<HubPermissions>,
}

#[derive(Debug, Deserialize)]
struct HubPermissions {
    #[serde(default)]
    push: bool,
}

impl HubRepository {
    /// Installation tokens have no `permissions` of a person.
    pub(crate) fn row(self) -> RemoteRepository {
        let may_push = self.permissions.map(|permissions| permissions.push);
        let (default_branch, archived, has_issues) = (self.default_branch, self.archived, self.has_issues);
        RemoteRepository { default_branch, archived, may_push, has_issues }
    }
}

#[derive(Debug, Deserialize)]
struct HubPullSide {
    #[serde(rename = "ref")]
    reference: String,
    #[serde(default)]
    label: String,
    #[serde(default)]
    sha: String,
    repo: Option<HubRepository>,
}

impl HubPullSide {
    /// The branch's name. On Gitea, a deleted branch has another reference, and its name only as the label.
    fn branch(&self) -> &str {
        if self.reference.starts_with("refs/") { &self.label } else { &self.reference }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct HubPull {
    #[serde(flatten)]
    about: HubItem,
    draft: Option<bool>,
    merged: Option<bool>,
    merged_at: Option<String>,
    requested_reviewers: Option<Vec<IgnoredAny>>,
    requested_teams: Option<Vec<IgnoredAny>>,
    head: HubPullSide,
    base: HubPullSide,
}

impl HubPull {
    /// Whether the pull request is of a branch of this repository, not of a fork.
    pub(crate) fn is_of(&self, branch: &str) -> bool {
        self.head.branch() == branch && !self.is_from_fork()
    }

    fn is_from_fork(&self) -> bool {
        let name = |side: &HubPullSide| side.repo.as_ref().map(|repo| repo.full_name.to_lowercase());
        // The repository of a deleted fork is `null`.
        name(&self.head).is_none_or(|head| Some(head) != name(&self.base))
    }

    pub(crate) fn row(self) -> RemotePull {
        let is_from_fork = self.is_from_fork();
        let is_merged = self.merged == Some(true) || self.merged_at.is_some();
        let asked = [&self.requested_reviewers, &self.requested_teams];
        let has_reviewers = asked.into_iter().flatten().any(|all| !all.is_empty());
        let RemoteIssue { row, url, created_ms, updated_ms } = self.about.row();
        let mut about = row.about;
        if is_merged {
            about.state = ItemState::Merged;
        }
        // Only this repository's branches are pushed by a loop, so a marker in a fork's pull request is a copy.
        about.loop_name = about.loop_name.filter(|_| !is_from_fork);
        let (branch, base_branch) = (self.head.branch().to_owned(), self.base.branch().to_owned());
        let draft = self.draft.unwrap_or(false);
        let row = PullRequest { about, draft, branch, head: self.head.sha, base_branch };
        RemotePull { row, url, created_ms, updated_ms, has_reviewers }
    }
}

/// An issue, or the part of a pull request that an issue has, too.
#[derive(Debug, Deserialize)]
pub(crate) struct HubItem {
    number: u64,
    title: String,
    body: Option<String>,
    state: String,
    user: Option<HubUser>,
    labels: Option<Vec<HubLabel>>,
    assignees: Option<Vec<HubUser>>,
    /// Set if an issue is a pull request.
    pub(crate) pull_request: Option<IgnoredAny>,
    html_url: String,
    created_at: String,
    updated_at: String,
}

impl HubItem {
    pub(crate) fn row(self) -> RemoteIssue {
        let body = self.body.unwrap_or_default();
        let about = ForgeItem {
            number: self.number,
            title: Some(self.title),
            author: self.user.map(|user| user.login),
            loop_name: marker_loop(&body).map(str::to_owned),
            body,
            state: if self.state == "open" { ItemState::Open } else { ItemState::Closed },
            labels: self.labels.into_iter().flatten().map(|label| label.name).collect(),
            assignees: self.assignees.into_iter().flatten().map(|user| user.login).collect(),
        };
        RemoteIssue {
            row: Issue { about },
            url: self.html_url,
            created_ms: unix_ms(&self.created_at),
            updated_ms: unix_ms(&self.updated_at),
        }
    }
}

/// A comment, a review, or a comment on a line: the three have nearly the same fields.
#[derive(Debug, Deserialize)]
pub(crate) struct HubComment {
    pub(crate) id: u64,
    body: Option<String>,
    user: Option<HubUser>,
    html_url: String,
    created_at: Option<String>,
    updated_at: Option<String>,
    submitted_at: Option<String>,
    commit_id: Option<String>,
    pub(crate) state: Option<String>,
    #[serde(default)]
    pub(crate) comments_count: u64,
    path: Option<String>,
    line: Option<u64>,
    original_line: Option<u64>,
    position: Option<u64>,
    original_position: Option<u64>,
}

impl HubComment {
    pub(crate) fn has(&self, marker: &str) -> bool {
        self.body.as_deref().unwrap_or_default().contains(marker)
    }

    /// GitHub's `position` is a place in the diff, and it has `line`; Gitea's `position` is the line.
    fn line(&self) -> Option<u64> {
        let lines = [self.line, self.original_line];
        let places =
            if self.line.or(self.original_line).is_some() { lines } else { [self.position, self.original_position] };
        places.into_iter().flatten().find(|line| *line > 0)
    }

    pub(crate) fn row(self, kind: CommentKind) -> RemoteComment {
        let line = self.line().map(|line| format!(":{line}")).unwrap_or_default();
        let text = self.body.unwrap_or_default();
        let loop_name = marker_loop(&text).map(str::to_owned);
        let body = match (kind, self.state.as_deref(), &self.path) {
            (CommentKind::Review, Some("CHANGES_REQUESTED" | "REQUEST_CHANGES"), _) => {
                format!("(changes requested) {text}")
            }
            (CommentKind::Review, Some("APPROVED"), _) => format!("(approved) {text}"),
            (CommentKind::Inline, _, Some(path)) => format!("{path}{line}: {text}"),
            _ => text,
        };
        let id = match kind {
            CommentKind::Review => format!("review-{}", self.id),
            CommentKind::Inline => format!("inline-{}", self.id),
            CommentKind::Plain | CommentKind::Labels => self.id.to_string(),
        };
        let is_edited = self.updated_at.is_some_and(|updated| self.created_at.as_ref() != Some(&updated));
        let created_ms = self.created_at.or(self.submitted_at).map_or(0, |time| unix_ms(&time));
        let (author, author_id) = self.user.map(|user| (user.login, user.id.to_string())).unzip();
        RemoteComment {
            row: ForgeComment { id, kind, author, author_id, created_ms, is_edited, loop_name, body },
            url: self.html_url,
            created_ms,
            head: self.commit_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loopwright_core::outbox::marker;
    use serde_json::json;

    fn pull(head_repo: serde_json::Value) -> RemotePull {
        let side = |repo| json!({ "ref": "loop/fixer/r1", "sha": "a", "repo": repo });
        let pull = json!({
            "number": 1, "title": "T", "body": marker("fixer", "r1", 1, "c"), "state": "open", "merged_at": null,
            "user": { "login": "eve", "id": 7 }, "head": side(head_repo), "base": side(json!({ "full_name": "acme/app" })),
            "html_url": "u", "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        });
        serde_json::from_value::<HubPull>(pull).expect("a pull request").row()
    }

    #[test]
    fn a_copied_marker_in_a_fork_s_pull_request_is_not_the_loop_s() {
        let loop_of = |repo| pull(repo).row.about.loop_name;
        assert_eq!(loop_of(json!({ "full_name": "Acme/App" })).as_deref(), Some("fixer"));
        assert_eq!(loop_of(json!({ "full_name": "eve/app" })), None);
        assert_eq!(loop_of(json!(null)), None);
    }
}
