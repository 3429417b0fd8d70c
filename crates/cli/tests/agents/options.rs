//! Options of agents in the user's configuration reach each real program: the effort is in its requests to the model, the
//! variables are in the environment of its commands, and the arguments are in its command line.

use crate::world::World;

/// A maker that shows its environment and the command lines around it.
const SHOWS: &str = "\
@ maker
run echo \"word $TRIAL_WORD\"; cat /proc/[0-9]*/cmdline | tr '\\0' ' '
replace calc.py \"a - b\" \"a + b\"
stage pull-request.md \"Correct the sum\\n\\nIt was a difference.\"
say The sum is correct.

@ checker
read calc.py
verdict pass correctness=5@calc.py:2 scope=5@gate:tests tests=4@gate:tests
";

/// Runs a round with these options. Each of the texts must be in a request of the maker.
fn reach(agent: &str, options: &str, args: [&str; 2], wanted: &[&str]) {
    let [name, value] = args;
    let config = format!(
        "agent_options:\n  {agent}: {{ {options}env: {{ TRIAL_WORD: apricot-7 }}, args: [\"{name}\", {value:?}] }}\n"
    );
    let Some(world) = World::with_config(agent, agent, SHOWS, &config) else { return };
    let ended = world.run();
    let details = || format!("{ended:#}\n{}", world.transcripts());
    assert_eq!(ended["outcome"], "escalated", "{}", details());
    let log = world.model.log();
    let is_maker = |request: &&serde_json::Value| request["answer"]["block"] == "maker";
    let bodies: Vec<String> = log.iter().filter(is_maker).map(|request| request["body"].to_string()).collect();
    let shown = format!("{name} {}", value.replace('"', "\\\""));
    for text in wanted.iter().copied().chain(["word apricot-7"]) {
        assert!(bodies.iter().any(|body| body.contains(text)), "no request contains {text}: {}", details());
    }
    let arguments = |body: &String| body.contains(&shown) || body.contains(&shown.replace('\\', "\\\\\\"));
    assert!(bodies.iter().any(arguments), "no request shows {shown}: {}", details());
}

#[test]
fn options_reach_claude() {
    reach("claude", "effort: low, ", ["--append-system-prompt", "banana-8"], &["\"effort\":\"low\""]);
}

#[test]
fn options_reach_codex() {
    let verbosity = ["--config", "model_verbosity=low"];
    reach("codex", "effort: low, ", verbosity, &["\"effort\":\"low\"", "\"verbosity\":\"low\""]);
}

#[test]
fn options_reach_opencode() {
    reach("opencode", "effort: low, ", ["--agent", "build"], &["\"effort\":\"low\""]);
}

#[test]
fn options_reach_gemini() {
    reach("gemini", "effort: low, ", ["--include-directories", "/tmp"], &["\"thinkingBudget\":1024"]);
}
