//! Gitea's JSON that GitHub does not have, reduced to the fields that are used, and drafts by title.

use crate::api::{RemotePull, unix_ms};
use crate::hub_rows::{HubLabel, HubPull, HubUser};
use loopwright_core::forge::LabelChange;
use serde::Deserialize;

/// The beginnings of a title that make a pull request a draft, unless the server's configuration changes them.
const DRAFT_PREFIXES: [&str; 2] = ["WIP:", "[WIP]"];

/// The title of a draft.
pub(super) fn draft_title(title: &str) -> String {
    format!("{} {title}", DRAFT_PREFIXES[0])
}

/// A pull request, whose title may mark a draft.
pub(super) fn pull_row(pull: HubPull) -> RemotePull {
    let mut pull = pull.row();
    let (title, is_draft) = split_draft(pull.row.about.title.as_deref().unwrap_or_default());
    (pull.row.about.title, pull.row.draft) = (Some(title), pull.row.draft || is_draft);
    pull
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
pub(super) struct GiteaBranch {
    pub(super) commit: GiteaBranchCommit,
    #[serde(default)]
    pub(super) protected: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct GiteaBranchCommit {
    pub(super) id: String,
}

/// An entry of an issue's timeline.
#[derive(Debug, Deserialize)]
pub(super) struct GiteaTimelineEntry {
    id: u64,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    body: String,
    user: Option<HubUser>,
    label: Option<HubLabel>,
    created_at: String,
}

impl GiteaTimelineEntry {
    /// The text of a label's entry is `1` if the label was added, and empty if it was removed.
    pub(super) fn label_change(self) -> Option<LabelChange> {
        let label = self.label.filter(|_| self.kind == "label")?.name;
        // Gitea shows a deleted account as a user with the id -1.
        let user = self.user.filter(|user| user.id > 0);
        let (account, account_id) = user.map(|user| (user.login, user.id.to_string())).unzip();
        let (id, at_ms) = (self.id.to_string(), unix_ms(&self.created_at));
        Some(LabelChange { id, label, is_added: self.body == "1", account, account_id, at_ms })
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
