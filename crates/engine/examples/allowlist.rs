//! L3: verified pull requests of this loop are delivered without a person, through a function of the program;
//! everything else would still wait for a person.
#![expect(clippy::print_stdout, reason = "an example shows what happened")]

mod support;

use loopwright::{
    ActionReceipt, AllowlistGate, CallbackActionExecutor, EngineSettings, LoopEngine, LoopLevel, LoopSpec,
    ProposedAction,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repo = support::repository();
    let state = tempfile::tempdir()?;
    // The key is the same for every attempt of one action, so that a receiver can distinguish a retry from a second
    // action.
    let executor = CallbackActionExecutor(|spec: &LoopSpec, action: &ProposedAction, key: &str| {
        println!("executing {} of {} (key of {} characters)", action.kind, spec.name, key.len());
        Ok(ActionReceipt { kind: action.kind.clone(), summary: "request 1".to_owned() })
    });
    let engine = LoopEngine::builder(support::mending(LoopLevel::L3Unattended))
        .maker(support::maker()?)
        .checker(support::checker()?)
        .with_gate(AllowlistGate::new(["pull-request"]))
        .with_action_executor(executor)
        .build(EngineSettings::new(state.path()), repo.path())
        .await?;

    let report = engine.run_once().await?;
    println!("outcome: {}", report.outcome.map_or("none", loopwright::RoundOutcome::word));
    for item in &report.outbox {
        println!("{} {}: {}", item.kind, item.state, item.receipt.as_deref().unwrap_or("no receipt"));
    }
    Ok(())
}
