//! Providers of the user's own, with the real agents: without a key and without cost, by role, and as a fallback.

use crate::world::{MEND, World, end_of, tokens};
use loopwright_testkit::agents;
use serde_json::{Value, json};

/// Headers in which a key could be sent.
const KEYS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];

/// A world whose loop names these agents, with these further providers at the model's address.
fn world(agent: &str, scenario: &str, maker: &str, checker: &str, providers: &[(&str, &str)]) -> Option<World> {
    let world = World::new(agent, agent, scenario)?;
    let url = format!("{}{}", world.model.url(), end_of(agent));
    providers.iter().for_each(|(name, more)| world.add_provider(&format!("{name}: {{ url: {url}{more} }}")));
    world.edit_config(|text| format!("provider_wait: 1s\n{text}"));
    world.write_loop(maker, checker, "budget: { day: { usd: 0.01 } }\n");
    Some(world)
}

fn served_tokens(counter: &Value) -> loopwright_core::budget::Tokens {
    let models = counter["models"].as_object().expect("models");
    models.values().fold(Default::default(), |sum, counts| tokens(counts).plus(sum))
}

/// A whole round at a provider that needs no key: nothing is charged or reserved, all tokens are counted, and no request
/// has a key. The loop's day would have no room for the reservation of a provider that costs money.
fn costs_nothing(agent: &str) {
    let spec = format!("{{ use: {agent}, provider: house, model: house-model-7 }}");
    let Some(world) = world(agent, MEND, &spec, &spec, &[("house", ", metered: false")]) else { return };
    let ended = world.run();
    let details = || format!("{ended:#}\n{}", world.transcripts());
    assert_eq!(ended["outcome"], "escalated", "{}", details());
    assert_eq!(ended["spend"]["usd"], json!(0.0), "{}", details());
    let served = served_tokens(&world.model.counter());
    assert!(served.total() > 0);
    assert_eq!(tokens(&ended["spend"]["tokens"]), served, "{}", details());
    assert_eq!(ended["spend"]["basis"], "measured", "{}", details());
    let log = world.model.log();
    let models: Vec<&Value> = log.iter().filter(|one| one["answer"]["status"] == 200).collect();
    assert!(!models.is_empty());
    for request in models {
        let sent = request["headers"].as_object().expect("headers");
        let keys: Vec<_> = KEYS.iter().filter(|name| sent.contains_key(**name)).collect();
        assert!(keys.is_empty(), "{keys:?} in {request}");
    }
    let costs = world.env.loopwright_in(world.repo.path(), ["costs", "--by", "model", "--json"]).success().json();
    assert_eq!(costs["total"]["usd"], json!(0.0), "{costs:#}");
    assert_eq!(world.env.loopwright_in(world.repo.path(), ["verify", "--json"]).success().json()["ok"], true);
}

#[test]
fn claude_works_at_a_provider_without_key_and_cost() {
    costs_nothing("claude");
}

#[test]
fn codex_works_at_a_provider_without_key_and_cost() {
    costs_nothing("codex");
}

#[test]
fn opencode_works_at_a_provider_without_key_and_cost() {
    costs_nothing("opencode");
}

#[test]
fn gemini_works_at_a_provider_without_key_and_cost() {
    costs_nothing("gemini");
}

#[test]
fn fallback_reaches_the_same_model_at_another_provider() {
    // `down` is a port at which nothing listens.
    let Some(_) = agents::require_program("claude") else { return };
    let maker = "{ use: claude, provider: down, model: claude-opus-5-5, fallback: [claude@spare/claude-opus-5-5] }";
    let checker = "{ use: claude, provider: spare, model: claude-opus-5-5 }";
    let Some(world) = world("claude", MEND, maker, checker, &[("spare", ", metered: false")]) else { return };
    world.add_provider("down: { url: 'http://127.0.0.1:9', metered: false }");
    let ended = world.run();
    let details = || format!("{ended:#}\n{}", world.transcripts());
    assert_eq!(ended["outcome"], "escalated", "{}", details());
    let reasons = ended["reasons"].to_string();
    assert!(reasons.contains("the provider `down` could not be reached"), "{}", details());
    assert!(reasons.contains("); continued with claude"), "{}", details());
    assert_eq!(ended["spend"]["usd"], json!(0.0), "{}", details());
}
