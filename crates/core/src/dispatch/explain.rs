//! Explains why a loop is or is not running, from the same facts that decide whether it starts.

use super::explanation::{LoopExplanation, ResourceHolder, SlotLimit, StartBlocker, WorkerGap};
use super::scheduled_loop::ScheduledLoop;
use super::slots::{ActiveRound, SlotResource, needs, needs_of_claims};
use super::{Dispatcher, FleetMember, LoopKey, PlacementNeeds, RoundClaims};
use std::sync::Arc;

/// The most holders of slots that an explanation names.
const HOLDERS_MAX: usize = 8;

impl Dispatcher {
    /// Why a loop is or is not running.
    #[must_use]
    pub fn explain(&self, key: &LoopKey, now_ms: i64) -> LoopExplanation {
        let member = self.members.get(key).map(Box::as_ref);
        if let Some(run) = self.slots.run(key) {
            return running(run, member);
        }
        let Some(member) = member else { return LoopExplanation::Unknown };
        if let Some(shut) = self.explain_closed(member, now_ms) {
            return shut;
        }
        if member.is_waiting() { self.explain_waiting(member, now_ms) } else { idle(member, now_ms) }
    }

    /// The claims of a round of this loop according to its file, as far as it is loaded.
    #[must_use]
    pub fn claims(&self, key: &LoopKey) -> RoundClaims {
        self.members.get(key).map(|member| RoundClaims::from(&member.entry)).unwrap_or_default()
    }

    /// The reason why a round cannot be started manually: a round of the same loop, or a lock. Limits do not apply.
    #[must_use]
    pub fn manual_start_blocker(&self, key: &LoopKey, claims: &RoundClaims, now_ms: i64) -> Option<LoopExplanation> {
        self.find_blocker(key, &needs_of_claims(&key.repo, claims), now_ms)
    }

    /// The same for a round about some items that an earlier engine started.
    #[must_use]
    pub fn resume_blocker(&self, key: &LoopKey, items: &[Arc<str>], now_ms: i64) -> Option<LoopExplanation> {
        let entry = self.members.get(key).map(|member| &member.entry);
        self.find_blocker(key, &entry.map(|entry| needs(entry, items)).unwrap_or_default(), now_ms)
    }

    fn find_blocker(&self, key: &LoopKey, needs: &[SlotResource], now_ms: i64) -> Option<LoopExplanation> {
        if let Some(run) = self.slots.run(key) {
            return Some(running(run, self.members.get(key).map(Box::as_ref)));
        }
        let lock =
            needs.iter().find(|need| matches!(need, SlotResource::Lock(_)) && self.slots.available(need) == 0)?;
        Some(LoopExplanation::Waiting { since_ms: now_ms, queued: 1, on: self.blocker_for(key, lock) })
    }

    fn explain_closed(&self, member: &ScheduledLoop, now_ms: i64) -> Option<LoopExplanation> {
        if let Some(frozen) = self.frozen.clone() {
            return Some(LoopExplanation::Stopped { since_ms: frozen.since_ms, by: frozen.by, reason: frozen.why });
        }
        if let Some(paused) = member.standing.paused.clone() {
            return Some(LoopExplanation::Paused { since_ms: paused.since_ms, by: paused.by, reason: paused.why });
        }
        if self.is_draining {
            return Some(LoopExplanation::Draining);
        }
        self.is_clock_behind.then_some(LoopExplanation::ClockUntrusted { now_ms, seen_ms: self.seen_ms })
    }

    fn explain_waiting(&self, member: &ScheduledLoop, now_ms: i64) -> LoopExplanation {
        let queued = member.queued();
        let since_ms = member.since_ms.unwrap_or(now_ms);
        let waiting = |on| LoopExplanation::Waiting { since_ms, queued, on };
        if let Some(backing_off) = backing_off(member, now_ms) {
            return backing_off;
        }
        if let Some(at_ms) = member.retry_ms.filter(|at| *at > now_ms) {
            return waiting(StartBlocker::Retry { at_ms });
        }
        if let Some(until_ms) = member.entry.schedule.quiet_until(now_ms) {
            return LoopExplanation::Quiet { until_ms, queued };
        }
        if member.open >= member.entry.open_max {
            return LoopExplanation::OpenMax { open: member.open, open_max: member.entry.open_max };
        }
        if let Some(lacking) = self.missing_resource(member.key()) {
            return waiting(self.blocker_for(member.key(), &lacking));
        }
        if self.slots.is_full() {
            let holders = self.holders(|_| true);
            return waiting(StartBlocker::Slot { limit: SlotLimit::Total, slots: self.slots.total(), holders });
        }
        waiting(StartBlocker::Nothing)
    }

    /// The blocker of a loop that lacks this resource.
    fn blocker_for(&self, key: &LoopKey, lacking: &SlotResource) -> StartBlocker {
        let champion = self.reserved_for.as_ref().filter(|_| self.slots.available(lacking) > 0);
        if let Some(champion) = champion.filter(|_| self.is_reserved_from(key, lacking)) {
            return StartBlocker::Turn { holder: champion.name.to_string() };
        }
        let mut holders = self.holders(|run| run.held.iter().any(|held| held.conflicts_with(lacking)));
        let limit = match lacking {
            SlotResource::Repo(repo) => SlotLimit::Repository(repo.to_string()),
            SlotResource::Agent(agent) => SlotLimit::Agent(agent.to_string()),
            SlotResource::Place(needs) => return self.worker_blocker(needs, holders),
            SlotResource::Lock(lock) => match holders.pop() {
                Some(holder) => return StartBlocker::Lock { name: lock.to_string(), held: self.held(lacking), holder },
                None => return StartBlocker::Nothing,
            },
        };
        StartBlocker::Slot { limit, slots: self.slots.limit(lacking), holders }
    }

    /// Why no worker takes a round with these needs now.
    fn worker_blocker(&self, needs: &PlacementNeeds, holders: Vec<ResourceHolder>) -> StartBlocker {
        let gap = |member: &FleetMember| needs.gap(member).map(|gap| WorkerGap { worker: member.name.clone(), gap });
        let gaps = self.slots.members().iter().filter_map(gap).take(HOLDERS_MAX).collect();
        StartBlocker::Worker { needs: needs.clone(), slots: needs.slots(self.slots.members()), gaps, holders }
    }

    /// The text of the held lock that conflicts with the lacking one.
    fn held(&self, lacking: &SlotResource) -> String {
        let held = self.slots.runs().flat_map(|(_, run)| &run.held).filter(|held| held.conflicts_with(lacking)).last();
        match held {
            Some(SlotResource::Lock(lock)) => lock.to_string(),
            _ => String::new(),
        }
    }

    fn holders(&self, holds: impl Fn(&ActiveRound) -> bool) -> Vec<ResourceHolder> {
        let holding = self.slots.runs().filter(|(_, run)| holds(run));
        holding
            .take(HOLDERS_MAX)
            .map(|(key, run)| ResourceHolder {
                r#loop: key.name.to_string(),
                repo: key.repo.to_string(),
                round: run.round().cloned(),
                since_ms: run.since_ms,
                expires_ms: run.until_ms,
            })
            .collect()
    }
}

fn running(run: &ActiveRound, member: Option<&ScheduledLoop>) -> LoopExplanation {
    LoopExplanation::Running {
        round: run.round().cloned(),
        since_ms: run.since_ms,
        until_ms: run.until_ms,
        queued: member.map_or(0, ScheduledLoop::queued),
    }
}

fn backing_off(member: &ScheduledLoop, now_ms: i64) -> Option<LoopExplanation> {
    let wait = member.standing.wait.as_ref().filter(|wait| wait.until_ms > now_ms)?;
    let next = if member.is_waiting() {
        Some(wait.until_ms)
    } else {
        member.entry.schedule.next_after(wait.until_ms).map(|due| due.start_ms)
    };
    Some(LoopExplanation::BackingOff { until_ms: wait.until_ms, reason: wait.why.clone(), next_ms: next })
}

fn idle(member: &ScheduledLoop, now_ms: i64) -> LoopExplanation {
    if let Some(backing_off) = backing_off(member, now_ms) {
        return backing_off;
    }
    if member.open >= member.entry.open_max {
        return LoopExplanation::OpenMax { open: member.open, open_max: member.entry.open_max };
    }
    if let Some(due) = &member.next {
        let quiet_until_ms = member.entry.schedule.quiet_until(due.at_ms);
        let (due_ms, start_ms) = (due.at_ms, due.start_ms);
        return LoopExplanation::Next { due_ms, start_ms, cadence: due.cadence.to_string(), quiet_until_ms };
    }
    if !member.entry.events.is_empty() {
        return LoopExplanation::Listening { events: member.entry.events.iter().map(ToString::to_string).collect() };
    }
    if member.entry.schedule.is_timed() { LoopExplanation::Over } else { LoopExplanation::Manual }
}
