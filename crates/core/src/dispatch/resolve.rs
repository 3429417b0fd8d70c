//! The answers to starts, and the ends of rounds.

use super::failure::{self, Aftermath};
use super::member::receipt_of_signal;
use super::slots::{self, Resource, Run, RunPhase, Starting, needs, needs_of};
use super::{Claims, Command, Dispatcher, End, Fate, LoopKey, Receipt, SchedulerNote};
use std::sync::Arc;

/// The most rounds of one loop that wait on record for its place; more are found by the next start.
const HEIRS_MAX: usize = 64;
/// How often one start is tried.
const TRIES_MAX: u8 = 5;
/// The shortest wait between two tries.
const RETRY_MS: i64 = 1_000;

/// A round on record that has its loop's place next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heir {
    pub(super) round: String,
    pub(super) items: Vec<Arc<str>>,
}

impl Dispatcher {
    pub(super) fn born(&mut self, now_ms: i64, ticket: u64, round: String) {
        let Some(key) = self.tickets.remove(&ticket) else { return };
        let Some(run) = self.slots.run_mut(&key) else { return };
        let before = std::mem::replace(&mut run.phase, RunPhase::Running(round));
        let RunPhase::Starting(starting) = before else { return };
        if let Some(member) = self.members.get_mut(&key) {
            member.tries = 0;
            member.retry_ms = None;
            member.wait_anew(now_ms);
            if let Some(waiting) = starting.due {
                member.mark(waiting.due.at_ms);
                member.tell_all(waiting.after, &mut self.out);
            }
        }
        self.after_start(now_ms, &key);
    }

    pub(super) fn unborn(&mut self, now_ms: i64, ticket: u64, why: &str, retry_ms: Option<i64>) {
        let Some((key, starting)) = self.end_start(ticket) else { return };
        let Some(member) = self.members.get_mut(&key) else { return };
        match retry_ms.filter(|_| member.tries < TRIES_MAX) {
            Some(retry_ms) => {
                member.tries += 1;
                member.retry_ms = Some(retry_ms.max(now_ms.saturating_add(RETRY_MS)));
                member.put_back(starting);
            }
            None => {
                self.finish_start(now_ms, &key, starting, Fate::Failed, why);
                self.follow(now_ms, &key, |standing| failure::unborn(standing, why, now_ms));
            }
        }
        self.after_start(now_ms, &key);
    }

    pub(super) fn no_work(&mut self, now_ms: i64, ticket: u64) {
        let Some((key, starting)) = self.end_start(ticket) else { return };
        self.finish_start(now_ms, &key, starting, Fate::NoWork, "the probe found nothing to do");
        self.after_start(now_ms, &key);
    }

    /// The occurrence is skipped. The next one asks the forge again, so a pull request that a person closes makes room.
    pub(super) fn too_many_open(&mut self, now_ms: i64, ticket: u64, open: u32) {
        let Some((key, starting)) = self.end_start(ticket) else { return };
        let most = self.members.get(&key).map_or(open, |member| member.entry.open_max);
        let reason = format!("{open} pull requests are open, at most {most} may be");
        self.finish_start(now_ms, &key, starting, Fate::OpenMax, &reason);
        self.after_start(now_ms, &key);
    }

    /// The occurrence has its receipt already; only the mark goes on, and the signals are settled.
    pub(super) fn settled(&mut self, now_ms: i64, ticket: u64) {
        let Some((key, starting)) = self.end_start(ticket) else { return };
        if let Some(member) = self.members.get_mut(&key) {
            if let Some(waiting) = starting.due {
                member.mark(waiting.due.at_ms);
                member.tell_all(waiting.after, &mut self.out);
            }
            member.tries = 0;
            member.retry_ms = None;
            member.wait_anew(now_ms);
            self.out.keep(&key);
        }
        starting.signals.into_iter().for_each(|signal| self.out.take(signal));
        self.after_start(now_ms, &key);
    }

    pub(super) fn ended(&mut self, now_ms: i64, key: &LoopKey, round: &str, end: &End) {
        if self.slots.run(key).and_then(Run::round).is_none_or(|running| running != round) {
            return;
        }
        self.release(key);
        if let Some(member) = self.members.get_mut(key) {
            member.open = end.open_proposals;
            self.follow(now_ms, key, |standing| failure::settle(standing, end, now_ms));
        }
        self.after_start(now_ms, key);
    }

    /// A start that came to nothing gives back what it held.
    fn end_start(&mut self, ticket: u64) -> Option<(LoopKey, Starting)> {
        let key = self.tickets.remove(&ticket)?;
        match self.release(&key)?.phase {
            RunPhase::Starting(starting) => Some((key, *starting)),
            RunPhase::Running(_) => None,
        }
    }

    /// Takes a round out; what it held goes to whoever waits for it first.
    pub(super) fn release(&mut self, key: &LoopKey) -> Option<Run> {
        let run = self.slots.remove(key)?;
        for resource in &run.held {
            self.offer(resource);
        }
        Some(run)
    }

    /// The receipt of a start that did not become a round.
    fn finish_start(&mut self, now_ms: i64, key: &LoopKey, starting: Starting, fate: Fate, reason: &str) {
        let Some(member) = self.members.get_mut(key) else { return };
        let count = starting.signals.len();
        match (starting.due, starting.signals.first()) {
            (Some(waiting), _) => {
                let receipt = member.receipt_of(&waiting.due, fate, reason.to_owned(), now_ms);
                member.tell(receipt, &mut self.out);
                member.tell_all(waiting.after, &mut self.out);
            }
            (None, Some(first)) => {
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                let through_ms = starting.signals.last().filter(|_| count > 1).map(|signal| signal.at_ms);
                self.out.tell(Receipt { count, through_ms, ..receipt_of_signal(first, fate, reason, now_ms) });
            }
            (None, None) => {}
        }
        starting.signals.into_iter().for_each(|signal| self.out.take(signal));
        member.tries = 0;
        member.retry_ms = None;
        member.wait_anew(now_ms);
    }

    /// Changes the standing of a loop by an end, and does what follows from it.
    fn follow(&mut self, now_ms: i64, key: &LoopKey, change: impl FnOnce(&mut super::Standing) -> Aftermath) {
        let Some(member) = self.members.get_mut(key) else { return };
        let before = member.standing.clone();
        let after = change(&mut member.standing);
        if member.standing != before {
            self.out.keep(key);
        }
        match after {
            Aftermath::Nothing => {}
            Aftermath::Limited(until_ms) => self.note(SchedulerNote::RateLimited { key: key.clone(), until_ms }),
            Aftermath::Asked(why) => {
                self.out.effect(Command::Ask { key: key.clone(), why });
                self.settle_if_shut(now_ms, key);
            }
        }
    }

    /// When nothing is awaited any more: what a reload wanted meanwhile, what came meanwhile, and what is next.
    fn after_start(&mut self, now_ms: i64, key: &LoopKey) {
        self.inherit(now_ms, key);
        if self.members.get(key).is_some_and(|member| member.is_ahead) {
            self.take_clock_as_it_is(now_ms, key);
        }
        self.apply_later(now_ms, key);
        self.settle_if_shut(now_ms, key);
        self.cancel_if_frozen(key);
        if self.is_live() {
            self.arrive(now_ms, key);
        }
        self.refresh(now_ms, key);
    }

    /// What the probe of a start found: the round gets what nobody else works on. When that is nothing, the occurrence
    /// waits for the first of them, and the probe is asked again then.
    pub(super) fn claim(&mut self, now_ms: i64, ticket: u64, items: Vec<Arc<str>>) {
        let Some(key) = self.tickets.get(&ticket).cloned() else { return };
        let Some(member) = self.members.get(&key) else { return };
        let lock = |item: &Arc<str>| slots::item_locks(&member.entry, std::slice::from_ref(item)).pop();
        let is_free = |item: &Arc<str>| match lock(item).map(Resource::Lock) {
            Some(lock) => !self.slots.is_met(&lock, Some(&key)),
            None => true,
        };
        let (free, taken): (Vec<_>, Vec<_>) = items.into_iter().partition(is_free);
        if free.is_empty() && !taken.is_empty() {
            return self.withhold(now_ms, ticket, taken.into_iter().next());
        }
        let locks = slots::item_locks(&member.entry, &free).into_iter().map(Resource::Lock).collect();
        self.slots.take(&key, locks);
        self.out.effect(Command::Granted { ticket, items: free });
    }

    fn withhold(&mut self, now_ms: i64, ticket: u64, item: Option<Arc<str>>) {
        let Some((key, starting)) = self.end_start(ticket) else { return };
        self.out.effect(Command::Withheld { ticket });
        if let Some(member) = self.members.get_mut(&key) {
            member.withheld = item;
            member.put_back(starting);
        }
        self.after_start(now_ms, &key);
    }

    /// A round on record that has its loop's place next, or now when nobody has it.
    pub(super) fn follows(&mut self, now_ms: i64, key: LoopKey, heir: Heir) {
        let heirs = self.heirs.entry(key.clone()).or_default();
        let has_place = self.slots.run(&key).and_then(Run::round) == Some(&heir.round);
        if !has_place && !heirs.contains(&heir) && heirs.len() < HEIRS_MAX {
            heirs.push_back(heir);
        }
        self.inherit(now_ms, &key);
    }

    /// A place that is free goes to whoever has waited for it on record.
    fn inherit(&mut self, now_ms: i64, key: &LoopKey) {
        if self.slots.run(key).is_some() {
            return;
        }
        let Some(heirs) = self.heirs.get_mut(key) else { return };
        let first = heirs.pop_front();
        if heirs.is_empty() {
            self.heirs.remove(key);
        }
        if let Some(Heir { round, items }) = first {
            self.occupy(now_ms, key.clone(), round, &items);
        }
    }

    /// A round by hand, with what it says it takes.
    pub(super) fn admit(&mut self, now_ms: i64, key: LoopKey, round: String, claims: &Claims) {
        if self.slots.run(&key).is_some() {
            return;
        }
        self.leave(&key);
        let run = Run::new(RunPhase::Running(round), now_ms, claims.wall_ms);
        self.slots.add(key.clone(), run, needs_of(&key.repo, claims));
        self.refresh(now_ms, &key);
    }

    /// A round that an earlier engine began.
    pub(super) fn occupy(&mut self, now_ms: i64, key: LoopKey, round: String, items: &[Arc<str>]) {
        if self.slots.run(&key).is_some() {
            return;
        }
        self.leave(&key);
        let entry = self.members.get(&key).map(|member| &member.entry);
        let needs = entry.map_or_else(|| vec![Resource::Repo(key.repo.clone())], |entry| needs(entry, items));
        let wall_ms = entry.and_then(|entry| entry.wall_ms);
        let mut run = Run::new(RunPhase::Running(round), now_ms, wall_ms);
        run.items = if entry.is_none() { items.to_vec() } else { Vec::new() };
        self.slots.add(key.clone(), run, needs);
        self.refresh(now_ms, &key);
    }
}
