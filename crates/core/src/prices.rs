//! Token prices. A model without a price costs as much as the most expensive one: a budget that is too strict is a
//! nuisance, a budget that is too generous costs money.
//!
//! The built-in table is `prices.json` beside this file: list prices with their date. A person's own prices override
//! it.

use crate::budget::{ModelTokens, Tokens};
use crate::config::ModelPrice;
use crate::units::Usd;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

/// Prices of models, in dollars per million tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelPrices {
    own: BTreeMap<String, ModelPrice>,
    dearest: ModelPrice,
    /// Providers whose answers cost nothing.
    unmetered: BTreeSet<String>,
    is_free: bool,
}

/// The source of a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriceSource {
    /// The person's own price.
    Own,
    /// The built-in table.
    List,
    /// Nothing that this start can reach costs anything.
    Unmetered,
    /// The model is unknown: the highest price.
    Dearest,
}

#[derive(Deserialize)]
struct Table {
    as_of: String,
    models: HashMap<String, Row>,
    aliases: HashMap<String, String>,
}

#[derive(Deserialize)]
struct Row {
    input: Usd,
    output: Usd,
    cache_read: Option<Usd>,
    cache_write: Option<Usd>,
}

impl Row {
    /// Cached input without a published price costs as much as fresh input.
    fn price(&self) -> ModelPrice {
        ModelPrice {
            input: self.input,
            output: self.output,
            cache_read: self.cache_read.unwrap_or(self.input),
            cache_write: self.cache_write.unwrap_or(self.input),
        }
    }
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    serde_json::from_str(include_str!("prices.json")).expect("the table in this repository is read by a test")
});

/// The day on which the built-in list prices were collected, `YYYY-MM-DD`.
#[must_use]
pub fn prices_date() -> &'static str {
    &TABLE.as_of
}

impl Default for ModelPrices {
    fn default() -> Self {
        Self::new(BTreeMap::new())
    }
}

impl ModelPrices {
    /// The built-in table with a person's own prices on top.
    #[must_use]
    pub fn new(own: BTreeMap<String, ModelPrice>) -> Self {
        let own: BTreeMap<_, _> = own.into_iter().map(|(name, price)| (name.to_lowercase(), price)).collect();
        let dearest = TABLE.models.values().map(Row::price).chain(own.values().copied()).fold(NOTHING, dearer);
        Self { own, dearest, unmetered: BTreeSet::new(), is_free: false }
    }

    /// The same prices, with these providers at no cost.
    #[must_use]
    pub fn with_unmetered(mut self, providers: impl IntoIterator<Item = String>) -> Self {
        self.unmetered.extend(providers.into_iter().map(|name| name.to_lowercase()));
        self
    }

    /// A table in which every model costs nothing.
    #[must_use]
    pub fn free() -> Self {
        Self { is_free: true, ..Self::default() }
    }

    /// Whether the models of this provider cost nothing.
    #[must_use]
    pub fn is_unmetered(&self, provider: &str) -> bool {
        self.unmetered.contains(&provider.to_lowercase())
    }

    /// Whether all tokens of this model cost nothing.
    #[must_use]
    pub fn is_free_of_charge(&self, model: &str) -> bool {
        self.price(model).0 == NOTHING
    }

    /// Every model with a price of its own: the person's, and the built-in ones that they do not replace, by name.
    #[must_use]
    pub fn listed(&self) -> BTreeMap<&str, (ModelPrice, PriceSource)> {
        let list = TABLE.models.iter().map(|(name, row)| (name.as_str(), (row.price(), PriceSource::List)));
        let own = self.own.iter().map(|(name, price)| (name.as_str(), (*price, PriceSource::Own)));
        list.chain(own).collect()
    }

    /// The price of a model that no table contains: the highest one, for each kind of token.
    #[must_use]
    pub fn dearest(&self) -> ModelPrice {
        self.dearest
    }

    /// The cost of these tokens of a model, rounded up. An empty or unknown name costs as much as the most expensive
    /// model.
    #[must_use]
    pub fn cost_of(&self, model: &str, tokens: Tokens) -> Usd {
        cost(&self.price(model).0, tokens)
    }

    /// The cost of the tokens of one model: zero if a provider that is not metered served them.
    #[must_use]
    pub fn cost_of_used(&self, used: &ModelTokens) -> Usd {
        if used.is_free { Usd(0) } else { self.cost_of(&used.model, used.tokens) }
    }

    /// The price of a model, and its source. The beginning of a name says nothing about the provider that is asked, so an
    /// unmetered provider in it does not make the model free. The lookup tries the whole name first, then the name without its provider,
    /// then without its date, and last the longest listed name that it begins with. At each step a person's own price
    /// comes before the table's.
    #[must_use]
    pub fn price(&self, model: &str) -> (ModelPrice, PriceSource) {
        let name = model.trim().to_lowercase();
        if self.is_free {
            return (NOTHING, PriceSource::Unmetered);
        }
        let bare = name.rsplit('/').next().unwrap_or_default();
        // Claude Code marks a longer window after the name: `sonnet[1m]`.
        let bare = bare.split('[').next().unwrap_or_default();
        let cloud = without_cloud(bare);
        let tries = [name.as_str(), bare, undated(bare), cloud, undated(cloud)];
        let found = tries.into_iter().find_map(|name| self.exactly(name));
        found.or_else(|| self.by_beginning(undated(cloud))).unwrap_or((self.dearest, PriceSource::Dearest))
    }

    fn exactly(&self, name: &str) -> Option<(ModelPrice, PriceSource)> {
        if let Some(price) = self.own.get(name) {
            return Some((*price, PriceSource::Own));
        }
        let name = TABLE.aliases.get(name).map_or(name, String::as_str);
        // An alias also finds a person's price for the model it stands for.
        let own = self.own.get(name).map(|price| (*price, PriceSource::Own));
        own.or_else(|| TABLE.models.get(name).map(|row| (row.price(), PriceSource::List)))
    }

    fn by_beginning(&self, name: &str) -> Option<(ModelPrice, PriceSource)> {
        let own = self.own.iter().filter(|(known, _)| is_variant(name, known, |word| !DEARER.contains(&word)));
        let own = own.map(|(known, price)| (known.as_str(), *price, PriceSource::Own));
        let list = TABLE.models.iter().filter(|(known, _)| is_variant(name, known, is_harmless));
        let list = list.map(|(known, row)| (known.as_str(), row.price(), PriceSource::List));
        // Of equal names the person's own is the last and wins.
        list.chain(own).max_by_key(|(known, ..)| known.len()).map(|(_, price, source)| (price, source))
    }
}

const NOTHING: ModelPrice = ModelPrice { input: Usd(0), output: Usd(0), cache_read: Usd(0), cache_write: Usd(0) };

fn dearer(a: ModelPrice, b: ModelPrice) -> ModelPrice {
    ModelPrice {
        input: a.input.max(b.input),
        output: a.output.max(b.output),
        cache_read: a.cache_read.max(b.cache_read),
        cache_write: a.cache_write.max(b.cache_write),
    }
}

/// Makers of models, as Bedrock writes them before a name.
const MAKERS: &str =
    "anthropic openai google meta mistral deepseek qwen amazon cohere moonshotai minimax zai nvidia writer";

/// A name of Bedrock without region, maker and revision: `us.anthropic.NAME-v1:0`. Any other name stays.
fn without_cloud(name: &str) -> &str {
    let mut parts = name.splitn(3, '.');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_maker = |word: &str| MAKERS.split_whitespace().any(|known| known == word);
    let is_region = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let rest = if is_maker(first) {
        name.get(first.len() + 1..)
    } else if is_region && is_maker(second) {
        parts.next()
    } else {
        None
    };
    let Some(rest) = rest else { return name };
    let rest = rest.rsplit_once(':').filter(|(_, number)| is_number(number)).map_or(rest, |(rest, _)| rest);
    rest.rsplit_once("-v").filter(|(_, number)| !number.is_empty() && is_number(number)).map_or(rest, |(rest, _)| rest)
}

/// A name without the date at its end: `-20260101`, `-2026-01-01`, `@20260101`, `-latest`.
fn undated(name: &str) -> &str {
    if let Some(bare) = name.strip_suffix("-latest") {
        return bare;
    }
    let is_date = |text: &str| text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((bare, date)) = name.rsplit_once(['-', '@', ':'])
        && is_date(date)
    {
        return bare;
    }
    let mut parts = name.rsplitn(4, '-');
    let date = [parts.next(), parts.next(), parts.next()].map(Option::unwrap_or_default);
    let numbers = date
        .iter()
        .zip([2, 2, 4])
        .all(|(part, size)| part.len() == size && part.bytes().all(|byte| byte.is_ascii_digit()));
    match parts.next() {
        Some(bare) if numbers => bare,
        _ => name,
    }
}

/// Suffixes that make a more expensive model of the one that a person priced.
const DEARER: [&str; 3] = ["pro", "fast", "ultra"];

/// Suffixes of a listed name that do not make the model more expensive. Others may: models for images and sound, models
/// that search, and faster models cost many times as much as the model whose name they begin with.
const HARMLESS: &str = "preview exp experimental beta latest free chat codex thinking minimal low medium high xhigh \
    customtools lite mini nano small";

fn is_harmless(word: &str) -> bool {
    HARMLESS.split_whitespace().any(|known| known == word) || is_number(word)
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a name is a listed one with suffixes that do not affect the price. A further number is another version with
/// an unknown price.
fn is_variant(name: &str, known: &str, does_not_matter: impl Fn(&str) -> bool) -> bool {
    let Some(rest) = name.strip_prefix(known) else { return false };
    let Some(addition) = rest.strip_prefix(['-', ':', '@']) else { return rest.is_empty() };
    let first = addition.split(['-', ':', '@', '.']).next().unwrap_or_default();
    !is_number(first) && addition.split(['-', ':', '@', '.']).all(does_not_matter)
}

fn cost(price: &ModelPrice, tokens: Tokens) -> Usd {
    let parts = [
        (tokens.input, price.input),
        (tokens.output, price.output),
        (tokens.cache_read, price.cache_read),
        (tokens.cache_write, price.cache_write),
    ];
    let sum: u128 = parts.into_iter().map(|(count, rate)| u128::from(count) * u128::from(rate.0)).sum();
    Usd(u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(input: u64) -> ModelPrice {
        ModelPrice { input: Usd(input), output: Usd(1), cache_read: Usd(1), cache_write: Usd(1) }
    }

    #[test]
    fn names_are_found_in_the_spelling_of_agents() {
        let prices = ModelPrices::default();
        let table = [
            ("claude-opus-5-5", 4.0, PriceSource::List),
            ("anthropic/claude-opus-5-5", 4.0, PriceSource::List),
            ("openrouter/anthropic/claude-opus-5-5", 4.0, PriceSource::List),
            ("us.anthropic.claude-opus-5-5-20260101-v1:0", 4.0, PriceSource::List),
            ("anthropic.claude-opus-5-5-v1:0", 4.0, PriceSource::List),
            (
                "arn:aws:bedrock:us-east-1:1:inference-profile/global.anthropic.claude-opus-5-5-v1:0",
                4.0,
                PriceSource::List,
            ),
            ("us.nobody.claude-opus-5-5", 30.0, PriceSource::Dearest),
            ("claude-sonnet-4-5-20250929", 3.0, PriceSource::List),
            ("claude-sonnet-4-5@20250929", 3.0, PriceSource::List),
            ("gpt-5.4-2026-03-05", 2.5, PriceSource::List),
            ("claude-3-5-haiku-latest", 0.8, PriceSource::List),
            ("sonnet[1m]", 2.0, PriceSource::List),
            ("Opus", 4.0, PriceSource::List),
            ("haiku", 0.5, PriceSource::List),
            ("gemini-3.1-pro-preview", 2.0, PriceSource::List),
            ("gemini-2.5-flash-lite-preview-09-2025", 0.1, PriceSource::List),
            ("gpt-5.1-codex-mini-high", 0.25, PriceSource::List),
            ("gpt-5.5-pro", 30.0, PriceSource::List),
            ("gpt-5.4-pro", 30.0, PriceSource::Dearest),
            ("gpt-5.4-fast", 30.0, PriceSource::Dearest),
            ("o3-deep-research", 30.0, PriceSource::Dearest),
            ("gemini-3-pro-image-preview", 30.0, PriceSource::Dearest),
            ("gemini-2.5-flash-preview-tts", 30.0, PriceSource::Dearest),
            ("gpt-4o-audio-preview-2025-06-03", 30.0, PriceSource::Dearest),
            ("claude-opus-5-5-fast", 30.0, PriceSource::Dearest),
            ("gpt-4.1-nano-2025-04-14", 2.0, PriceSource::List),
            ("gpt-5.9", 30.0, PriceSource::Dearest),
            ("claude-opus-5-9", 30.0, PriceSource::Dearest),
            ("gpt-50", 30.0, PriceSource::Dearest),
            ("my-model", 30.0, PriceSource::Dearest),
            ("", 30.0, PriceSource::Dearest),
        ];
        for (name, dollars, source) in table {
            let (found, from) = prices.price(name);
            assert_eq!((found.input.dollars(), from), (dollars, source), "{name}");
        }
    }

    #[test]
    fn own_prices_take_precedence_and_count_for_the_highest_price() {
        let own = [("claude-opus-5-5".to_owned(), price(7)), ("my-model".to_owned(), price(99_000_000))];
        let prices = ModelPrices::new(own.into());
        for (name, input) in [
            ("claude-opus-5-5", 7),
            ("anthropic/claude-opus-5-5-20260901", 7),
            ("opus", 7),
            ("claude-opus-5-5-thinking", 7),
            ("claude-opus-5-5-by-our-gateway", 7),
            ("claude-opus-5-5-fast", 99_000_000),
            ("my-model", 99_000_000),
            ("nobody", 99_000_000),
        ] {
            assert_eq!(prices.price(name).0.input, Usd(input), "{name}");
        }
        assert_eq!(prices.price("nobody").0.output, Usd(180_000_000), "the dearest is taken part by part");
    }

    #[test]
    fn only_tokens_that_an_unmetered_provider_served_cost_nothing_whatever_the_name() {
        let prices = ModelPrices::default().with_unmetered(["house".to_owned()]);
        let tokens = Tokens { input: 1_000_000, ..Tokens::default() };
        for (name, dollars) in [("house/x", 30), ("House/", 30), ("house/claude-opus-5-5", 4), ("house", 30)] {
            assert_eq!(prices.cost_of(name, tokens), Usd(dollars * 1_000_000), "{name}");
            let used = ModelTokens::charged(name, tokens);
            assert_eq!(prices.cost_of_used(&used), Usd(dollars * 1_000_000), "{name}");
            assert_eq!(prices.cost_of_used(&ModelTokens { is_free: true, ..used }), Usd(0), "{name}");
        }
        assert!(prices.is_unmetered("house") && !prices.is_unmetered("anthropic"));
    }

    #[test]
    fn listed_prices_are_the_persons_before_the_tables() {
        let prices = ModelPrices::new([("gpt-5.5".to_owned(), price(7)), ("mine".to_owned(), price(8))].into());
        let listed = prices.listed();
        assert_eq!(listed["gpt-5.5"], (price(7), PriceSource::Own));
        assert_eq!(listed["mine"], (price(8), PriceSource::Own));
        assert_eq!(listed["gpt-5.4"].1, PriceSource::List);
        assert_eq!(listed.len(), TABLE.models.len() + 1);
    }

    #[test]
    fn every_price_of_the_table_is_plausible() {
        for (name, row) in &TABLE.models {
            let price = row.price();
            assert!(price.input.0 > 0 && price.output > price.input, "{name}");
            assert!(price.cache_read <= price.input && price.cache_write <= Usd(price.input.0 * 2), "{name}");
            assert_eq!(*name, name.to_lowercase());
        }
        for (alias, model) in &TABLE.aliases {
            assert!(TABLE.models.contains_key(model), "{alias}");
        }
        assert_eq!(undated(&format!("x-{}", prices_date())), "x", "the date is a date");
    }

    #[test]
    fn fractions_of_a_millionth_are_rounded_up_and_nothing_overflows() {
        let prices = ModelPrices::default();
        let one = Tokens { cache_read: 1, ..Tokens::default() };
        assert_eq!(prices.cost_of("gpt-6-luna", one), Usd(1));
        let most = Tokens { input: u64::MAX, output: u64::MAX, cache_read: u64::MAX, cache_write: u64::MAX };
        assert_eq!(prices.cost_of("", most), Usd(u64::MAX));
    }
}
