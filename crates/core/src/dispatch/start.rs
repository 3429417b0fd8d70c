//! Starts pending loops: in order, within the limits, holding the locks.

use super::queue::QueueRank;
use super::scheduled_loop::{PendingDue, ScheduledLoop, lateness_text};
use super::slots::{ActiveRound, ActiveRoundPhase, PendingStart, SlotResource, needs};
use super::{DispatchCommand, Dispatcher, LoopKey, OccurrenceOutcome, OccurrenceReceipt, RoundStart, TriggerSignal};
use std::sync::Arc;

/// For a loop that has waited this long, other loops leave the resources it needs free.
const PATIENCE_MS: i64 = 10 * 60_000;

/// The occurrences and items that one round is started for.
struct Work {
    due: Option<PendingDue>,
    signals: Vec<TriggerSignal>,
    /// The items of the signals.
    items: Vec<Arc<str>>,
}

impl Dispatcher {
    /// Starts loops while slots are free and loops can use them.
    pub(super) fn start_waiting(&mut self, now_ms: i64) {
        while self.is_live() && !self.is_held && self.frozen.is_none() && !self.slots.is_full() {
            let Some(key) = self.queue.first().cloned() else { return };
            // Quiet hours may have begun while the loop was in the queue.
            if self.members.get(&key).is_none_or(|member| member.not_before(now_ms).is_some()) {
                self.refresh(now_ms, &key);
                continue;
            }
            match self.missing_resource(&key) {
                None => {
                    self.leave_queue(&key);
                    self.start_round(now_ms, &key);
                    self.set_timer(now_ms, &key);
                }
                Some(resource) => {
                    self.queue.park(&key, resource);
                    self.reserve_if_impatient(now_ms, &key);
                    self.wake_others(&key);
                }
            }
        }
    }

    /// The resource that a queued loop lacks, the slots of the total limit aside.
    pub(super) fn missing_resource(&self, key: &LoopKey) -> Option<SlotResource> {
        self.members.get(key)?.needs().into_iter().find(|need| {
            let free = self.slots.available(need);
            free == 0 || (free == 1 && self.is_reserved_from(key, need))
        })
    }

    /// Whether the last unit of a resource is reserved for a loop that has waited very long and ranks before this one.
    pub(super) fn is_reserved_from(&self, key: &LoopKey, need: &SlotResource) -> bool {
        let Some(champion) = self.reserved_for.as_ref().filter(|champion| *champion != key) else { return false };
        let is_before = match (self.queue.rank(champion), self.queue.rank(key)) {
            (Some(first), Some(other)) => first < other,
            _ => false,
        };
        // Items are not considered: they change while the loop waits, and no loop would be woken for the freed ones.
        let wants = |member: &ScheduledLoop| needs(&member.entry, &[]).iter().any(|other| other.conflicts_with(need));
        is_before && self.members.get(champion).map(Box::as_ref).is_some_and(wants)
    }

    /// One loop at a time: a second reservation would block resources that the first one waits for.
    fn reserve_if_impatient(&mut self, now_ms: i64, key: &LoopKey) {
        let is_impatient = |rank: &QueueRank| now_ms.saturating_sub(rank.since_ms) >= PATIENCE_MS;
        if self.reserved_for.is_none() && self.queue.rank(key).is_some_and(is_impatient) {
            self.reserved_for = Some(key.clone());
        }
    }

    /// Removes a loop from the queue and offers the resources it could have used to others.
    pub(super) fn leave_queue(&mut self, key: &LoopKey) {
        if self.queue.leave(key) {
            self.reserved_for.take_if(|champion| champion == key);
            self.wake_others(key);
        }
    }

    /// Unparks the first loop at each resource that this loop needs, if the resource is available.
    fn wake_others(&mut self, key: &LoopKey) {
        let Some(member) = self.members.get(key) else { return };
        for need in member.needs() {
            self.offer(&need);
        }
    }

    /// Offers a resource to the first loop that waits for it; for a path lock, to the first one at each conflicting
    /// lock.
    pub(super) fn offer(&mut self, resource: &SlotResource) {
        for (at, first) in self.queue.first_at(resource) {
            if self.missing_resource(&first).as_ref() != Some(&at) {
                self.queue.unpark(&first);
            }
        }
    }

    fn start_round(&mut self, now_ms: i64, key: &LoopKey) {
        let Some(member) = self.members.get_mut(key) else { return };
        let Some(work) = take_work(member) else { return };
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let receipt = start_receipt(member, &work, now_ms);
        let mut standing = member.standing.clone();
        if let Some(waiting) = &work.due {
            standing.mark_ms = standing.mark_ms.max(waiting.due.at_ms);
        }
        let (items, signals) = (work.items.clone(), work.signals.clone());
        let start = RoundStart { ticket, key: key.clone(), receipt, standing, signals, items: items.clone() };
        let starting = PendingStart { due: work.due, signals: work.signals };
        let run = ActiveRound::new(ActiveRoundPhase::Starting(Box::new(starting)), now_ms, member.entry.wall_ms);
        let needs = needs(&member.entry, &items);
        self.slots.add(key.clone(), run, needs);
        self.tickets.insert(ticket, key.clone());
        self.out.add_command(DispatchCommand::Start(start));
    }
}

/// The work that has waited longest: a due time or signals without an item, which share one round, or items, at most as
/// many as one round takes.
fn take_work(member: &mut ScheduledLoop) -> Option<Work> {
    if !member.is_waiting() {
        return None;
    }
    let items = member.next_items();
    let due = if items.is_empty() { member.pending.pop_front() } else { None };
    let is_wanted = |signal: &TriggerSignal| signal.item.as_ref().map_or(items.is_empty(), |item| items.contains(item));
    let (signals, rest): (Vec<_>, Vec<_>) = member.signals.drain(..).partition(is_wanted);
    member.signals = rest.into();
    member.withheld = None;
    Some(Work { due, signals, items })
}

fn start_receipt(member: &ScheduledLoop, work: &Work, now_ms: i64) -> OccurrenceReceipt {
    let count = work.signals.len();
    if let Some(waiting) = &work.due {
        let with = if count > 0 { format!(", with {count} events") } else { String::new() };
        let reason = format!("{}{with}", lateness_text(&waiting.due, now_ms));
        return member.receipt_for(&waiting.due, OccurrenceOutcome::Started, reason, now_ms);
    }
    let reason = match (work.items.as_slice(), count) {
        ([item], 1) => format!("an event about {item}"),
        ([item], many) => format!("{many} events about {item}"),
        ([], 1) => "an event".to_owned(),
        ([], many) => format!("{many} events in one round"),
        ([item, rest @ ..], many) => format!("{many} events about {item} and {} more", rest.len()),
    };
    let (occurrence, due_ms, trigger) = match work.signals.first() {
        Some(first) => (first.occurrence.clone(), first.at_ms, Arc::clone(&first.trigger)),
        None => (String::new(), now_ms, "event".into()),
    };
    let (name, fate) = ((member.key(), occurrence), (OccurrenceOutcome::Started, reason));
    OccurrenceReceipt {
        count: u64::try_from(count).unwrap_or(u64::MAX),
        through_ms: work.signals.last().filter(|_| count > 1).map(|signal| signal.at_ms),
        ..OccurrenceReceipt::new(name, (due_ms, &trigger), fate, now_ms)
    }
}
