//! The wall between the outbox and whatever receives its items: the trait that a forge implements and the values that
//! cross it. Nothing here sends; the discipline of claim, look, execute and receipt is the engine's.

use crate::BoxFuture;
use crate::outbox::StagedItem;
use crate::spec::ActionKind;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// A fact of the engine's about the round: measured, not claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineFact {
    /// What was measured.
    pub name: String,
    /// What came out.
    pub value: String,
}

impl EngineFact {
    /// A fact.
    #[must_use]
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// One approved item on its way out, with all that a forge needs to deliver it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    /// The loop it comes from.
    pub loop_name: String,
    /// The round it comes from.
    pub round: String,
    /// Identity of the repository, safe as a folder name.
    pub repo: String,
    /// The item, sanitised.
    pub item: StagedItem,
    /// The hidden marker that goes into the text.
    pub marker: String,
    /// Idempotency key: the same key is the same effect.
    pub key: String,
    /// The round's branch, `loop/<loop>/<round>`.
    pub branch: String,
    /// The commit that carries the passed tree.
    pub commit: Option<String>,
    /// The tree that passed; what is pushed must have it.
    pub tree: Option<String>,
    /// The branch that the work is meant for.
    pub base_branch: String,
    /// The commit that the work started from.
    pub base_commit: String,
    /// Whether a pull request starts as a draft.
    pub draft: bool,
    /// Labels that the loop puts on what it creates.
    pub labels: Vec<String>,
    /// What the engine measured, shown above the agent's words.
    pub facts: Vec<EngineFact>,
}

impl Delivery {
    /// The loop's labels and the item's own, each once.
    #[must_use]
    pub fn all_labels(&self) -> Vec<String> {
        let mut labels = self.labels.clone();
        labels.extend(self.item.labels.iter().filter(|label| !self.labels.contains(label)).cloned());
        labels
    }

    /// The item's text, without the marker. In a pull request the engine's facts stand above the agent's words, and these
    /// are quoted, so that no table of theirs can pass for ours.
    #[must_use]
    pub fn body(&self) -> String {
        let words = self.item.body.trim_end();
        if self.item.kind != ActionKind::PullRequest || self.facts.is_empty() {
            return if words.is_empty() { String::new() } else { format!("{words}\n") };
        }
        let mut body = facts_table(&self.facts);
        if !words.is_empty() {
            body.push_str("\nIn the agent's words:\n\n");
            for line in words.lines() {
                body.push_str(if line.is_empty() { ">" } else { "> " });
                body.push_str(line);
                body.push('\n');
            }
        }
        body
    }

    /// The item's text with the marker as its last line.
    #[must_use]
    pub fn marked_body(&self) -> String {
        format!("{}\n{}\n", self.body(), self.marker)
    }
}

/// Facts as a Markdown table; empty without facts.
#[must_use]
pub fn facts_table(facts: &[EngineFact]) -> String {
    let mut table = String::new();
    for (row, fact) in facts.iter().enumerate() {
        if row == 0 {
            table.push_str("| fact | value |\n|---|---|\n");
        }
        // Writing into a string cannot fail.
        let _ = writeln!(table, "| {} | {} |", cell(&fact.name), cell(&fact.value));
    }
    table
}

/// A table cell that cannot end its row: paths and names come from a maker's tree.
fn cell(text: &str) -> String {
    let line = text.replace(['\n', '\r'], " ");
    let clean = crate::outbox::sanitise(&line, &crate::outbox::SanitiseRules::plain()).text;
    clean.replace('\\', "\\\\").replace('|', "\\|").replace('<', "\\<").replace('\n', " ")
}

/// Proof that an item arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeliveryReceipt {
    /// Where it is: a path or a URL.
    pub place: String,
    /// The commit that it carries, where it carries one.
    pub head: Option<String>,
    /// When it was created, in milliseconds since 1970.
    pub at_ms: i64,
}

/// Whether an item has arrived before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryLookup {
    /// It is there.
    Yes(DeliveryReceipt),
    /// It is not there, certainly.
    No,
    /// The forge cannot tell; a human looks.
    Unknown,
}

/// What kind of trouble a delivery met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeliverErrorKind {
    /// Policy or the forge says no; do not try again.
    Refused,
    /// Nothing happened and another try may work.
    Transient,
    /// It may have happened.
    InDoubt,
    /// Nothing happened and another try will not help by itself.
    Failed,
}

/// A delivery that did not end with a receipt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct DeliverError {
    /// What kind of trouble.
    pub kind: DeliverErrorKind,
    /// What happened, for people.
    pub text: String,
}

impl DeliverError {
    /// Policy or the forge says no.
    #[must_use]
    pub fn refused(text: impl Into<String>) -> Self {
        Self { kind: DeliverErrorKind::Refused, text: text.into() }
    }

    /// Nothing happened, another try may work.
    #[must_use]
    pub fn transient(text: impl Into<String>) -> Self {
        Self { kind: DeliverErrorKind::Transient, text: text.into() }
    }

    /// It may have happened.
    #[must_use]
    pub fn in_doubt(text: impl Into<String>) -> Self {
        Self { kind: DeliverErrorKind::InDoubt, text: text.into() }
    }

    /// Nothing happened, another try will not help by itself.
    #[must_use]
    pub fn failed(text: impl Into<String>) -> Self {
        Self { kind: DeliverErrorKind::Failed, text: text.into() }
    }
}

/// An `Authorization` header that a forge lends the engine for one push. It is never printed, stored or shown to an agent.
#[derive(Clone, PartialEq, Eq)]
pub struct PushCredential(String);

impl PushCredential {
    /// The value of the header, such as `Basic …`; `None` when it is not one printable line.
    #[must_use]
    pub fn new(authorization: impl Into<String>) -> Option<Self> {
        let value: String = authorization.into();
        let is_line = !value.is_empty() && value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        is_line.then_some(Self(value))
    }

    /// The value of the header, for the one process that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for PushCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PushCredential(…)")
    }
}

/// Where the engine pushes a commit before an item is delivered, and with which credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushTarget {
    /// The repository, from the configuration: `https://…`, or `file://…` on this machine. It holds no user and no password.
    pub url: String,
    /// The branch that is written.
    pub branch: String,
    /// The commit that the branch has now; `None` when it must not exist. Any other commit is left alone.
    pub expected_old: Option<String>,
    /// The credential for this push.
    pub credential: Option<PushCredential>,
}

/// Receives items: a forge, a chat, a folder.
///
/// An implementation may be called twice with the same key, also at the same time and after a crash; the second call
/// returns the first receipt and has no further effect, as far as the receiver lets it.
pub trait Deliver: Send + Sync {
    /// Delivers one item.
    fn deliver<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>>;

    /// The push that the item needs before it is delivered; `None` for an item without a commit, and for a receiver that
    /// takes commits by itself. The engine performs it.
    fn push_target<'a>(&'a self, _item: &'a Delivery) -> BoxFuture<'a, Result<Option<PushTarget>, DeliverError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Looks for the item by its marker, without any effect.
    fn find<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn delivery(kind: ActionKind, body: &str, facts: Vec<EngineFact>) -> Delivery {
        Delivery {
            loop_name: "fixer".to_owned(),
            round: "r1".to_owned(),
            repo: "repo".to_owned(),
            item: StagedItem::new(1, "x.md", kind, body),
            marker: "<!-- mark -->".to_owned(),
            key: "k".to_owned(),
            branch: "loop/fixer/r1".to_owned(),
            commit: None,
            tree: None,
            base_branch: "main".to_owned(),
            base_commit: String::new(),
            draft: true,
            labels: vec!["bot".to_owned()],
            facts,
        }
    }

    #[test]
    fn facts_stand_above_the_agents_words_and_cannot_be_imitated() {
        let facts =
            vec![EngineFact::new("gates", "tests passed"), EngineFact::new("path", "a|b\n| gates | forged |\n<b>@all")];
        let pull = delivery(ActionKind::PullRequest, "| gates | all passed |\n\nDone.\n", facts);
        expect![[r#"
            | fact | value |
            |---|---|
            | gates | tests passed |
            | path | a\|b \| gates \| forged \| \<b>@ all |

            In the agent's words:

            > | gates | all passed |
            >
            > Done.

            <!-- mark -->
        "#]]
        .assert_eq(&pull.marked_body());
    }

    #[test]
    fn a_comment_is_its_words_alone() {
        let comment = delivery(ActionKind::IssueComment, "Done.\n\n", vec![EngineFact::new("gates", "none")]);
        assert_eq!(comment.body(), "Done.\n");
    }

    #[test]
    fn labels_of_loop_and_item_come_once() {
        let mut pull = delivery(ActionKind::PullRequest, "", Vec::new());
        pull.item.labels = vec!["bug".to_owned(), "bot".to_owned()];
        assert_eq!(pull.all_labels(), ["bot", "bug"]);
    }
}
