//! The loop engine's own snippet: a spec is built, written as JSON and read back. Only the fields became methods.
#![expect(clippy::print_stdout, reason = "an example shows what happened")]

use loopwright::{LoopLevel, LoopSpec, TokenBudget};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec = LoopSpec::new("issue-triage", "label and route new issues", LoopLevel::L1Report)
        .with_cadence("every 2h")
        .with_budget(TokenBudget::iters(8).with_max_total_tokens(300_000))
        .with_maker_prompt("Propose labels for each new issue.")
        .with_checker_prompt("Does the text of the issue support each label?")
        .with_action_kind("comment");
    let json = serde_json::to_string(&spec)?;
    let back: LoopSpec = serde_json::from_str(&json)?;
    // In the loop engine, `cadence` and `action_kind` are fields.
    println!("{} {} {} {}", back.name, back.level.label(), back.cadence(), back.action_kind());
    Ok(())
}
