//! Whole rounds with real agents over the Agent Client Protocol.

use crate::hostile::{READS_BELOW, below, obeys_nothing};
use crate::world::{MEND, World, agrees, model_of};
use serde_json::Value;

/// The arguments with which a program uses the protocol.
fn acp(program: &str) -> String {
    let words = match program {
        "gemini" => "gemini, --acp, --skip-trust",
        "opencode" => "opencode, acp",
        "codex-acp" => "codex-acp",
        "qwen" => "qwen, --acp, --auth-type, openai",
        "copilot" => "copilot, --acp",
        _ => "goose, acp, --with-builtin, developer",
    };
    format!("{{ use: acp, run: [{words}], model: {} }}", model_of(program))
}

fn plain(agent: &str) -> String {
    format!("{{ use: {agent}, model: {} }}", model_of(agent))
}

/// A test world whose loop names these agents.
fn world(programs: [&str; 2], maker: &str, checker: &str) -> Option<World> {
    world_of(MEND, programs, maker, checker)
}

/// The same with another scenario.
fn world_of(scenario: &str, programs: [&str; 2], maker: &str, checker: &str) -> Option<World> {
    let world = World::new(programs[0], programs[1], scenario)?;
    world.write_loop(maker, checker, "");
    Some(world)
}

fn ships(world: &World) -> Value {
    let before = world.repo.tree_digest();
    let ended = world.run();
    let details = || format!("{ended:#}\n{}", world.transcripts());
    assert_eq!(ended["outcome"], "escalated", "{}", details());
    assert_eq!(ended["verdict"]["verdict"], "pass", "{}", details());
    assert_eq!(ended["gates"][0]["status"], "passed", "{}", details());
    assert_eq!(ended["attempts"], 1, "{}", details());
    before.assert_untouched(&world.repo.tree_digest());
    let round = ended["round"].as_str().expect("a round");
    let sent = world.env.loopwright_in(world.repo.path(), ["approve", round, "--json"]).success().json();
    assert_eq!(sent["outcome"], "shipped", "{sent:#}");
    ended
}

#[test]
fn goose_makes_and_claude_checks_and_the_proxy_counts_unreported_usage() {
    let Some(world) = world(["goose", "claude"], &acp("goose"), &plain("claude")) else { return };
    let ended = ships(&world);
    agrees(&ended, &world.model.counter());
    let by = |part: usize| ended["spend"]["by"][part]["counted_by"].clone();
    assert_eq!((by(0), by(1)), ("proxy".into(), "agent".into()), "{ended:#}");
}

#[test]
fn gemini_makes_and_claude_checks_and_the_tokens_match_the_models() {
    let Some(world) = world(["gemini", "claude"], &acp("gemini"), &plain("claude")) else { return };
    agrees(&ships(&world), &world.model.counter());
}

#[test]
fn claude_makes_and_gemini_checks_with_its_last_message_as_the_verdict() {
    let Some(world) = world(["claude", "gemini"], &plain("claude"), &acp("gemini")) else { return };
    ships(&world);
}

#[test]
fn goose_makes_and_gemini_checks_without_obeying_the_repository() {
    let Some(world) = world(["goose", "gemini"], &acp("goose"), &acp("gemini")) else { return };
    obeys_nothing(&world);
}

#[test]
fn codex_acp_makes_and_checks_without_obeying_the_repository() {
    let Some(world) = world(["codex-acp", "codex-acp"], &acp("codex-acp"), &acp("codex-acp")) else { return };
    obeys_nothing(&world);
}

#[test]
fn qwen_makes_and_checks_without_obeying_the_repository() {
    // It changes only files that it has read.
    let scenario = MEND.replace("@ maker\n", "@ maker\nread calc.py\n");
    let Some(world) = world_of(&scenario, ["qwen", "qwen"], &acp("qwen"), &acp("qwen")) else { return };
    obeys_nothing(&world);
}

#[test]
fn copilot_makes_and_checks_without_obeying_the_repository() {
    let Some(world) = world(["copilot", "copilot"], &acp("copilot"), &acp("copilot")) else { return };
    obeys_nothing(&world);
}

#[test]
fn opencode_makes_and_claude_checks_and_the_proxy_counts_unreported_usage() {
    let Some(world) = world(["opencode", "claude"], &acp("opencode"), &plain("claude")) else { return };
    let ended = ships(&world);
    agrees(&ended, &world.model.counter());
    assert_eq!(ended["spend"]["by"][0]["counted_by"], "proxy", "{ended:#}");
}

#[test]
fn opencode_takes_a_model_without_its_provider_and_checks() {
    let checker = "{ use: acp, run: [opencode, acp], model: gpt-5.5 }";
    let Some(world) = world(["goose", "opencode"], &acp("goose"), checker) else { return };
    agrees(&ships(&world), &world.model.counter());
}

#[test]
fn opencode_makes_and_checks_over_the_protocol_without_obeying_the_repository() {
    let Some(world) = world(["opencode", "opencode"], &acp("opencode"), &acp("opencode")) else { return };
    obeys_nothing(&world);
}

#[test]
fn opencode_takes_no_instructions_from_sub_folders_over_the_protocol() {
    let Some(world) = world_of(READS_BELOW, ["opencode", "opencode"], &acp("opencode"), &acp("opencode")) else {
        return;
    };
    below(&world);
}

#[test]
fn goose_and_gemini_take_no_instructions_from_sub_folders() {
    let Some(world) = world_of(READS_BELOW, ["goose", "gemini"], &acp("goose"), &acp("gemini")) else { return };
    below(&world);
}

#[test]
fn goose_has_a_word_of_its_own_for_a_maker_and_copilot_for_a_checker() {
    let (maker, checker) = ("{ use: goose, model: gpt-5.5 }", "{ use: copilot, model: gpt-5.5 }");
    let Some(world) = world(["goose", "copilot"], maker, checker) else { return };
    agrees(&ships(&world), &world.model.counter());
}
