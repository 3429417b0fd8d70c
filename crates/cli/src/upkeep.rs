//! The upkeep of loops besides their cadences: follows the changes that were sent, moves open proposals whose base has
//! moved, and runs the calibrations that are due. `tick` does it at each pass, the daemon once an hour.

use crate::context::{CheckedLoopFile, CommandContext, FleetScan};
use crate::error::CommandError;
use crate::error::with_count;
use crate::verbs::run::prepare_manual_run;
use loopwright::autonomy::{follow_works, rebase_proposals};
use loopwright::git::UserRepo;
use loopwright::proc::CancelToken;
use loopwright::round::RunRequest;
use loopwright::store::{StoreError, StoreErrorKind};
use loopwright::{Engine, EngineError};
use loopwright_core::spec::CheckMode;

/// The journal's actor for rounds that the upkeep starts.
const ACTOR: &str = "schedule";

/// The result of one pass: lines for the log, and problems. No problem prevents the other parts.
#[derive(Debug, Default)]
pub(crate) struct UpkeepReport {
    pub(crate) done: Vec<String>,
    pub(crate) problems: Vec<String>,
}

/// Runs one pass.
pub(crate) async fn keep_up_loops(cx: &CommandContext, engine: &Engine, cancel: &CancelToken) -> UpkeepReport {
    let mut report = UpkeepReport::default();
    match follow_works(engine, cx).await {
        Ok(0) => {}
        Ok(found) => report.done.push(format!("the fate of {} changed", with_count(found, "sent change"))),
        Err(error) => report.problems.push(format!("sent changes were not followed: {error}")),
    }
    match rebase_proposals(engine, cx, cancel).await {
        Ok(moved) => report.done.extend(moved.iter().map(|round| {
            let outcome = round.outcome.map_or("running", loopwright_core::outcome::RoundOutcome::word);
            format!("base moved: round {} of {} moves its proposal ({outcome})", round.round, round.loop_name)
        })),
        Err(error) => report.problems.push(format!("open proposals were not moved: {error}")),
    }
    match calibrate(cx, engine, cancel).await {
        Ok(rounds) => report.done.extend(rounds),
        Err(error) => report.problems.push(format!("calibrations did not run: {}", error.text)),
    }
    report
}

/// Runs the calibrations that are due, one planted change each.
async fn calibrate(cx: &CommandContext, engine: &Engine, cancel: &CancelToken) -> Result<Vec<String>, CommandError> {
    let mut done = Vec::new();
    for one in FleetScan::read(cx).await?.repos {
        // Loop files with problems are reported elsewhere.
        let Ok(loops) = one.read_loops(cx) else { continue };
        for file in loops.loops {
            if cancel.is_cancelled() || engine.global_stop().await?.is_some() {
                return Ok(done);
            }
            if let Some(occurrence) = due_calibration(engine, &one.repo, &file).await? {
                done.extend(run_calibration(cx, engine, &one.repo, &file, occurrence, cancel).await?);
            }
        }
    }
    Ok(done)
}

/// The key of the calibration that is due: at most one in each span of the loop's `calibrate`.
async fn due_calibration(
    engine: &Engine,
    repo: &UserRepo,
    file: &CheckedLoopFile,
) -> Result<Option<String>, CommandError> {
    let Some(every) = file.spec.calibrate.filter(|_| file.spec.check != CheckMode::None) else { return Ok(None) };
    let every_ms = i64::try_from(every.duration().as_millis()).unwrap_or(i64::MAX).max(1);
    let now_ms = engine.settings().clock.now_ms();
    let (store, name) = (engine.store(), &file.spec.name);
    let is_paused = store.schedule(&repo.id, name).await?.is_some_and(|row| row.paused_ms.is_some());
    let is_fresh = !store.calibrations(&repo.id, name, now_ms.saturating_sub(every_ms)).await?.is_empty();
    Ok((!is_paused && !is_fresh).then(|| format!("calibrate:{}", now_ms.div_euclid(every_ms))))
}

async fn run_calibration(
    cx: &CommandContext,
    engine: &Engine,
    repo: &UserRepo,
    file: &CheckedLoopFile,
    occurrence: String,
    cancel: &CancelToken,
) -> Result<Option<String>, CommandError> {
    let (bind, request) = prepare_manual_run(cx, repo, &file.spec.name).await?;
    let engine = engine.with_settings(cx.settings(Some(repo))?);
    let request = RunRequest {
        inputs: request.inputs,
        occurrence: Some(occurrence),
        ..RunRequest::calibration(request.spec, &repo.work_tree, ACTOR)
    };
    match engine.run(request, &bind, cancel).await {
        Ok(report) => Ok(Some(format!("round {} calibrates the checker of {}", report.round, report.loop_name))),
        // It ran in this span before, or the loop is at work.
        Err(EngineError::Store(StoreError { kind: StoreErrorKind::Occurrence { .. }, .. })) => Ok(None),
        Err(EngineError::Busy { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
