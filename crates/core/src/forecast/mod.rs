//! The forecast: the real dispatcher on a virtual clock, with rounds that take and cost what earlier ones did.
//!
//! It answers what would fire in the next days, what would be skipped and why, what waits for what, and what it would cost.
//! The same seed gives the same answer. Where a loop has no history the caller says what is assumed; nothing is made up here.

mod forecast_run;
mod seeded_random;

use crate::dispatch::{ConcurrencyLimits, LoopEntry, LoopKey, LoopStanding, OccurrenceOutcome};
use crate::outcome::RoundOutcome;
use crate::units::Usd;
use std::collections::BTreeMap;

use forecast_run::ForecastRun;
use seeded_random::SeededRandom;

/// A loop to be played.
#[derive(Debug, Clone)]
pub struct ForecastLoop {
    /// The loop as its file has it.
    pub entry: LoopEntry,
    /// What its rounds are like; each play draws from them. At least one.
    pub rounds: Vec<RoundProfile>,
    /// What it may cost in a day.
    pub day: Option<Usd>,
}

/// What a round is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundProfile {
    /// How long it takes.
    pub duration_ms: i64,
    /// What it costs.
    pub usd: Usd,
    /// How it ends.
    pub outcome: RoundOutcome,
}

/// What is to be played.
#[derive(Debug, Clone)]
pub struct ForecastRequest {
    /// From when.
    pub from_ms: i64,
    /// To when.
    pub until_ms: i64,
    /// How many rounds may run at once.
    pub limits: ConcurrencyLimits,
    /// Where loops stand, such as paused ones.
    pub standings: Vec<LoopStanding>,
    /// The most plays; fewer are played when each is long.
    pub plays: usize,
    /// The seed.
    pub seed: u64,
    /// Steps of all plays together; one of its own may have as many and is cut there.
    pub steps_max: usize,
}

/// What would happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// How often it was played.
    pub plays: usize,
    /// Whether a play was cut short because it had too many steps.
    pub is_cut: bool,
    /// Each loop, in the order of the plans; counts are of the first play.
    pub loops: Vec<LoopForecast>,
    /// What all of it costs.
    pub cost: ForecastRange,
    /// Who waited for whom in the first play, most often first.
    pub collisions: Vec<LoopCollision>,
    /// What was decided in the first play, in order, up to a bound.
    pub decisions: Vec<OccurrenceDecision>,
}

/// What one loop would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopForecast {
    /// Which loop.
    pub key: LoopKey,
    /// Occurrences by what became of them.
    pub fates: BTreeMap<OccurrenceOutcome, u64>,
    /// Rounds that met the ceiling of their day.
    pub over_budget: u64,
    /// The longest a start waited.
    pub longest_wait_ms: i64,
    /// What it costs.
    pub cost: ForecastRange,
}

/// The tenth, the middle and the ninetieth of a hundred plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForecastRange {
    /// One play in ten is cheaper.
    pub p10: Usd,
    /// Half of them are.
    pub p50: Usd,
    /// Nine in ten are.
    pub p90: Usd,
}

/// A loop that had to wait while another one ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopCollision {
    /// Who waited.
    pub waits: LoopKey,
    /// Who ran.
    pub runs: LoopKey,
    /// How often.
    pub times: u64,
    /// The longest wait.
    pub longest_ms: i64,
}

/// What was decided about an occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OccurrenceDecision {
    /// When.
    pub at_ms: i64,
    /// When it was due.
    pub due_ms: i64,
    /// Of which loop.
    pub key: LoopKey,
    /// What.
    pub fate: OccurrenceOutcome,
    /// Why, for people.
    pub reason: String,
    /// How many occurrences.
    pub count: u64,
}

/// Few plays say little about the ninetieth of a hundred.
const PLAYS_MIN: usize = 20;

/// Plays it.
#[must_use]
pub fn forecast(plans: &[ForecastLoop], question: &ForecastRequest) -> Forecast {
    let first = ForecastRun::run(plans, question, SeededRandom::new(question.seed, 0));
    let affordable = (question.steps_max / first.steps.max(1)).max(PLAYS_MIN);
    let plays = question.plays.clamp(1, affordable);
    let plays = if first.is_cut { 1 } else { plays };
    let mut spent: Vec<Vec<u64>> = first.spent.iter().map(|micros| vec![*micros]).collect();
    for nth in 1..plays {
        let play = ForecastRun::run(plans, question, SeededRandom::new(question.seed, nth));
        spent.iter_mut().zip(&play.spent).for_each(|(all, micros)| all.push(*micros));
    }
    let totals = (0..plays).map(|nth| spent.iter().map(|one| one[nth]).sum()).collect();
    let mut forecast = first.into_forecast(plans);
    forecast.plays = plays;
    forecast.cost = ForecastRange::of(totals);
    forecast.loops.iter_mut().zip(spent).for_each(|(one, all)| one.cost = ForecastRange::of(all));
    forecast
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
