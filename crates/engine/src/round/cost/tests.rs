//! Free models and free providers: what a start reserves, and the most that an estimate may charge.

use super::*;
use loopwright_core::config::ModelPrice;
use std::collections::BTreeMap;

const SHARE: Reservation = Reservation { tokens: 1000, usd: Usd(830_000) };

fn free_model() -> ModelPrices {
    let free = ModelPrice { input: Usd(0), output: Usd(0), cache_read: Usd(0), cache_write: Usd(0) };
    ModelPrices::new(BTreeMap::from([("small-model".to_owned(), free)])).with_unmetered(["house".to_owned()])
}

#[test]
fn start_reserves_no_money_if_its_providers_are_not_metered_or_its_model_costs_nothing() {
    let known = ["anthropic", "house"];
    let agent = |provider: &str, model: Option<&str>| AgentSpec {
        provider: Some(provider.to_owned()),
        model: model.map(str::to_owned),
        ..AgentSpec::new(AgentUse::Claude)
    };
    for (provider, model, usd) in [
        ("anthropic", Some("small-model"), Usd(0)),
        ("anthropic", Some("house/small-model"), Usd(0)),
        ("anthropic", Some("claude-opus-5-5"), SHARE.usd),
        ("anthropic", Some("nobody"), SHARE.usd),
        ("anthropic", Some(""), SHARE.usd),
        ("anthropic", None, SHARE.usd),
        ("house", Some("claude-opus-5-5"), Usd(0)),
        ("house", None, Usd(0)),
    ] {
        let reserved = reserved_share(SHARE, &free_model(), &agent(provider, model), &known);
        assert_eq!(reserved, Reservation { usd, ..SHARE }, "{provider}/{model:?}");
    }
}

/// The charge for an answer of this model that was cut before its usage report.
fn estimated(model: &str, reserved: Usd) -> Usd {
    let tokens = Tokens { output: 100_000, ..Tokens::default() };
    let mut seen = UsageCount::default();
    seen.guessed.push(ModelTokens::charged(model, tokens));
    seen.unclear += 1;
    let share = StartShare { reserved: Reservation { usd: reserved, ..SHARE }, most: SHARE };
    counted(&free_model(), AgentUsage::Unknown, &[], &seen, share, 1).spend.usd
}

#[test]
fn estimate_is_capped_by_the_share_also_if_no_money_was_reserved() {
    let guess = ModelPrices::default().cost_of("nobody", Tokens { output: 100_000, ..Tokens::default() });
    assert!(guess > SHARE.usd, "{guess:?}");
    for reserved in [SHARE.usd, Usd(0)] {
        assert_eq!(estimated("nobody", reserved), SHARE.usd, "{reserved:?}");
        assert_eq!(estimated("small-model", reserved), Usd(0), "{reserved:?}");
    }
}

#[test]
fn unknown_usage_of_a_free_start_costs_nothing_and_what_was_seen_of_another_model_is_charged() {
    let share = StartShare { reserved: Reservation { usd: Usd(0), ..SHARE }, most: SHARE };
    let charge = |seen: &UsageCount| counted(&free_model(), AgentUsage::Unknown, &[], seen, share, 1).spend;
    assert_eq!((charge(&UsageCount::default()).usd, charge(&UsageCount::default()).known), (Usd(0), SpendKnown::No));
    let tokens = Tokens { output: 100_000, ..Tokens::default() };
    let mut seen = UsageCount::default();
    seen.models.push(ModelTokens::charged("nobody", tokens));
    seen.reported += 1;
    assert_eq!(charge(&seen).usd, free_model().cost_of("nobody", tokens));
}

#[test]
fn model_that_the_agent_does_not_know_costs_what_the_requests_named() {
    let tokens = Tokens { output: 1_000, ..Tokens::default() };
    let seen = [ModelTokens::charged("claude-opus-5-5", tokens)];
    let prices = ModelPrices::default();
    let charge =
        |model: &str, seen: &[ModelTokens]| price_of(&prices, &[ModelTokens::charged(model, tokens)], seen, tokens);
    let (opus, haiku) = (prices.cost_of("claude-opus-5-5", tokens), prices.cost_of("claude-haiku-4-5", tokens));
    assert_eq!(charge("unknown", &seen), opus);
    assert_eq!(charge("claude-haiku-4-5", &seen), haiku);
    assert_eq!(charge("unknown", &[]), prices.cost_of("", tokens));
    let asked = [seen[0].clone(), ModelTokens::charged("unknown", tokens)];
    assert_eq!(charge("unknown", &asked), prices.cost_of("", tokens));
}
