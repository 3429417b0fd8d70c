//! Probe: runs the loop's probe before any agent starts, in the round's own sandbox views. [`crate::probe`] interprets
//! its answer.

use super::context::RoundContext;
use super::isolate::RoundSandbox;
use super::money::RoundBudget;
use super::{StageError, workspace_trouble};
use crate::error::EngineError;
use crate::probe::{self, LoopProbe, ProbeExit, ProbeMethod, ProbeResult, ProbeRunner};
use loopwright_core::round::{Event, ProbeAnswer, RoundFacts, Stage};
use loopwright_core::spec::ProbeSpec;

pub(super) async fn probe(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    sandbox: &mut RoundSandbox,
    budget: &RoundBudget,
    found: Option<ProbeResult>,
) -> Result<Event, StageError> {
    let spec = &facts.started.spec;
    match &spec.on.probe {
        Some(ProbeSpec::Named(name)) => cx.stage(Stage::Probe, name.clone()),
        Some(ProbeSpec::Ask(ask)) => cx.stage(Stage::Probe, ask.probe.clone()),
        Some(ProbeSpec::Run { .. }) | None => {}
    }
    if let Some(probed) = found.and_then(answered) {
        return Ok(Event::Probed(probed));
    }
    let base = cx.head(facts, Stage::Probe).await?;
    let asked = LoopProbe { engine: cx.engine, spec, repo: &cx.repo, base: Some(&base) }.method().await;
    let probed = match asked.map_err(broke)? {
        ProbeMethod::Answered(probed) => probed,
        ProbeMethod::Program(program) => {
            cx.stage(Stage::Probe, program.description());
            sandbox.prepare_base(cx, spec, &base.commit, Stage::Probe, budget).await?;
            let (engine, workspaces, cancel) = (cx.engine, &cx.workspaces, cx.cancel);
            let runner = ProbeRunner { engine, workspaces, views: &sandbox.views, cancel, id: &cx.id };
            match runner.ask(&program, &cx.key.name, &base.commit).await.map_err(workspace_trouble(Stage::Probe))? {
                ProbeExit::Stopped => return Err(StageError::Stopped),
                exit => program.read(exit),
            }
        }
    };
    Ok(Event::Probed(probe::open_items(cx.engine.store.as_ref(), &cx.key.repo, spec, probed).await?))
}

/// The answer of a probe that ran before the round started; no item of it is done yet.
fn answered(found: ProbeResult) -> Option<ProbeAnswer> {
    match found {
        ProbeResult::None => Some(ProbeAnswer::Nothing),
        ProbeResult::Items(items) => Some(ProbeAnswer::Work { items }),
        ProbeResult::Failed(text) => Some(ProbeAnswer::Failed { text }),
        ProbeResult::SetupIncomplete => None,
    }
}

fn broke(error: EngineError) -> StageError {
    match error {
        EngineError::Git(error) => StageError::broke(Stage::Probe, "base", &error),
        error => StageError::Fatal(error),
    }
}
