//! A simulation for people and programs: for each loop its starts, its skips with their reasons, and its costs; and
//! which loops wait for which.

use super::standing::state_look;
use super::time::{Moment, date_and_time};
use super::{NOTHING, SCHEMA, Serialize, TextTable, safe};
use crate::output::CommandOutput;
use loopwright_core::dispatch::OccurrenceOutcome;
use loopwright_core::forecast::{
    Forecast, ForecastLoop, ForecastRange, ForecastRequest, LoopCollision, LoopForecast, OccurrenceDecision,
};
use loopwright_core::units::{TimeSpan, Usd};
use std::collections::BTreeMap;

/// The most pairs of loops that are listed.
const PAIRS: usize = 10;

/// The samples for a loop's rounds.
#[derive(Debug, Clone)]
pub(crate) struct SimulationBasis {
    /// The number of recorded rounds.
    pub(crate) rounds: usize,
    /// The assumed duration of a round if there are none.
    pub(crate) takes: TimeSpan,
    /// The assumed cost of a round if there are none.
    pub(crate) ceiling: Option<Usd>,
}

impl SimulationBasis {
    fn text(&self) -> String {
        match (self.rounds, self.ceiling) {
            (0, Some(ceiling)) => {
                format!("assumed: {} and its ceiling of {:.2} USD a round", self.takes, ceiling.dollars())
            }
            (0, None) => format!("assumed: {} a round; it has no ceiling in money", self.takes),
            (1, _) => "its one round on record".to_owned(),
            (many, _) => format!("its last {many} rounds"),
        }
    }
}

/// The document of `simulate --json`.
#[derive(Debug, Serialize)]
pub(crate) struct SimulationView {
    schema: u32,
    from: Moment,
    until: Moment,
    plays: usize,
    seed: u64,
    /// A simulation had too many steps and was cut.
    cut: bool,
    loops: Vec<Line>,
    cost: ForecastRange,
    collisions: Vec<Pair>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decisions: Option<Vec<DecisionLine>>,
}

#[derive(Debug, Serialize)]
struct Line {
    #[serde(rename = "loop")]
    name: String,
    cadence: String,
    started: u64,
    skipped: BTreeMap<&'static str, u64>,
    over_budget: u64,
    longest_wait_s: f64,
    cost: ForecastRange,
    basis: String,
}

#[derive(Debug, Serialize)]
struct Pair {
    waits: String,
    runs: String,
    times: u64,
    longest_s: f64,
}

#[derive(Debug, Serialize)]
struct DecisionLine {
    at: Moment,
    due: Moment,
    #[serde(rename = "loop")]
    name: String,
    receipt: &'static str,
    reason: String,
    count: u64,
}

fn cost_text(cost: ForecastRange) -> String {
    format!("{:.2} / {:.2} / {:.2}", cost.p10.dollars(), cost.p50.dollars(), cost.p90.dollars())
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

impl Line {
    fn of(forecast: LoopForecast, plan: &ForecastLoop, basis: &SimulationBasis) -> Self {
        let started = forecast.fates.get(&OccurrenceOutcome::Started).copied().unwrap_or(0);
        let skipped = forecast.fates.into_iter().filter(|(fate, _)| *fate != OccurrenceOutcome::Started);
        Self {
            name: forecast.key.name.to_string(),
            cadence: plan.entry.schedule.describe(),
            started,
            skipped: skipped.map(|(fate, count)| (fate.word(), count)).collect(),
            over_budget: forecast.over_budget,
            longest_wait_s: seconds(forecast.longest_wait_ms),
            cost: forecast.cost,
            basis: basis.text(),
        }
    }

    fn cells(&self) -> [String; 7] {
        [
            self.name.clone(),
            self.cadence.clone(),
            self.started.to_string(),
            self.skips(),
            self.over_budget.to_string(),
            format!("{:.0}s", self.longest_wait_s),
            cost_text(self.cost),
        ]
    }

    fn skips(&self) -> String {
        let words: Vec<_> = self.skipped.iter().map(|(word, count)| format!("{count} {word}")).collect();
        if words.is_empty() { NOTHING.to_owned() } else { words.join(", ") }
    }
}

impl SimulationView {
    /// Builds the view of a forecast.
    pub(crate) fn from_forecast(
        question: &ForecastRequest,
        plans: &[ForecastLoop],
        bases: &[SimulationBasis],
        forecast: Forecast,
        lists: bool,
    ) -> Self {
        let Forecast { plays, is_cut, loops, cost, collisions, decisions } = forecast;
        let lines = loops.into_iter().zip(plans.iter().zip(bases));
        Self {
            schema: SCHEMA,
            from: Moment(question.from_ms),
            until: Moment(question.until_ms),
            plays,
            seed: question.seed,
            cut: is_cut,
            loops: lines.map(|(forecast, (plan, basis))| Line::of(forecast, plan, basis)).collect(),
            cost,
            collisions: collisions.into_iter().take(PAIRS).map(Pair::of).collect(),
            decisions: lists.then(|| decisions.into_iter().map(DecisionLine::of).collect()),
        }
    }

    /// For people.
    pub(crate) fn render(&self, out: &CommandOutput) -> String {
        if self.loops.is_empty() {
            return "there is no loop to simulate; `loopwright init` writes one\n".to_owned();
        }
        let headings = ["LOOP", "CADENCE", "STARTS", "SKIPPED", "OVER BUDGET", "LONGEST WAIT", "USD P10 / P50 / P90"];
        let table = TextTable::new(headings, self.loops.iter().map(Line::cells));
        let (from, until) = (date_and_time(self.from.0), date_and_time(self.until.0));
        let time = format!("{from} to {until}, {} simulations (seed {})", self.plays, self.seed);
        let mut page = format!("{}\n\n{}\n", out.wrapped(&time), table.render_for(out));
        page.push_str(&format!("\ntogether {} USD (P10 / P50 / P90)\n", cost_text(self.cost)));
        for line in &self.loops {
            page.push_str(&format!("  {}: {}\n", safe(&line.name), line.basis));
        }
        if self.cut {
            page.push_str("\nthe simulation has too many events and was cut short; use fewer --days\n");
        }
        if !self.collisions.is_empty() {
            page.push_str("\nloops that wait for others:\n");
        }
        for pair in &self.collisions {
            let (waits, runs) = (safe(&pair.waits), safe(&pair.runs));
            page.push_str(&format!(
                "  {waits} waits while {runs} runs: {} times, {:.0}s at most\n",
                pair.times, pair.longest_s
            ));
        }
        page.push_str(&self.listed(out));
        page
    }

    fn listed(&self, out: &CommandOutput) -> String {
        let Some(decisions) = &self.decisions else { return String::new() };
        let row = |line: &DecisionLine| {
            let (name, receipt) = (line.name.clone(), line.receipt.to_owned());
            [date_and_time(line.due.0), name, receipt, line.count.to_string(), line.reason.clone()]
        };
        let table = TextTable::new(["DUE", "LOOP", "RECEIPT", "COUNT", "REASON"], decisions.iter().map(row));
        format!("\n{}\n", table.with_look(2, state_look).render_for(out))
    }
}

impl Pair {
    fn of(met: LoopCollision) -> Self {
        let (waits, runs) = (met.waits.name.to_string(), met.runs.name.to_string());
        Self { waits, runs, times: met.times, longest_s: seconds(met.longest_ms) }
    }
}

impl DecisionLine {
    fn of(decision: OccurrenceDecision) -> Self {
        Self {
            at: Moment(decision.at_ms),
            due: Moment(decision.due_ms),
            name: decision.key.name.to_string(),
            receipt: decision.fate.word(),
            reason: decision.reason,
            count: decision.count,
        }
    }
}
