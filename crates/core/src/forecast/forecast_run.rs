//! One run of a forecast: the dispatcher and a heap of running rounds. Rounds start at once and end after their drawn
//! duration.

use super::{
    Forecast, ForecastLoop, ForecastRange, ForecastRequest, LoopCollision, LoopForecast, OccurrenceDecision,
    RoundProfile,
};
use crate::dispatch::{
    DispatchCommand, DispatchInput, Dispatcher, LoopKey, OccurrenceOutcome, OccurrenceReceipt, RoundEnd, RoundStart,
};
use crate::outcome::RoundOutcome;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

/// The most decisions of the first run that a forecast lists.
const DECISIONS_MAX: usize = 2_000;
/// A start this long after its start time counts as delayed.
const WAITED_MS: i64 = 1_000;
const DAY_MS: i64 = 86_400_000;

/// A run in progress, and its results.
pub(super) struct ForecastRun<'p> {
    plans: &'p [ForecastLoop],
    nth: HashMap<&'p LoopKey, usize>,
    dice: SeededRandom,
    dispatcher: Dispatcher,
    /// Running rounds by end time: the time, the plan, the round, the outcome.
    ends: BinaryHeap<Reverse<(i64, usize, u64, RoundOutcome)>>,
    running: BTreeMap<u64, usize>,
    /// When the last round of each plan ended.
    ended: Vec<i64>,
    rounds: u64,
    /// Millionths of a dollar by plan and day.
    days: HashMap<(usize, i64), u64>,
    fates: Vec<BTreeMap<OccurrenceOutcome, u64>>,
    over_budget: Vec<u64>,
    longest: Vec<i64>,
    collisions: BTreeMap<(usize, usize), (u64, i64)>,
    decisions: Vec<OccurrenceDecision>,
    pub(super) spent: Vec<u64>,
    pub(super) steps: usize,
    pub(super) is_cut: bool,
}

impl<'p> ForecastRun<'p> {
    pub(super) fn run(plans: &'p [ForecastLoop], question: &ForecastRequest, dice: SeededRandom) -> Self {
        let (limits, standings) = (question.limits.clone(), question.standings.clone());
        let mut play = Self {
            plans,
            nth: plans.iter().enumerate().map(|(nth, plan)| (&plan.entry.key, nth)).collect(),
            dice,
            dispatcher: Dispatcher::new(limits, standings, Vec::new(), None, question.from_ms),
            ends: BinaryHeap::new(),
            running: BTreeMap::new(),
            ended: vec![i64::MIN; plans.len()],
            rounds: 0,
            days: HashMap::new(),
            fates: vec![BTreeMap::new(); plans.len()],
            over_budget: vec![0; plans.len()],
            longest: vec![0; plans.len()],
            collisions: BTreeMap::new(),
            decisions: Vec::new(),
            spent: vec![0; plans.len()],
            steps: 0,
            is_cut: false,
        };
        let entries = plans.iter().map(|plan| plan.entry.clone()).collect();
        play.step(question.from_ms, DispatchInput::Loops(entries));
        while let Some((now_ms, input)) = play.next(question.until_ms) {
            if play.steps >= question.steps_max {
                play.is_cut = true;
                break;
            }
            play.step(now_ms, input);
        }
        play
    }

    /// The next event before the end of the run: a round ends, or the dispatcher wakes.
    fn next(&mut self, until_ms: i64) -> Option<(i64, DispatchInput)> {
        let wake_ms = self.dispatcher.next_wake();
        let end_ms = self.ends.peek().map(|Reverse((at, ..))| *at);
        let now_ms = [wake_ms, end_ms].into_iter().flatten().min().filter(|at| *at <= until_ms)?;
        if end_ms.is_none_or(|end| end > now_ms) {
            return Some((now_ms, DispatchInput::Wake));
        }
        let Reverse((_, plan, round, outcome)) = self.ends.pop()?;
        self.running.remove(&round);
        self.ended[plan] = now_ms;
        // The day's ceiling restarts tomorrow.
        let tomorrow_ms = (now_ms.div_euclid(DAY_MS) + 1).saturating_mul(DAY_MS);
        let retry_at_ms = (outcome == RoundOutcome::OverBudget).then_some(tomorrow_ms);
        let end = RoundEnd { outcome, signature: None, retry_at_ms, open_proposals: 0 };
        Some((now_ms, DispatchInput::Ended { key: self.plans[plan].entry.key.clone(), round: round.to_string(), end }))
    }

    fn step(&mut self, now_ms: i64, input: DispatchInput) {
        self.steps += 1;
        let mut commands = self.dispatcher.step(now_ms, input);
        // A start may cause further starts. Each takes a slot, so the loop ends.
        while !commands.is_empty() {
            let mut more = Vec::new();
            for command in commands {
                match command {
                    DispatchCommand::Persist { receipts, .. } => {
                        receipts.iter().for_each(|receipt| self.count(receipt))
                    }
                    DispatchCommand::Start(start) => {
                        let born =
                            DispatchInput::StartSucceeded { ticket: start.ticket, round: self.born(now_ms, &start) };
                        self.steps += 1;
                        more.extend(self.dispatcher.step(now_ms, born));
                    }
                    DispatchCommand::Cancel { round, .. } => self.cancelled(now_ms, &round),
                    DispatchCommand::AskPerson { .. }
                    | DispatchCommand::Note(_)
                    | DispatchCommand::Granted { .. }
                    | DispatchCommand::Withheld { .. } => {}
                }
            }
            commands = more;
        }
    }

    fn count(&mut self, receipt: &OccurrenceReceipt) {
        let Some(nth) = self.nth.get(&receipt.key).copied() else { return };
        *self.fates[nth].entry(receipt.fate).or_default() += receipt.count;
        if self.decisions.len() < DECISIONS_MAX {
            let OccurrenceReceipt { at_ms, due_ms, fate, count, .. } = *receipt;
            let (key, reason) = (receipt.key.clone(), receipt.reason.clone());
            self.decisions.push(OccurrenceDecision { at_ms, due_ms, key, fate, reason, count });
        }
    }

    /// Starts a round: counts its receipt, draws its end, and records which loops ran while it waited.
    fn born(&mut self, now_ms: i64, start: &RoundStart) -> String {
        self.count(&start.receipt);
        self.rounds += 1;
        let round = self.rounds;
        if let Some(nth) = self.nth.get(&start.key).copied() {
            let schedule = &self.plans[nth].entry.schedule;
            let due = schedule.next_after(start.receipt.due_ms.saturating_sub(1));
            self.waited(nth, due.map_or(start.receipt.due_ms, |due| due.start_ms), now_ms);
            let like = self.drawn(nth, now_ms);
            let end_ms = now_ms.saturating_add(like.duration_ms.max(1));
            self.ends.push(Reverse((end_ms, nth, round, like.outcome)));
            self.running.insert(round, nth);
        }
        round.to_string()
    }

    /// Every loop that ran in between blocked it, or waited for the same resource.
    fn waited(&mut self, nth: usize, due_ms: i64, now_ms: i64) {
        let for_ms = now_ms.saturating_sub(due_ms);
        self.longest[nth] = self.longest[nth].max(for_ms);
        if for_ms <= WAITED_MS {
            return;
        }
        let runs: BTreeSet<usize> = self.running.values().copied().collect();
        let ran = (0..self.plans.len()).filter(|other| self.ended[*other] > due_ms || runs.contains(other));
        for other in ran.filter(|other| *other != nth) {
            let met = self.collisions.entry((nth, other)).or_default();
            *met = (met.0 + 1, met.1.max(for_ms));
        }
    }

    /// Draws the profile of this round. A round that would exceed its day's ceiling ends at the ceiling.
    fn drawn(&mut self, nth: usize, now_ms: i64) -> RoundProfile {
        let plan = &self.plans[nth];
        let nothing = RoundProfile { duration_ms: 1, usd: crate::units::Usd(0), outcome: RoundOutcome::NothingToDo };
        let mut like = self.dice.choose(&plan.rounds).copied().unwrap_or(nothing);
        let today = self.days.entry((nth, now_ms.div_euclid(DAY_MS))).or_default();
        let left = plan.day.map_or(u64::MAX, |day| day.micros().saturating_sub(*today));
        if like.usd.micros() > left {
            like = RoundProfile { usd: crate::units::Usd(left), outcome: RoundOutcome::OverBudget, ..like };
            self.over_budget[nth] += 1;
        }
        *today = today.saturating_add(like.usd.micros());
        self.spent[nth] = self.spent[nth].saturating_add(like.usd.micros());
        like
    }

    /// Ends the round now.
    fn cancelled(&mut self, now_ms: i64, round: &str) {
        let Ok(round) = round.parse::<u64>() else { return };
        let ends = std::mem::take(&mut self.ends).into_iter().map(|Reverse((at, plan, id, how))| {
            Reverse(if id == round { (now_ms, plan, id, RoundOutcome::Cancelled) } else { (at, plan, id, how) })
        });
        self.ends = ends.collect();
    }

    pub(super) fn into_forecast(self, plans: &[ForecastLoop]) -> Forecast {
        let key = |nth: usize| plans[nth].entry.key.clone();
        let pairs = self.collisions.iter().map(|((waits, runs), (times, longest_ms))| LoopCollision {
            waits: key(*waits),
            runs: key(*runs),
            times: *times,
            longest_ms: *longest_ms,
        });
        let mut collisions: Vec<_> = pairs.collect();
        collisions.sort_by_key(|pair| Reverse((pair.times, pair.longest_ms)));
        let loops = self.fates.into_iter().enumerate().map(|(nth, fates)| LoopForecast {
            key: key(nth),
            fates,
            over_budget: self.over_budget[nth],
            longest_wait_ms: self.longest[nth],
            cost: ForecastRange::default(),
        });
        Forecast {
            plays: 1,
            is_cut: self.is_cut,
            loops: loops.collect(),
            cost: ForecastRange::default(),
            collisions,
            decisions: self.decisions,
        }
    }
}

/// Random numbers (SplitMix64): the same seed and the same calls give the same numbers. Not for secrets.
pub(super) struct SeededRandom(u64);

/// The odd golden-ratio constant that SplitMix64 adds in each step.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl SeededRandom {
    pub(super) fn new(seed: u64, play: usize) -> Self {
        let mut dice = Self(seed ^ (play as u64).wrapping_mul(STEP));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One of these at random; `None` if the slice is empty. Slices are short against 2^64, so the bias of the
    /// remainder is negligible.
    fn choose<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
        all.get(usize::try_from(self.next() % count).ok()?)
    }
}
