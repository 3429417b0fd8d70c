//! Spend: ceilings are hard, and unknown usage is charged as the reservation (family K).

use crate::stage::{FIX, PASS, Stage};

/// Two attempts and two roles: a start's share is a quarter.
const ROUND: &str = "budget: { round: { tokens: 1000, usd: 4 } }";

#[test]
fn h154_a_ceiling_crossed_mid_run_ends_the_maker() {
    let stage = Stage::new().with(ROUND);
    stage.maker(&format!("{FIX}usage input=900 output=200\nhang")).ends("over-budget", "ceiling");
}

#[test]
fn h154_a_ceiling_that_is_passed_at_the_end_has_the_same_code() {
    let stage = Stage::new().with(ROUND);
    stage.maker(&format!("{FIX}usage input=900 output=200")).ends("over-budget", "ceiling");
}

fn unknown(usage: &str) {
    let stage = Stage::new().with(ROUND).with("attempts: 2");
    let round = stage.maker(&format!("{FIX}{usage}")).ships();
    assert_eq!(round.json["spend"]["known"], false, "{}", round.story());
    assert_eq!(round.json["spend"]["tokens"]["input"], 250, "the reservation is charged: {}", round.story());
    assert_eq!(round.json["spend"]["usd"], 1.0, "{}", round.story());
}

#[test]
fn h155_no_usage_is_charged_as_the_reservation() {
    unknown("usage none");
}

#[test]
fn h155_usage_that_is_no_number_is_charged_as_the_reservation() {
    unknown("usage nan");
}

#[test]
fn h155_negative_and_overflowing_usage_is_charged_as_the_reservation() {
    unknown("usage negative");
    unknown("usage overflow");
}

#[test]
fn h155_usage_that_shrinks_is_charged_as_the_reservation() {
    unknown("usage input=200\nusage input=10");
}

#[test]
fn h155_a_command_that_asks_no_provider_costs_what_its_loop_says() {
    let stage = Stage::new().with(ROUND).with("attempts: 2");
    stage.loop_file("{ use: command, run: [sed, -i, \"s/- /+ /\", calc.sh], cost: 0.25 }");
    stage.repo.write(".loopwright/s.script", PASS);
    stage.repo.commit("base");
    let round = stage.run().ships();
    assert_eq!(round.json["spend"]["known"], true, "{}", round.story());
    assert_eq!(round.json["spend"]["usd"], 0.25, "{}", round.story());
}

#[test]
fn usage_that_is_reported_is_what_is_charged() {
    let stage = Stage::new().with(ROUND);
    let round = stage.maker(&format!("{FIX}usage input=100 output=20")).ships();
    assert_eq!(round.json["spend"]["known"], true, "{}", round.story());
    assert_eq!(round.json["spend"]["tokens"]["output"], 20, "{}", round.story());
}

#[test]
fn h157_an_exhausted_day_starts_no_agent() {
    let stage = Stage::new().with("budget: { round: { tokens: 1000, usd: 4 }, day: { usd: 0.5 } }").with("attempts: 1");
    let round = stage.maker(&format!("{FIX}usage input=100")).ends("over-budget", "ceiling");
    assert_eq!(round.json["spend"]["tokens"]["input"], 0, "{}", round.story());
}
