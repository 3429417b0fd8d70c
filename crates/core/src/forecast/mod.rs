//! The forecast: the real dispatcher on a virtual clock, with rounds as long and as expensive as earlier ones.
//!
//! It shows which rounds would start in the next days, which would be skipped and why, which loops wait for each other,
//! and the cost. The same seed gives the same result. For a loop without history, the caller supplies the assumptions;
//! this module has none.

mod forecast_run;

use crate::dispatch::{ConcurrencyLimits, LoopEntry, LoopKey, LoopStanding, OccurrenceOutcome};
use crate::outcome::RoundOutcome;
use crate::units::Usd;
use serde::Serialize;
use std::collections::BTreeMap;

use forecast_run::{ForecastRun, SeededRandom};

/// A loop to simulate.
#[derive(Debug, Clone)]
pub struct ForecastLoop {
    /// The loop as its file defines it.
    pub entry: LoopEntry,
    /// Profiles of its rounds; each simulated round draws one. At least one.
    pub rounds: Vec<RoundProfile>,
    /// Its ceiling for a day.
    pub day: Option<Usd>,
    /// The loops whose rounds make it due.
    pub after: Vec<LoopKey>,
}

/// The length, cost and outcome of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundProfile {
    /// How long it takes.
    pub duration_ms: i64,
    /// Its cost.
    pub usd: Usd,
    /// How it ends.
    pub outcome: RoundOutcome,
}

/// The parameters of a forecast.
#[derive(Debug, Clone)]
pub struct ForecastRequest {
    /// The start of the period.
    pub from_ms: i64,
    /// The end of the period.
    pub until_ms: i64,
    /// How many rounds may run at once.
    pub limits: ConcurrencyLimits,
    /// The standings of loops, such as paused ones.
    pub standings: Vec<LoopStanding>,
    /// The most runs; fewer are made if each is long.
    pub plays: usize,
    /// The seed.
    pub seed: u64,
    /// The steps of all runs after the first. If they allow too few runs, the other costs are drawn for the rounds of
    /// the first run.
    pub steps_max: usize,
    /// The steps after which one run is cut.
    pub run_steps_max: usize,
}

/// The result of a forecast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// The number of runs, and of draws of the first run's costs.
    pub plays: usize,
    /// Whether a run was cut short because it had too many steps.
    pub is_cut: bool,
    /// Each loop, in the order of the plans; counts are from the first run.
    pub loops: Vec<LoopForecast>,
    /// The cost of all loops.
    pub cost: ForecastRange,
    /// The pairs of loops that waited for each other in the first run, most frequent first.
    pub collisions: Vec<LoopCollision>,
    /// The decisions of the first run, in order, up to a limit.
    pub decisions: Vec<OccurrenceDecision>,
}

/// The forecast for one loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopForecast {
    /// The loop.
    pub key: LoopKey,
    /// The number of occurrences for each outcome.
    pub fates: BTreeMap<OccurrenceOutcome, u64>,
    /// Rounds that reached the ceiling of their day.
    pub over_budget: u64,
    /// The longest a start waited.
    pub longest_wait_ms: i64,
    /// Its cost.
    pub cost: ForecastRange,
}

/// The 10th, 50th and 90th percentile of the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ForecastRange {
    /// One run in ten is cheaper.
    pub p10: Usd,
    /// Half of the runs are cheaper.
    pub p50: Usd,
    /// Nine runs in ten are cheaper.
    pub p90: Usd,
}

/// A loop that had to wait while another one ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopCollision {
    /// The loop that waited.
    pub waits: LoopKey,
    /// The loop that ran.
    pub runs: LoopKey,
    /// How often.
    pub times: u64,
    /// The longest wait.
    pub longest_ms: i64,
}

/// The decision about an occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OccurrenceDecision {
    /// When.
    pub at_ms: i64,
    /// When it was due.
    pub due_ms: i64,
    /// The loop.
    pub key: LoopKey,
    /// The outcome.
    pub fate: OccurrenceOutcome,
    /// Why, for people.
    pub reason: String,
    /// How many occurrences it covers.
    pub count: u64,
}

/// Fewer runs would make the 90th percentile meaningless.
const PLAYS_MIN: usize = 20;

/// Computes a forecast.
#[must_use]
pub fn forecast(plans: &[ForecastLoop], question: &ForecastRequest) -> Forecast {
    let first = ForecastRun::run(plans, question, SeededRandom::new(question.seed, 0));
    let spent = costs_of_plays(&first, plans, question);
    let plays = spent.len();
    let totals = spent.iter().map(|play| play.iter().sum()).collect();
    let costs: Vec<_> =
        (0..plans.len()).map(|nth| ForecastRange::of(spent.iter().map(|play| play[nth]).collect())).collect();
    let mut forecast = first.into_forecast(plans);
    forecast.plays = plays;
    forecast.cost = ForecastRange::of(totals);
    forecast.loops.iter_mut().zip(costs).for_each(|(one, cost)| one.cost = cost);
    forecast
}

/// The cost of each loop in each run.
fn costs_of_plays(first: &ForecastRun<'_>, plans: &[ForecastLoop], question: &ForecastRequest) -> Vec<Vec<u64>> {
    let affordable = question.steps_max / first.steps.max(1);
    let is_whole = affordable >= PLAYS_MIN.min(question.plays);
    let draws = (question.steps_max / first.started().max(1)).max(PLAYS_MIN);
    let plays = match (first.is_cut, is_whole) {
        (true, _) => 1,
        (false, true) => question.plays.clamp(1, affordable),
        (false, false) => question.plays.clamp(1, draws),
    };
    let play = |nth: usize| {
        let dice = SeededRandom::new(question.seed, nth);
        if is_whole { ForecastRun::run(plans, question, dice).spent } else { first.redraw_costs(dice) }
    };
    std::iter::once(first.spent.clone()).chain((1..plays).map(play)).collect()
}

impl ForecastRange {
    /// By nearest rank.
    fn of(mut micros: Vec<u64>) -> Self {
        micros.sort_unstable();
        let rank =
            |percent: usize| Usd(micros.get((micros.len() * percent).div_ceil(100).max(1) - 1).copied().unwrap_or(0));
        Self { p10: rank(10), p50: rank(50), p90: rank(90) }
    }
}

#[cfg(test)]
mod tests;
