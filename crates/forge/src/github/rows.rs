//! GitHub's JSON that Gitea does not have, reduced to the fields that are used.

use crate::api::unix_ms;
use crate::hub_rows::{HubLabel, HubUser};
use loopwright_core::forge::LabelChange;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(super) struct GitHubReference {
    pub(super) object: GitHubObject,
}

#[derive(Debug, Deserialize)]
pub(super) struct GitHubObject {
    pub(super) sha: String,
}

/// An event of an issue; only those about labels have one.
#[derive(Debug, Deserialize)]
pub(super) struct GitHubEvent {
    id: u64,
    event: String,
    actor: Option<HubUser>,
    label: Option<HubLabel>,
    created_at: String,
}

impl GitHubEvent {
    pub(super) fn label_change(self) -> Option<LabelChange> {
        let is_added = match self.event.as_str() {
            "labeled" => true,
            "unlabeled" => false,
            _ => return None,
        };
        let (account, account_id) = self.actor.map(|user| (user.login, user.id.to_string())).unzip();
        let (id, at_ms) = (self.id.to_string(), unix_ms(&self.created_at));
        Some(LabelChange { id, label: self.label?.name, is_added, account, account_id, at_ms })
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
