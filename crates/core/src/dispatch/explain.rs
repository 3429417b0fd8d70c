//! Why a loop is or is not running, from the same facts by which it is started.

use super::member::Member;
use super::slots::{Resource, Run, needs, needs_of};
use super::why::{Hold, Holder, SlotLimit, Why};
use super::{Claims, Dispatcher, LoopKey};
use std::sync::Arc;

/// How many holders of slots are named.
const HOLDERS_MAX: usize = 8;

impl Dispatcher {
    /// Why a loop is or is not running.
    #[must_use]
    pub fn explain(&self, key: &LoopKey, now_ms: i64) -> Why {
        let member = self.members.get(key).map(Box::as_ref);
        if let Some(run) = self.slots.run(key) {
            return running(run, member);
        }
        let Some(member) = member else { return Why::Unknown };
        if let Some(shut) = self.explain_shut(member, now_ms) {
            return shut;
        }
        if member.is_waiting() { self.explain_waiting(member, now_ms) } else { idle(member, now_ms) }
    }

    /// What a round of a loop takes by the loop's file, as far as that is loaded.
    #[must_use]
    pub fn claims(&self, key: &LoopKey) -> Claims {
        self.members.get(key).map(|member| Claims::from(&member.entry)).unwrap_or_default()
    }

    /// What keeps a round from being started by hand: a round of the same loop, or a lock. Limits do not.
    #[must_use]
    pub fn refusal(&self, key: &LoopKey, claims: &Claims, now_ms: i64) -> Option<Why> {
        self.in_the_way(key, &needs_of(&key.repo, claims), now_ms)
    }

    /// The same for a round about some items that an earlier engine began.
    #[must_use]
    pub fn hindrance(&self, key: &LoopKey, items: &[Arc<str>], now_ms: i64) -> Option<Why> {
        let entry = self.members.get(key).map(|member| &member.entry);
        self.in_the_way(key, &entry.map(|entry| needs(entry, items)).unwrap_or_default(), now_ms)
    }

    fn in_the_way(&self, key: &LoopKey, needs: &[Resource], now_ms: i64) -> Option<Why> {
        if let Some(run) = self.slots.run(key) {
            return Some(running(run, self.members.get(key).map(Box::as_ref)));
        }
        let lock = needs.iter().find(|need| matches!(need, Resource::Lock(_)) && self.slots.free(need) == 0)?;
        Some(Why::Waiting { since_ms: now_ms, queued: 1, on: self.hold_of(key, lock) })
    }

    fn explain_shut(&self, member: &Member, now_ms: i64) -> Option<Why> {
        if let Some(frozen) = self.frozen.clone() {
            return Some(Why::Stopped { since_ms: frozen.since_ms, by: frozen.by, reason: frozen.why });
        }
        if let Some(paused) = member.standing.paused.clone() {
            return Some(Why::Paused { since_ms: paused.since_ms, by: paused.by, reason: paused.why });
        }
        if self.is_draining {
            return Some(Why::Draining);
        }
        self.is_clock_behind.then_some(Why::ClockUntrusted { now_ms, seen_ms: self.seen_ms })
    }

    fn explain_waiting(&self, member: &Member, now_ms: i64) -> Why {
        let queued = member.queued();
        let since_ms = member.since_ms.unwrap_or(now_ms);
        let waiting = |on| Why::Waiting { since_ms, queued, on };
        if let Some(backing_off) = backing_off(member, now_ms) {
            return backing_off;
        }
        if let Some(at_ms) = member.retry_ms.filter(|at| *at > now_ms) {
            return waiting(Hold::Retry { at_ms });
        }
        if let Some(until_ms) = member.entry.schedule.quiet_until(now_ms) {
            return Why::Quiet { until_ms, queued };
        }
        if member.open >= member.entry.open_max {
            return Why::OpenMax { open: member.open, open_max: member.entry.open_max };
        }
        if let Some(lacking) = self.lacking(member.key()) {
            return waiting(self.hold_of(member.key(), &lacking));
        }
        if self.slots.is_full() {
            let holders = self.holders(|_| true);
            return waiting(Hold::Slot { limit: SlotLimit::Total, slots: self.slots.total(), holders });
        }
        waiting(Hold::Nothing)
    }

    /// What holds up a loop that lacks something.
    fn hold_of(&self, key: &LoopKey, lacking: &Resource) -> Hold {
        let champion = self.champion.as_ref().filter(|_| self.slots.free(lacking) > 0);
        if let Some(champion) = champion.filter(|_| self.is_reserved_from(key, lacking)) {
            return Hold::Turn { holder: champion.name.to_string() };
        }
        let mut holders = self.holders(|run| run.held.iter().any(|held| held.meets(lacking)));
        let limit = match lacking {
            Resource::Repo(repo) => SlotLimit::Repository(repo.to_string()),
            Resource::Agent(agent) => SlotLimit::Agent(agent.to_string()),
            Resource::Lock(lock) => match holders.pop() {
                Some(holder) => return Hold::Lock { name: lock.to_string(), held: self.held(lacking), holder },
                None => return Hold::Nothing,
            },
        };
        Hold::Slot { limit, slots: self.slots.limit(lacking), holders }
    }

    /// The lock that keeps from another, by its own words.
    fn held(&self, lacking: &Resource) -> String {
        let held = self.slots.runs().flat_map(|(_, run)| &run.held).filter(|held| held.meets(lacking)).last();
        match held {
            Some(Resource::Lock(lock)) => lock.to_string(),
            _ => String::new(),
        }
    }

    fn holders(&self, holds: impl Fn(&Run) -> bool) -> Vec<Holder> {
        let holding = self.slots.runs().filter(|(_, run)| holds(run));
        holding
            .take(HOLDERS_MAX)
            .map(|(key, run)| Holder {
                r#loop: key.name.to_string(),
                repo: key.repo.to_string(),
                round: run.round().cloned(),
                since_ms: run.since_ms,
                expires_ms: run.until_ms,
            })
            .collect()
    }
}

fn running(run: &Run, member: Option<&Member>) -> Why {
    Why::Running {
        round: run.round().cloned(),
        since_ms: run.since_ms,
        until_ms: run.until_ms,
        queued: member.map_or(0, Member::queued),
    }
}

fn backing_off(member: &Member, now_ms: i64) -> Option<Why> {
    let wait = member.standing.wait.as_ref().filter(|wait| wait.until_ms > now_ms)?;
    let next = if member.is_waiting() {
        Some(wait.until_ms)
    } else {
        member.entry.schedule.next_after(wait.until_ms).map(|due| due.start_ms)
    };
    Some(Why::BackingOff { until_ms: wait.until_ms, reason: wait.why.clone(), next_ms: next })
}

fn idle(member: &Member, now_ms: i64) -> Why {
    if let Some(backing_off) = backing_off(member, now_ms) {
        return backing_off;
    }
    if member.open >= member.entry.open_max {
        return Why::OpenMax { open: member.open, open_max: member.entry.open_max };
    }
    if let Some(due) = &member.next {
        let quiet_until_ms = member.entry.schedule.quiet_until(due.start_ms);
        let (due_ms, start_ms) = (due.at_ms, due.start_ms);
        return Why::Next { due_ms, start_ms, cadence: due.cadence.to_string(), quiet_until_ms };
    }
    if !member.entry.events.is_empty() {
        return Why::Listening { events: member.entry.events.iter().map(ToString::to_string).collect() };
    }
    if member.entry.schedule.is_timed() { Why::Over } else { Why::Manual }
}
