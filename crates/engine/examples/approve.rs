//! L2: a loop that fixes a bug and waits. The program reads what waits and approves it, and the pull request appears in
//! the local forge.
#![expect(clippy::print_stdout, reason = "an example shows what happened")]

mod support;

use loopwright::{EngineSettings, LoopEngine, LoopLevel};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repo = support::repository();
    let state = tempfile::tempdir()?;
    let engine = LoopEngine::builder(support::mending(LoopLevel::L2Assisted))
        .maker(support::maker()?)
        .checker(support::checker()?)
        .with_local_forge()
        .build(EngineSettings::new(state.path()), repo.path())
        .await?;

    let waiting = engine.run_once().await?;
    println!("outcome: {}", waiting.outcome.map_or("none", loopwright::RoundOutcome::word));
    for change in &waiting.changes {
        println!("changed: {} +{} -{}", change.path, change.added, change.removed);
    }
    for gate in &waiting.gates {
        println!("gate {}: {}", gate.name, gate.status);
    }

    // The answer binds the candidate that was read: if anything had changed, it would be refused.
    let candidate = waiting.candidate.as_deref().ok_or("nothing waits")?;
    let shipped = engine.approve(&waiting.round, candidate, "example").await?;
    println!("outcome: {}", shipped.outcome.map_or("none", loopwright::RoundOutcome::word));
    for item in &shipped.outbox {
        println!("{} {}: {}", item.kind, item.state, item.receipt.as_deref().unwrap_or("no receipt"));
    }
    println!("the checkout still says: {}", repo.read("sum.sh").trim());
    Ok(())
}
