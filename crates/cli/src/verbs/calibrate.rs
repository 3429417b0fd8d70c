//! `calibrate LOOP`: plants known-bad changes and shows them to the loop's checker, one round each. Such a round sends
//! nothing; its result counts towards the catch rate of the checker.

use super::run::prepare_manual_run;
use super::{CommandContext, CommandExit, VerbResult, safe};
use crate::progress::ProgressDisplay;
use crate::signals::CurrentRound;
use crate::view::SCHEMA;
use loopwright::Engine;
use loopwright::round::RunRequest;
use loopwright_core::autonomy::CatchRate;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::report::RoundReport;
use loopwright_core::round::{PLANTED_CAUGHT, PLANTED_MISSED};
use serde::Serialize;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub(crate) struct CalibrateArgs {
    /// The name of the loop
    #[arg(value_name = "LOOP")]
    name: String,
    /// How many changes to plant
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=50))]
    n: u16,
}

/// The document of `calibrate --json`.
#[derive(Debug, Serialize)]
struct CalibrationView {
    schema: u32,
    #[serde(rename = "loop")]
    name: String,
    planted: Vec<PlantedLine>,
    /// The catch rate of these changes.
    catch_rate: CatchRate,
}

/// One planted change.
#[derive(Debug, Serialize)]
struct PlantedLine {
    round: String,
    outcome: Option<RoundOutcome>,
    /// The kind and place of the change.
    change: Option<String>,
    /// `None` if the checker gave no verdict.
    caught: Option<bool>,
    reason: Option<String>,
}

pub(crate) async fn run(args: CalibrateArgs, cx: &CommandContext) -> VerbResult {
    let repo = cx.repo().await?;
    let (bind, request) = prepare_manual_run(cx, &repo, &args.name).await?;
    let (telling, running) = (cx.progress_detail()?, CurrentRound::default());
    let cancel = cx.cancel(&running);
    let engine: Engine = cx.open_engine(Some(&repo), &cancel).await?;
    engine.events().attach(Arc::new(ProgressDisplay::new(&cx.out, telling, &running))).keep();
    let (mut planted, mut exit) = (Vec::new(), CommandExit::DONE);
    for _ in 0..args.n {
        let request = RunRequest {
            inputs: request.inputs.clone(),
            ..RunRequest::calibration(request.spec.clone(), &repo.work_tree, cx.actor_name())
        };
        let ran = engine.run(request, &bind, &cancel).await;
        let report = match ran {
            Ok(report) => report,
            Err(error) => return super::close(&engine, Err::<CommandExit, _>(error)).await,
        };
        planted.push(PlantedLine::from(&report));
        if report.outcome != Some(RoundOutcome::Reported) {
            exit = CommandExit::from_outcome(report.outcome);
            break;
        }
    }
    engine.close().await?;
    let count = |caught| u32::try_from(planted.iter().filter(|one| one.caught == Some(caught)).count()).unwrap_or(0);
    let catch_rate = CatchRate { planted: count(true) + count(false), caught: count(true) };
    let view = CalibrationView { schema: SCHEMA, name: args.name, planted, catch_rate };
    cx.out.answer(&view, || page(&view));
    Ok(exit)
}

impl From<&RoundReport> for PlantedLine {
    fn from(report: &RoundReport) -> Self {
        let reason = |code: &str| report.reasons.iter().find(|reason| reason.code == code);
        let caught = match (reason(PLANTED_CAUGHT), reason(PLANTED_MISSED)) {
            (Some(_), _) => Some(true),
            (None, Some(_)) => Some(false),
            (None, None) => None,
        };
        Self {
            round: report.round.clone(),
            outcome: report.outcome,
            change: reason("planted").map(|reason| reason.text.clone()),
            caught,
            reason: report.reasons.last().map(|reason| reason.text.clone()),
        }
    }
}

fn page(view: &CalibrationView) -> String {
    let line = |one: &PlantedLine| {
        let result = match one.caught {
            Some(true) => "caught",
            Some(false) => "missed",
            None => "no verdict",
        };
        let what = one.change.as_deref().or(one.reason.as_deref()).unwrap_or_default();
        format!("{result:<10} {} (round {})", safe(what), safe(&one.round))
    };
    let CatchRate { planted, caught } = view.catch_rate;
    let mut lines: Vec<_> = view.planted.iter().map(line).collect();
    lines.push(format!("the checker of {} caught {caught} of {planted} planted changes", safe(&view.name)));
    lines.push(format!("see: loopwright show {}", safe(&view.name)));
    lines.join("\n")
}
