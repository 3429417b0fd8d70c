//! The decisions of one step, in the order in which they are performed: rows first, then effects.

use super::scheduled_loop::{ScheduledLoop, can_merge, merge_receipts};
use super::{DispatchCommand, LoopKey, LoopStanding, OccurrenceReceipt, TriggerSignal};
use std::collections::{BTreeMap, BTreeSet};

/// The decisions of one step.
#[derive(Debug, Default)]
pub(super) struct DispatchOutput {
    receipts: Vec<OccurrenceReceipt>,
    keep: BTreeSet<LoopKey>,
    gone: Vec<LoopStanding>,
    reset: Vec<LoopStanding>,
    taken: Vec<TriggerSignal>,
    effects: Vec<DispatchCommand>,
}

impl DispatchOutput {
    /// Adds a receipt; merges it with the last one if it continues that run.
    pub(super) fn add_receipt(&mut self, receipt: OccurrenceReceipt) {
        match self.receipts.last_mut() {
            Some(before) if can_merge(before, &receipt) => merge_receipts(before, receipt),
            _ => self.receipts.push(receipt),
        }
    }

    /// Records that the standing of a loop has changed.
    pub(super) fn persist_standing(&mut self, key: &LoopKey) {
        self.keep.insert(key.clone());
    }

    /// Records the last standing of a loop that was removed.
    pub(super) fn persist_removed(&mut self, standing: LoopStanding) {
        self.keep.remove(&standing.key);
        self.gone.push(standing);
    }

    /// Moves a mark back, which a standing never does by itself: the old row is given up first and then written again.
    pub(super) fn reset_mark(&mut self, standing: &LoopStanding) {
        // The row of a removed loop is given up already; another fingerprint gives it up again.
        let given_up = if standing.fingerprint.is_empty() { "ahead" } else { "" };
        self.reset.push(LoopStanding { fingerprint: given_up.to_owned(), ..standing.clone() });
        self.persist_standing(&standing.key);
    }

    /// Marks a signal as resolved.
    pub(super) fn consume_signal(&mut self, signal: TriggerSignal) {
        self.taken.push(signal);
    }

    /// Adds a command to perform after the rows are durable.
    pub(super) fn add_command(&mut self, command: DispatchCommand) {
        self.effects.push(command);
    }

    /// All commands, with the standings as they are now.
    pub(super) fn into_commands(self, members: &BTreeMap<LoopKey, Box<ScheduledLoop>>) -> Vec<DispatchCommand> {
        let Self { receipts, keep, gone: mut standings, reset, taken, effects } = self;
        standings.reserve(keep.len());
        standings.extend(keep.iter().filter_map(|key| members.get(key)).map(|member| member.standing.clone()));
        let mut commands = Vec::with_capacity(effects.len() + 1);
        if !reset.is_empty() {
            commands.push(DispatchCommand::Persist { receipts: Vec::new(), standings: reset, taken: Vec::new() });
        }
        if !(receipts.is_empty() && standings.is_empty() && taken.is_empty()) {
            commands.push(DispatchCommand::Persist { receipts, standings, taken });
        }
        commands.extend(effects);
        commands
    }
}
