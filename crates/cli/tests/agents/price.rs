//! The same exchange of 1,000 tokens costs the same, whichever agent asks and however the loop names the model. Its price
//! is a fraction of the highest one, which a model without a known price would cost.

use crate::world::{World, in_micros, tokens};
use loopwright_core::prices::ModelPrices;
use serde_json::Value;

/// One exchange of 1,000 tokens. Gemini first asks another model which one it should ask.
const EXCHANGE: &str = "\
@ maker
usage input=900 output=100
say RESULT: there is nothing to do.

@ text \"complexity_score\"
answer {\"complexity_reasoning\": \"It is simple.\", \"complexity_score\": 10}
";

/// The price of every model of the built-in table, in dollars per million tokens: 1,000 tokens cost a cent.
const USUAL: u64 = 10;

/// A loop that only reports, with this agent, and prices of which all but one are equal.
fn world(agent: &str, spec: &str) -> Option<World> {
    let world = World::new(agent, agent, EXCHANGE)?;
    let price = |model: &str, price: u64| {
        format!("  {model}: {{ input: {price}, output: {price}, cache_read: {price}, cache_write: {price} }}\n")
    };
    let prices: String = ModelPrices::default().listed().keys().map(|model| price(model, USUAL)).collect::<String>()
        + &price("dearest-9", USUAL * 50);
    world.edit_config(|text| {
        let (before, _) = text.split_once("prices:\n").expect("prices come last");
        format!("{before}prices:\n{prices}")
    });
    world.repo.write(
        ".loopwright/loops/mend.md",
        format!(
            "---\nname: mend\nintent: Look at the sum.\nlevel: L1\ncheck: none\nagents: {{ maker: {spec} }}\n---\n# Maker\nLook.\n"
        ),
    );
    world.repo.commit("only look");
    Some(world)
}

/// Runs the exchange with each of these models. An empty name stands for none.
fn costs_a_cent(agent: &str, before: &str, names: &[&str]) {
    let model = |name: &&str| if name.is_empty() { String::new() } else { format!(", model: {name}") };
    for model in names.iter().map(model) {
        let spec = format!("{{ {before}{model} }}");
        let Some(world) = world(agent, &spec) else { return };
        let ended = world.run();
        let counter = world.model.counter();
        let details = || format!("{spec}\n{ended:#}\n{counter:#}\n{}", world.transcripts());
        assert_eq!(ended["outcome"], "reported", "{}", details());
        assert_eq!(exchanged(&world.model.log()), 1_000, "{}", details());
        // Requests of the agent's own, such as for a title, have the same price.
        let models = counter["models"].as_object().into_iter().flatten();
        let all: u64 = models.map(|(_, counts)| tokens(counts).total()).sum();
        assert_eq!(in_micros(&ended["spend"]["usd"]), all * USUAL, "{}", details());
        assert_eq!(tokens(&ended["spend"]["tokens"]).total(), all, "{}", details());
        assert_eq!(ended["spend"]["basis"], "measured", "{}", details());
    }
}

/// The tokens of the agent's work, without requests of its own beside it.
fn exchanged(log: &[Value]) -> u64 {
    let work = log.iter().filter(|one| one["answer"]["block"] == "maker");
    work.map(|one| tokens(&one["answer"]["usage"]).total()).sum()
}

#[test]
fn exchange_costs_the_same_however_claudes_model_is_named() {
    costs_a_cent("claude", "use: claude", &["", "claude-opus-5-5", "anthropic/claude-opus-5-5"]);
}

#[test]
fn exchange_costs_the_same_however_codexs_model_is_named() {
    costs_a_cent("codex", "use: codex", &["", "gpt-5.5", "openai/gpt-5.5"]);
}

#[test]
fn exchange_costs_the_same_however_geminis_model_is_named() {
    costs_a_cent("gemini", "use: gemini", &["", "gemini-2.5-pro", "google/gemini-2.5-pro"]);
}

#[test]
fn exchange_costs_the_same_however_opencodes_model_is_named() {
    costs_a_cent("opencode", "use: opencode", &["", "claude-opus-5-5", "anthropic/claude-opus-5-5"]);
}

/// Goose has no model of its own: see `check`.
#[test]
fn exchange_costs_the_same_however_gooses_model_is_named() {
    costs_a_cent("goose", "use: acp, run: [goose, acp, --with-builtin, developer]", &["gpt-5.5", "claude-opus-5-5"]);
}
