//! Loops that are added, changed and removed, and limits that change: at the first load and at every reload.

use super::scheduled_loop::{DeferredReload, ScheduledLoop};
use super::slots::ActiveRound;
use super::{ConcurrencyLimits, Dispatcher, FleetMember, LoopEntry, LoopKey, LoopStanding, OccurrenceOutcome};
use std::collections::BTreeSet;

impl Dispatcher {
    pub(super) fn reload(&mut self, now_ms: i64, entries: Vec<LoopEntry>) {
        if !self.members.is_empty() {
            let there: BTreeSet<&LoopKey> = entries.iter().map(|entry| &entry.key).collect();
            let gone: Vec<_> = self.members.keys().filter(|key| !there.contains(*key)).cloned().collect();
            gone.iter().for_each(|key| self.drop_or_defer(now_ms, key));
        }
        for entry in entries {
            let key = entry.key.clone();
            if self.members.contains_key(&key) {
                self.change_or_defer(now_ms, &key, entry);
            } else {
                self.register(entry);
            }
            self.resolve_if_closed(now_ms, &key);
            self.refresh(now_ms, &key);
        }
    }

    /// New limits apply from the next start on; every parked loop is examined again.
    pub(super) fn set_limits(&mut self, limits: ConcurrencyLimits) {
        if self.slots.set_limits(limits) {
            self.queue.unpark_all();
        }
    }

    /// Workers came, went or were drained.
    pub(super) fn set_members(&mut self, members: Vec<FleetMember>) {
        if self.slots.set_members(members) {
            self.queue.unpark_all();
        }
    }

    /// Adds a loop that was not loaded before. A new loop begins now: earlier due times are not caught up.
    fn register(&mut self, entry: LoopEntry) {
        let key = entry.key.clone();
        let fingerprint = entry.schedule.fingerprint();
        let standing = match self.standings.remove(&key) {
            // The key is shared with the entry, so that ten thousand names are not stored twice.
            Some(known) if known.fingerprint == fingerprint => LoopStanding { key: key.clone(), ..known },
            Some(known) => {
                self.out.persist_standing(&key);
                let mark_ms = known.mark_ms.max(self.seen_ms);
                LoopStanding { key: key.clone(), fingerprint: fingerprint.to_owned(), mark_ms, ..known }
            }
            None => {
                self.out.persist_standing(&key);
                LoopStanding::new(key.clone(), fingerprint, self.seen_ms)
            }
        };
        self.slots.hold_missing(&key, &entry);
        let mut member = ScheduledLoop::new(entry, standing);
        let mut signals = self.unloaded_signals.remove(&key).unwrap_or_default();
        signals.truncate(super::scheduled_loop::SIGNALS_MAX);
        member.open = self.unloaded_proposals.remove(&key).unwrap_or(member.open);
        member.since_ms = signals.first().map(|signal| signal.at_ms);
        member.signals = signals.into();
        self.members.insert(key, Box::new(member));
    }

    fn is_starting(&self, key: &LoopKey) -> bool {
        self.slots.run(key).is_some_and(ActiveRound::is_starting)
    }

    fn change_or_defer(&mut self, now_ms: i64, key: &LoopKey, entry: LoopEntry) {
        if self.is_starting(key) {
            if let Some(member) = self.members.get_mut(key) {
                member.deferred = Some(DeferredReload::Entry(Box::new(entry)));
            }
        } else {
            self.change(now_ms, key, entry);
        }
    }

    fn drop_or_defer(&mut self, now_ms: i64, key: &LoopKey) {
        if self.is_starting(key) {
            if let Some(member) = self.members.get_mut(key) {
                member.deferred = Some(DeferredReload::Gone);
            }
        } else {
            self.drop_member(now_ms, key);
        }
    }

    /// Applies a reload that arrived while the answer to a start was pending.
    pub(super) fn apply_deferred_reload(&mut self, now_ms: i64, key: &LoopKey) {
        match self.members.get_mut(key).and_then(|member| member.deferred.take()) {
            Some(DeferredReload::Entry(entry)) => self.change(now_ms, key, *entry),
            Some(DeferredReload::Gone) => self.drop_member(now_ms, key),
            None => {}
        }
    }

    /// Applies a changed loop file. An edited cadence begins now; occurrences of the old one are resolved.
    fn change(&mut self, now_ms: i64, key: &LoopKey, entry: LoopEntry) {
        // The resources it needs and its rank may change, so it enters the queue again, and other loops are examined.
        self.leave_queue(key);
        let Some(member) = self.members.get_mut(key) else { return };
        member.deferred = None;
        let is_edited = member.standing.fingerprint != entry.schedule.fingerprint();
        member.entry = entry;
        if is_edited {
            while !member.pending.is_empty() {
                let reason = "the cadence was edited while it waited";
                member.resolve_first(OccurrenceOutcome::Missed, reason, &mut self.out, now_ms);
            }
            member.standing.fingerprint = member.entry.schedule.fingerprint().to_owned();
            member.advance_mark(self.seen_ms);
            member.set_cursor(member.standing.mark_ms);
            if !member.is_waiting() {
                member.since_ms = None;
            }
            self.out.persist_standing(key);
        }
        let needs = member.needs();
        needs.iter().for_each(|need| self.offer(need));
    }

    /// Removes a loop whose file is gone. If the file reappears, the loop begins at that moment.
    fn drop_member(&mut self, now_ms: i64, key: &LoopKey) {
        self.leave_queue(key);
        let Some(mut member) = self.members.remove(key) else { return };
        if let Some(at_ms) = member.timer_ms {
            self.timers.remove(&(at_ms, key.clone()));
        }
        while !member.pending.is_empty() {
            let reason = "the loop was taken away while it waited";
            member.resolve_first(OccurrenceOutcome::Stopped, reason, &mut self.out, now_ms);
        }
        if !member.signals.is_empty() {
            self.unloaded_signals.insert(key.clone(), member.signals.into());
        }
        let standing = LoopStanding { fingerprint: String::new(), ..member.standing };
        self.out.persist_removed(standing.clone());
        self.standings.insert(key.clone(), standing);
    }
}
