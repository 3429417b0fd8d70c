//! Handles the answers to starts and the ends of rounds.

use super::failure::{self, EndConsequence};
use super::scheduled_loop::signal_receipt;
use super::slots::{self, ActiveRound, ActiveRoundPhase, PendingStart, SlotResource, needs, needs_of_claims};
use super::{
    DispatchCommand, Dispatcher, LoopKey, OccurrenceOutcome, OccurrenceReceipt, RoundClaims, RoundEnd, SchedulerNote,
};
use std::sync::Arc;

/// The most rounds of one loop that wait on record for its place; the next process start finds further ones.
const SUCCESSORS_MAX: usize = 64;
/// How often a start is tried.
const TRIES_MAX: u8 = 5;
/// The shortest wait between two tries.
const RETRY_MS: i64 = 1_000;

/// A round on record that takes its loop's place next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SlotSuccessor {
    pub(super) round: String,
    pub(super) items: Vec<Arc<str>>,
}

impl Dispatcher {
    pub(super) fn start_succeeded(&mut self, now_ms: i64, ticket: u64, round: String) {
        let Some(key) = self.tickets.remove(&ticket) else { return };
        let Some(run) = self.slots.run_mut(&key) else { return };
        let before = std::mem::replace(&mut run.phase, ActiveRoundPhase::Running(round));
        let ActiveRoundPhase::Starting(starting) = before else { return };
        if let Some(member) = self.members.get_mut(&key) {
            member.restart_wait(now_ms);
            if let Some(waiting) = starting.due {
                member.advance_mark(waiting.due.at_ms);
                member.record_receipts(waiting.after, &mut self.out);
            }
        }
        self.after_start(now_ms, &key);
    }

    pub(super) fn start_failed(&mut self, now_ms: i64, ticket: u64, why: &str, retry_ms: Option<i64>) {
        let Some((key, starting)) = self.end_start(ticket) else { return };
        let Some(member) = self.members.get_mut(&key) else { return };
        match retry_ms.filter(|_| member.tries < TRIES_MAX) {
            Some(retry_ms) => {
                member.tries += 1;
                member.retry_ms = Some(retry_ms.max(now_ms.saturating_add(RETRY_MS)));
                member.requeue(starting);
            }
            None => {
                self.finish_start(now_ms, &key, starting, OccurrenceOutcome::Failed, why);
                self.apply_end(now_ms, &key, |standing| failure::apply_start_failure(standing, why, now_ms));
            }
        }
        self.after_start(now_ms, &key);
    }

    pub(super) fn start_delayed(&mut self, now_ms: i64, ticket: u64, retry_ms: i64) {
        let Some((key, starting)) = self.end_start(ticket) else { return };
        let Some(member) = self.members.get_mut(&key) else { return };
        member.retry_ms = Some(retry_ms.max(now_ms.saturating_add(RETRY_MS)));
        member.requeue(starting);
        self.after_start(now_ms, &key);
    }

    pub(super) fn no_work(&mut self, now_ms: i64, ticket: u64) {
        let Some((key, starting)) = self.end_start(ticket) else { return };
        self.finish_start(now_ms, &key, starting, OccurrenceOutcome::NoWork, "the probe found nothing to do");
        self.after_start(now_ms, &key);
    }

    /// The occurrence is skipped. The next one asks the forge again, so closing a pull request lets the loop start.
    pub(super) fn too_many_open(&mut self, now_ms: i64, ticket: u64, open: u32) {
        let Some((key, starting)) = self.end_start(ticket) else { return };
        let most = self.members.get(&key).map_or(open, |member| member.entry.open_max);
        let reason = format!("{open} pull requests are open, at most {most} may be");
        self.finish_start(now_ms, &key, starting, OccurrenceOutcome::OpenMax, &reason);
        self.after_start(now_ms, &key);
    }

    /// The occurrence already has its receipt; this only advances the mark and resolves the signals.
    pub(super) fn start_already_receipted(&mut self, now_ms: i64, ticket: u64) {
        let Some((key, starting)) = self.end_start(ticket) else { return };
        if let Some(member) = self.members.get_mut(&key) {
            if let Some(waiting) = starting.due {
                member.advance_mark(waiting.due.at_ms);
                member.record_receipts(waiting.after, &mut self.out);
            }
            member.restart_wait(now_ms);
            self.out.persist_standing(&key);
        }
        starting.signals.into_iter().for_each(|signal| self.out.consume_signal(signal));
        self.after_start(now_ms, &key);
    }

    pub(super) fn round_ended(&mut self, now_ms: i64, key: &LoopKey, round: &str, end: &RoundEnd) {
        if self.slots.run(key).and_then(ActiveRound::round).is_none_or(|running| running != round) {
            return;
        }
        self.release(key);
        if let Some(member) = self.members.get_mut(key) {
            member.open = end.open_proposals;
            self.apply_end(now_ms, key, |standing| failure::apply_round_end(standing, end, now_ms));
        }
        self.after_start(now_ms, key);
    }

    /// A start that did not become a round releases its resources.
    fn end_start(&mut self, ticket: u64) -> Option<(LoopKey, PendingStart)> {
        let key = self.tickets.remove(&ticket)?;
        match self.release(&key)?.phase {
            ActiveRoundPhase::Starting(starting) => Some((key, *starting)),
            ActiveRoundPhase::Running(_) => None,
        }
    }

    /// Removes a round and offers its resources to the first loop that waits for each.
    pub(super) fn release(&mut self, key: &LoopKey) -> Option<ActiveRound> {
        let run = self.slots.remove(key)?;
        for resource in &run.held {
            self.offer(resource);
        }
        Some(run)
    }

    /// The receipt of a start that did not become a round.
    fn finish_start(
        &mut self,
        now_ms: i64,
        key: &LoopKey,
        starting: PendingStart,
        fate: OccurrenceOutcome,
        reason: &str,
    ) {
        let Some(member) = self.members.get_mut(key) else { return };
        let count = starting.signals.len();
        match (starting.due, starting.signals.first()) {
            (Some(waiting), _) => {
                let receipt = member.receipt_for(&waiting.due, fate, reason.to_owned(), now_ms);
                member.record_receipt(receipt, &mut self.out);
                member.record_receipts(waiting.after, &mut self.out);
            }
            (None, Some(first)) => {
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                let through_ms = starting.signals.last().filter(|_| count > 1).map(|signal| signal.at_ms);
                self.out.add_receipt(OccurrenceReceipt {
                    count,
                    through_ms,
                    ..signal_receipt(first, fate, reason, now_ms)
                });
            }
            (None, None) => {}
        }
        starting.signals.into_iter().for_each(|signal| self.out.consume_signal(signal));
        member.restart_wait(now_ms);
    }

    /// Applies a round's end to the standing of its loop and performs the consequences.
    fn apply_end(
        &mut self,
        now_ms: i64,
        key: &LoopKey,
        change: impl FnOnce(&mut super::LoopStanding) -> EndConsequence,
    ) {
        let Some(member) = self.members.get_mut(key) else { return };
        let before = member.standing.clone();
        let after = change(&mut member.standing);
        if member.standing != before {
            self.out.persist_standing(key);
        }
        match after {
            EndConsequence::Nothing => {}
            EndConsequence::Limited(until_ms) => self.note(SchedulerNote::RateLimited { key: key.clone(), until_ms }),
            EndConsequence::AskPerson(why) => {
                self.out.add_command(DispatchCommand::AskPerson { key: key.clone(), why });
                self.resolve_if_closed(now_ms, key);
            }
        }
    }

    /// After a pending start is answered: applies a deferred reload, then due times that arrived meanwhile, then the
    /// next start.
    fn after_start(&mut self, now_ms: i64, key: &LoopKey) {
        self.promote_successor(now_ms, key);
        if self.members.get(key).is_some_and(|member| member.is_ahead) {
            self.accept_clock(now_ms, key);
        }
        self.apply_deferred_reload(now_ms, key);
        self.resolve_if_closed(now_ms, key);
        self.cancel_if_frozen(key);
        if self.is_live() {
            self.take_due(now_ms, key);
        }
        self.refresh(now_ms, key);
    }

    /// Handles the items that the probe of a start found: the round gets the items that no other round works on. If
    /// there are none, the occurrence waits for the first item, and then the probe runs again.
    pub(super) fn claim_items(&mut self, now_ms: i64, ticket: u64, items: Vec<Arc<str>>) {
        let Some(key) = self.tickets.get(&ticket).cloned() else { return };
        let Some(member) = self.members.get(&key) else { return };
        let lock = |item: &Arc<str>| slots::item_locks(&member.entry, std::slice::from_ref(item)).pop();
        let is_free = |item: &Arc<str>| match lock(item).map(SlotResource::Lock) {
            Some(lock) => !self.slots.is_blocked(&lock, Some(&key)),
            None => true,
        };
        let (free, taken): (Vec<_>, Vec<_>) = items.into_iter().partition(is_free);
        if free.is_empty() && !taken.is_empty() {
            return self.withhold(now_ms, ticket, taken.into_iter().next());
        }
        let locks = slots::item_locks(&member.entry, &free).into_iter().map(SlotResource::Lock).collect();
        self.slots.hold_more(&key, locks);
        self.out.add_command(DispatchCommand::Granted { ticket, items: free });
    }

    fn withhold(&mut self, now_ms: i64, ticket: u64, item: Option<Arc<str>>) {
        let Some((key, starting)) = self.end_start(ticket) else { return };
        self.out.add_command(DispatchCommand::Withheld { ticket });
        if let Some(member) = self.members.get_mut(&key) {
            member.withheld = item;
            member.requeue(starting);
        }
        self.after_start(now_ms, &key);
    }

    /// Adds a round on record that takes its loop's place next, or now if the place is free.
    pub(super) fn add_successor(&mut self, now_ms: i64, key: LoopKey, heir: SlotSuccessor) {
        let heirs = self.successors.entry(key.clone()).or_default();
        let has_place = self.slots.run(&key).and_then(ActiveRound::round) == Some(&heir.round);
        if !has_place && !heirs.contains(&heir) && heirs.len() < SUCCESSORS_MAX {
            heirs.push_back(heir);
        }
        self.promote_successor(now_ms, &key);
    }

    /// Gives a free place to the first successor on record.
    fn promote_successor(&mut self, now_ms: i64, key: &LoopKey) {
        if self.slots.run(key).is_some() {
            return;
        }
        let Some(heirs) = self.successors.get_mut(key) else { return };
        let first = heirs.pop_front();
        if heirs.is_empty() {
            self.successors.remove(key);
        }
        if let Some(SlotSuccessor { round, items }) = first {
            self.occupy_slot(now_ms, key.clone(), round, &items);
        }
    }

    /// Adds a manually started round with its own claims.
    pub(super) fn admit_round(&mut self, now_ms: i64, key: LoopKey, round: String, claims: &RoundClaims) {
        if self.slots.run(&key).is_some() {
            return;
        }
        self.leave_queue(&key);
        let run = ActiveRound::new(ActiveRoundPhase::Running(round), now_ms, claims.wall_ms);
        self.slots.add(key.clone(), run, needs_of_claims(&key.repo, claims));
        self.refresh(now_ms, &key);
    }

    /// Adds a round that an earlier engine started.
    pub(super) fn occupy_slot(&mut self, now_ms: i64, key: LoopKey, round: String, items: &[Arc<str>]) {
        if self.slots.run(&key).is_some() {
            return;
        }
        self.leave_queue(&key);
        let entry = self.members.get(&key).map(|member| &member.entry);
        let needs = entry.map_or_else(|| vec![SlotResource::Repo(key.repo.clone())], |entry| needs(entry, items));
        let wall_ms = entry.and_then(|entry| entry.wall_ms);
        let mut run = ActiveRound::new(ActiveRoundPhase::Running(round), now_ms, wall_ms);
        run.items = if entry.is_none() { items.to_vec() } else { Vec::new() };
        self.slots.add(key.clone(), run, needs);
        self.refresh(now_ms, &key);
    }
}
