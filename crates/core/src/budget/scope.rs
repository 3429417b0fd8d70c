//! Scopes of spend: the unit a ceiling applies to, how much of it is used, and the text for people. The sums are stored
//! elsewhere.

use super::Reservation;
use crate::units::Usd;
use crate::words::worded;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

worded! {
    /// The unit that a ceiling applies to, from the narrowest to the widest.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum BudgetScope {
        /// One start of an agent in a role.
        Role = "role",
        /// All starts of one attempt.
        Attempt = "attempt",
        /// One round.
        Round = "round",
        /// One item over all its rounds.
        Item = "item",
        /// One loop's day.
        Day = "day",
        /// One repository's day.
        RepoDay = "repo-day",
        /// The day of everything in the store.
        FleetDay = "fleet-day",
        /// The month of everything in the store.
        FleetMonth = "fleet-month",
    }
}

worded! {
    /// The option of `budget raise` that raises a ceiling.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum RaiseOption {
        /// A ceiling of money.
        Usd = "--usd N",
        /// A ceiling of tokens.
        Tokens = "--tokens N",
        /// Both.
        Both = "--usd N --tokens N",
    }
}

impl BudgetScope {
    /// The scope's name in messages.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Role => "one start of an agent",
            Self::Attempt => "the attempt",
            Self::Round => "the round",
            Self::Item => "the item",
            Self::Day => "the loop's day",
            Self::RepoDay => "the repository's day",
            Self::FleetDay => "the day of all loops",
            Self::FleetMonth => "the month of all loops",
        }
    }

    /// Whether its sum restarts with each day or month.
    #[must_use]
    pub fn is_periodic(self) -> bool {
        matches!(self, Self::Day | Self::RepoDay | Self::FleetDay | Self::FleetMonth)
    }

    /// How a person raises the ceiling.
    #[must_use]
    pub fn remedy(self, loop_name: &str, round: &str, option: RaiseOption) -> String {
        match self {
            Self::Round => {
                format!("`loopwright budget raise {loop_name} --round {round} {option}`, or raise `budget.round`")
            }
            Self::Day => format!("`loopwright budget raise {loop_name} {option}` for today, or raise `budget.day`"),
            Self::Role | Self::Attempt => format!(
                "`loopwright budget raise {loop_name} --round {round} {option}`, or raise `budget.{self}` for later rounds"
            ),
            Self::Item => format!("raise `budget.{self}` in the loop file"),
            Self::RepoDay | Self::FleetDay | Self::FleetMonth => {
                format!("raise `budget.{}` in your configuration", self.word().replace('-', "."))
            }
        }
    }
}

/// A ceiling in money, in tokens, in both, or in neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SpendAllowance {
    /// Money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Usd>,
    /// Tokens of all kinds together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl SpendAllowance {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The tighter of two, for money and for tokens.
    #[must_use]
    pub fn tightest(self, other: Self) -> Self {
        Self { usd: least(self.usd, other.usd), tokens: least(self.tokens, other.tokens) }
    }

    /// The same with this much more; an unlimited part stays unlimited.
    #[must_use]
    pub fn raised_by(self, by: Reservation) -> Self {
        Self {
            usd: self.usd.map(|most| Usd(most.0.saturating_add(by.usd.0))),
            tokens: self.tokens.map(|most| most.saturating_add(by.tokens)),
        }
    }

    /// The remainder after this use; zero for a ceiling that was exceeded.
    #[must_use]
    pub fn less(self, used: Reservation) -> Self {
        Self {
            usd: self.usd.map(|most| Usd(most.0.saturating_sub(used.usd.0))),
            tokens: self.tokens.map(|most| most.saturating_sub(used.tokens)),
        }
    }

    /// Whether this use exceeds it.
    #[must_use]
    pub fn is_exceeded_by(self, used: Reservation) -> bool {
        self.usd.is_some_and(|most| used.usd > most) || self.tokens.is_some_and(|most| used.tokens > most)
    }
}

fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

impl std::fmt::Display for SpendAllowance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.usd, self.tokens) {
            (Some(usd), Some(tokens)) => write!(f, "{usd} and {tokens} tokens"),
            (Some(usd), None) => write!(f, "{usd}"),
            (None, Some(tokens)) => write!(f, "{tokens} tokens"),
            (None, None) => f.write_str("no ceiling"),
        }
    }
}

/// From this percentage of a day's or month's ceiling on, a round only reports.
const SOFT_PERCENT: u128 = 80;

/// A scope with its ceiling and its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetAccount {
    /// The scope.
    pub scope: BudgetScope,
    /// The most it may cost.
    pub ceiling: SpendAllowance,
    /// The amount spent.
    pub spent: Reservation,
    /// The amount reserved for running agents.
    pub reserved: Reservation,
}

impl BudgetAccount {
    /// Spent plus reserved.
    #[must_use]
    pub fn used(&self) -> Reservation {
        self.spent.plus(self.reserved)
    }

    /// The amount that may still be used.
    #[must_use]
    pub fn left(&self) -> SpendAllowance {
        self.ceiling.less(self.used())
    }

    /// The option that raises the ceiling which has no room for this amount more.
    #[must_use]
    pub fn raise_option(&self, wanted: Reservation) -> RaiseOption {
        let used = self.used().plus(wanted);
        let lacks_tokens = self.ceiling.tokens.is_some_and(|most| used.tokens >= most);
        let lacks_money = self.ceiling.usd.is_some_and(|most| used.usd >= most);
        match (lacks_money, lacks_tokens) {
            (true, true) => RaiseOption::Both,
            (false, true) => RaiseOption::Tokens,
            (false, false) if self.ceiling.usd.is_none() && self.ceiling.tokens.is_some() => RaiseOption::Tokens,
            (_, false) => RaiseOption::Usd,
        }
    }

    /// Whether no money or no tokens are left.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.reaches(100)
    }

    /// Whether little is left: four fifths of a day's or month's ceiling are used.
    #[must_use]
    pub fn is_low(&self) -> bool {
        self.scope.is_periodic() && self.reaches(SOFT_PERCENT)
    }

    fn reaches(&self, percent: u128) -> bool {
        let used = self.used();
        let at = |used: u64, most: Option<u64>| {
            most.is_some_and(|most| u128::from(used) * 100 >= u128::from(most) * percent)
        };
        at(used.usd.0, self.ceiling.usd.map(|usd| usd.0)) || at(used.tokens, self.ceiling.tokens)
    }

    /// The scope, its ceiling, and the use in the ceiling's own units.
    #[must_use]
    pub fn describe(&self) -> String {
        let in_units = |amount: Reservation| {
            SpendAllowance {
                usd: self.ceiling.usd.map(|_| amount.usd),
                tokens: self.ceiling.tokens.map(|_| amount.tokens),
            }
            .to_string()
        };
        let (spent, reserved) = (in_units(self.spent), in_units(self.reserved));
        format!("{} may cost {}; {spent} are spent and {reserved} reserved", self.scope.label(), self.ceiling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(scope: BudgetScope, usd: u64, spent: u64, reserved: u64) -> BudgetAccount {
        let amount = |usd| Reservation { usd: Usd(usd), tokens: 7 };
        let ceiling = SpendAllowance { usd: Some(Usd(usd)), tokens: None };
        BudgetAccount { scope, ceiling, spent: amount(spent), reserved: amount(reserved) }
    }

    #[test]
    fn four_fifths_of_a_day_are_low_and_all_of_it_is_full() {
        let table = [(70, 9, false, false), (70, 10, true, false), (99, 0, true, false), (90, 10, true, true)];
        for (spent, reserved, low, full) in table {
            let day = account(BudgetScope::Day, 100, spent, reserved);
            assert_eq!((day.is_low(), day.is_full()), (low, full), "{spent} + {reserved}");
        }
        assert!(!account(BudgetScope::Item, 100, 99, 0).is_low(), "only periodic scopes are spared");
        assert!(account(BudgetScope::FleetMonth, 0, 0, 0).is_full(), "nothing may be spent of nothing");
    }

    #[test]
    fn account_describes_its_scope_and_its_use() {
        let day = account(BudgetScope::Day, 20_000_000, 15_500_000, 830_000);
        assert_eq!(day.describe(), "the loop's day may cost 20.00 USD; 15.50 USD are spent and 0.83 USD reserved");
        let remedy = BudgetScope::Day.remedy("fix", "r1", day.raise_option(Reservation::default()));
        assert_eq!(remedy, "`loopwright budget raise fix --usd N` for today, or raise `budget.day`");
    }

    #[test]
    fn remedy_names_the_ceiling_that_has_no_room() {
        let account = |usd: Option<u64>, tokens: Option<u64>| BudgetAccount {
            scope: BudgetScope::Round,
            ceiling: SpendAllowance { usd: usd.map(Usd), tokens },
            spent: Reservation { usd: Usd(50), tokens: 500 },
            reserved: Reservation::default(),
        };
        let wanted = Reservation { usd: Usd(10), tokens: 100 };
        let cases = [
            (Some(100), Some(400), RaiseOption::Tokens),
            (Some(100), Some(550), RaiseOption::Tokens),
            (Some(55), Some(900), RaiseOption::Usd),
            (Some(40), Some(400), RaiseOption::Both),
            (None, Some(400), RaiseOption::Tokens),
            (Some(40), None, RaiseOption::Usd),
        ];
        for (usd, tokens, option) in cases {
            assert_eq!(account(usd, tokens).raise_option(wanted), option, "{usd:?} {tokens:?}");
        }
        let text = BudgetScope::Round.remedy("fix", "r1", RaiseOption::Tokens);
        assert_eq!(text, "`loopwright budget raise fix --round r1 --tokens N`, or raise `budget.round`");
    }

    #[test]
    fn the_tighter_of_two_ceilings_holds_and_none_is_no_ceiling() {
        let of = |usd: Option<u64>, tokens| SpendAllowance { usd: usd.map(Usd), tokens };
        assert_eq!(of(Some(3), None).tightest(of(Some(5), Some(9))), of(Some(3), Some(9)));
        let raised = of(Some(3), None).raised_by(Reservation { usd: Usd(2), tokens: 50 });
        assert_eq!(raised, of(Some(5), None), "what was not limited stays so");
        assert!(of(Some(3), None).is_exceeded_by(Reservation { usd: Usd(4), tokens: 0 }));
        assert!(!of(Some(3), Some(1)).is_exceeded_by(Reservation { usd: Usd(3), tokens: 1 }));
    }
}
