//! One run of a forecast: the dispatcher and a heap of running rounds. Rounds start at once and end after their drawn
//! duration.

use super::{
    Forecast, ForecastLoop, ForecastRange, ForecastRequest, LoopCollision, LoopForecast, OccurrenceDecision,
    RoundProfile,
};
use crate::dispatch::{
    DispatchCommand, DispatchInput, Dispatcher, LoopEntry, LoopKey, OccurrenceOutcome, OccurrenceReceipt, RoundEnd,
    RoundStart, TriggerSignal,
};
use crate::outcome::RoundOutcome;
use crate::units::Usd;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};

/// The most decisions of the first run that a forecast lists.
const DECISIONS_MAX: usize = 2_000;
/// A start this long after its start time counts as delayed.
const WAITED_MS: i64 = 1_000;
/// The most loops that one delayed start names. In a fleet that is always full, nearly every loop ran while another one
/// waited, and a list of all pairs would grow with the square of the number of loops.
const BLOCKERS_MAX: usize = 32;
const DAY_MS: i64 = 86_400_000;
/// The most rounds that may follow one another, as in the engine.
const CHAIN_MAX: u32 = 8;
/// The beginning of the occurrence of a round that follows another.
const AFTER: &str = "after:";

/// A run in progress, and its results.
pub(super) struct ForecastRun<'p> {
    plans: &'p [ForecastLoop],
    nth: HashMap<&'p LoopKey, usize>,
    dice: SeededRandom,
    dispatcher: Dispatcher,
    /// The plans that each plan makes due.
    followers: Vec<Vec<usize>>,
    /// Running rounds by end time: the time, the plan, the round, the outcome.
    ends: BinaryHeap<Reverse<(i64, usize, u64, RoundOutcome)>>,
    /// How many rounds each running round follows, if it follows any.
    depths: HashMap<u64, u32>,
    /// The signals of rounds that have just ended.
    signals: VecDeque<TriggerSignal>,
    running: BTreeMap<u64, usize>,
    /// The latest ends of rounds, the newest last: the time and the plan.
    recent_ends: VecDeque<(i64, usize)>,
    rounds: u64,
    /// Millionths of a dollar by plan and day.
    days: HashMap<(usize, i64), u64>,
    fates: Vec<BTreeMap<OccurrenceOutcome, u64>>,
    over_budget: Vec<u64>,
    longest: Vec<i64>,
    collisions: BTreeMap<(usize, usize), (u64, i64)>,
    decisions: Vec<OccurrenceDecision>,
    /// Every started round: its plan and its time.
    starts: Vec<(usize, i64)>,
    pub(super) spent: Vec<u64>,
    /// The work of the run: calls of the dispatcher, and occurrences that it decided.
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
            followers: followers(plans),
            ends: BinaryHeap::new(),
            depths: HashMap::new(),
            signals: VecDeque::new(),
            running: BTreeMap::new(),
            recent_ends: VecDeque::new(),
            rounds: 0,
            days: HashMap::new(),
            fates: vec![BTreeMap::new(); plans.len()],
            over_budget: vec![0; plans.len()],
            longest: vec![0; plans.len()],
            collisions: BTreeMap::new(),
            decisions: Vec::new(),
            starts: Vec::new(),
            spent: vec![0; plans.len()],
            steps: 0,
            is_cut: false,
        };
        // A worker is always free: the coming workers are unknown.
        let entries = plans.iter().map(|plan| LoopEntry { place: None, ..plan.entry.clone() }).collect();
        play.step(question.from_ms, DispatchInput::Loops(entries));
        while let Some((now_ms, input)) = play.next(question.until_ms) {
            if play.steps >= question.run_steps_max {
                play.is_cut = true;
                break;
            }
            play.step(now_ms, input);
            while let Some(signal) = play.signals.pop_front() {
                play.step(now_ms, DispatchInput::Signal(signal));
            }
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
        if self.recent_ends.len() == BLOCKERS_MAX {
            self.recent_ends.pop_front();
        }
        self.recent_ends.push_back((now_ms, plan));
        self.make_followers_due(now_ms, plan, round, outcome);
        // The day's ceiling restarts tomorrow.
        let tomorrow_ms = (now_ms.div_euclid(DAY_MS) + 1).saturating_mul(DAY_MS);
        let retry_at_ms = (outcome == RoundOutcome::OverBudget).then_some(tomorrow_ms);
        let end = RoundEnd { outcome, signature: None, retry_at_ms, open_proposals: 0 };
        Some((now_ms, DispatchInput::Ended { key: self.plans[plan].entry.key.clone(), round: round.to_string(), end }))
    }

    /// The end of a round that did something makes the loops due that follow its loop, up to the length of a chain.
    fn make_followers_due(&mut self, now_ms: i64, plan: usize, round: u64, outcome: RoundOutcome) {
        let depth = self.depths.remove(&round).unwrap_or(0) + 1;
        let is_due = matches!(outcome, RoundOutcome::Shipped | RoundOutcome::Reported) && depth <= CHAIN_MAX;
        let leader = &self.plans[plan].entry.key;
        for nth in self.followers[plan].iter().filter(|_| is_due) {
            self.signals.push_back(TriggerSignal {
                key: self.plans[*nth].entry.key.clone(),
                occurrence: format!("{AFTER}{depth}:{round}"),
                trigger: format!("after {}", leader.name).into(),
                at_ms: now_ms,
                item: None,
            });
        }
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
        self.steps = self.steps.saturating_add(usize::try_from(receipt.count).unwrap_or(usize::MAX));
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
            let due_ms = due.map(|due| due.start_ms).filter(|at_ms| start.signals.is_empty() && *at_ms <= now_ms);
            self.waited(nth, due_ms.unwrap_or(start.receipt.due_ms), now_ms);
            self.starts.push((nth, now_ms));
            let like = self.drawn(nth, now_ms);
            let end_ms = now_ms.saturating_add(like.duration_ms.max(1));
            self.ends.push(Reverse((end_ms, nth, round, like.outcome)));
            self.running.insert(round, nth);
            let depths = start.signals.iter().filter_map(|signal| chain_depth(&signal.occurrence));
            self.depths.extend(depths.max().map(|depth| (round, depth)));
        }
        round.to_string()
    }

    /// The loops that run now, and those that ended last while it waited, blocked it or waited for the same resource.
    fn waited(&mut self, nth: usize, due_ms: i64, now_ms: i64) {
        let for_ms = now_ms.saturating_sub(due_ms);
        self.longest[nth] = self.longest[nth].max(for_ms);
        if for_ms <= WAITED_MS {
            return;
        }
        let ended = self.recent_ends.iter().rev().take_while(|(end_ms, _)| *end_ms > due_ms).map(|(_, plan)| *plan);
        let mut seen = BTreeSet::from([nth]);
        let blockers = self.running.values().copied().chain(ended).filter(|other| seen.insert(*other));
        for other in blockers.take(BLOCKERS_MAX) {
            let met = self.collisions.entry((nth, other)).or_default();
            *met = (met.0 + 1, met.1.max(for_ms));
        }
    }

    /// Draws the profile of this round.
    fn drawn(&mut self, nth: usize, now_ms: i64) -> RoundProfile {
        let today = self.days.entry((nth, now_ms.div_euclid(DAY_MS))).or_default();
        let (like, is_capped) = draw_round(&self.plans[nth], today, &mut self.dice);
        self.over_budget[nth] += u64::from(is_capped);
        self.spent[nth] = self.spent[nth].saturating_add(like.usd.micros());
        like
    }

    /// The cost of each plan if the same rounds had drawn other profiles, without the dispatcher: rounds of another
    /// duration would change no start here.
    pub(super) fn redraw_costs(&self, mut dice: SeededRandom) -> Vec<u64> {
        let mut spent = vec![0_u64; self.plans.len()];
        // Starts are in the order of time, so that a plan's day is over when its next day begins.
        let mut today = vec![(i64::MIN, 0_u64); self.plans.len()];
        for (nth, at_ms) in &self.starts {
            let day = at_ms.div_euclid(DAY_MS);
            if today[*nth].0 != day {
                today[*nth] = (day, 0);
            }
            let (like, _) = draw_round(&self.plans[*nth], &mut today[*nth].1, &mut dice);
            spent[*nth] = spent[*nth].saturating_add(like.usd.micros());
        }
        spent
    }

    /// How many rounds started.
    pub(super) fn started(&self) -> usize {
        self.starts.len()
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

/// The plans that each plan makes due when one of its rounds ends.
fn followers(plans: &[ForecastLoop]) -> Vec<Vec<usize>> {
    let nth: HashMap<_, _> = plans.iter().enumerate().map(|(nth, plan)| (&plan.entry.key, nth)).collect();
    let mut followers = vec![Vec::new(); plans.len()];
    for (follower, plan) in plans.iter().enumerate() {
        for leader in plan.after.iter().filter_map(|key| nth.get(key)) {
            followers[*leader].push(follower);
        }
    }
    followers
}

/// The number of rounds before this one in its chain.
fn chain_depth(occurrence: &str) -> Option<u32> {
    occurrence.strip_prefix(AFTER)?.split(':').next()?.parse().ok()
}

/// Draws a round's profile and adds its cost to its day. A round that would exceed the day's ceiling ends there; also
/// returns whether it did.
fn draw_round(plan: &ForecastLoop, today: &mut u64, dice: &mut SeededRandom) -> (RoundProfile, bool) {
    let nothing = RoundProfile { duration_ms: 1, usd: Usd(0), outcome: RoundOutcome::NothingToDo };
    let mut like = dice.choose(&plan.rounds).copied().unwrap_or(nothing);
    let left = plan.day.map_or(u64::MAX, |day| day.micros().saturating_sub(*today));
    let is_capped = like.usd.micros() > left;
    if is_capped {
        like = RoundProfile { usd: Usd(left), outcome: RoundOutcome::OverBudget, ..like };
    }
    *today = today.saturating_add(like.usd.micros());
    (like, is_capped)
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
