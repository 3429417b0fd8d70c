//! GitHub's JSON, reduced to the fields that are used, and the conversion to common rows.

use crate::api::{RemoteComment, RemoteIssue, RemotePull, RemoteRepository, unix_ms};
use loopwright_core::forge::{CommentKind, ForgeComment, ForgeItem, ItemState, PullRequest};
use loopwright_core::outbox::marker_loop;
use serde::Deserialize;

pub(super) const PLAIN: CommentKind = CommentKind::Plain;
pub(super) const REVIEW: CommentKind = CommentKind::Review;
pub(super) const INLINE: CommentKind = CommentKind::Inline;

#[derive(Debug, Deserialize)]
pub(super) struct GitHubUser {
    pub(super) id: u64,
    pub(super) login: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubLabel {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubReference {
    pub(super) object: GitHubObject,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubObject {
    pub(super) sha: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubRepository {
    #[serde(default)]
    pub(super) full_name: String,
    #[serde(default)]
    pub(super) default_branch: String,
    #[serde(default)]
    pub(super) archived: bool,
    #[serde(default)]
    pub(super) has_issues: Option<bool>,
    #[serde(default)]
    pub(super) permissions: Option<GitHubPermissions>,
}

impl GitHubRepository {
    /// Installation tokens have no `permissions` of a person.
    pub(super) fn row(self) -> RemoteRepository {
        let may_push = self.permissions.map(|permissions| permissions.push);
        let (default_branch, archived, has_issues) = (self.default_branch, self.archived, self.has_issues);
        RemoteRepository { default_branch, archived, may_push, has_issues }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubPermissions {
    #[serde(default)]
    pub(super) push: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubPullSide {
    #[serde(rename = "ref")]
    pub(super) branch: String,
    pub(super) sha: String,
    pub(super) repo: Option<GitHubRepository>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubPull {
    number: u64,
    title: String,
    body: Option<String>,
    state: String,
    #[serde(default)]
    draft: Option<bool>,
    merged_at: Option<String>,
    user: Option<GitHubUser>,
    #[serde(default)]
    labels: Vec<GitHubLabel>,
    #[serde(default)]
    assignees: Option<Vec<GitHubUser>>,
    #[serde(default)]
    requested_reviewers: Option<Vec<serde::de::IgnoredAny>>,
    #[serde(default)]
    requested_teams: Option<Vec<serde::de::IgnoredAny>>,
    head: GitHubPullSide,
    base: GitHubPullSide,
    html_url: String,
    created_at: String,
    updated_at: String,
}

impl GitHubPull {
    /// Whether the pull request is of a branch of this repository, not of a fork.
    pub(super) fn is_of(&self, branch: &str) -> bool {
        self.head.branch == branch && !self.is_from_fork()
    }

    fn is_from_fork(&self) -> bool {
        let name = |side: &GitHubPullSide| side.repo.as_ref().map(|repo| repo.full_name.to_lowercase());
        // The repository of a deleted fork is `null`.
        name(&self.head).is_none_or(|head| Some(head) != name(&self.base))
    }

    pub(super) fn row(self) -> RemotePull {
        let is_from_fork = self.is_from_fork();
        let has_reviewers =
            [&self.requested_reviewers, &self.requested_teams].into_iter().flatten().any(|all| !all.is_empty());
        let state = match (self.state.as_str(), &self.merged_at) {
            (_, Some(_)) => ItemState::Merged,
            ("open", None) => ItemState::Open,
            _ => ItemState::Closed,
        };
        let mut about = item(self.number, self.title, self.body, self.user, state, self.labels, self.assignees);
        // Only this repository's branches are pushed by a loop, so a marker in a fork's pull request is a copy.
        about.loop_name = about.loop_name.filter(|_| !is_from_fork);
        RemotePull {
            row: PullRequest {
                about,
                draft: self.draft.unwrap_or(false),
                branch: self.head.branch,
                head: self.head.sha,
                base_branch: self.base.branch,
            },
            url: self.html_url,
            created_ms: unix_ms(&self.created_at),
            updated_ms: unix_ms(&self.updated_at),
            has_reviewers,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubIssue {
    number: u64,
    title: String,
    body: Option<String>,
    state: String,
    user: Option<GitHubUser>,
    #[serde(default)]
    labels: Vec<GitHubLabel>,
    #[serde(default)]
    assignees: Option<Vec<GitHubUser>>,
    pub(super) pull_request: Option<serde_json::Value>,
    html_url: String,
    created_at: String,
    updated_at: String,
}

impl GitHubIssue {
    pub(super) fn row(self) -> RemoteIssue {
        let state = if self.state == "open" { ItemState::Open } else { ItemState::Closed };
        let about = item(self.number, self.title, self.body, self.user, state, self.labels, self.assignees);
        RemoteIssue {
            row: loopwright_core::forge::Issue { about },
            url: self.html_url,
            created_ms: unix_ms(&self.created_at),
            updated_ms: unix_ms(&self.updated_at),
        }
    }
}

fn item(
    number: u64,
    title: String,
    body: Option<String>,
    user: Option<GitHubUser>,
    state: ItemState,
    labels: Vec<GitHubLabel>,
    assignees: Option<Vec<GitHubUser>>,
) -> ForgeItem {
    let body = body.unwrap_or_default();
    ForgeItem {
        number,
        title: Some(title),
        author: user.map(|user| user.login),
        loop_name: marker_loop(&body).map(str::to_owned),
        body,
        state,
        labels: labels.into_iter().map(|label| label.name).collect(),
        assignees: assignees.into_iter().flatten().map(|user| user.login).collect(),
    }
}

/// A comment, a review, or a comment on a line: the three have nearly the same fields.
#[derive(Debug, Deserialize)]
pub(super) struct GitHubComment {
    id: u64,
    pub(super) body: Option<String>,
    user: Option<GitHubUser>,
    html_url: String,
    created_at: Option<String>,
    updated_at: Option<String>,
    submitted_at: Option<String>,
    commit_id: Option<String>,
    pub(super) state: Option<String>,
    path: Option<String>,
    line: Option<u32>,
    original_line: Option<u32>,
}

impl GitHubComment {
    pub(super) fn row(self, kind: CommentKind) -> RemoteComment {
        let text = self.body.unwrap_or_default();
        let loop_name = marker_loop(&text).map(str::to_owned);
        let body = match (kind, self.state.as_deref(), &self.path) {
            (CommentKind::Review, Some("CHANGES_REQUESTED"), _) => format!("(changes requested) {text}"),
            (CommentKind::Review, Some("APPROVED"), _) => format!("(approved) {text}"),
            (CommentKind::Inline, _, Some(path)) => {
                let line = self.line.or(self.original_line).map(|line| format!(":{line}")).unwrap_or_default();
                format!("{path}{line}: {text}")
            }
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

#[derive(Debug, Deserialize)]
pub(super) struct GitHubFile {
    pub(super) filename: String,
    pub(super) patch: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubCheckRuns {
    pub(super) check_runs: Vec<GitHubCheck>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubCheck {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) status: String,
    pub(super) conclusion: Option<String>,
    pub(super) output: Option<GitHubCheckOutput>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct GitHubCheckOutput {
    pub(super) title: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) annotations_count: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubAnnotation {
    pub(super) path: Option<String>,
    pub(super) start_line: Option<u64>,
    pub(super) message: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubCombinedStatus {
    pub(super) statuses: Vec<GitHubStatus>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubStatus {
    pub(super) context: String,
    pub(super) state: String,
    pub(super) description: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubComparison {
    pub(super) status: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubCommit {
    pub(super) html_url: String,
    pub(super) committer: GitHubCommitPerson,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubCommitPerson {
    pub(super) date: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubBranch {
    #[serde(default)]
    pub(super) protected: bool,
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
        serde_json::from_value::<GitHubPull>(pull).expect("a pull request").row()
    }

    #[test]
    fn a_copied_marker_in_a_fork_s_pull_request_is_not_the_loop_s() {
        let loop_of = |repo| pull(repo).row.about.loop_name;
        assert_eq!(loop_of(json!({ "full_name": "Acme/App" })).as_deref(), Some("fixer"));
        assert_eq!(loop_of(json!({ "full_name": "eve/app" })), None);
        assert_eq!(loop_of(json!(null)), None);
    }
}
