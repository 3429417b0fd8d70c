//! The loop engine's loop at L2 and at L3: maker, checker, human gate, action executor. A model became two agents, and
//! the engine needs a repository and a state directory, because it keeps the work that waits for a person.
#![expect(clippy::print_stdout, reason = "an example shows what happened")]

mod support;

use loopwright::{
    ActionReceipt, AllowlistGate, AlwaysEscalate, CallbackActionExecutor, EngineSettings, LoopEngine, LoopLevel,
    LoopSpec, ProposedAction, RoundOutcome,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repo = support::repository();
    let state = tempfile::tempdir()?;
    // The default of the loop engine for every level.
    let assisted = LoopEngine::builder(support::mending(LoopLevel::L2Assisted))
        .maker(support::maker()?)
        .checker(support::checker()?)
        .with_gate(AlwaysEscalate)
        .build(EngineSettings::new(state.path()), repo.path())
        .await?;
    let report = assisted.run_once().await?;
    println!("L2: {}", report.outcome.map_or("none", RoundOutcome::word));

    // `ProposedAction` and `ActionReceipt` are the same; the key of the call is new.
    let state = tempfile::tempdir()?;
    let executor = CallbackActionExecutor(|spec: &LoopSpec, action: &ProposedAction, _key: &str| {
        println!("{} proposes {}, verified: {}", spec.name, action.kind, action.verified);
        Ok(ActionReceipt { kind: action.kind.clone(), summary: "opened".to_owned() })
    });
    let unattended = LoopEngine::builder(support::mending(LoopLevel::L3Unattended))
        .maker(support::maker()?)
        .checker(support::checker()?)
        .with_gate(AllowlistGate::new(["pull-request"]))
        .with_action_executor(executor)
        .build(EngineSettings::new(state.path()), repo.path())
        .await?;
    let report = unattended.run_once().await?;
    println!("L3: {}", report.outcome.map_or("none", RoundOutcome::word));
    Ok(())
}
