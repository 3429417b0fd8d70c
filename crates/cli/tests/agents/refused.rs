//! Tool calls that a role may not make are in the report, for each real agent.

use crate::world::World;
use serde_json::json;

/// A checker that tries to write a file before it decides.
const WRITES: &str = "\
@ maker
replace calc.py \"a - b\" \"a + b\"
stage pull-request.md \"Correct the sum\\n\\nIt was a difference.\"
say The sum is correct.

@ checker
say I will write it anyway.
write forbidden.md no
read calc.py
verdict pass correctness=5@calc.py:2 scope=5@gate:tests tests=4@gate:tests
";

fn report_shows_the_refused_call(agent: &str) {
    let Some(world) = World::new(agent, agent, WRITES) else { return };
    let ended = world.run();
    let details = || format!("{ended:#}\n{}", world.transcripts());
    assert_eq!(ended["refused_calls"], json!([{ "role": "checker", "agent": agent, "count": 1 }]), "{}", details());
    let report = std::fs::read_to_string(ended["report"].as_str().expect("a report")).expect("it can be read");
    assert!(report.contains(&format!("- checker ({agent}): 1 tool call refused")), "{report}");
    let round = ended["round"].as_str().expect("a round");
    let logs = world.env.loopwright_in(world.repo.path(), ["logs", round]).success().stdout();
    assert_eq!(logs.matches("✗ refused").count(), 1, "{logs}");
}

#[test]
fn report_shows_a_refused_call_of_claude() {
    report_shows_the_refused_call("claude");
}

#[test]
fn report_shows_a_refused_call_of_opencode() {
    report_shows_the_refused_call("opencode");
}

#[test]
fn report_shows_a_refused_call_of_gemini() {
    report_shows_the_refused_call("gemini");
}
