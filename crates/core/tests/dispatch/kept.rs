//! The rows that a store would write for a dispatcher's commands. It refuses a second receipt for one occurrence.

use loopwright_core::dispatch::{
    ConcurrencyLimits, Dispatcher, FleetFreeze, LoopKey, LoopStanding, OccurrenceReceipt, RoundStart, TriggerSignal,
};
use std::collections::{BTreeMap, BTreeSet};

/// The rows that survive a crash.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) standings: BTreeMap<LoopKey, LoopStanding>,
    pub(crate) receipts: Vec<OccurrenceReceipt>,
    occurrences: BTreeSet<(LoopKey, String)>,
    pub(crate) pending: Vec<TriggerSignal>,
    heard: BTreeSet<(LoopKey, String)>,
    pub(crate) frozen: Option<FleetFreeze>,
    pub(crate) last_ms: i64,
}

impl Kept {
    /// One transaction without a round. While the cadence stays the same, no mark goes back.
    pub(crate) fn keep(
        &mut self,
        receipts: Vec<OccurrenceReceipt>,
        standings: Vec<LoopStanding>,
        taken: &[TriggerSignal],
    ) {
        for receipt in receipts {
            self.receipt(receipt);
        }
        for mut standing in standings {
            let known = self.standings.get(&standing.key).filter(|known| known.fingerprint == standing.fingerprint);
            standing.mark_ms = standing.mark_ms.max(known.map_or(i64::MIN, |known| known.mark_ms));
            self.standings.insert(standing.key.clone(), standing);
        }
        self.take(taken);
    }

    /// The transaction of a round's start; returns false if the occurrence already has its receipt. Of the standing it
    /// writes only the mark, so that a pause that was stored since is not undone.
    pub(crate) fn birth(&mut self, start: &RoundStart, round: &str) -> bool {
        if self.occurrences.contains(&(start.key.clone(), start.receipt.occurrence.clone())) {
            return false;
        }
        self.receipt(OccurrenceReceipt { round: Some(round.to_owned()), ..start.receipt.clone() });
        let row = self.standings.entry(start.key.clone()).or_insert_with(|| start.standing.clone());
        row.mark_ms = row.mark_ms.max(start.standing.mark_ms);
        self.take(&start.signals);
        true
    }

    /// Records a signal, unless it is known.
    pub(crate) fn hear(&mut self, signal: &TriggerSignal) -> bool {
        let is_new = self.heard.insert((signal.key.clone(), signal.occurrence.clone()));
        if is_new {
            self.pending.push(signal.clone());
        }
        is_new
    }

    pub(crate) fn dispatcher(&self, limits: ConcurrencyLimits) -> Dispatcher {
        let standings = self.standings.values().cloned().collect();
        Dispatcher::new(limits, standings, self.pending.clone(), self.frozen.clone(), self.last_ms)
    }

    fn receipt(&mut self, receipt: OccurrenceReceipt) {
        let key = (receipt.key.clone(), receipt.occurrence.clone());
        assert!(self.occurrences.insert(key), "a second receipt for one occurrence: {receipt:?}");
        self.last_ms = self.last_ms.max(receipt.at_ms);
        self.receipts.push(receipt);
    }

    fn take(&mut self, taken: &[TriggerSignal]) {
        for signal in taken {
            let before = self.pending.len();
            self.pending.retain(|other| (&other.key, &other.occurrence) != (&signal.key, &signal.occurrence));
            assert_eq!(self.pending.len() + 1, before, "a signal taken twice: {signal:?}");
        }
    }
}
