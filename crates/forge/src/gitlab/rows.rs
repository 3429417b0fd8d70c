//! GitLab's JSON, reduced to the fields that are used, and the conversion to common rows.

use crate::api::{RemoteIssue, RemotePull, unix_ms};
use loopwright_core::forge::{ForgeItem, ItemState, LabelChange, PullRequest};
use loopwright_core::outbox::marker_loop;
use serde::Deserialize;

/// The beginnings of a title that make a merge request a draft.
const DRAFT_PREFIXES: [&str; 3] = ["Draft:", "[Draft]", "(Draft)"];

/// The title of a draft.
pub(super) fn draft_title(title: &str) -> String {
    format!("{} {title}", DRAFT_PREFIXES[0])
}

fn without_draft(title: &str) -> String {
    let found = DRAFT_PREFIXES
        .into_iter()
        .find(|prefix| title.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)));
    found.map_or(title, |prefix| title[prefix.len()..].trim_start()).to_owned()
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabUser {
    pub(super) id: u64,
    pub(super) username: String,
}

/// An event of an item's labels. A deleted label is `null`.
#[derive(Debug, Deserialize)]
pub(super) struct GitLabLabelEvent {
    id: u64,
    user: Option<GitLabUser>,
    created_at: String,
    label: Option<GitLabLabelName>,
    action: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabLabelName {
    name: String,
}

impl GitLabLabelEvent {
    pub(super) fn label_change(self) -> Option<LabelChange> {
        let (account, account_id) = self.user.map(|user| (user.username, user.id.to_string())).unzip();
        let (id, at_ms) = (self.id.to_string(), unix_ms(&self.created_at));
        Some(LabelChange { id, label: self.label?.name, is_added: self.action == "add", account, account_id, at_ms })
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabBranch {
    pub(super) commit: GitLabBranchCommit,
    #[serde(default)]
    pub(super) protected: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabBranchCommit {
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabProject {
    pub(super) default_branch: Option<String>,
    #[serde(default)]
    pub(super) archived: bool,
    pub(super) permissions: Option<GitLabPermissions>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabPermissions {
    project_access: Option<GitLabAccessLevel>,
    group_access: Option<GitLabAccessLevel>,
}

#[derive(Debug, Deserialize)]
struct GitLabAccessLevel {
    access_level: u64,
}

impl GitLabPermissions {
    /// Developers and above may push.
    pub(super) fn may_push(&self) -> bool {
        const DEVELOPER: u64 = 30;
        [&self.project_access, &self.group_access].into_iter().flatten().any(|access| access.access_level >= DEVELOPER)
    }
}

/// A changed file; the diff of a very large one is empty.
#[derive(Debug, Deserialize)]
pub(super) struct GitLabDiff {
    pub(super) new_path: String,
    #[serde(default)]
    pub(super) diff: String,
}

/// The three commits that a position on a diff names.
#[derive(Debug, Deserialize)]
pub(super) struct GitLabDiffRefs {
    pub(super) base_sha: String,
    pub(super) head_sha: String,
    pub(super) start_sha: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabMergeRequest {
    iid: u64,
    title: String,
    description: Option<String>,
    state: String,
    #[serde(default)]
    draft: bool,
    author: Option<GitLabUser>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    assignees: Option<Vec<GitLabUser>>,
    source_branch: String,
    target_branch: String,
    sha: Option<String>,
    source_project_id: Option<u64>,
    target_project_id: Option<u64>,
    pub(super) diff_refs: Option<GitLabDiffRefs>,
    web_url: String,
    created_at: String,
    updated_at: String,
}

impl GitLabMergeRequest {
    pub(super) fn is_of(&self, branch: &str) -> bool {
        self.source_branch == branch && !self.is_from_fork()
    }

    fn is_from_fork(&self) -> bool {
        self.source_project_id != self.target_project_id
    }

    pub(super) fn row(self) -> RemotePull {
        let is_from_fork = self.is_from_fork();
        let state = match self.state.as_str() {
            "opened" | "locked" => ItemState::Open,
            "merged" => ItemState::Merged,
            _ => ItemState::Closed,
        };
        let title = if self.draft { without_draft(&self.title) } else { self.title };
        let mut about = item(self.iid, title, self.description, self.author, state, self.labels, self.assignees);
        // Only this project's branches are pushed by a loop, so a marker in a fork's merge request is a copy.
        about.loop_name = about.loop_name.filter(|_| !is_from_fork);
        RemotePull {
            row: PullRequest {
                about,
                draft: self.draft,
                branch: self.source_branch,
                head: self.sha.unwrap_or_default(),
                base_branch: self.target_branch,
            },
            url: self.web_url,
            created_ms: unix_ms(&self.created_at),
            updated_ms: unix_ms(&self.updated_at),
            // Labels are part of the creation here, so nothing depends on it.
            has_reviewers: false,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabIssue {
    iid: u64,
    title: String,
    description: Option<String>,
    state: String,
    author: Option<GitLabUser>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    assignees: Option<Vec<GitLabUser>>,
    web_url: String,
    created_at: String,
    updated_at: String,
}

impl GitLabIssue {
    pub(super) fn row(self) -> RemoteIssue {
        let state = if self.state == "opened" { ItemState::Open } else { ItemState::Closed };
        let about = item(self.iid, self.title, self.description, self.author, state, self.labels, self.assignees);
        RemoteIssue {
            row: loopwright_core::forge::Issue { about },
            url: self.web_url,
            created_ms: unix_ms(&self.created_at),
            updated_ms: unix_ms(&self.updated_at),
        }
    }
}

fn item(
    number: u64,
    title: String,
    body: Option<String>,
    author: Option<GitLabUser>,
    state: ItemState,
    labels: Vec<String>,
    assignees: Option<Vec<GitLabUser>>,
) -> ForgeItem {
    let body = body.unwrap_or_default();
    ForgeItem {
        number,
        title: Some(title),
        author: author.map(|user| user.username),
        loop_name: marker_loop(&body).map(str::to_owned),
        body,
        state,
        labels,
        assignees: assignees.into_iter().flatten().map(|user| user.username).collect(),
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabNote {
    pub(super) id: u64,
    pub(super) body: String,
    pub(super) author: Option<GitLabUser>,
    pub(super) created_at: String,
    pub(super) updated_at: Option<String>,
    /// A record of GitLab itself, such as "added 2 commits".
    #[serde(default)]
    pub(super) system: bool,
    pub(super) position: Option<GitLabNotePosition>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabNotePosition {
    pub(super) new_path: Option<String>,
    pub(super) old_path: Option<String>,
    pub(super) new_line: Option<u64>,
    pub(super) old_line: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabApprovals {
    #[serde(default)]
    pub(super) user_has_approved: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabStatus {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) status: String,
    pub(super) description: Option<String>,
    #[serde(rename = "ref")]
    pub(super) branch: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabComparison {
    pub(super) commits: Vec<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabCommit {
    pub(super) web_url: String,
    pub(super) committed_date: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitLabTokenFacts {
    #[serde(default)]
    pub(super) scopes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draft_is_the_beginning_of_the_title() {
        assert_eq!(without_draft(&draft_title("Fix it")), "Fix it");
        assert_eq!(without_draft("[draft] Fix it"), "Fix it");
        assert_eq!(without_draft("Drafts"), "Drafts");
    }
}
