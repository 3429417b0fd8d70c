//! The closed sets of words in the store's rows. An unknown word means damage, and is never read as another one.

use super::conn::{SqlArg, SqlColumn, SqlResult, SqlRow, word_column};

/// An enum whose values are stored as words, and its column.
macro_rules! words {
    ($(#[$about:meta])* $name:ident, $what:literal: $($(#[$value_about:meta])* $value:ident = $word:literal,)*) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$value_about])* $value,)* }

        impl $name {
            /// The word for it.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$value => $word,)* }
            }

            /// The value with this word.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$value),)* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }

        word_column!($name, $what);
    };
}

words! {
    /// The delivery state of an outbox item.
    OutboxState, "state of an outbox item":
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

words! {
    /// The kind of a question to people.
    InboxKind, "kind of a question":
    /// Whether a candidate may be sent.
    Approval = "approval",
    /// Whether an item arrived.
    InDoubt = "in-doubt",
    /// An item failed too often; a person decides how to proceed.
    ItemFailed = "item-failed",
    /// A loop paused itself; a person decides how to proceed.
    LoopPaused = "loop-paused",
}

words! {
    /// The risk of an answer.
    InboxRisk, "risk of a question":
    /// Low risk.
    Low = "low",
    /// Medium risk.
    Medium = "medium",
    /// A sensitive or irreversible action.
    High = "high",
}

words! {
    /// The stored state of a work item.
    ItemState, "state of a work item":
    /// A round completed it.
    Processed = "processed",
    /// The last round about it failed.
    Failed = "failed",
    /// It failed too often and waits for a person.
    Waiting = "waiting",
}
