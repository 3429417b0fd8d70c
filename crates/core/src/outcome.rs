//! The outcomes of a round and their exit codes. The words and numbers are fixed by the contract.

use crate::words::worded;
use serde::{Deserialize, Serialize};

worded! {
    /// The typed end of a round.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum RoundOutcome {
        /// Verified work was delivered (the seed's `Proceeded`).
        Shipped = "shipped",
        /// A report was stored; nothing else was sent.
        Reported = "reported",
        /// There was no work.
        NothingToDo = "nothing-to-do",
        /// The round waits for a human.
        Escalated = "escalated",
        /// A gate, a protected path, the test inventory or the checker rejected the candidate.
        Rejected = "rejected",
        /// No progress between attempts.
        Plateaued = "plateaued",
        /// The maker reported that it cannot do the task.
        Cannot = "cannot",
        /// A budget limit was reached (the seed's `BudgetExhausted`).
        OverBudget = "over-budget",
        /// The provider asked to retry later.
        RateLimited = "rate-limited",
        /// Policy or safety refused.
        Refused = "refused",
        /// The maker exited successfully without a change.
        Empty = "empty",
        /// Loopwright or its environment failed.
        Failed = "failed",
        /// A crash or a signal ended the round.
        Interrupted = "interrupted",
        /// A person cancelled it.
        Cancelled = "cancelled",
    }
}

impl RoundOutcome {
    /// The exit code of `run` for this outcome.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Shipped | Self::Reported | Self::NothingToDo => 0,
            Self::Failed => 1,
            Self::Escalated => 10,
            Self::Rejected | Self::Empty => 11,
            Self::OverBudget => 12,
            Self::Cannot => 13,
            Self::Plateaued => 14,
            Self::Refused => 15,
            Self::RateLimited => 75,
            Self::Interrupted | Self::Cancelled => 130,
        }
    }

    /// Whether the loop did its work (counted as a success in `status`).
    #[must_use]
    pub fn is_success(self) -> bool {
        matches!(self, Self::Shipped | Self::Reported | Self::NothingToDo | Self::Escalated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_json_agree() {
        for outcome in RoundOutcome::ALL {
            assert_eq!(serde_json::to_string(&outcome).ok(), Some(format!("\"{outcome}\"")));
            assert_eq!(RoundOutcome::parse(outcome.word()), Some(outcome));
        }
    }
}
