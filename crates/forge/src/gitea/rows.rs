//! Gitea's JSON, reduced to the fields that are used, and the conversion to common rows.

use crate::api::{RemoteComment, RemoteIssue, RemotePull, unix_ms};
use loopwright_core::forge::{CommentKind, ForgeComment, ForgeItem, ItemState, PullRequest};
use loopwright_core::outbox::marker_loop;
use serde::Deserialize;

pub(super) const REVIEW: CommentKind = CommentKind::Review;

/// The beginnings of a title that make a pull request a draft, unless the server's configuration changes them.
const DRAFT_PREFIXES: [&str; 2] = ["WIP:", "[WIP]"];

/// The title of a draft.
pub(super) fn draft_title(title: &str) -> String {
    format!("{} {title}", DRAFT_PREFIXES[0])
}

/// The title without the beginning that makes it a draft, and whether it had one.
fn split_draft(title: &str) -> (String, bool) {
    for prefix in DRAFT_PREFIXES {
        if let Some(start) = title.get(..prefix.len())
            && start.eq_ignore_ascii_case(prefix)
        {
            return (title[prefix.len()..].trim_start().to_owned(), true);
        }
    }
    (title.to_owned(), false)
}

#[derive(Debug, Deserialize)]
pub(super) struct GiteaUser {
    pub(super) id: i64,
    pub(super) login: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GiteaLabel {
    pub(super) id: i64,
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GiteaBranch {
    pub(super) commit: GiteaBranchCommit,
    #[serde(default)]
    pub(super) protected: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct GiteaBranchCommit {
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GiteaRepository {
    #[serde(default)]
    full_name: String,
    #[serde(default)]
    pub(super) default_branch: String,
    #[serde(default)]
    pub(super) archived: bool,
    #[serde(default)]
    pub(super) permissions: Option<GiteaPermissions>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GiteaPermissions {
    #[serde(default)]
    pub(super) push: bool,
}

#[derive(Debug, Deserialize)]
struct GiteaPullSide {
    #[serde(rename = "ref")]
    reference: String,
    #[serde(default)]
    label: String,
    #[serde(default)]
    sha: String,
    repo: Option<GiteaRepository>,
}

impl GiteaPullSide {
    /// The branch's name. A deleted branch has another reference, and its name only as the label.
    fn branch(&self) -> &str {
        if self.reference.starts_with("refs/") { &self.label } else { &self.reference }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct GiteaPull {
    number: u64,
    title: String,
    body: Option<String>,
    state: String,
    #[serde(default)]
    draft: bool,
    #[serde(default)]
    merged: bool,
    user: Option<GiteaUser>,
    labels: Option<Vec<GiteaLabel>>,
    assignees: Option<Vec<GiteaUser>>,
    head: GiteaPullSide,
    base: GiteaPullSide,
    html_url: String,
    created_at: String,
    updated_at: String,
}

impl GiteaPull {
    pub(super) fn is_of(&self, branch: &str) -> bool {
        self.head.branch() == branch && !self.is_from_fork()
    }

    fn is_from_fork(&self) -> bool {
        let name = |side: &GiteaPullSide| side.repo.as_ref().map(|repo| repo.full_name.to_lowercase());
        name(&self.head).is_none_or(|head| Some(head) != name(&self.base))
    }

    pub(super) fn row(self) -> RemotePull {
        let is_from_fork = self.is_from_fork();
        let state = match (self.state.as_str(), self.merged) {
            (_, true) => ItemState::Merged,
            ("open", _) => ItemState::Open,
            _ => ItemState::Closed,
        };
        let (title, is_draft) = split_draft(&self.title);
        let mut about = item(self.number, title, self.body, self.user, state, self.labels, self.assignees);
        // Only this repository's branches are pushed by a loop, so a marker in a fork's pull request is a copy.
        about.loop_name = about.loop_name.filter(|_| !is_from_fork);
        RemotePull {
            row: PullRequest {
                about,
                draft: self.draft || is_draft,
                branch: self.head.branch().to_owned(),
                head: self.head.sha,
                base_branch: self.base.branch().to_owned(),
            },
            url: self.html_url,
            created_ms: unix_ms(&self.created_at),
            updated_ms: unix_ms(&self.updated_at),
            // Labels are part of the creation here, so nothing depends on it.
            has_reviewers: false,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct GiteaIssue {
    number: u64,
    title: String,
    body: Option<String>,
    state: String,
    user: Option<GiteaUser>,
    labels: Option<Vec<GiteaLabel>>,
    assignees: Option<Vec<GiteaUser>>,
    html_url: String,
    created_at: String,
    updated_at: String,
}

impl GiteaIssue {
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
    user: Option<GiteaUser>,
    state: ItemState,
    labels: Option<Vec<GiteaLabel>>,
    assignees: Option<Vec<GiteaUser>>,
) -> ForgeItem {
    let body = body.unwrap_or_default();
    ForgeItem {
        number,
        title: Some(title),
        author: user.map(|user| user.login),
        loop_name: marker_loop(&body).map(str::to_owned),
        body,
        state,
        labels: labels.into_iter().flatten().map(|label| label.name).collect(),
        assignees: assignees.into_iter().flatten().map(|user| user.login).collect(),
    }
}

/// A comment, a review, or a comment on a line.
#[derive(Debug, Deserialize)]
pub(super) struct GiteaComment {
    pub(super) id: u64,
    body: Option<String>,
    user: Option<GiteaUser>,
    html_url: String,
    created_at: Option<String>,
    updated_at: Option<String>,
    submitted_at: Option<String>,
    commit_id: Option<String>,
    pub(super) state: Option<String>,
    #[serde(default)]
    pub(super) comments_count: u64,
    path: Option<String>,
    position: Option<u64>,
    original_position: Option<u64>,
}

impl GiteaComment {
    pub(super) fn has(&self, marker: &str) -> bool {
        self.body.as_deref().unwrap_or_default().contains(marker)
    }

    pub(super) fn row(self, kind: CommentKind) -> RemoteComment {
        let text = self.body.unwrap_or_default();
        let loop_name = marker_loop(&text).map(str::to_owned);
        let body = match (kind, self.state.as_deref(), &self.path) {
            (CommentKind::Review, Some("REQUEST_CHANGES"), _) => format!("(changes requested) {text}"),
            (CommentKind::Review, Some("APPROVED"), _) => format!("(approved) {text}"),
            (CommentKind::Inline, _, Some(path)) => {
                let line = [self.position, self.original_position].into_iter().flatten().find(|line| *line > 0);
                format!("{path}{}: {text}", line.map(|line| format!(":{line}")).unwrap_or_default())
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
pub(super) struct GiteaCombinedStatus {
    pub(super) statuses: Option<Vec<GiteaStatus>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GiteaStatus {
    pub(super) context: String,
    pub(super) status: String,
    pub(super) description: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GiteaComparison {
    pub(super) total_commits: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct GiteaCommit {
    pub(super) html_url: String,
    pub(super) created: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draft_is_the_beginning_of_the_title() {
        assert_eq!(split_draft(&draft_title("Fix it")), ("Fix it".to_owned(), true));
        assert_eq!(split_draft("[wip] Fix it"), ("Fix it".to_owned(), true));
        assert_eq!(split_draft("Fix it"), ("Fix it".to_owned(), false));
        assert_eq!(split_draft("äöü"), ("äöü".to_owned(), false));
    }
}
