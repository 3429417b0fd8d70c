//! The dispatcher decides which loop starts when, and records the outcome of every due time.
//!
//! It only decides: `now` is an argument, and [`DispatchCommand`]s name the work for the engine and the rows to write.
//! A dispatcher that is rebuilt from the stored rows continues where the last one stopped; it only finds pending
//! occurrences again. [`crate::cadence`] computes due times, and the engine starts rounds.
//!
//! - Every due time at or before a loop's mark has its receipt. A pending one keeps the mark behind it.
//! - A loop has one round at a time, started by the schedule or by a person.
//! - A new loop, or one whose cadence was edited, begins now; earlier due times are not caught up.
//! - A clock that goes back repeats nothing, because the mark stays. A clock that is more than an hour behind the last
//!   recorded moment is not trusted at all.
//! - One wake-up costs the logarithm of the number of loops: each loop has one timer, and a loop that lacks a slot or a
//!   lock is parked there until it is free.

mod arrive;
mod control;
mod entry;
mod explain;
mod explanation;
mod failure;
mod lock;
mod message;
mod output;
mod placement;
mod queue;
mod receipt;
mod reload;
mod scheduled_loop;
mod slots;
mod spec_facts;
mod start;
mod start_answers;

pub use entry::{ConcurrencyLimits, FleetFreeze, LoopDelay, LoopEntry, LoopKey, LoopPause, LoopStanding};
pub use explanation::{LoopExplanation, ResourceHolder, SlotLimit, StartBlocker, lock_taken_text};
pub use failure::ABOUT;
pub use lock::{ItemLocks, OWN_ITEMS, RoundLock};
pub use message::{DispatchCommand, DispatchInput, RoundEnd, RoundStart, SchedulerNote, TriggerSignal};
pub use placement::{FleetMember, PlacementGap, PlacementNeeds};
pub use receipt::{OccurrenceOutcome, OccurrenceReceipt, occurrence_key};
pub use spec_facts::RoundClaims;

use arrive::{ArrivalContext, take_due};
use output::DispatchOutput;
use queue::{QueueRank, StartQueue};
use scheduled_loop::ScheduledLoop;
use slots::SlotTable;
use start_answers::SlotSuccessor;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A due time that is processed this long after its start time was due while no scheduler was running.
pub(crate) const LATE_MS: i64 = 60_000;
/// A clock that is more than this behind the last recorded moment is not trusted.
pub const CLOCK_TOLERANCE_MS: i64 = 3_600_000;
/// A wake-up that is this late is reported.
const GAP_MS: i64 = 5 * 60_000;
/// A round that still runs this long after its time limit is reported as stalled.
const STALL_MS: i64 = 5 * 60_000;

/// Decides what starts when; see the module.
#[derive(Debug, Default)]
pub struct Dispatcher {
    /// Each is boxed, because a tree that is filled in order is half empty.
    members: BTreeMap<LoopKey, Box<ScheduledLoop>>,
    /// The standings of loops that are not loaded.
    standings: BTreeMap<LoopKey, LoopStanding>,
    /// Signals for loops that are not loaded.
    unloaded_signals: BTreeMap<LoopKey, Vec<TriggerSignal>>,
    /// Open proposals of loops that are not loaded.
    unloaded_proposals: BTreeMap<LoopKey, u32>,
    /// Rounds on record that take their loop's place next.
    successors: BTreeMap<LoopKey, VecDeque<SlotSuccessor>>,
    slots: SlotTable,
    queue: StartQueue,
    /// A loop that has waited very long: other loops leave the resources it needs free.
    reserved_for: Option<LoopKey>,
    timers: BTreeSet<(i64, LoopKey)>,
    tickets: BTreeMap<u64, LoopKey>,
    last_ticket: u64,
    frozen: Option<FleetFreeze>,
    is_draining: bool,
    /// Whether starts wait until the rounds on record have their places.
    is_held: bool,
    is_clock_behind: bool,
    /// The earliest moment of the clock since it is behind; the end of time while it is not.
    behind_from_ms: i64,
    /// The latest moment ever recorded.
    seen_ms: i64,
    /// The moment of the previous step.
    last_ms: i64,
    out: DispatchOutput,
}

impl Dispatcher {
    /// A dispatcher that continues from the store: the standings of loops, the signals that no round has taken, whether
    /// everything is stopped, and the last recorded moment.
    #[must_use]
    pub fn new(
        limits: ConcurrencyLimits,
        standings: Vec<LoopStanding>,
        pending: Vec<TriggerSignal>,
        frozen: Option<FleetFreeze>,
        last_seen_ms: i64,
    ) -> Self {
        let mut unloaded_signals: BTreeMap<LoopKey, Vec<TriggerSignal>> = BTreeMap::new();
        for signal in pending {
            unloaded_signals.entry(signal.key.clone()).or_default().push(signal);
        }
        Self {
            standings: standings.into_iter().map(|standing| (standing.key.clone(), standing)).collect(),
            unloaded_signals,
            slots: SlotTable::new(limits),
            frozen,
            seen_ms: last_seen_ms,
            last_ms: i64::MIN,
            ..Self::default()
        }
    }

    /// Loads loops and takes inputs, but starts nothing before [`Self::release_starts`]: rounds that are on record come
    /// first.
    pub fn hold_starts(&mut self) {
        self.is_held = true;
    }

    /// Starts what is due from the next step on.
    pub fn release_starts(&mut self) {
        self.is_held = false;
    }

    /// Advances time to `now_ms`, processes the input, and returns the commands to perform.
    pub fn step(&mut self, now_ms: i64, input: DispatchInput) -> Vec<DispatchCommand> {
        self.check_clock(now_ms);
        self.run_timers(now_ms);
        self.apply_input(now_ms, input);
        self.run_timers(now_ms);
        self.refresh_after_step_back(now_ms);
        self.start_waiting(now_ms);
        std::mem::take(&mut self.out).into_commands(&self.members)
    }

    /// When the next [`DispatchInput::Wake`] is due; `None` if only another input can change anything.
    #[must_use]
    pub fn next_wake(&self) -> Option<i64> {
        if self.is_draining {
            return None;
        }
        if self.is_clock_behind {
            return Some(self.seen_ms.saturating_sub(CLOCK_TOLERANCE_MS));
        }
        self.timers.first().map(|(at_ms, _)| *at_ms)
    }

    /// The last recorded moment, if `now_ms` is so far behind it that the clock is not trusted.
    #[must_use]
    pub fn clock_behind(&self, now_ms: i64) -> Option<i64> {
        (now_ms.saturating_add(CLOCK_TOLERANCE_MS) < self.seen_ms).then_some(self.seen_ms)
    }

    /// The next moment at which something is due or may start: [`Self::next_wake`] without the checks for stalled
    /// rounds.
    #[must_use]
    pub fn next_due(&self) -> Option<i64> {
        if self.is_draining || self.is_clock_behind {
            return self.next_wake();
        }
        let mut first_ms = None;
        for (at_ms, key) in &self.timers {
            if first_ms.is_some_and(|first_ms| first_ms <= *at_ms) {
                break;
            }
            let due_ms = if self.is_stall(key, *at_ms) { self.due_after(key, *at_ms) } else { Some(*at_ms) };
            first_ms = first_ms.into_iter().chain(due_ms).min();
        }
        first_ms
    }

    /// Whether a loop's timer is set only to check for a stalled round.
    fn is_stall(&self, key: &LoopKey, at_ms: i64) -> bool {
        let run = self.slots.run(key).filter(|run| !run.is_stall_reported);
        run.and_then(|run| run.until_ms).is_some_and(|until_ms| until_ms.saturating_add(STALL_MS) == at_ms)
    }

    fn due_after(&self, key: &LoopKey, at_ms: i64) -> Option<i64> {
        self.members.get(key)?.next.as_ref().map(|due| due.start_ms).filter(|due_ms| *due_ms >= at_ms)
    }

    /// Every loop that is loaded, by repository and name.
    pub fn loops(&self) -> impl Iterator<Item = &LoopKey> {
        self.members.keys()
    }

    /// How many rounds are running or starting.
    #[must_use]
    pub fn running(&self) -> usize {
        self.slots.runs().count()
    }

    fn apply_input(&mut self, now_ms: i64, input: DispatchInput) {
        match input {
            DispatchInput::Wake => {}
            DispatchInput::Loops(entries) => self.reload(now_ms, entries),
            DispatchInput::Limits(limits) => self.set_limits(limits),
            DispatchInput::Members(members) => self.set_members(members),
            DispatchInput::Signal(signal) => self.receive_signal(now_ms, signal),
            DispatchInput::Occupied { key, round, items } => self.occupy_slot(now_ms, key, round, &items),
            DispatchInput::Admitted { key, round, claims } => self.admit_round(now_ms, key, round, &claims),
            DispatchInput::Successor { key, round, items } => {
                self.add_successor(now_ms, key, SlotSuccessor { round, items })
            }
            DispatchInput::Claim { ticket, items } => self.claim_items(now_ms, ticket, items),
            DispatchInput::StartSucceeded { ticket, round } => self.start_succeeded(now_ms, ticket, round),
            DispatchInput::StartFailed { ticket, why, retry_ms } => self.start_failed(now_ms, ticket, &why, retry_ms),
            DispatchInput::StartDelayed { ticket, retry_ms } => self.start_delayed(now_ms, ticket, retry_ms),
            DispatchInput::NoWork { ticket } => self.no_work(now_ms, ticket),
            DispatchInput::TooManyOpen { ticket, open } => self.too_many_open(now_ms, ticket, open),
            DispatchInput::AlreadyReceipted { ticket } => self.start_already_receipted(now_ms, ticket),
            DispatchInput::Ended { key, round, end } => self.round_ended(now_ms, &key, &round, &end),
            DispatchInput::Proposals { key, open } => self.set_open_proposals(now_ms, &key, open),
            DispatchInput::Pause { key, by, why } => self.pause(now_ms, key, by, why),
            DispatchInput::Resume { key } => self.resume(now_ms, &key),
            DispatchInput::Freeze { by, why } => self.freeze(now_ms, by, why),
            DispatchInput::Thaw => self.thaw(now_ms),
            DispatchInput::Drain => self.is_draining = true,
        }
    }

    /// A clock that goes back a little changes nothing, because marks stay; one that goes back far is not trusted.
    fn check_clock(&mut self, now_ms: i64) {
        if let Some(expected_ms) = self.next_wake().filter(|at| now_ms.saturating_sub(*at) > GAP_MS) {
            self.note(SchedulerNote::Gap { expected_ms, now_ms });
        }
        let is_behind = self.clock_behind(now_ms).is_some();
        if is_behind && !self.is_clock_behind {
            self.note(SchedulerNote::ClockBehind { now_ms, seen_ms: self.seen_ms });
        }
        if self.is_clock_behind && !is_behind {
            self.note(SchedulerNote::ClockRight { now_ms });
        }
        self.behind_from_ms = match (is_behind, self.is_clock_behind) {
            (true, true) => self.behind_from_ms.min(now_ms),
            (true, false) => now_ms,
            (false, _) => i64::MAX,
        };
        self.is_clock_behind = is_behind;
        self.seen_ms = self.seen_ms.max(now_ms);
    }

    /// A clock that went back may again be before quiet hours or before the end of a wait, for which no timer is set.
    fn refresh_after_step_back(&mut self, now_ms: i64) {
        if now_ms < std::mem::replace(&mut self.last_ms, now_ms) {
            let keys: Vec<_> = self.members.keys().cloned().collect();
            keys.iter().for_each(|key| self.refresh(now_ms, key));
        }
    }

    fn note(&mut self, note: SchedulerNote) {
        self.out.add_command(DispatchCommand::Note(note));
    }

    /// Whether time advances for loops at all.
    fn is_live(&self) -> bool {
        !self.is_draining && !self.is_clock_behind
    }

    /// Processes every loop whose timer has expired.
    fn run_timers(&mut self, now_ms: i64) {
        while self.is_live() && self.timers.first().is_some_and(|(at_ms, _)| *at_ms <= now_ms) {
            let Some((_, key)) = self.timers.pop_first() else { return };
            if let Some(member) = self.members.get_mut(&key) {
                member.timer_ms = None;
            }
            self.report_stalled(now_ms, &key);
            self.take_due(now_ms, &key);
            self.update_queue(now_ms, &key);
            self.set_timer(now_ms, &key);
        }
    }

    /// Reports once that a round has exceeded its time limit.
    fn report_stalled(&mut self, now_ms: i64, key: &LoopKey) {
        let Some(run) = self.slots.run_mut(key).filter(|run| !run.is_stall_reported) else { return };
        if run.until_ms.is_some_and(|until_ms| until_ms.saturating_add(STALL_MS) <= now_ms) {
            run.is_stall_reported = true;
            let (round, since_ms) = (run.round().cloned(), run.since_ms);
            self.note(SchedulerNote::Stalled { key: key.clone(), round, since_ms });
        }
    }

    /// Processes due times, unless a start of the loop is pending: later due times are resolved after it.
    fn take_due(&mut self, now_ms: i64, key: &LoopKey) {
        let shut = self.closed_reason(key);
        let run = self.slots.run(key);
        let Some(member) = self.members.get_mut(key) else { return };
        if run.is_some_and(slots::ActiveRound::is_starting)
            || member.next.as_ref().is_none_or(|due| due.start_ms > now_ms)
        {
            return;
        }
        let around =
            ArrivalContext { now_ms, round: run.and_then(slots::ActiveRound::round).map(String::as_str), closed: shut };
        if take_due(member, &around, &mut self.out) {
            self.cancel_for_due(key);
        }
    }

    /// Why the loop starts nothing at all.
    fn closed_reason(&self, key: &LoopKey) -> Option<(OccurrenceOutcome, String)> {
        if let Some(frozen) = &self.frozen {
            return Some((
                OccurrenceOutcome::Stopped,
                format!("everything is stopped by {}: {}", frozen.by, frozen.why),
            ));
        }
        let paused = self.members.get(key)?.standing.paused.as_ref()?;
        Some((OccurrenceOutcome::Paused, format!("paused by {}: {}", paused.by, paused.why)))
    }

    /// Puts the loop in the queue if it could start now, slots and locks aside; otherwise removes it.
    fn update_queue(&mut self, now_ms: i64, key: &LoopKey) {
        let is_free = self.frozen.is_none() && self.slots.run(key).is_none();
        let can_start = |member: &ScheduledLoop| {
            member.is_waiting()
                && member.standing.paused.is_none()
                && member.open < member.entry.open_max
                && member.not_before(now_ms).is_none()
        };
        match self.members.get(key).filter(|member| is_free && can_start(member)) {
            Some(member) => {
                let since_ms = member.since_ms.unwrap_or(now_ms);
                // The first thing it waits for may concern another item now.
                if member.entry.item_locks == ItemLocks::Own {
                    self.queue.unpark(key);
                }
                self.queue.enter(QueueRank::new(member.entry.priority, since_ms, key.clone()));
            }
            None => self.leave_queue(key),
        }
    }

    /// Sets the loop's one timer to the next moment at which its state changes without an input.
    fn set_timer(&mut self, now_ms: i64, key: &LoopKey) {
        let run = self.slots.run(key);
        let Some(member) = self.members.get_mut(key) else { return };
        let is_starting = run.is_some_and(slots::ActiveRound::is_starting);
        let due_ms = member.next.as_ref().map(|due| due.start_ms).filter(|at| !is_starting || *at > now_ms);
        let hold_ms = if member.is_waiting() && run.is_none() { member.not_before(now_ms) } else { None };
        let stall_ms =
            run.filter(|run| !run.is_stall_reported).and_then(|run| run.until_ms).map(|at| at.saturating_add(STALL_MS));
        let moment_ms = [due_ms, hold_ms, stall_ms].into_iter().flatten().min();
        if moment_ms != member.timer_ms {
            if let Some(old_ms) = member.timer_ms {
                self.timers.remove(&(old_ms, key.clone()));
            }
            member.timer_ms = moment_ms;
            self.timers.extend(moment_ms.map(|at_ms| (at_ms, key.clone())));
        }
    }

    /// Call this after any change of a loop.
    fn refresh(&mut self, now_ms: i64, key: &LoopKey) {
        self.update_queue(now_ms, key);
        self.set_timer(now_ms, key);
    }
}
