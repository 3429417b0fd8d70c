//! The items that a dry run would have sent: each one complete, as the forge would receive it.

use crate::output::{safe, safe_lines};
use loopwright::round::delivery;
use loopwright_core::deliver::Delivery;
use loopwright_core::outbox::{InlineComment, ReviewDecision};
use loopwright_core::round::Round;
use loopwright_core::spec::ActionKind;
use serde::Serialize;

/// One item as it would be posted.
#[derive(Debug, Serialize)]
pub(crate) struct DryRunItem {
    kind: ActionKind,
    target: Option<String>,
    title: Option<String>,
    /// The whole text, with the engine's facts and its hidden marker.
    body: String,
    labels: Vec<String>,
    comments: Vec<InlineComment>,
    review: Option<ReviewDecision>,
    /// The branch that would be pushed with it.
    branch: Option<String>,
    draft: bool,
}

impl DryRunItem {
    /// Everything that would be sent; a report stays on this machine and is not listed.
    pub(crate) fn from_round(round: &Round) -> Vec<Self> {
        let Some(attempt) = round.facts().attempt() else { return Vec::new() };
        let candidate = attempt.candidate.as_deref().unwrap_or_default();
        let outward = attempt.items.iter().filter(|item| item.kind != ActionKind::Report);
        outward.map(|item| Self::from_delivery(delivery(round, item, candidate))).collect()
    }

    fn from_delivery(delivery: Delivery) -> Self {
        let (body, labels) = (delivery.marked_body(), delivery.all_labels());
        let carries_tree = matches!(delivery.item.kind, ActionKind::PullRequest | ActionKind::Commit);
        let item = delivery.item;
        Self {
            kind: item.kind,
            target: item.target,
            title: item.title,
            body,
            labels,
            comments: item.comments,
            review: item.review,
            branch: carries_tree.then_some(delivery.branch),
            draft: delivery.draft && item.kind == ActionKind::PullRequest,
        }
    }

    fn render_items(&self) -> String {
        let target = self.target.as_ref().map_or(String::new(), |target| format!(" on {}", safe(target)));
        let draft = if self.draft { " (draft)" } else { "" };
        let mut lines = vec![format!("would send {}{target}{draft}", self.kind)];
        let facts = [("title", self.title.clone()), ("branch", self.branch.clone()), ("labels", self.label_line())];
        let said = facts.into_iter().filter_map(|(name, value)| Some(format!("  {name}: {}", safe(&value?))));
        lines.extend(said);
        lines.extend(
            self.comments
                .iter()
                .map(|comment| format!("  {}:{}: {}", safe(&comment.path), comment.line, safe(&comment.body))),
        );
        lines.extend(safe_lines(&self.body).lines().map(|line| format!("  | {line}").trim_end().to_owned()));
        lines.join("\n")
    }

    fn label_line(&self) -> Option<String> {
        (!self.labels.is_empty()).then(|| self.labels.join(", "))
    }
}

/// All items, for people.
pub(crate) fn page(postings: &[DryRunItem]) -> String {
    if postings.is_empty() {
        return "nothing would be sent\n".to_owned();
    }
    postings.iter().map(|posting| posting.render_items() + "\n").collect()
}
