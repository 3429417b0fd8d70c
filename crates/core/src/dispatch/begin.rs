//! Starting what waits: in order, within the limits, holding the locks.

use super::member::{Member, Waiting, late};
use super::queue::Rank;
use super::slots::{Resource, Run, RunPhase, Starting, needs};
use super::{Command, Dispatcher, Fate, LoopKey, Receipt, Signal, Start};
use std::sync::Arc;

/// A loop that has waited so long is left free what it needs.
const PATIENCE_MS: i64 = 10 * 60_000;

/// What one round is started for.
struct Work {
    due: Option<Waiting>,
    signals: Vec<Signal>,
    /// What the signals are about.
    items: Vec<Arc<str>>,
}

impl Dispatcher {
    /// Starts loops as long as there are slots and loops that could use them.
    pub(super) fn fill(&mut self, now_ms: i64) {
        while self.is_live() && self.frozen.is_none() && !self.slots.is_full() {
            let Some(key) = self.queue.first().cloned() else { return };
            // Quiet hours may have begun while it was in line.
            if self.members.get(&key).is_none_or(|member| member.not_before(now_ms).is_some()) {
                self.refresh(now_ms, &key);
                continue;
            }
            match self.lacking(&key) {
                None => {
                    self.leave(&key);
                    self.begin(now_ms, &key);
                    self.arm(now_ms, &key);
                }
                Some(resource) => {
                    self.queue.park(&key, resource);
                    self.may_become_champion(now_ms, &key);
                    self.let_others_look(&key);
                }
            }
        }
    }

    /// What keeps a loop in line from starting, but for the slots of all.
    pub(super) fn lacking(&self, key: &LoopKey) -> Option<Resource> {
        self.members.get(key)?.needs().into_iter().find(|need| {
            let free = self.slots.free(need);
            free == 0 || (free == 1 && self.is_reserved_from(key, need))
        })
    }

    /// Whether the last of a resource is left to a loop that has waited for very long and goes before this one.
    pub(super) fn is_reserved_from(&self, key: &LoopKey, need: &Resource) -> bool {
        let Some(champion) = self.champion.as_ref().filter(|champion| *champion != key) else { return false };
        let is_before = match (self.queue.rank(champion), self.queue.rank(key)) {
            (Some(first), Some(other)) => first < other,
            _ => false,
        };
        // Not its items: they change while it waits, and nobody would be told of what is free then.
        let wants = |member: &Member| needs(&member.entry, &[]).iter().any(|other| other.meets(need));
        is_before && self.members.get(champion).map(Box::as_ref).is_some_and(wants)
    }

    /// One loop at a time: a second would keep from the first what it waits for.
    fn may_become_champion(&mut self, now_ms: i64, key: &LoopKey) {
        let is_impatient = |rank: &Rank| now_ms.saturating_sub(rank.since_ms) >= PATIENCE_MS;
        if self.champion.is_none() && self.queue.rank(key).is_some_and(is_impatient) {
            self.champion = Some(key.clone());
        }
    }

    /// Takes a loop out of line; what it could have used is offered to others.
    pub(super) fn leave(&mut self, key: &LoopKey) {
        if self.queue.leave(key) {
            self.champion.take_if(|champion| champion == key);
            self.let_others_look(key);
        }
    }

    /// Lets the first of those parked at what a loop needs be looked at, where some of it is free.
    fn let_others_look(&mut self, key: &LoopKey) {
        let Some(member) = self.members.get(key) else { return };
        for need in member.needs() {
            self.offer(&need);
        }
    }

    /// Offers a resource to whoever waits for it first; a path, to the first of each path that meets it.
    pub(super) fn offer(&mut self, resource: &Resource) {
        for (at, first) in self.queue.first_at(resource) {
            if self.lacking(&first).as_ref() != Some(&at) {
                self.queue.unpark(&first);
            }
        }
    }

    fn begin(&mut self, now_ms: i64, key: &LoopKey) {
        let Some(member) = self.members.get_mut(key) else { return };
        let Some(work) = choose(member) else { return };
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let receipt = receipt_of(member, &work, now_ms);
        let mut standing = member.standing.clone();
        if let Some(waiting) = &work.due {
            standing.mark_ms = standing.mark_ms.max(waiting.due.at_ms);
        }
        let (items, signals) = (work.items.clone(), work.signals.clone());
        let start = Start { ticket, key: key.clone(), receipt, standing, signals, items: items.clone() };
        let starting = Starting { due: work.due, signals: work.signals };
        let run = Run::new(RunPhase::Starting(Box::new(starting)), now_ms, member.entry.wall_ms);
        let needs = needs(&member.entry, &items);
        self.slots.add(key.clone(), run, needs);
        self.tickets.insert(ticket, key.clone());
        self.out.effect(Command::Start(start));
    }
}

/// What has waited longest: a due or signals without an item, which are one round together, or items, as many as a round
/// takes.
fn choose(member: &mut Member) -> Option<Work> {
    if !member.is_waiting() {
        return None;
    }
    let items = member.next_items();
    let due = if items.is_empty() { member.line.pop_front() } else { None };
    let is_wanted = |signal: &Signal| signal.item.as_ref().map_or(items.is_empty(), |item| items.contains(item));
    let (signals, rest): (Vec<_>, Vec<_>) = member.signals.drain(..).partition(is_wanted);
    member.signals = rest.into();
    member.withheld = None;
    Some(Work { due, signals, items })
}

fn receipt_of(member: &Member, work: &Work, now_ms: i64) -> Receipt {
    let count = work.signals.len();
    if let Some(waiting) = &work.due {
        let with = if count > 0 { format!(", with {count} events") } else { String::new() };
        let reason = format!("{}{with}", late(&waiting.due, now_ms));
        return member.receipt_of(&waiting.due, Fate::Started, reason, now_ms);
    }
    let first = work.signals.first();
    let reason = match (work.items.as_slice(), count) {
        ([item], 1) => format!("an event about {item}"),
        ([item], many) => format!("{many} events about {item}"),
        ([], 1) => "an event".to_owned(),
        ([], many) => format!("{many} events in one round"),
        ([item, rest @ ..], many) => format!("{many} events about {item} and {} more", rest.len()),
    };
    Receipt {
        key: member.key().clone(),
        occurrence: first.map(|signal| signal.occurrence.clone()).unwrap_or_default(),
        due_ms: first.map_or(now_ms, |signal| signal.at_ms),
        trigger: first.map_or_else(|| "event".into(), |signal| Arc::clone(&signal.trigger)),
        fate: Fate::Started,
        reason,
        round: None,
        count: u64::try_from(count).unwrap_or(u64::MAX),
        through_ms: work.signals.last().filter(|_| count > 1).map(|signal| signal.at_ms),
        at_ms: now_ms,
    }
}
