//! Ceilings as a loop file declares them. The arithmetic is in [`crate::budget`].

use crate::budget::SpendAllowance;
use crate::units::{TimeSpan, Usd};
use schemars::JsonSchema;
use serde::Serialize;

/// Ceilings of one scope; `None` means no ceiling of that kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Ceilings {
    /// Input and output tokens together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<Usd>,
    /// Wall time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall: Option<TimeSpan>,
    /// Turns of an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Time without any output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<TimeSpan>,
}

impl Ceilings {
    /// The ceilings of money and tokens, which can be summed over many starts.
    #[must_use]
    pub fn allowance(&self) -> SpendAllowance {
        SpendAllowance { usd: self.usd, tokens: self.tokens }
    }

    /// The lower ceiling of each kind.
    #[must_use]
    pub fn tightest(self, other: Self) -> Self {
        Self {
            tokens: lower(self.tokens, other.tokens),
            usd: lower(self.usd, other.usd),
            wall: lower(self.wall, other.wall),
            turns: lower(self.turns, other.turns),
            idle: lower(self.idle, other.idle),
        }
    }
}

fn lower<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    [one, other].into_iter().flatten().min()
}

/// A loop's ceilings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
pub struct BudgetSpec {
    /// For one start of an agent, in any role.
    pub role: Ceilings,
    /// For all starts of one attempt.
    pub attempt: Ceilings,
    /// For one round.
    pub round: Ceilings,
    /// For one item over all its rounds.
    pub item: Ceilings,
    /// For one loop on one day.
    pub day: Ceilings,
}

impl BudgetSpec {
    /// The lower ceiling of each scope.
    #[must_use]
    pub fn tightest(self, other: Self) -> Self {
        Self {
            role: self.role.tightest(other.role),
            attempt: self.attempt.tightest(other.attempt),
            round: self.round.tightest(other.round),
            item: self.item.tightest(other.item),
            day: self.day.tightest(other.day),
        }
    }

    /// The ceilings of each scope, by its key.
    pub(crate) fn scopes(&self) -> [(&'static str, &Ceilings); 5] {
        let Self { role, attempt, round, item, day } = self;
        [("role", role), ("attempt", attempt), ("round", round), ("item", item), ("day", day)]
    }
}

impl Default for BudgetSpec {
    fn default() -> Self {
        Self {
            round: Ceilings {
                tokens: Some(400_000),
                usd: Some(Usd(5_000_000)),
                wall: Some(TimeSpan::secs(30 * 60)),
                turns: Some(100),
                idle: Some(TimeSpan::secs(5 * 60)),
            },
            role: Ceilings::default(),
            attempt: Ceilings::default(),
            item: Ceilings::default(),
            day: Ceilings { usd: Some(Usd(20_000_000)), ..Ceilings::default() },
        }
    }
}
