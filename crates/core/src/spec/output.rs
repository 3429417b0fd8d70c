//! The actions that a loop may send.

use crate::words::worded;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

worded! {
    /// A kind of outward action.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum ActionKind {
        /// The round's report; stays on this machine.
        Report = "report",
        /// A branch with a request to merge it.
        PullRequest = "pull-request",
        /// A commit on the base branch.
        Commit = "commit",
        /// A comment on an issue.
        IssueComment = "issue-comment",
        /// Labels on an issue.
        IssueLabel = "issue-label",
        /// A new issue.
        IssueCreate = "issue-create",
        /// A comment on a pull request.
        PrComment = "pr-comment",
        /// Comments on lines of a pull request.
        PrInline = "pr-inline",
        /// An approval or a request for changes.
        PrReview = "pr-review",
        /// A chat message.
        Slack = "slack",
        /// A call to a named webhook.
        Webhook = "webhook",
    }
}

impl ActionKind {
    /// Reads a kind, including the seed's; `comment` depends on its target and is read as an issue comment.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        match word {
            "open-pr" => Some(Self::PullRequest),
            "comment" => Some(Self::IssueComment),
            "apply-patch" => Some(Self::Commit),
            "draft" => Some(Self::Report),
            _ => Self::parse(word),
        }
    }
}

/// One permitted kind with its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSpec {
    /// The kind.
    pub kind: ActionKind,
    /// How many of this kind a round may send.
    pub max: u32,
    /// How many of this kind the loop may send in 24 hours.
    pub day_max: Option<u32>,
    /// How many of this kind the loop may send to one target in 24 hours.
    pub target_max: Option<u32>,
    /// Whether a pull request starts as a draft.
    pub draft: bool,
    /// Labels for created items; for `issue-label`, the only labels allowed, if there are any.
    pub labels: Vec<String>,
    /// The only allowed targets (issue or pull request numbers, webhook names); `own` stands for the issues and pull requests
    /// among the round's items, and `*` allows all. If it is empty, those of the round's items, or any if there are none.
    pub targets: Vec<String>,
}

impl OutputSpec {
    /// A kind with safe limits: at most one, as a draft.
    #[must_use]
    pub fn new(kind: ActionKind) -> Self {
        Self { kind, max: 1, day_max: None, target_max: None, draft: true, labels: Vec::new(), targets: Vec::new() }
    }
}
