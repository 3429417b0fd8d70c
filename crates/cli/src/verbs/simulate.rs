//! `simulate`: the coming days on a virtual clock, with rounds of the same duration and cost as earlier ones. It starts
//! and writes nothing.

use super::{CommandContext, CommandError, VerbResult};
use crate::context::CheckedLoopFile;
use crate::view::repo_view::RepoView;
use crate::view::simulate::{SimulationBasis, SimulationView};
use crate::view::time::now_ms;
use loopwright::store::{RoundRow, RoundsFilter, RoundsQuery, ScheduleRow, Store};
use loopwright_core::dispatch::{LoopEntry, LoopKey, LoopStanding};
use loopwright_core::forecast::{self, ForecastLoop, ForecastRequest, RoundProfile};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::units::{TimeSpan, Usd};

#[derive(Debug, clap::Args)]
pub(crate) struct SimulateArgs {
    /// How many days to simulate
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(i64).range(1..=366))]
    days: i64,
    /// The assumed duration of a round, for loops that have never run
    #[arg(long, value_name = "SPAN", default_value = "5m", value_parser = span)]
    takes: TimeSpan,
    /// The seed of the random numbers; the same seed gives the same rounds
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// List the decision about every due moment
    #[arg(long)]
    decisions: bool,
}

/// The latest rounds of a loop that serve as samples.
const HISTORY: u32 = 200;
/// The simulations from which the spread of costs is computed.
const PLAYS: usize = 200;
/// The steps of the simulations after the first, which take a second or two.
const STEPS: usize = 1_000_000;
/// The steps after which one simulation is cut.
const RUN_STEPS: usize = 10_000_000;
const DAY_MS: i64 = 86_400_000;

fn span(text: &str) -> Result<TimeSpan, String> {
    TimeSpan::parse(text).ok_or_else(|| "a span such as `90s`, `5m` or `1h`".to_owned())
}

pub(crate) async fn run(args: SimulateArgs, cx: &CommandContext) -> VerbResult {
    let (here, store) = super::status::here_and_store(cx).await?;
    let fleet = match here {
        Some(here) => vec![here],
        None => RepoView::find_fleet(cx).await?,
    };
    if fleet.is_empty() {
        // Reports a missing repository, as every verb about a repository does.
        cx.repo().await?;
        return Err(CommandError::invalid("there is no repository here"));
    }
    let mut plans = Vec::new();
    for here in &fleet {
        for file in &here.loops.loops {
            plans.push(plan(here, file, store.as_deref(), args.takes).await?);
        }
    }
    let (plans, bases): (Vec<_>, Vec<_>) = plans.into_iter().unzip();
    let from_ms = now_ms();
    let question = ForecastRequest {
        from_ms,
        until_ms: from_ms.saturating_add(args.days * DAY_MS),
        limits: cx.limits()?,
        standings: loop_standings(store.as_deref(), &fleet).await?,
        plays: PLAYS,
        seed: args.seed,
        steps_max: STEPS,
        run_steps_max: RUN_STEPS,
    };
    let predicted = forecast::forecast(&plans, &question);
    let simulation = SimulationView::from_forecast(&question, &plans, &bases, predicted, args.decisions);
    Ok(cx.out.answer(&simulation, || simulation.render(&cx.out)))
}

/// A loop with the profile of its earlier rounds, or with the assumed one.
async fn plan(
    here: &RepoView,
    file: &CheckedLoopFile,
    store: Option<&Store>,
    takes: TimeSpan,
) -> Result<(ForecastLoop, SimulationBasis), CommandError> {
    let spec = &file.spec;
    let entry = LoopEntry::from_spec(spec, &here.repo.id, &here.zone);
    let entry = entry.map_err(|problem| CommandError::invalid(problem.text).hint(problem.hint))?;
    let mut rounds = Vec::new();
    if let Some(store) = store {
        let query = RoundsQuery {
            repo: Some(here.repo.id.clone()),
            loop_name: Some(spec.name.clone()),
            which: RoundsFilter::All,
            limit: HISTORY,
            ..RoundsQuery::default()
        };
        rounds = store.rounds(query).await?.iter().filter_map(past_round).collect();
    }
    let basis = SimulationBasis { rounds: rounds.len(), takes, ceiling: spec.budget.round.usd };
    if rounds.is_empty() {
        let duration_ms = i64::try_from(takes.duration().as_millis()).unwrap_or(i64::MAX);
        let usd = spec.budget.round.usd.unwrap_or(Usd(0));
        rounds.push(RoundProfile { duration_ms, usd, outcome: RoundOutcome::Reported });
    }
    let after = spec.on.after.iter().map(|name| LoopKey::new(&here.repo.id, name)).collect();
    Ok((ForecastLoop { entry, rounds, day: spec.budget.day.usd, after }, basis))
}

/// The profile of a recorded round; `None` if a crash or a person ended it, because that does not predict the next.
fn past_round(row: &RoundRow) -> Option<RoundProfile> {
    let outcome = row.outcome?;
    let is_typical = !matches!(outcome, RoundOutcome::Interrupted | RoundOutcome::Cancelled);
    let duration_ms = row.ended_ms?.saturating_sub(row.started_ms).max(0);
    is_typical.then(|| RoundProfile { duration_ms, usd: Usd(u64::try_from(row.spend_micros).unwrap_or(0)), outcome })
}

/// Paused loops stay paused, and back-offs last.
async fn loop_standings(store: Option<&Store>, fleet: &[RepoView]) -> Result<Vec<LoopStanding>, CommandError> {
    let Some(store) = store else { return Ok(Vec::new()) };
    let is_here = |row: &ScheduleRow| fleet.iter().any(|here| row.repo == here.repo.id);
    let rows = store.schedules().await?.into_iter().filter(is_here);
    Ok(rows.map(loopwright::daemon::standing_from_row).collect())
}
