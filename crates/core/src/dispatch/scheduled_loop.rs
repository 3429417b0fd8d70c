//! One loop in the dispatcher's memory: how far its dues were looked at, which of them wait, and which signals do.
//!
//! Dues are settled strictly in their order, so that the mark can say in one number which of them have a receipt.

use super::output::DispatchOutput;
use super::receipt::{self, format_moment};
use super::slots::{self, PendingStart, SlotResource};
use super::{LoopEntry, LoopKey, LoopStanding, OccurrenceOutcome, OccurrenceReceipt, TriggerSignal};
use crate::cadence::DueTime;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The most signals of one loop that wait at a time.
pub(super) const SIGNALS_MAX: usize = 256;
/// The most runs of settled dues behind one that waits.
const AFTER_MAX: usize = 16;

/// A due moment that waits, and what became of later ones, which is told once this one is settled.
#[derive(Debug)]
pub(super) struct PendingDue {
    pub(super) due: DueTime,
    pub(super) after: Vec<OccurrenceReceipt>,
}

/// What a reload wants while a start is awaited.
#[derive(Debug)]
pub(super) enum DeferredReload {
    Entry(Box<LoopEntry>),
    Gone,
}

/// A loop.
#[derive(Debug)]
pub(super) struct ScheduledLoop {
    pub(super) entry: LoopEntry,
    pub(super) standing: LoopStanding,
    /// Every due at or before this has a receipt or is in line.
    pub(super) cursor_ms: i64,
    /// The first due after the cursor.
    pub(super) next: Option<DueTime>,
    pub(super) pending: VecDeque<PendingDue>,
    pub(super) signals: VecDeque<TriggerSignal>,
    /// Since when something waits.
    pub(super) since_ms: Option<i64>,
    /// Not to be tried again before.
    pub(super) retry_ms: Option<i64>,
    pub(super) tries: u8,
    pub(super) open: u32,
    /// Its place among the timers.
    pub(super) timer_ms: Option<i64>,
    pub(super) deferred: Option<DeferredReload>,
    /// Whether its marks lie ahead of a clock that is right by a person's word, and come back after an awaited start.
    pub(super) is_ahead: bool,
    /// The item that the probe found last and that another round was about.
    pub(super) withheld: Option<Arc<str>>,
}

impl ScheduledLoop {
    pub(super) fn new(entry: LoopEntry, standing: LoopStanding) -> Self {
        let mut member = Self {
            cursor_ms: standing.mark_ms,
            next: None,
            entry,
            standing,
            pending: VecDeque::new(),
            signals: VecDeque::new(),
            since_ms: None,
            retry_ms: None,
            tries: 0,
            open: 0,
            timer_ms: None,
            deferred: None,
            is_ahead: false,
            withheld: None,
        };
        member.set_cursor(member.cursor_ms);
        member
    }

    pub(super) fn key(&self) -> &LoopKey {
        &self.entry.key
    }

    /// Goes on looking for dues after a moment.
    pub(super) fn set_cursor(&mut self, cursor_ms: i64) {
        self.cursor_ms = cursor_ms;
        self.next = self.entry.schedule.next_after(cursor_ms);
    }

    /// How many rounds wait to be started.
    pub(super) fn queued(&self) -> usize {
        let items: BTreeSet<_> = self.signals.iter().filter_map(|signal| signal.item.as_ref()).collect();
        let loose = self.pending.is_empty() && self.signals.iter().any(|signal| signal.item.is_none());
        self.pending.len() + items.len().div_ceil(self.entry.batch.max(1)) + usize::from(loose)
    }

    /// What the round that would start next needs.
    pub(super) fn needs(&self) -> Vec<SlotResource> {
        match self.next_items() {
            items if items.is_empty() => slots::needs(&self.entry, self.withheld.as_slice()),
            items => slots::needs(&self.entry, &items),
        }
    }

    /// The items that the next round is about, when it is about events with items: what has waited longest goes first.
    pub(super) fn next_items(&self) -> Vec<Arc<str>> {
        let first_ms = |is: fn(&TriggerSignal) -> bool| self.signals.iter().find(|one| is(one)).map(|one| one.at_ms);
        let due_ms = self.pending.front().map(|waiting| waiting.due.start_ms);
        let loose_ms = [due_ms, first_ms(|signal| signal.item.is_none())].into_iter().flatten().min();
        match (first_ms(|signal| signal.item.is_some()), loose_ms) {
            (Some(item_ms), Some(loose_ms)) if item_ms >= loose_ms => Vec::new(),
            (Some(_), _) => self.first_items(),
            (None, _) => Vec::new(),
        }
    }

    /// The items that have waited longest, each once, as many as a round takes.
    fn first_items(&self) -> Vec<Arc<str>> {
        let mut items: Vec<Arc<str>> = Vec::new();
        for item in self.signals.iter().filter_map(|signal| signal.item.as_ref()) {
            if items.len() >= self.entry.batch.max(1) {
                break;
            }
            if !items.contains(item) {
                items.push(Arc::clone(item));
            }
        }
        items
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.pending.is_empty() || !self.signals.is_empty()
    }

    /// A due that waits.
    pub(super) fn enqueue(&mut self, due: DueTime, out: &mut DispatchOutput, now_ms: i64) {
        let (most, fate, reason) = match self.entry.catch_up {
            crate::spec::CatchUp::All(most) => (
                usize::try_from(most).unwrap_or(usize::MAX).max(1),
                OccurrenceOutcome::Missed,
                format!("more than {most} were waiting (`catch_up`)"),
            ),
            _ => (1, OccurrenceOutcome::Coalesced, "a later occurrence stands for it".to_owned()),
        };
        self.since_ms.get_or_insert(due.start_ms);
        self.pending.push_back(PendingDue { due, after: Vec::new() });
        while self.pending.len() > most {
            self.resolve_first(fate, &reason, out, now_ms);
        }
    }

    /// What became of a due, or of a run of them, that does not wait. It is told after those that do.
    pub(super) fn skip(&mut self, receipt: OccurrenceReceipt, out: &mut DispatchOutput) {
        let Some(last) = self.pending.back_mut() else {
            self.record_receipt(receipt, out);
            return;
        };
        let is_full = last.after.len() >= AFTER_MAX;
        match last.after.last_mut() {
            Some(before) if is_full || can_merge(before, &receipt) => merge_receipts(before, receipt),
            _ => last.after.push(receipt),
        }
    }

    /// Settles the due that has waited longest.
    pub(super) fn resolve_first(
        &mut self,
        fate: OccurrenceOutcome,
        reason: &str,
        out: &mut DispatchOutput,
        now_ms: i64,
    ) {
        if let Some(waiting) = self.pending.pop_front() {
            let receipt = self.receipt_for(&waiting.due, fate, reason.to_owned(), now_ms);
            self.record_receipt(receipt, out);
            self.record_receipts(waiting.after, out);
        }
    }

    /// Settles everything that waits.
    pub(super) fn resolve_all(&mut self, fate: OccurrenceOutcome, reason: &str, out: &mut DispatchOutput, now_ms: i64) {
        while !self.pending.is_empty() {
            self.resolve_first(fate, reason, out, now_ms);
        }
        while let Some(signal) = self.signals.pop_front() {
            out.add_receipt(signal_receipt(&signal, fate, reason, now_ms));
            out.consume_signal(signal);
        }
        self.since_ms = None;
        self.retry_ms = None;
        self.tries = 0;
    }

    pub(super) fn record_receipts(&mut self, receipts: Vec<OccurrenceReceipt>, out: &mut DispatchOutput) {
        for receipt in receipts {
            self.record_receipt(receipt, out);
        }
    }

    /// The receipt goes out and the mark goes on with it.
    pub(super) fn record_receipt(&mut self, receipt: OccurrenceReceipt, out: &mut DispatchOutput) {
        self.advance_mark(receipt.through_ms.unwrap_or(receipt.due_ms));
        out.persist_standing(self.key());
        out.add_receipt(receipt);
    }

    pub(super) fn advance_mark(&mut self, ms: i64) {
        self.standing.mark_ms = self.standing.mark_ms.max(ms);
    }

    pub(super) fn receipt_for(
        &self,
        due: &DueTime,
        fate: OccurrenceOutcome,
        reason: String,
        now_ms: i64,
    ) -> OccurrenceReceipt {
        OccurrenceReceipt {
            key: self.key().clone(),
            occurrence: receipt::occurrence_key(due.at_ms),
            due_ms: due.at_ms,
            trigger: due.cadence.clone(),
            fate,
            reason,
            round: None,
            count: 1,
            through_ms: None,
            at_ms: now_ms,
        }
    }

    /// The moment before which nothing of the loop starts, although something waits.
    pub(super) fn not_before(&self, now_ms: i64) -> Option<i64> {
        let wait_ms = self.standing.wait.as_ref().map(|wait| wait.until_ms);
        let quiet_ms = self.entry.schedule.quiet_until(now_ms);
        [self.retry_ms, wait_ms, quiet_ms].into_iter().flatten().filter(|at| *at > now_ms).max()
    }

    /// What a start was for waits again, before everything else.
    pub(super) fn requeue(&mut self, starting: PendingStart) {
        if let Some(waiting) = starting.due {
            self.pending.push_front(waiting);
        }
        for signal in starting.signals.into_iter().rev() {
            self.signals.push_front(signal);
        }
    }

    /// What is left waiting goes to the back of the line.
    pub(super) fn restart_wait(&mut self, now_ms: i64) {
        self.since_ms = self.is_waiting().then_some(now_ms);
    }
}

/// What became of a signal.
pub(super) fn signal_receipt(
    signal: &TriggerSignal,
    fate: OccurrenceOutcome,
    reason: &str,
    now_ms: i64,
) -> OccurrenceReceipt {
    OccurrenceReceipt {
        key: signal.key.clone(),
        occurrence: signal.occurrence.clone(),
        due_ms: signal.at_ms,
        trigger: Arc::clone(&signal.trigger),
        fate,
        reason: reason.to_owned(),
        round: None,
        count: 1,
        through_ms: None,
        at_ms: now_ms,
    }
}

/// Whether a receipt goes on where another ends: the same of the same loop, of a later due.
pub(super) fn can_merge(before: &OccurrenceReceipt, next: &OccurrenceReceipt) -> bool {
    let is_due = |receipt: &OccurrenceReceipt| receipt.occurrence.starts_with("due:");
    before.key == next.key
        && before.fate == next.fate
        && before.reason == next.reason
        && before.trigger == next.trigger
        && before.fate != OccurrenceOutcome::Started
        && is_due(before)
        && is_due(next)
}

/// Makes one receipt of two.
pub(super) fn merge_receipts(before: &mut OccurrenceReceipt, next: OccurrenceReceipt) {
    before.count = before.count.saturating_add(next.count);
    before.through_ms = Some(next.through_ms.unwrap_or(next.due_ms));
}

/// How late something is, for people.
pub(super) fn lateness_text(due: &DueTime, now_ms: i64) -> String {
    let shifted = if due.shifted { ", moved out of the gap of a clock change" } else { "" };
    match now_ms.saturating_sub(due.start_ms) {
        ms if ms <= super::LATE_MS => format!("due{shifted}"),
        _ => format!("due{shifted}, made up for: it should have started at {}", format_moment(due.start_ms)),
    }
}
