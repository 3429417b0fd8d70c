//! The order in which loops start: priority, then the time they have waited since, then name. A loop that lacks a
//! resource is parked at it and is not examined again before the resource is free.

use super::LoopKey;
use super::slots::SlotResource;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The smallest rank starts first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueRank {
    priority: Reverse<i64>,
    pub(super) since_ms: i64,
    key: LoopKey,
}

impl QueueRank {
    pub(super) fn new(priority: i64, since_ms: i64, key: LoopKey) -> Self {
        Self { priority: Reverse(priority), since_ms, key }
    }
}

#[derive(Debug)]
enum Place {
    Ready,
    Parked(SlotResource),
}

/// Loops that could start now if slots and locks were free.
#[derive(Debug, Default)]
pub(super) struct StartQueue {
    places: BTreeMap<LoopKey, (QueueRank, Place)>,
    ready: BTreeSet<QueueRank>,
    parked: BTreeMap<SlotResource, BTreeSet<QueueRank>>,
}

impl StartQueue {
    /// Adds a loop to the queue; a loop that is in it with the same rank keeps its position.
    pub(super) fn enter(&mut self, rank: QueueRank) {
        if self.places.get(&rank.key).is_some_and(|(known, _)| *known == rank) {
            return;
        }
        self.leave(&rank.key.clone());
        self.ready.insert(rank.clone());
        self.places.insert(rank.key.clone(), (rank, Place::Ready));
    }

    /// Removes a loop from the queue; returns whether it was in it.
    pub(super) fn leave(&mut self, key: &LoopKey) -> bool {
        let Some((rank, place)) = self.places.remove(key) else { return false };
        self.take(&rank, &place);
        true
    }

    fn take(&mut self, rank: &QueueRank, place: &Place) {
        match place {
            Place::Ready => {
                self.ready.remove(rank);
            }
            Place::Parked(resource) => {
                if let Some(line) = self.parked.get_mut(resource) {
                    line.remove(rank);
                    if line.is_empty() {
                        self.parked.remove(resource);
                    }
                }
            }
        }
    }

    /// The loop that starts next, as far as the queue knows.
    pub(super) fn first(&self) -> Option<&LoopKey> {
        self.ready.first().map(|rank| &rank.key)
    }

    /// The rank of a queued loop.
    pub(super) fn rank(&self, key: &LoopKey) -> Option<&QueueRank> {
        self.places.get(key).map(|(rank, _)| rank)
    }

    /// Excludes the loop until the resource is free.
    pub(super) fn park(&mut self, key: &LoopKey, at: SlotResource) {
        self.move_to(key, Place::Parked(at));
    }

    /// The loops that would get a resource that became free, and the resource at which each is parked. For a path lock,
    /// these are the first loops at each conflicting lock.
    pub(super) fn first_at(&self, resource: &SlotResource) -> Vec<(SlotResource, LoopKey)> {
        let first = |(at, line): (&SlotResource, &BTreeSet<QueueRank>)| Some((at.clone(), line.first()?.key.clone()));
        match resource {
            SlotResource::Lock(lock) if lock.is_path() => {
                self.parked.iter().filter(|(at, _)| at.conflicts_with(resource)).filter_map(first).collect()
            }
            resource => self.parked.get_key_value(resource).and_then(first).into_iter().collect(),
        }
    }

    /// Makes a parked loop eligible again.
    pub(super) fn unpark(&mut self, key: &LoopKey) {
        self.move_to(key, Place::Ready);
    }

    /// Makes every parked loop eligible again.
    pub(super) fn unpark_all(&mut self) {
        for rank in std::mem::take(&mut self.parked).into_values().flatten() {
            self.places.insert(rank.key.clone(), (rank.clone(), Place::Ready));
            self.ready.insert(rank);
        }
    }

    fn move_to(&mut self, key: &LoopKey, to: Place) {
        let Some((rank, from)) = self.places.remove(key) else { return };
        self.take(&rank, &from);
        match &to {
            Place::Ready => self.ready.insert(rank.clone()),
            Place::Parked(resource) => self.parked.entry(resource.clone()).or_default().insert(rank.clone()),
        };
        self.places.insert(key.clone(), (rank, to));
    }
}
