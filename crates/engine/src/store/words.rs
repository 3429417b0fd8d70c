//! The closed sets of words in the store's rows. A word that is in none of them is damage, and never read as another one.

use super::conn::{SqlArg, SqlColumn, SqlResult, SqlRow, word_column};

/// An enum whose values have words, and its column.
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

            /// The value that has this word.
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
    /// Where an item that is to leave the machine stands.
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
    /// It was not sent, by a person's or the receiver's word.
    Refused = "refused",
    /// It could not be sent, however often that was tried.
    Quarantined = "quarantined",
}

words! {
    /// What people are asked.
    InboxKind, "kind of a question":
    /// Whether a candidate may leave.
    Approval = "approval",
    /// Whether an item arrived.
    InDoubt = "in-doubt",
    /// What to do about an item that failed too often.
    ItemFailed = "item-failed",
    /// What to do about a loop that stopped itself.
    LoopPaused = "loop-paused",
}

words! {
    /// How much is at stake with an answer.
    InboxRisk, "risk of a question":
    /// Little.
    Low = "low",
    /// As usual.
    Medium = "medium",
    /// Something sensitive, or something that cannot be undone.
    High = "high",
}

words! {
    /// What is remembered of a work item.
    ItemState, "state of a work item":
    /// A round dealt with it.
    Processed = "processed",
    /// The last round about it failed.
    Failed = "failed",
    /// It failed too often and waits for a person.
    Waiting = "waiting",
}
