//! What a loop may send out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of outward action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ActionKind {
    /// The round's story; stays on this machine.
    Report,
    /// A branch with a request to merge it.
    PullRequest,
    /// A commit on the base branch.
    Commit,
    /// A comment on an issue.
    IssueComment,
    /// Labels on an issue.
    IssueLabel,
    /// A new issue.
    IssueCreate,
    /// A comment on a pull request.
    PrComment,
    /// Comments on lines of a pull request.
    PrInline,
    /// An approval or a request for changes.
    PrReview,
    /// A chat message.
    Slack,
    /// A call to a named webhook.
    Webhook,
}

impl ActionKind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Report,
        Self::PullRequest,
        Self::Commit,
        Self::IssueComment,
        Self::IssueLabel,
        Self::IssueCreate,
        Self::PrComment,
        Self::PrInline,
        Self::PrReview,
        Self::Slack,
        Self::Webhook,
    ];

    /// The word used in files, JSON and on screens.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::PullRequest => "pull-request",
            Self::Commit => "commit",
            Self::IssueComment => "issue-comment",
            Self::IssueLabel => "issue-label",
            Self::IssueCreate => "issue-create",
            Self::PrComment => "pr-comment",
            Self::PrInline => "pr-inline",
            Self::PrReview => "pr-review",
            Self::Slack => "slack",
            Self::Webhook => "webhook",
        }
    }

    /// Reads a word, including the seed's kinds; `comment` needs its target to choose and is read as an issue comment.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "open-pr" => Some(Self::PullRequest),
            "comment" => Some(Self::IssueComment),
            "apply-patch" => Some(Self::Commit),
            "draft" => Some(Self::Report),
            _ => Self::ALL.into_iter().find(|kind| kind.word() == word),
        }
    }
}

impl std::fmt::Display for ActionKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// One permitted kind with its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSpec {
    /// The kind.
    pub kind: ActionKind,
    /// How many of it a round may send.
    pub max: u32,
    /// Whether a pull request starts as a draft.
    pub draft: bool,
    /// Labels put on what is created.
    pub labels: Vec<String>,
    /// The only targets allowed (issue or pull request numbers, webhook names); any when empty.
    pub targets: Vec<String>,
}

impl OutputSpec {
    /// A kind with safe limits: one of it, drafts.
    #[must_use]
    pub fn new(kind: ActionKind) -> Self {
        Self { kind, max: 1, draft: true, labels: Vec::new(), targets: Vec::new() }
    }
}
