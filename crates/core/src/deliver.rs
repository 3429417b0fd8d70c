//! The interface between the outbox and the receivers of its items: the trait that a forge implements and its values.
//! Nothing here sends. The engine claims, looks up, executes and receipts deliveries.

use crate::BoxFuture;
use crate::outbox::StagedItem;
use crate::spec::ActionKind;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// A fact that the engine measured about the round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineFact {
    /// The name of the measurement.
    pub name: String,
    /// The measured value.
    pub value: String,
}

impl EngineFact {
    /// Creates a fact.
    #[must_use]
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// One approved item to send, with everything that a forge needs to deliver it.
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
    /// The hidden marker that is written into the text.
    pub marker: String,
    /// Idempotency key: deliveries with the same key have one effect.
    pub key: String,
    /// The work that the item is the result of: rounds of a loop about the same items have the same. Empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub work: String,
    /// The round's branch, `loop/<loop>/<round>`.
    pub branch: String,
    /// The commit that carries the passed tree.
    pub commit: Option<String>,
    /// The tree that passed; the pushed commit must have it.
    pub tree: Option<String>,
    /// The branch that the change targets.
    pub base_branch: String,
    /// The commit that the work started from.
    pub base_commit: String,
    /// The head of the pull request that a review judged: the commit in the key of the round's item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewed_head: Option<String>,
    /// Whether a pull request starts as a draft.
    pub draft: bool,
    /// The loop's labels for the items it creates.
    pub labels: Vec<String>,
    /// The engine's measurements, shown above the agent's words.
    pub facts: Vec<EngineFact>,
    /// The part of the message in a question to people; `None` for the outputs of a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionPart>,
}

/// The part of a message in a question about a waiting candidate. Only receivers with buttons and threads need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuestionPart {
    /// It asks.
    Ask {
        /// The value of its buttons: the question and the candidate.
        value: String,
    },
    /// It answers in the thread of an earlier message: of the question, or of the round's first message.
    Reply {
        /// The place in the receipt of that message.
        place: String,
    },
    /// It replaces the question after the decision.
    Close {
        /// The place in the receipt of the question.
        place: String,
    },
}

impl Delivery {
    /// The labels of the loop and of the item, without duplicates. For labels of an issue that exists, the loop's list is
    /// a limit and adds none.
    #[must_use]
    pub fn all_labels(&self) -> Vec<String> {
        if self.item.kind == ActionKind::IssueLabel {
            return self.item.labels.clone();
        }
        let mut labels = self.labels.clone();
        labels.extend(self.item.labels.iter().filter(|label| !self.labels.contains(label)).cloned());
        labels
    }

    /// The item's text with its footer, without the marker. In a pull request the engine's facts come first. The agent's
    /// words are quoted, so that a table in them cannot pass for the engine's.
    #[must_use]
    pub fn body(&self) -> String {
        self.body_within(usize::MAX)
    }

    /// As [`Delivery::body`], with the text cut at a line so that text and footer have at most about this number of
    /// characters. The footer stays whole.
    #[must_use]
    pub fn body_within(&self, chars_max: usize) -> String {
        let text = cut(self.text(), chars_max);
        match self.footer() {
            Some(footer) if text.is_empty() => format!("{footer}\n"),
            Some(footer) => format!("{text}\n{footer}\n"),
            None => text,
        }
    }

    /// The line that names the origin of a text: loop, round and cost. `None` for kinds without a text for people.
    #[must_use]
    pub fn footer(&self) -> Option<String> {
        match self.item.kind {
            ActionKind::Report | ActionKind::Commit | ActionKind::IssueLabel | ActionKind::Webhook => return None,
            ActionKind::PullRequest
            | ActionKind::IssueComment
            | ActionKind::IssueCreate
            | ActionKind::PrComment
            | ActionKind::PrInline
            | ActionKind::PrReview
            | ActionKind::Slack => {}
        }
        let cost = self.facts.iter().find(|fact| fact.name == COST_FACT);
        let cost = cost.map_or(String::new(), |cost| format!(", cost {}", cell(&cost.value)));
        Some(format!("_Loopwright: loop `{}`, round `{}`{cost}_", word(&self.loop_name), word(&self.round)))
    }

    /// The results of the gates, such as `tests passed, lint passed`, if all of them passed. `None` for a loop without
    /// gates: nothing was tested, so nothing may be stated.
    #[must_use]
    pub fn passed_gates(&self) -> Option<&str> {
        let gates = self.facts.iter().find(|fact| fact.name == GATES_FACT)?;
        gates.value.split(", ").all(|gate| gate.ends_with(" passed")).then_some(gates.value.as_str())
    }

    fn text(&self) -> String {
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

    /// The hidden line that names the work, by which a restored state finds what its lost successor sent. `None` if the
    /// work is unknown.
    #[must_use]
    pub fn work_mark(&self) -> Option<String> {
        (!self.work.is_empty()).then(|| format!("<!-- loopwright-work: {} -->", self.work))
    }
}

/// The name of the fact that the footer repeats.
pub const COST_FACT: &str = "cost";

/// The name of the fact with the result of each gate; its value is `none` for a loop without gates.
const GATES_FACT: &str = "gates";

/// The beginning of a text up to a line's end, and a line that states the cut.
fn cut(text: String, chars_max: usize) -> String {
    let Some((at, _)) = text.char_indices().nth(chars_max) else { return text };
    let end = text[..at].rfind('\n').unwrap_or(at);
    // The cut may open a code fence that would swallow what follows; sanitising again closes it and changes nothing else.
    let kept = crate::outbox::sanitise(&text[..end], &crate::outbox::SanitiseRules::markdown()).text;
    format!("{}\n\nThe text is cut here: it exceeds the forge's limit.\n", kept.trim_end())
}

/// A name that cannot end the code span around it.
fn word(name: &str) -> String {
    name.chars().map(|c| if c == '`' || c.is_control() { '_' } else { c }).collect()
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
    /// The location of the item: a path or a URL.
    pub place: String,
    /// The commit of the item, if it has one.
    pub head: Option<String>,
    /// When it was created, in milliseconds since 1970.
    pub at_ms: i64,
    /// The part of the item that the receiver did not accept, such as a label, with the next step for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Whether an item arrived earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryLookup {
    /// The item exists.
    Yes(DeliveryReceipt),
    /// The item certainly does not exist.
    No,
    /// The forge cannot answer; a person must check.
    Unknown,
}

/// An effect of a round about the same work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundWork {
    /// The round that sent it, from its marker.
    pub round: String,
    /// Its address.
    pub place: String,
}

/// The effects of any round about the same work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkLookup {
    /// All of them.
    Known(Vec<FoundWork>),
    /// The receiver cannot be asked.
    Unknown,
}

/// The kind of a delivery error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeliverErrorKind {
    /// Policy or the forge refuses the item; do not retry.
    Refused,
    /// The delivery had no effect; a retry may succeed.
    Transient,
    /// The delivery may have had an effect.
    InDoubt,
    /// The forge accepts nothing until a person changes something outside of Loopwright: a token, a scope, a branch
    /// protection, a repository. The delivery had no effect, and the item is kept.
    Blocked,
    /// The delivery had no effect; a retry alone will not help.
    Failed,
}

/// A delivery that ended without a receipt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct DeliverError {
    /// The kind of the error.
    pub kind: DeliverErrorKind,
    /// The message for people.
    pub text: String,
    /// The time from which a retry makes sense, in milliseconds since 1970, if the forge reports it.
    pub retry_at_ms: Option<i64>,
    /// Whether a part of the item may be visible to people although the delivery failed, whatever its kind.
    pub is_after_effect: bool,
}

impl DeliverError {
    /// An error of this kind.
    #[must_use]
    pub fn new(kind: DeliverErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), retry_at_ms: None, is_after_effect: false }
    }

    /// The same error with the time from which a retry makes sense.
    #[must_use]
    pub fn retry_at(self, retry_at_ms: Option<i64>) -> Self {
        Self { retry_at_ms, ..self }
    }

    /// The same error of a delivery of which a part may be visible: an earlier step of it succeeded.
    #[must_use]
    pub fn after_effect(self) -> Self {
        Self { is_after_effect: true, ..self }
    }

    /// Policy or the forge refuses the item.
    #[must_use]
    pub fn refused(text: impl Into<String>) -> Self {
        Self::new(DeliverErrorKind::Refused, text)
    }

    /// The forge accepts nothing until a person fixes the access to it; the item is kept.
    #[must_use]
    pub fn blocked(text: impl Into<String>) -> Self {
        Self::new(DeliverErrorKind::Blocked, text)
    }

    /// The delivery had no effect; a retry may succeed.
    #[must_use]
    pub fn transient(text: impl Into<String>) -> Self {
        Self::new(DeliverErrorKind::Transient, text)
    }

    /// The delivery may have had an effect.
    #[must_use]
    pub fn in_doubt(text: impl Into<String>) -> Self {
        Self::new(DeliverErrorKind::InDoubt, text)
    }

    /// The delivery had no effect; a retry alone will not help.
    #[must_use]
    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(DeliverErrorKind::Failed, text)
    }
}

/// An `Authorization` header that a forge provides to the engine for one push. It is never printed, stored or shown to
/// an agent.
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

/// The repository, branch and credential for the push that precedes a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushTarget {
    /// The URL of the repository, from the configuration: `https://…`, or `file://…` on this machine. It holds no user
    /// and no password.
    pub url: String,
    /// The branch that is written.
    pub branch: String,
    /// The commit that the branch has now; `None` if the branch must not exist. A branch with any other commit stays
    /// unchanged.
    pub expected_old: Option<String>,
    /// The credential for this push.
    pub credential: Option<PushCredential>,
}

impl PushTarget {
    /// Whether people see the push itself. The push of a commit is its delivery, and a branch that has another commit may
    /// be that of an open pull request. A new branch means nothing before its pull request exists.
    #[must_use]
    pub fn is_visible(&self, item: &Delivery) -> bool {
        item.item.kind == ActionKind::Commit || (self.expected_old.is_some() && self.expected_old != item.commit)
    }
}

/// Receives items: a forge, a chat, a folder.
///
/// The engine may call an implementation twice with the same key, also at the same time and after a crash. The second
/// call returns the first receipt and has no further effect, as far as the receiver allows it.
pub trait Deliver: Send + Sync {
    /// Delivers one item.
    fn deliver<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryReceipt, DeliverError>>;

    /// The push that the item needs before it is delivered. `None` for an item without a commit, and for a receiver
    /// that accepts commits itself. The engine performs the push.
    fn push_target<'a>(&'a self, _item: &'a Delivery) -> BoxFuture<'a, Result<Option<PushTarget>, DeliverError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Looks up the item by its marker, without side effects.
    fn find<'a>(&'a self, item: &'a Delivery) -> BoxFuture<'a, Result<DeliveryLookup, DeliverError>>;

    /// An earlier attempt, perhaps of another process, may have delivered the item. A receiver that shows new items late
    /// must look for it long enough before it accepts the item again.
    fn expect_earlier(&self, _item: &Delivery) {}

    /// Looks up the effects of all rounds about the item's work, without side effects. Only a restored state asks: it
    /// does not know which rounds were lost.
    fn find_work<'a>(&'a self, _item: &'a Delivery) -> BoxFuture<'a, Result<WorkLookup, DeliverError>> {
        Box::pin(std::future::ready(Ok(WorkLookup::Unknown)))
    }
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
            work: String::new(),
            branch: "loop/fixer/r1".to_owned(),
            commit: None,
            tree: None,
            base_branch: "main".to_owned(),
            base_commit: String::new(),
            reviewed_head: None,
            question: None,
            draft: true,
            labels: vec!["bot".to_owned()],
            facts,
        }
    }

    #[test]
    fn facts_come_before_the_agents_words_and_cannot_be_imitated() {
        let facts = vec![
            EngineFact::new("gates", "tests passed"),
            EngineFact::new("path", "a|b\n| gates | forged |\n<b>@all"),
            EngineFact::new(COST_FACT, "0.12 USD"),
        ];
        let pull = delivery(ActionKind::PullRequest, "| gates | all passed |\n\nDone.\n", facts);
        expect![[r#"
            | fact | value |
            |---|---|
            | gates | tests passed |
            | path | a\|b \| gates \| forged \| \< b>@ all |
            | cost | 0.12 USD |

            In the agent's words:

            > | gates | all passed |
            >
            > Done.

            _Loopwright: loop `fixer`, round `r1`, cost 0.12 USD_

            <!-- mark -->
        "#]]
        .assert_eq(&pull.marked_body());
    }

    #[test]
    fn body_of_a_comment_is_its_text_and_its_footer() {
        let comment = delivery(ActionKind::IssueComment, "Done.\n\n", vec![EngineFact::new("gates", "none")]);
        assert_eq!(comment.body(), "Done.\n\n_Loopwright: loop `fixer`, round `r1`_\n");
        assert_eq!(delivery(ActionKind::Webhook, "{}", Vec::new()).body(), "{}\n");
    }

    #[test]
    fn gates_are_stated_only_if_there_are_some_and_all_passed() {
        let gates = |value: &str| {
            let facts = vec![EngineFact::new("gates", value)];
            delivery(ActionKind::PullRequest, "", facts).passed_gates().map(str::to_owned)
        };
        assert_eq!(gates("tests passed, lint passed").as_deref(), Some("tests passed, lint passed"));
        for value in ["none", "", "tests passed, lint skipped", "tests rejected", "passed"] {
            assert_eq!(gates(value), None, "{value}");
        }
        assert_eq!(delivery(ActionKind::PullRequest, "", Vec::new()).passed_gates(), None);
    }

    #[test]
    fn duplicate_labels_of_loop_and_item_appear_once() {
        let mut pull = delivery(ActionKind::PullRequest, "", Vec::new());
        pull.item.labels = vec!["bug".to_owned(), "bot".to_owned()];
        assert_eq!(pull.all_labels(), ["bot", "bug"]);
    }
}
