//! Budget arithmetic: the amount used, the amount still allowed, the ceiling reached. Unreported spend never counts as
//! zero.

mod counted_usage;
mod scope;
mod start_bill;

pub use counted_usage::{ChargeBasis, CountedBy, CountedUsage, PricedTokens};
pub use scope::{BudgetAccount, BudgetScope, RaiseOption, SpendAllowance};
pub use start_bill::StartBill;

use crate::spec::{BudgetSpec, Ceilings};
use crate::units::Usd;
use crate::words::worded;
use serde::{Deserialize, Serialize};

/// Tokens, by price class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tokens {
    /// Fresh input.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache.
    pub cache_write: u64,
}

impl Tokens {
    /// The sum of all counts.
    #[must_use]
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output).saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Each count minus the other's.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    /// The sum of two counts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    fn zip(self, other: Self, each: fn(u64, u64) -> u64) -> Self {
        Self {
            input: each(self.input, other.input),
            output: each(self.output, other.output),
            cache_read: each(self.cache_read, other.cache_read),
            cache_write: each(self.cache_write, other.cache_write),
        }
    }
}

/// Whether a figure was reported, by the agent or by its models, or assumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpendKnown {
    /// Reported.
    #[default]
    Yes,
    /// Estimated from the text of answers whose usage was not reported.
    Estimated,
    /// Assumed: the reservation was charged.
    No,
}

impl SpendKnown {
    /// The basis of the spend, for people and documents.
    #[must_use]
    pub fn basis(self) -> &'static str {
        match self {
            Self::Yes => "measured",
            Self::Estimated => "estimated",
            Self::No => "reserved",
        }
    }

    /// The less certain of two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Estimated, _) | (_, Self::Estimated) => Self::Estimated,
            (Self::Yes, Self::Yes) => Self::Yes,
        }
    }
}

/// The resources used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spend {
    /// Tokens.
    pub tokens: Tokens,
    /// Money.
    pub usd: Usd,
    /// Wall time in milliseconds.
    pub wall_ms: u64,
    /// Whether all of it was reported.
    pub known: SpendKnown,
}

impl Spend {
    /// The sum of two spends; unknown stays unknown.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.plus(other.tokens),
            usd: Usd(self.usd.0.saturating_add(other.usd.0)),
            wall_ms: self.wall_ms.saturating_add(other.wall_ms),
            known: self.known.and(other.known),
        }
    }
}

/// Tokens of one model, as an agent reported them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTokens {
    /// The model's name as the agent or its provider spells it; empty if unknown.
    pub model: String,
    /// Its tokens.
    pub tokens: Tokens,
    /// Whether a provider that is not metered served them; they cost nothing then. Only the proxy sets it, from the
    /// provider that it asked: a name proves nothing.
    #[serde(default, skip_serializing_if = "crate::spec::is_default")]
    pub is_free: bool,
}

impl ModelTokens {
    /// Tokens that are charged by the model's price.
    #[must_use]
    pub fn charged(model: impl Into<String>, tokens: Tokens) -> Self {
        Self { model: model.into(), tokens, is_free: false }
    }
}

/// The cost of one model in one start of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSpend {
    /// The model; empty if unknown.
    pub model: String,
    /// Its tokens.
    pub tokens: Tokens,
    /// Their price.
    pub usd: Usd,
    /// Whether the tokens were reported.
    pub known: SpendKnown,
}

/// The worst-case use of one agent start; charged in full if the agent does not report its usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reservation {
    /// Tokens.
    pub tokens: u64,
    /// Money.
    pub usd: Usd,
}

impl Reservation {
    /// The sum of two amounts.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_add(other.tokens), usd: Usd(self.usd.0.saturating_add(other.usd.0)) }
    }

    /// The amount minus another; never below zero.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self { tokens: self.tokens.saturating_sub(other.tokens), usd: Usd(self.usd.0.saturating_sub(other.usd.0)) }
    }

    /// The same amount, but at most this.
    #[must_use]
    pub fn capped_at(self, most: SpendAllowance) -> Self {
        Self {
            tokens: most.tokens.map_or(self.tokens, |most| self.tokens.min(most)),
            usd: most.usd.map_or(self.usd, |most| self.usd.min(most)),
        }
    }
}

impl Spend {
    /// Its money and its tokens.
    #[must_use]
    pub fn amount(&self) -> Reservation {
        Reservation { tokens: self.tokens.total(), usd: self.usd }
    }
}

/// One start's share of a round: the ceiling divided by attempts times declared roles, and never zero. A round without
/// a ceiling uses the share of the default one, because unknown usage is not free there either.
#[must_use]
pub fn reservation(round: &Ceilings, attempts: u32, roles: u32) -> Reservation {
    let shares = u64::from(attempts.max(1)).saturating_mul(u64::from(roles.max(1)));
    let usual = BudgetSpec::default().round;
    let share = |ceiling: Option<u64>| ceiling.map_or(0, |most| (most / shares).max(1));
    let tokens = share(round.tokens.or(usual.tokens));
    let usd = share(round.usd.or(usual.usd).map(|usd| usd.0));
    Reservation { tokens: tokens.min(TOKENS_BELIEVED), usd: Usd(usd.min(USD_BELIEVED.0)) }
}

/// The usage that an agent reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentUsage {
    /// It reported counts.
    Reported(Tokens),
    /// It reported nothing usable.
    Unknown,
}

/// A higher token count is a mistake or a lie; sums of accepted counts stay far below 64 bits.
const TOKENS_BELIEVED: u64 = 1_000_000_000_000;

/// A higher amount for one start is a slip, not a budget: a hundred million dollars.
const USD_BELIEVED: Usd = Usd(100_000_000_000_000);

/// Turns a start's usage into spend: unknown or implausible usage costs the whole reservation.
#[must_use]
pub fn spend_from_usage(
    usage: AgentUsage,
    reserved: Reservation,
    price: impl Fn(Tokens) -> Usd,
    wall_ms: u64,
) -> Spend {
    match usage {
        AgentUsage::Reported(tokens) if tokens.total() <= TOKENS_BELIEVED => {
            Spend { tokens, usd: price(tokens), wall_ms, known: SpendKnown::Yes }
        }
        AgentUsage::Reported(_) | AgentUsage::Unknown => Spend {
            tokens: Tokens { input: reserved.tokens, ..Tokens::default() },
            usd: reserved.usd,
            wall_ms,
            known: SpendKnown::No,
        },
    }
}

worded! {
    /// A ceiling that was reached.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum BudgetLimit {
        /// Input tokens (the seed's).
        Input = "input tokens",
        /// Output tokens (the seed's).
        Output = "output tokens",
        /// All tokens (the seed's `Total`).
        Total = "tokens",
        /// Money.
        Usd = "money",
        /// Wall time.
        Wall = "wall time",
        /// Idle time without output.
        Idle = "idle time",
        /// Turns.
        Turns = "turns",
        /// The loop's day.
        Day = "the day's budget",
        /// More output than the engine reads.
        Flood = "output",
        /// Disk space.
        Disk = "disk space",
        /// The same lines or messages again and again, for minutes.
        Repetition = "repeated output",
    }
}

impl BudgetLimit {
    /// The reason code of a round that this limit suspends. It is the same whether the limit was found while the agent
    /// ran, at its end, or before the next start. `ceiling` is an amount that people can raise, `limit` a fault of the
    /// agent's process.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Input | Self::Output | Self::Total | Self::Usd | Self::Wall | Self::Day => "ceiling",
            Self::Idle | Self::Turns | Self::Flood | Self::Disk | Self::Repetition => "limit",
        }
    }

    /// The name in messages.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.word()
    }

    /// The option of `budget raise` that raises it; `None` for a limit that is no amount of tokens or money.
    #[must_use]
    pub fn raise_option(self) -> Option<RaiseOption> {
        match self {
            Self::Input | Self::Output | Self::Total => Some(RaiseOption::Tokens),
            Self::Usd | Self::Day => Some(RaiseOption::Usd),
            Self::Wall | Self::Idle | Self::Turns | Self::Flood | Self::Disk | Self::Repetition => None,
        }
    }

    /// The key below `budget.round` of a limit that only the loop file raises.
    #[must_use]
    pub fn file_key(self) -> Option<&'static str> {
        match self {
            Self::Wall => Some("wall"),
            Self::Idle => Some("idle"),
            Self::Turns => Some("turns"),
            Self::Input | Self::Output | Self::Total | Self::Usd | Self::Day => None,
            Self::Flood | Self::Disk | Self::Repetition => None,
        }
    }
}

/// The first ceiling of a round that this spend exceeds, if any.
#[must_use]
pub fn reached_limit(spend: &Spend, ceilings: &Ceilings) -> Option<BudgetLimit> {
    let reached = |used: u64, ceiling: Option<u64>| ceiling.is_some_and(|most| used > most);
    if reached(spend.tokens.total(), ceilings.tokens) {
        return Some(BudgetLimit::Total);
    }
    if reached(spend.usd.0, ceilings.usd.map(|usd| usd.0)) {
        return Some(BudgetLimit::Usd);
    }
    let wall = ceilings.wall.map(|wall| u64::try_from(wall.duration().as_millis()).unwrap_or(u64::MAX));
    reached(spend.wall_ms, wall).then_some(BudgetLimit::Wall)
}

/// The ceiling of tokens or money that leaves nothing for another start.
#[must_use]
pub fn exhausted_limit(spend: &Spend, ceilings: &Ceilings) -> Option<BudgetLimit> {
    let none_left = |used: u64, ceiling: Option<u64>| ceiling.is_some_and(|most| used >= most && most > 0);
    if none_left(spend.tokens.total(), ceilings.tokens) {
        return Some(BudgetLimit::Total);
    }
    none_left(spend.usd.0, ceilings.usd.map(|usd| usd.0)).then_some(BudgetLimit::Usd)
}

/// The seed's per-round token ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenBudget {
    /// Most input tokens.
    pub max_input_tokens: Option<u64>,
    /// Most output tokens.
    pub max_output_tokens: Option<u64>,
    /// Most tokens together.
    pub max_total_tokens: Option<u64>,
    /// Most turns of an agent in a round.
    pub max_iters_per_round: u32,
}

impl Default for TokenBudget {
    fn default() -> Self {
        Self { max_input_tokens: None, max_output_tokens: None, max_total_tokens: None, max_iters_per_round: 12 }
    }
}

impl TokenBudget {
    /// A budget in turns.
    #[must_use]
    pub fn iters(turns: u32) -> Self {
        Self { max_iters_per_round: turns, ..Self::default() }
    }

    /// Bounds input tokens.
    #[must_use]
    pub fn with_max_input_tokens(mut self, most: u64) -> Self {
        self.max_input_tokens = Some(most);
        self
    }

    /// Bounds output tokens.
    #[must_use]
    pub fn with_max_output_tokens(mut self, most: u64) -> Self {
        self.max_output_tokens = Some(most);
        self
    }

    /// Bounds all tokens.
    #[must_use]
    pub fn with_max_total_tokens(mut self, most: u64) -> Self {
        self.max_total_tokens = Some(most);
        self
    }
}

/// The seed's running count against a [`TokenBudget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetState {
    budget: TokenBudget,
    /// Input tokens so far.
    pub input_tokens: u64,
    /// Output tokens so far.
    pub output_tokens: u64,
}

impl BudgetState {
    /// The state before any use.
    #[must_use]
    pub fn new(budget: TokenBudget) -> Self {
        Self { budget, input_tokens: 0, output_tokens: 0 }
    }

    /// Adds usage; cached tokens count as input.
    pub fn add(&mut self, tokens: Tokens) {
        let input = tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write);
        self.input_tokens = self.input_tokens.saturating_add(input);
        self.output_tokens = self.output_tokens.saturating_add(tokens.output);
    }

    /// Input and output together.
    #[must_use]
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Most turns of a round.
    #[must_use]
    pub fn max_iters(&self) -> u32 {
        self.budget.max_iters_per_round
    }

    /// The first ceiling that was exceeded: input, then output, then total.
    #[must_use]
    pub fn exceeded(&self) -> Option<BudgetLimit> {
        let over = |used: u64, most: Option<u64>| most.is_some_and(|most| used > most);
        if over(self.input_tokens, self.budget.max_input_tokens) {
            Some(BudgetLimit::Input)
        } else if over(self.output_tokens, self.budget.max_output_tokens) {
            Some(BudgetLimit::Output)
        } else {
            over(self.total_tokens(), self.budget.max_total_tokens).then_some(BudgetLimit::Total)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_usage_costs_the_reservation() {
        let round = Ceilings { tokens: Some(600), usd: Some(Usd(6_000_000)), ..Ceilings::default() };
        let reserved = reservation(&round, 3, 2);
        assert_eq!(reserved, Reservation { tokens: 100, usd: Usd(1_000_000) });
        let spend = spend_from_usage(AgentUsage::Unknown, reserved, |_| Usd(0), 5);
        assert_eq!((spend.tokens.total(), spend.usd, spend.known), (100, Usd(1_000_000), SpendKnown::No));
    }

    #[test]
    fn unknown_usage_is_not_free_in_a_round_without_a_ceiling_or_with_a_tiny_one() {
        let none = reservation(&Ceilings::default(), 2, 2);
        assert_eq!(none, Reservation { tokens: 100_000, usd: Usd(1_250_000) });
        let tiny = Ceilings { tokens: Some(5), usd: Some(Usd(5)), ..Ceilings::default() };
        assert_eq!(reservation(&tiny, 3, 2), Reservation { tokens: 1, usd: Usd(1) });
    }

    #[test]
    fn implausible_amounts_are_neither_reserved_nor_settled() {
        let round = Ceilings { tokens: Some(u64::MAX), usd: Some(Usd(u64::MAX)), ..Ceilings::default() };
        let reserved = reservation(&round, 1, 1);
        assert_eq!(reserved, Reservation { tokens: TOKENS_BELIEVED, usd: USD_BELIEVED });
        let usage = AgentUsage::Reported(Tokens { output: TOKENS_BELIEVED + 1, ..Tokens::default() });
        let reserved = Reservation { tokens: 100, usd: Usd(7) };
        let spend = spend_from_usage(usage, reserved, |_| Usd(u64::MAX), 5);
        assert_eq!((spend.tokens.total(), spend.usd, spend.known), (100, Usd(7), SpendKnown::No));
    }

    #[test]
    fn sums_saturate_and_unknown_stays_unknown() {
        let most = Spend {
            tokens: Tokens { input: u64::MAX, ..Tokens::default() },
            known: SpendKnown::No,
            ..Spend::default()
        };
        let sum = most.plus(Spend { tokens: Tokens { input: 1, ..Tokens::default() }, ..Spend::default() });
        assert_eq!((sum.tokens.input, sum.known), (u64::MAX, SpendKnown::No));
    }

    #[test]
    fn ceiling_is_exceeded_only_past_it() {
        let ceilings = Ceilings { tokens: Some(10), ..Ceilings::default() };
        let used = |input| Spend { tokens: Tokens { input, ..Tokens::default() }, ..Spend::default() };
        assert_eq!(reached_limit(&used(10), &ceilings), None);
        assert_eq!(reached_limit(&used(11), &ceilings), Some(BudgetLimit::Total));
    }
}
