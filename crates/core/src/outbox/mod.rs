//! The outbox: the items that a role staged to be sent. It parses the staged files, checks them against the loop,
//! sanitises their text and computes their identities. It sends nothing; the engine delivers through
//! [`crate::deliver`].
//!
//! The order is fixed: [`parse_batch`], [`permit`], [`sanitise_item`], then [`candidate_hash`]. The candidate's hash
//! covers the sanitised items, so that checker, human and forge see the same text.

mod ci_words;
mod fold;
mod invisible;
pub(crate) mod json;
mod markdown;
mod marker;
mod name;
mod parse;
mod permit;
mod retry;
mod sanitise;

use crate::words::worded;
pub use fold::fold_into_report;
pub use invisible::is_invisible;
pub use marker::{candidate_hash, item_id, marker, marker_id, marker_loop, marker_round, work_id};
pub use parse::{BYTES_MAX, FILES_MAX, INLINE_COMMENTS_MAX, TEXT_BYTES_MAX, cannot_reason, parse_batch};
pub use permit::permit;
pub use retry::{NextAttempt, TRIES_MAX, next_attempt};
pub use sanitise::{SanitiseAction, SanitiseRules, SanitisedText, TextForm, sanitise, sanitise_item};

use crate::spec::ActionKind;
use serde::{Deserialize, Serialize};

/// A role's text without terminal escapes, control and invisible characters.
pub(crate) fn plain_text(text: &str) -> String {
    invisible::strip(text).0
}

/// One item that a role staged to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StagedItem {
    /// Its position in the batch, from 1.
    pub position: u32,
    /// The file it came from.
    pub name: String,
    /// Its kind.
    pub kind: ActionKind,
    /// Number of the issue or pull request, or name of the webhook.
    pub target: Option<String>,
    /// The title of the created item, or the first line of a commit's message.
    pub title: Option<String>,
    /// The text; JSON for a webhook.
    pub body: String,
    /// Labels for the target or for the created item.
    pub labels: Vec<String>,
    /// Comments on lines.
    pub comments: Vec<InlineComment>,
    /// The decision of a review.
    pub review: Option<ReviewDecision>,
}

impl StagedItem {
    /// An item with only its kind and its text.
    #[must_use]
    pub fn new(position: u32, name: impl Into<String>, kind: ActionKind, body: impl Into<String>) -> Self {
        Self {
            position,
            name: name.into(),
            kind,
            target: None,
            title: None,
            body: body.into(),
            labels: Vec::new(),
            comments: Vec::new(),
            review: None,
        }
    }

    /// The whole item in the form of its outbox file; a checker reads it and cites it by line.
    #[must_use]
    pub fn text(&self) -> String {
        let mut parts: Vec<String> = self.title.iter().cloned().collect();
        if self.kind == ActionKind::IssueLabel {
            parts.push(self.labels.join("\n"));
        } else if !self.body.is_empty() {
            parts.push(self.body.clone());
        }
        if self.kind != ActionKind::IssueLabel && !self.labels.is_empty() {
            parts.push(format!("labels: {}", self.labels.join(", ")));
        }
        let comments = self.comments.iter().map(|comment| serde_json::to_string(comment).unwrap_or_default());
        let comments: Vec<String> = comments.collect();
        parts.extend((!comments.is_empty()).then(|| comments.join("\n")));
        parts.join("\n\n")
    }
}

/// A comment on a line of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InlineComment {
    /// The file, relative to the repository.
    pub path: String,
    /// The line, from 1.
    pub line: u32,
    /// Which side of the diff.
    #[serde(default)]
    pub side: DiffSide,
    /// First line of a range that ends at `line`.
    #[serde(default)]
    pub start_line: Option<u32>,
    /// The text.
    pub body: String,
}

/// A side of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiffSide {
    /// The old file.
    #[serde(alias = "LEFT")]
    Left,
    /// The new file.
    #[default]
    #[serde(alias = "RIGHT")]
    Right,
}

worded! {
    /// The decision of a review.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum ReviewDecision {
        /// The change may be merged.
        Approve = "approve",
        /// The change needs changes.
        RequestChanges = "request-changes",
    }
}

/// The type of an entry of the outbox folder. The caller never follows links: it passes them as links, and they are
/// refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxEntryKind {
    /// A regular file with one name.
    Regular,
    /// A symbolic link.
    Symlink,
    /// A folder, a pipe, a device, a socket, or a file with several hard links.
    Other,
}

/// An entry of the outbox folder, read by the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedFile {
    /// The file's name, without folders.
    pub name: String,
    /// Its type.
    pub entry: OutboxEntryKind,
    /// Its content; empty unless it is a regular file. A reader with a size limit passes at least one byte more than
    /// [`BYTES_MAX`], so that the size is refused here.
    pub bytes: Vec<u8>,
}

impl StagedFile {
    /// A regular file.
    #[must_use]
    pub fn regular(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), entry: OutboxEntryKind::Regular, bytes: bytes.into() }
    }

    /// Any other entry; its content was not read.
    #[must_use]
    pub fn irregular(name: impl Into<String>, entry: OutboxEntryKind) -> Self {
        Self { name: name.into(), entry, bytes: Vec::new() }
    }
}

/// A problem with one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutboxProblem {
    /// The file's name, made printable.
    pub name: String,
    /// Why it is refused.
    pub why: String,
}

impl OutboxProblem {
    pub(crate) fn new(name: &str, why: impl Into<String>) -> Self {
        Self { name: invisible::printable(name, 80), why: why.into() }
    }
}

/// The whole batch is refused: one bad item is enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("outbox refused: {}", list(.problems))]
pub struct BatchRefused {
    /// All problems, not only the first.
    pub problems: Vec<OutboxProblem>,
}

fn list(problems: &[OutboxProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(|problem| format!("`{}`: {}", problem.name, problem.why)).collect();
    lines.join("; ")
}

/// The items, or all problems with them.
pub(crate) fn refuse_if_any<T>(items: T, problems: Vec<OutboxProblem>) -> Result<T, BatchRefused> {
    if problems.is_empty() { Ok(items) } else { Err(BatchRefused { problems }) }
}
