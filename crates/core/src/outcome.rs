//! How a round can end, and the exit code of each end. The words and numbers are the contract's.

use serde::{Deserialize, Serialize};

/// The typed end of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoundOutcome {
    /// Verified work was delivered (the seed's `Proceeded`).
    Shipped,
    /// A report was kept; nothing else left.
    Reported,
    /// There was no work.
    NothingToDo,
    /// Waiting for a human.
    Escalated,
    /// A gate, a protected path, the test inventory or the checker said no.
    Rejected,
    /// No progress between attempts.
    Plateaued,
    /// The maker honestly said it cannot.
    Cannot,
    /// A ceiling was met (the seed's `BudgetExhausted`).
    OverBudget,
    /// The provider says later.
    RateLimited,
    /// Policy or safety says no.
    Refused,
    /// The maker ended well and left nothing.
    Empty,
    /// We or the world broke.
    Failed,
    /// A crash or a signal ended it.
    Interrupted,
    /// A person stopped it.
    Cancelled,
}

impl RoundOutcome {
    /// Every outcome, for tables.
    pub const ALL: [Self; 14] = [
        Self::Shipped,
        Self::Reported,
        Self::NothingToDo,
        Self::Escalated,
        Self::Rejected,
        Self::Plateaued,
        Self::Cannot,
        Self::OverBudget,
        Self::RateLimited,
        Self::Refused,
        Self::Empty,
        Self::Failed,
        Self::Interrupted,
        Self::Cancelled,
    ];

    /// The exit code of `run` for this end.
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

    /// The word used in JSON and on screens.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Shipped => "shipped",
            Self::Reported => "reported",
            Self::NothingToDo => "nothing-to-do",
            Self::Escalated => "escalated",
            Self::Rejected => "rejected",
            Self::Plateaued => "plateaued",
            Self::Cannot => "cannot",
            Self::OverBudget => "over-budget",
            Self::RateLimited => "rate-limited",
            Self::Refused => "refused",
            Self::Empty => "empty",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the loop did what it is for (counted as a success in `status`).
    #[must_use]
    pub fn is_success(self) -> bool {
        matches!(self, Self::Shipped | Self::Reported | Self::NothingToDo | Self::Escalated)
    }

    /// Reads the word back.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.word() == word)
    }
}

impl std::fmt::Display for RoundOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
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
