//! One loop in the dispatcher's memory: how far its due times are processed, and which due times and signals are
//! pending.
//!
//! Due times are resolved strictly in order, so that the mark shows with one number which of them have a receipt.

use super::output::DispatchOutput;
use super::receipt::{self, format_moment};
use super::slots::{self, PendingStart, SlotResource};
use super::{LoopEntry, LoopKey, LoopStanding, OccurrenceOutcome, OccurrenceReceipt, TriggerSignal};
use crate::cadence::DueTime;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The most pending signals of one loop.
pub(super) const SIGNALS_MAX: usize = 256;
/// The most runs of resolved due times behind a pending one.
const AFTER_MAX: usize = 16;

/// A pending due time, and the receipts of later ones, which are recorded once this one is resolved.
#[derive(Debug)]
pub(super) struct PendingDue {
    pub(super) due: DueTime,
    pub(super) after: Vec<OccurrenceReceipt>,
}

/// A change by a reload that waits for the answer to a start.
#[derive(Debug)]
pub(super) enum DeferredReload {
    Entry(Box<LoopEntry>),
    Gone,
}

#[derive(Debug)]
pub(super) struct ScheduledLoop {
    pub(super) entry: LoopEntry,
    pub(super) standing: LoopStanding,
    /// Every due time at or before this has a receipt or is pending.
    pub(super) cursor_ms: i64,
    /// The first due time after the cursor.
    pub(super) next: Option<DueTime>,
    pub(super) pending: VecDeque<PendingDue>,
    pub(super) signals: VecDeque<TriggerSignal>,
    /// Since when an occurrence waits.
    pub(super) since_ms: Option<i64>,
    /// The earliest time of the next try.
    pub(super) retry_ms: Option<i64>,
    pub(super) tries: u8,
    pub(super) open: u32,
    /// The time of its timer.
    pub(super) timer_ms: Option<i64>,
    pub(super) deferred: Option<DeferredReload>,
    /// Whether its marks lie ahead of a clock that a person has accepted; they are rewound after the pending start.
    pub(super) is_ahead: bool,
    /// The item that the probe found last and that another round works on.
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

    /// Continues the search for due times after this moment.
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

    /// The resources that the next round needs.
    pub(super) fn needs(&self) -> Vec<SlotResource> {
        match self.next_items() {
            items if items.is_empty() => slots::needs(&self.entry, self.withheld.as_slice()),
            items => slots::needs(&self.entry, &items),
        }
    }

    /// The items of the next round, if it is about events with items; those that have waited longest come first.
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

    /// The items that have waited longest, without duplicates, at most as many as one round takes.
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

    /// Adds a pending due time.
    pub(super) fn enqueue(&mut self, due: DueTime, out: &mut DispatchOutput, now_ms: i64) {
        let (most, fate, reason) = match self.entry.catch_up {
            crate::spec::CatchUp::All(most) => (
                usize::try_from(most).unwrap_or(usize::MAX).max(1),
                OccurrenceOutcome::Missed,
                format!("more than {most} were waiting (`catch_up`)"),
            ),
            _ => (1, OccurrenceOutcome::Coalesced, "a later occurrence replaces it".to_owned()),
        };
        self.since_ms.get_or_insert(due.start_ms);
        self.pending.push_back(PendingDue { due, after: Vec::new() });
        while self.pending.len() > most {
            self.resolve_first(fate, &reason, out, now_ms);
        }
    }

    /// Records the outcome of a due time, or of a run of them, that does not wait. It is written after the pending
    /// ones.
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

    /// Resolves the due time that has waited longest.
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

    /// Resolves every pending occurrence.
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

    /// Writes the receipt and advances the mark with it.
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
        let name = (self.key(), receipt::occurrence_key(due.at_ms));
        OccurrenceReceipt::new(name, (due.at_ms, &due.cadence), (fate, reason), now_ms)
    }

    /// The moment before which the loop starts nothing, although an occurrence waits.
    pub(super) fn not_before(&self, now_ms: i64) -> Option<i64> {
        let wait_ms = self.standing.wait.as_ref().map(|wait| wait.until_ms);
        let quiet_ms = self.entry.schedule.quiet_until(now_ms);
        [self.retry_ms, wait_ms, quiet_ms].into_iter().flatten().filter(|at| *at > now_ms).max()
    }

    /// Puts the occurrences of a start back at the front of the queue.
    pub(super) fn requeue(&mut self, starting: PendingStart) {
        if let Some(waiting) = starting.due {
            self.pending.push_front(waiting);
        }
        for signal in starting.signals.into_iter().rev() {
            self.signals.push_front(signal);
        }
    }

    /// A start was answered: the remaining occurrences move to the back of the queue.
    pub(super) fn restart_wait(&mut self, now_ms: i64) {
        (self.tries, self.retry_ms) = (0, None);
        self.since_ms = self.is_waiting().then_some(now_ms);
    }
}

/// The receipt for a signal.
pub(super) fn signal_receipt(
    signal: &TriggerSignal,
    fate: OccurrenceOutcome,
    reason: &str,
    now_ms: i64,
) -> OccurrenceReceipt {
    let name = (&signal.key, signal.occurrence.clone());
    OccurrenceReceipt::new(name, (signal.at_ms, &signal.trigger), (fate, reason.to_owned()), now_ms)
}

/// Whether a receipt continues another one: the same outcome of the same loop for a later due time.
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

/// Merges the second receipt into the first.
pub(super) fn merge_receipts(before: &mut OccurrenceReceipt, next: OccurrenceReceipt) {
    before.count = before.count.saturating_add(next.count);
    before.through_ms = Some(next.through_ms.unwrap_or(next.due_ms));
}

/// How late an occurrence is, as text.
pub(super) fn lateness_text(due: &DueTime, now_ms: i64) -> String {
    let shifted = if due.shifted { ", moved out of the gap of a clock change" } else { "" };
    match now_ms.saturating_sub(due.start_ms) {
        ms if ms <= super::LATE_MS => format!("due{shifted}"),
        _ => format!("due{shifted}, made up for: it should have started at {}", format_moment(due.start_ms)),
    }
}
