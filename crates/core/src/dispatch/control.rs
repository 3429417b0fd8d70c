//! Inputs from people and from outside: signals, pause and resume, freeze and thaw, open proposals.

use super::arrive;
use super::failure;
use super::scheduled_loop::{SIGNALS_MAX, signal_receipt};
use super::slots::ActiveRound;
use super::{
    CLOCK_TOLERANCE_MS, DispatchCommand, Dispatcher, FleetFreeze, LoopKey, LoopPause, LoopStanding, OccurrenceOutcome,
    TriggerSignal,
};
use crate::spec::Overlap;

/// The most signals that are held for loops which are not loaded; more of them stay in the store.
const STRAYS_MAX: usize = 256;

impl Dispatcher {
    pub(super) fn receive_signal(&mut self, now_ms: i64, signal: TriggerSignal) {
        let key = signal.key.clone();
        let shut = self.closed_reason(&key);
        let Some(member) = self.members.get_mut(&key) else {
            let strays = self.unloaded_signals.entry(key).or_default();
            if strays.len() < STRAYS_MAX {
                strays.push(signal);
            }
            return;
        };
        let waiting = member.signals.len();
        let settled = match (shut, &signal.item) {
            (Some(shut), _) => Some(shut),
            (None, _) if waiting < SIGNALS_MAX => None,
            (None, None) if member.signals.iter().any(|other| other.item.is_none()) => {
                Some((OccurrenceOutcome::Coalesced, format!("joins {waiting} events that wait")))
            }
            (None, _) => Some((OccurrenceOutcome::Missed, format!("{waiting} events are waiting already"))),
        };
        match settled {
            Some((fate, reason)) => {
                self.out.add_receipt(signal_receipt(&signal, fate, &reason, now_ms));
                self.out.consume_signal(signal);
            }
            None => {
                let is_loose = signal.item.is_none();
                member.since_ms.get_or_insert(now_ms);
                member.signals.push_back(signal);
                if is_loose {
                    self.cancel_for_due(&key);
                }
            }
        }
        self.refresh(now_ms, &key);
    }

    pub(super) fn set_open_proposals(&mut self, now_ms: i64, key: &LoopKey, open: u32) {
        match self.members.get_mut(key) {
            Some(member) => {
                member.open = open;
                self.refresh(now_ms, key);
            }
            None => drop(self.unloaded_proposals.insert(key.clone(), open)),
        }
    }

    pub(super) fn pause(&mut self, now_ms: i64, key: LoopKey, by: String, why: String) {
        let paused = Some(LoopPause { since_ms: now_ms, by, why });
        if let Some(member) = self.members.get_mut(&key) {
            member.standing.paused = paused;
            self.out.persist_standing(&key);
            self.resolve_if_closed(now_ms, &key);
            self.refresh(now_ms, &key);
            return;
        }
        let seen_ms = self.seen_ms;
        let standing = self.standings.entry(key.clone()).or_insert_with(|| LoopStanding::new(key.clone(), "", seen_ms));
        standing.paused = paused;
        self.out.persist_removed(standing.clone());
    }

    pub(super) fn resume(&mut self, now_ms: i64, key: &LoopKey) {
        if let Some(standing) = self.standings.get_mut(key) {
            standing.paused = None;
            failure::clear_failures(standing);
            self.out.persist_removed(standing.clone());
        }
        let Some(member) = self.members.get_mut(key) else { return };
        member.standing.paused = None;
        failure::clear_failures(&mut member.standing);
        member.retry_ms = None;
        self.out.persist_standing(key);
        self.refresh(now_ms, key);
    }

    pub(super) fn freeze(&mut self, now_ms: i64, by: String, why: String) {
        self.frozen = Some(FleetFreeze { since_ms: now_ms, by, why });
        let keys: Vec<_> = self.members.keys().cloned().collect();
        for key in &keys {
            self.resolve_if_closed(now_ms, key);
            self.refresh(now_ms, key);
        }
        let running: Vec<_> = self.slots.runs().map(|(key, _)| key.clone()).collect();
        running.iter().for_each(|key| self.cancel_if_frozen(key));
    }

    pub(super) fn thaw(&mut self, now_ms: i64) {
        self.frozen = None;
        let was_behind = std::mem::take(&mut self.is_clock_behind);
        let keys: Vec<_> = self.members.keys().cloned().collect();
        for key in &keys {
            if was_behind {
                self.accept_clock(now_ms, key);
            }
            self.refresh(now_ms, key);
        }
        if was_behind {
            self.rewind_unloaded(now_ms);
            self.seen_ms = now_ms;
        }
    }

    /// Marks in the future would keep the loop idle until the clock reaches them. Pending occurrences lie in the future
    /// too and become due again; an occurrence that already has a receipt is not started twice, because the store has
    /// the receipt. The due times that passed while the clock was not trusted are skipped. A pending start brings its own mark, so its loop is rewound after it.
    pub(super) fn accept_clock(&mut self, now_ms: i64, key: &LoopKey) {
        let is_starting = self.slots.run(key).is_some_and(ActiveRound::is_starting);
        let Some(member) = self.members.get_mut(key) else { return };
        member.is_ahead = is_starting;
        if is_starting {
            return;
        }
        let is_ahead = member.standing.mark_ms > now_ms || member.cursor_ms > now_ms;
        let is_back = rewind_standing(&mut member.standing, now_ms);
        if is_ahead {
            member.pending.clear();
            arrive::skip_untrusted(member, self.behind_from_ms, now_ms, &mut self.out);
            member.standing.mark_ms = now_ms;
            member.standing.wait = None;
            member.retry_ms = None;
            member.set_cursor(now_ms);
            self.out.reset_mark(&member.standing);
        } else if is_back {
            self.out.persist_standing(key);
        }
    }

    /// Loops that are not loaded have marks in the future too, and would continue from there when they are loaded.
    fn rewind_unloaded(&mut self, now_ms: i64) {
        for standing in self.standings.values_mut() {
            if rewind_standing(standing, now_ms) {
                self.out.reset_mark(standing);
                self.out.persist_removed(standing.clone());
            }
        }
    }

    /// When the loop is closed, resolves everything that waits. While a start is pending, this waits for its answer.
    pub(super) fn resolve_if_closed(&mut self, now_ms: i64, key: &LoopKey) {
        let Some((fate, reason)) = self.closed_reason(key) else { return };
        if self.slots.run(key).is_some_and(ActiveRound::is_starting) {
            return;
        }
        if let Some(member) = self.members.get_mut(key) {
            member.resolve_all(fate, &reason, &mut self.out, now_ms);
        }
    }

    /// `overlap: cancel`: the occurrence that is due takes the place of the running round.
    pub(super) fn cancel_for_due(&mut self, key: &LoopKey) {
        if self.members.get(key).is_some_and(|member| member.entry.overlap == Overlap::Cancel) {
            self.cancel(key, "the loop is due again (`overlap: cancel`)".to_owned());
        }
    }

    pub(super) fn cancel_if_frozen(&mut self, key: &LoopKey) {
        if let Some(frozen) = &self.frozen {
            let why = format!("everything is stopped by {}: {}", frozen.by, frozen.why);
            self.cancel(key, why);
        }
    }

    fn cancel(&mut self, key: &LoopKey, why: String) {
        let Some(run) = self.slots.run_mut(key).filter(|run| !run.is_cancelled) else { return };
        if let Some(round) = run.round().cloned() {
            run.is_cancelled = true;
            self.out.add_command(DispatchCommand::Cancel { key: key.clone(), round, why });
        }
    }
}

/// Rewinds a standing from moments that the clock never really reached: a mark in the future, and a wait longer than
/// any that could begin now. If a provider or a budget asked for the wait, it asks again. Returns whether it changed
/// anything.
fn rewind_standing(standing: &mut LoopStanding, now_ms: i64) -> bool {
    let is_marked = standing.mark_ms > now_ms;
    let latest_ms = now_ms.saturating_add(CLOCK_TOLERANCE_MS);
    let waits = standing.wait.take_if(|wait| is_marked || wait.until_ms > latest_ms).is_some();
    standing.mark_ms = standing.mark_ms.min(now_ms);
    is_marked || waits
}
