//! What tokens cost. Until a table of models is configured every model is priced as the dearest known one: a budget that is
//! too careful is a nuisance, one that is too generous is a bill.

use loopwright_core::budget::Tokens;
use loopwright_core::units::Usd;

/// Millionths of a dollar per token: input, output, cache read, cache write.
const DEAREST: [u64; 4] = [15, 75, 2, 19];

/// The price of tokens at the dearest known rate.
#[must_use]
pub fn dearest(tokens: Tokens) -> Usd {
    let counts = [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write];
    let sum = counts
        .into_iter()
        .zip(DEAREST)
        .fold(0_u64, |sum, (count, rate)| sum.saturating_add(count.saturating_mul(rate)));
    Usd(sum)
}
