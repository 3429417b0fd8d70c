//! The content of the local forge's files: front matter and text for each kind of item.

use super::folder::PageSlot;
use super::front::PageFrontMatter;
use crate::clock::rfc3339;
use loopwright_core::deliver::Delivery;
use loopwright_core::outbox::{DiffSide, ReviewDecision};
use loopwright_core::spec::ActionKind;
use std::fmt::Write as _;

/// The place of an item of this kind.
pub(super) fn slot(item: &Delivery) -> PageSlot {
    let target = item.item.target.clone().unwrap_or_default();
    match item.item.kind {
        ActionKind::PullRequest => PageSlot::Page("pulls"),
        ActionKind::IssueCreate => PageSlot::NewIssue,
        ActionKind::IssueComment => PageSlot::Below("issues", target, "comment"),
        ActionKind::IssueLabel => PageSlot::Below("issues", target, "labels"),
        ActionKind::PrComment => PageSlot::Below("pulls", target, "comment"),
        ActionKind::PrInline => PageSlot::Below("pulls", target, "inline"),
        ActionKind::PrReview => PageSlot::Below("pulls", target, "review"),
        ActionKind::Report | ActionKind::Commit | ActionKind::Slack | ActionKind::Webhook => PageSlot::Page("messages"),
    }
}

/// The whole file.
pub(super) fn page(item: &Delivery, head: Option<&str>, at_ms: i64) -> String {
    let branch = match item.item.kind {
        ActionKind::PullRequest => Some(item.branch.as_str()),
        ActionKind::Commit => Some(item.base_branch.as_str()),
        _ => None,
    };
    let mut front = PageFrontMatter::default()
        .with("kind", item.item.kind.word())
        .with("state", state(item))
        .with("title", item.item.title.as_deref())
        .with("target", item.item.target.as_deref())
        .with("branch", branch)
        .with("head", head)
        .with("base", branch.map(|_| item.base_branch.as_str()))
        .with("loop", item.loop_name.as_str())
        .with("round", item.round.as_str())
        .with("item", item.item.position)
        .with("marker", item.marker.as_str())
        .with("labels", item.all_labels())
        .with("created", rfc3339(at_ms));
    if item.item.kind == ActionKind::PullRequest {
        front = front.with("draft", item.draft);
    }
    front.page(&text(item))
}

/// People change the state of open things; everything else is done once it exists.
fn state(item: &Delivery) -> &'static str {
    match (item.item.kind, item.item.review) {
        (ActionKind::PullRequest | ActionKind::IssueCreate, _) => "open",
        (_, Some(ReviewDecision::Approve)) => "approved",
        (_, Some(ReviewDecision::RequestChanges)) => "changes-requested",
        _ => "sent",
    }
}

fn text(item: &Delivery) -> String {
    let mut text = item.item.title.as_ref().map(|title| format!("# {title}\n\n")).unwrap_or_default();
    match item.item.kind {
        ActionKind::Webhook => {
            // The JSON is on one line, so it cannot contain the closing fence.
            let _ = write!(text, "```json\n{}\n```\n", item.item.body);
        }
        ActionKind::IssueLabel => text.extend(item.item.labels.iter().map(|label| format!("- {label}\n"))),
        ActionKind::PrInline => text.extend(item.item.comments.iter().map(|comment| {
            let side = if comment.side == DiffSide::Left { " (old)" } else { "" };
            let start = comment.start_line.map(|line| format!("{line}-")).unwrap_or_default();
            // A path is the agent's text: as code it has no effect.
            let path = comment.path.replace('`', "'");
            format!("## `{path}`:{start}{}{side}\n\n{}\n\n", comment.line, comment.body.trim_end())
        })),
        _ => text.push_str(&item.body()),
    }
    text
}
