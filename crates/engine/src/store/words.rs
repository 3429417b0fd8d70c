//! The closed sets of words in the store's rows. An unknown word means damage, and is never read as another one.

use super::conn::{SqlArg, SqlColumn, SqlResult, SqlRow, word_column};
use loopwright_core::worded;

worded! {
    /// The delivery state of an outbox item.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum OutboxState {
        /// It may be sent.
        Staged = "staged",
        /// It waits for a person.
        Waiting = "waiting",
        /// A process is sending it.
        Claimed = "claimed",
        /// It arrived.
        Sent = "sent",
        /// It may have arrived.
        InDoubt = "in-doubt",
        /// A person or the receiver refused it, so it was not sent.
        Refused = "refused",
        /// All attempts to send it failed.
        Quarantined = "quarantined",
    }
}

worded! {
    /// The kind of a question to people.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum InboxKind {
        /// Whether a candidate may be sent.
        Approval = "approval",
        /// Whether an item arrived.
        InDoubt = "in-doubt",
        /// An item failed too often; a person decides how to proceed.
        ItemFailed = "item-failed",
        /// A loop paused itself; a person decides how to proceed.
        LoopPaused = "loop-paused",
        /// The evidence lowered the level of a loop; a person may promote it again.
        LoopDemoted = "loop-demoted",
    }
}

worded! {
    /// The risk of an answer.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum InboxRisk {
        /// Low risk.
        Low = "low",
        /// Medium risk.
        Medium = "medium",
        /// A sensitive or irreversible action.
        High = "high",
    }
}

worded! {
    /// The stored state of a work item.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum WorkItemState {
        /// A round completed it.
        Processed = "processed",
        /// The last round about it failed.
        Failed = "failed",
        /// It failed too often and waits for a person.
        Waiting = "waiting",
    }
}

word_column!(OutboxState, "state of an outbox item");
word_column!(InboxKind, "kind of a question");
word_column!(InboxRisk, "risk of a question");
word_column!(WorkItemState, "state of a work item");
