//! What tokens cost. A model that no table has costs what the dearest one does: a budget that is too careful is a nuisance,
//! one that is too generous is a bill.

use crate::budget::Tokens;
use crate::config::Price;
use crate::units::Usd;
use std::collections::BTreeMap;

/// Prices of models, in dollars for a million tokens.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prices {
    own: BTreeMap<String, Price>,
}

/// The dearest known rates, in millionths of a dollar for a million tokens.
const DEAREST: Price =
    Price { input: Usd(15_000_000), output: Usd(75_000_000), cache_read: Usd(1_500_000), cache_write: Usd(18_750_000) };

impl Prices {
    /// The table with a person's own prices over it.
    #[must_use]
    pub fn new(own: BTreeMap<String, Price>) -> Self {
        Self { own }
    }

    /// What these tokens of a model cost, rounded up. An empty or unknown name is the dearest model's.
    #[must_use]
    pub fn of(&self, model: &str, tokens: Tokens) -> Usd {
        cost(self.own.get(model).unwrap_or(&DEAREST), tokens)
    }
}

fn cost(price: &Price, tokens: Tokens) -> Usd {
    let parts = [
        (tokens.input, price.input),
        (tokens.output, price.output),
        (tokens.cache_read, price.cache_read),
        (tokens.cache_write, price.cache_write),
    ];
    let sum: u128 = parts.into_iter().map(|(count, rate)| u128::from(count) * u128::from(rate.0)).sum();
    Usd(u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX))
}
