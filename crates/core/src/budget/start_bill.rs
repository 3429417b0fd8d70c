//! The bill of one start of an agent: the agent, and the cost by model. The lines of a bill always add up to its sum.

use super::{CountedUsage, ModelSpend, Reservation, Spend, SpendKnown, Tokens};
use crate::spec::Role;
use crate::units::Usd;
use std::collections::BTreeMap;

/// The cost of one start of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct StartBill {
    /// Its role.
    pub role: Role,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The agent's name.
    pub agent: String,
    /// The day that the cost counts against, `YYYY-MM-DD`: the day of the start. `None` in old records: the day of the
    /// round.
    pub day: Option<String>,
    /// The day of its loop, in the loop's zone, if it is another one.
    pub loop_day: Option<String>,
    /// The cookie of the start.
    pub cookie: String,
    /// The amount that was reserved for it and is released.
    pub reserved: Reservation,
    /// The total cost.
    pub spend: Spend,
    /// The same by model, as far as the agent reported it.
    pub models: Vec<ModelSpend>,
    /// The source of these counts.
    pub counted: CountedUsage,
}

impl StartBill {
    /// One line for each model, and one without a name for the rest. Usage that was not reported, and lines that exceed
    /// the sum, become one line without a name: the sum is authoritative.
    #[must_use]
    pub fn lines(&self) -> Vec<ModelSpend> {
        let mut lines: BTreeMap<&str, (Tokens, u64)> = BTreeMap::new();
        for part in &self.models {
            let line = lines.entry(&part.model).or_default();
            *line = (line.0.plus(part.tokens), line.1.saturating_add(part.usd.0));
        }
        let named = lines
            .values()
            .fold((Tokens::default(), 0_u64), |sum, line| (sum.0.plus(line.0), sum.1.saturating_add(line.1)));
        let all = self.spend.tokens;
        let fits = all.less(named.0).plus(named.0) == all && named.1 <= self.spend.usd.0;
        if self.spend.known == SpendKnown::No || lines.is_empty() || !fits {
            return vec![self.line("", all, self.spend.usd.0)];
        }
        let rest = (all.less(named.0), self.spend.usd.0 - named.1);
        if rest != (Tokens::default(), 0) {
            let line = lines.entry("").or_default();
            *line = (line.0.plus(rest.0), line.1.saturating_add(rest.1));
        }
        lines.into_iter().map(|(model, (tokens, usd))| self.line(model, tokens, usd)).collect()
    }

    fn line(&self, model: &str, tokens: Tokens, usd: u64) -> ModelSpend {
        ModelSpend { model: model.to_owned(), tokens, usd: Usd(usd), known: self.spend.known }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: u64) -> Tokens {
        Tokens { input, ..Tokens::default() }
    }

    fn bill(input: u64, usd: u64, known: SpendKnown, models: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
        let spend = Spend { tokens: tokens(input), usd: Usd(usd), wall_ms: 1, known };
        let model = |(name, input, usd): &(&str, u64, u64)| ModelSpend {
            model: (*name).to_owned(),
            tokens: tokens(*input),
            usd: Usd(*usd),
            known: SpendKnown::Yes,
        };
        let models = models.iter().map(model).collect();
        let bill = StartBill {
            role: Role::Maker,
            attempt: 1,
            agent: "a".into(),
            day: None,
            loop_day: None,
            cookie: String::new(),
            reserved: Reservation::default(),
            spend,
            models,
            counted: CountedUsage::default(),
        };
        bill.lines().into_iter().map(|line| (line.model, line.tokens.input, line.usd.0)).collect()
    }

    #[test]
    fn lines_add_up_to_the_sum_whatever_was_reported() {
        let line = |model: &str, input, usd| (model.to_owned(), input, usd);
        let table = [
            (bill(9, 90, SpendKnown::Yes, &[]), vec![line("", 9, 90)]),
            (bill(9, 90, SpendKnown::Yes, &[("b", 4, 40), ("a", 5, 50)]), vec![line("a", 5, 50), line("b", 4, 40)]),
            (bill(9, 90, SpendKnown::Yes, &[("a", 4, 40), ("a", 1, 10)]), vec![line("", 4, 40), line("a", 5, 50)]),
            (bill(9, 90, SpendKnown::No, &[("a", 9, 90)]), vec![line("", 9, 90)]),
            (bill(9, 90, SpendKnown::Yes, &[("a", 10, 90)]), vec![line("", 9, 90)]),
            (bill(9, 90, SpendKnown::Yes, &[("a", 9, 91)]), vec![line("", 9, 90)]),
            (bill(0, 0, SpendKnown::Yes, &[]), vec![line("", 0, 0)]),
        ];
        for (lines, expected) in table {
            assert_eq!(lines, expected);
        }
    }
}
