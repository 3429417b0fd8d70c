//! Two counts of one start of an agent: the agent's own report, and the proxy's count from the answers of the models.
//! This module decides which of them is charged; missing reports never count as zero.

use super::{Reservation, TOKENS_BELIEVED, Tokens};
use crate::units::Usd;
use serde::{Deserialize, Serialize};

/// The source of the count that is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountedBy {
    /// The agent's own, or none: see whether the spend is known.
    #[default]
    Agent,
    /// The proxy's, from the answers of the models.
    Proxy,
}

/// Both counts of one start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CountedUsage {
    /// The source of the charged count.
    pub by: CountedBy,
    /// The tokens that the agent reported; `None` if it reported nothing plausible.
    #[serde(rename = "told")]
    pub reported: Option<Tokens>,
    /// The tokens that the proxy counted; `None` if it saw no answer.
    pub seen: Option<Tokens>,
    /// Answers of unknown cost: interrupted, or without a usage report.
    pub unclear: u32,
}

/// One count with its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PricedTokens {
    /// Tokens.
    pub tokens: Tokens,
    /// Their price.
    pub usd: Usd,
}

impl PricedTokens {
    /// Its money and its tokens.
    #[must_use]
    pub fn amount(self) -> Reservation {
        Reservation { tokens: self.tokens.total(), usd: self.usd }
    }

    /// Returns the count if it is plausible; see [`super::spend_from_usage`] for other counts.
    fn if_plausible(self) -> Option<Self> {
        (self.tokens.total() <= TOKENS_BELIEVED).then_some(self)
    }

    /// Whether the proxy's count takes precedence over the agent's: it has more tokens, or it is the same sum in the
    /// provider's own division (some agents report all input as fresh) or at the price of the model that the requests
    /// named (some agents do not know their model).
    fn takes_precedence_over(self, reported: Self) -> bool {
        let same_sum = self.tokens.total() == reported.tokens.total() && self != reported;
        same_sum || self.tokens.total() > reported.tokens.total()
    }
}

/// The amount that a start is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeBasis {
    /// The agent's report.
    Reported,
    /// The proxy's count.
    Counted,
    /// This amount: both counts, and an estimate for the answers that did not report their usage.
    Estimated(Reservation),
    /// The reservation, or this amount if it is higher: the full usage is unknown.
    AtLeast(Reservation),
}

impl CountedUsage {
    /// Decides between the two counts. The larger count is charged as a whole, because figures of two counts cannot be
    /// mixed; of two equal sums, the one in the provider's own division is charged. An answer that did not report its
    /// usage adds `guessed`, the estimate for such answers by their text, unless the agent reports more than that. An
    /// implausible count is ignored, does not reduce the other, and leaves the usage unknown.
    #[must_use]
    pub fn decide(
        reported: Option<PricedTokens>,
        seen: Option<PricedTokens>,
        unclear: u32,
        guessed: Reservation,
    ) -> (Self, ChargeBasis) {
        let doubted = u32::from(seen.is_some_and(|seen| seen.if_plausible().is_none()));
        let (reported, seen) =
            (reported.and_then(PricedTokens::if_plausible), seen.and_then(PricedTokens::if_plausible));
        let unclear = unclear.saturating_add(doubted);
        let more_seen = match (reported, seen) {
            (Some(reported), Some(seen)) => seen.takes_precedence_over(reported),
            (None, seen) => seen.is_some(),
            (Some(_), None) => false,
        };
        let by = if more_seen { CountedBy::Proxy } else { CountedBy::Agent };
        let tokens = |count: Option<PricedTokens>| count.map(|count| count.tokens);
        let counted = Self { by, reported: tokens(reported), seen: tokens(seen), unclear };
        let amount = |count: Option<PricedTokens>| count.map(PricedTokens::amount).unwrap_or_default();
        let (a, b) = (amount(reported), amount(seen));
        let at_least = b.plus(guessed);
        let covers = doubted == 0 && by == CountedBy::Agent && a.tokens > at_least.tokens && a.usd >= at_least.usd;
        let larger =
            |a: Reservation, b: Reservation| Reservation { tokens: a.tokens.max(b.tokens), usd: a.usd.max(b.usd) };
        let charge = match (doubted > 0, unclear > 0 && !covers, reported.is_some() || seen.is_some(), by) {
            (true, ..) => ChargeBasis::AtLeast(larger(a, b)),
            (false, true, ..) => ChargeBasis::Estimated(larger(a, at_least)),
            (false, false, false, _) => ChargeBasis::AtLeast(Reservation::default()),
            (false, false, true, CountedBy::Agent) => ChargeBasis::Reported,
            (false, false, true, CountedBy::Proxy) => ChargeBasis::Counted,
        };
        (counted, charge)
    }

    /// A note for people: counts that differ, and answers of unknown cost.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let total = |count: Option<Tokens>| count.map(Tokens::total);
        let differs = match (total(self.reported), total(self.seen)) {
            (Some(reported), Some(seen)) if reported != seen => {
                let whose = if self.by == CountedBy::Proxy { "the proxy's" } else { "its own" };
                Some(format!(
                    "reported {reported} tokens, but the proxy counted {seen}; the larger count is charged, {whose}"
                ))
            }
            _ => None,
        };
        let unclear = match self.unclear {
            0 => None,
            1 => Some("one answer of its model did not report its cost".to_owned()),
            more => Some(format!("{more} answers of its model did not report their cost")),
        };
        let parts: Vec<String> = differs.into_iter().chain(unclear).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn priced(count: Option<(u64, u64)>) -> Option<PricedTokens> {
        count.map(|(input, usd)| PricedTokens { tokens: Tokens { input, ..Tokens::default() }, usd: Usd(usd) })
    }

    #[test]
    fn larger_count_is_charged_and_unreported_answers_are_estimated() {
        let estimated = |tokens, usd| ChargeBasis::Estimated(Reservation { tokens, usd: Usd(usd) });
        // reported (tokens, micros), seen, unclear answers
        for (reported, seen, unclear, expected) in [
            (None, None, 0, ChargeBasis::AtLeast(Reservation::default())),
            (None, None, 2, estimated(0, 0)),
            (None, Some((10, 7)), 0, ChargeBasis::Counted),
            (None, Some((0, 0)), 0, ChargeBasis::Counted),
            (None, Some((10, 7)), 1, estimated(10, 7)),
            (Some((10, 7)), None, 0, ChargeBasis::Reported),
            (Some((10, 7)), None, 1, ChargeBasis::Reported),
            (Some((0, 0)), None, 1, estimated(0, 0)),
            (Some((10, 7)), Some((10, 7)), 0, ChargeBasis::Reported),
            (Some((10, 7)), Some((11, 8)), 0, ChargeBasis::Counted),
            (Some((10, 7)), Some((9, 8)), 0, ChargeBasis::Reported),
            (Some((10, 7)), Some((9, 6)), 0, ChargeBasis::Reported),
            (Some((10, 7)), Some((9, 6)), 1, ChargeBasis::Reported),
            (Some((10, 7)), Some((10, 7)), 1, estimated(10, 7)),
        ] {
            let (_, charge) = CountedUsage::decide(priced(reported), priced(seen), unclear, Reservation::default());
            assert_eq!(charge, expected, "{reported:?} {seen:?} {unclear}");
        }
    }

    #[test]
    fn reporting_a_little_more_than_was_seen_does_not_cover_unknown_answers() {
        let guessed = Reservation { tokens: 100, usd: Usd(50) };
        let estimated = |tokens, usd| ChargeBasis::Estimated(Reservation { tokens, usd: Usd(usd) });
        for (reported, expected) in [
            ((11, 8), estimated(110, 57)),
            ((110, 57), estimated(110, 57)),
            ((111, 56), estimated(111, 57)),
            // Many tokens of a cheap model.
            ((1000, 6), estimated(1000, 57)),
            ((111, 57), ChargeBasis::Reported),
        ] {
            let (_, charge) = CountedUsage::decide(priced(Some(reported)), priced(Some((10, 7))), 1, guessed);
            assert_eq!(charge, expected, "{reported:?}");
        }
    }

    #[test]
    fn implausible_report_of_an_agent_does_not_hide_what_was_seen() {
        let absurd = Some((TOKENS_BELIEVED + 1, u64::MAX));
        let decide = |reported, seen| CountedUsage::decide(priced(reported), priced(seen), 0, Reservation::default());
        let (counted, charge) = decide(absurd, Some((300_000, 7)));
        assert_eq!((charge, counted.by, counted.reported), (ChargeBasis::Counted, CountedBy::Proxy, None));
        let (counted, charge) = decide(Some((10, 7)), absurd);
        let least = ChargeBasis::AtLeast(Reservation { tokens: 10, usd: Usd(7) });
        assert_eq!((charge, counted.seen, counted.unclear), (least, None, 1));
    }

    #[test]
    fn of_two_equal_sums_the_one_that_the_provider_divided_is_charged_and_nothing_is_noted() {
        let reported = PricedTokens { tokens: Tokens { input: 100, ..Tokens::default() }, usd: Usd(100) };
        let seen = PricedTokens { tokens: Tokens { input: 20, cache_read: 80, ..Tokens::default() }, usd: Usd(28) };
        let (counted, charge) = CountedUsage::decide(Some(reported), Some(seen), 0, Reservation::default());
        assert_eq!((charge, counted.by, counted.note()), (ChargeBasis::Counted, CountedBy::Proxy, None));
    }

    #[test]
    fn of_two_equal_counts_the_one_at_the_price_of_the_asked_model_is_charged() {
        for usd in [6, 8] {
            let decided =
                CountedUsage::decide(priced(Some((10, 7))), priced(Some((10, usd))), 0, Reservation::default());
            assert_eq!((decided.1, decided.0.note()), (ChargeBasis::Counted, None), "{usd}");
        }
    }

    #[test]
    fn difference_and_unknown_answers_are_noted_and_agreement_is_not() {
        let decide = |reported, seen, unclear| CountedUsage::decide(reported, seen, unclear, Reservation::default());
        let note = |reported, seen, unclear| decide(priced(reported), priced(seen), unclear).0.note();
        assert_eq!(note(Some((10, 7)), Some((10, 7)), 0), None);
        assert_eq!(note(None, Some((10, 7)), 0), None);
        let differs = note(Some((10, 7)), Some((11, 8)), 1).expect("a note");
        assert_eq!(
            differs,
            "reported 10 tokens, but the proxy counted 11; the larger count is charged, the proxy's; \
             one answer of its model did not report its cost"
        );
    }
}
