//! What one step decides, gathered in the order in which it is to be done: rows first, effects after them.

use super::member::{Member, join, joins};
use super::{Command, LoopKey, Receipt, Signal, Standing};
use std::collections::{BTreeMap, BTreeSet};

/// The decisions of one step.
#[derive(Debug, Default)]
pub(super) struct Out {
    receipts: Vec<Receipt>,
    keep: BTreeSet<LoopKey>,
    gone: Vec<Standing>,
    reset: Vec<Standing>,
    taken: Vec<Signal>,
    effects: Vec<Command>,
}

impl Out {
    /// A receipt; one that goes on where the last ended is made one with it.
    pub(super) fn tell(&mut self, receipt: Receipt) {
        match self.receipts.last_mut() {
            Some(before) if joins(before, &receipt) => join(before, receipt),
            _ => self.receipts.push(receipt),
        }
    }

    /// The standing of a loop has changed.
    pub(super) fn keep(&mut self, key: &LoopKey) {
        self.keep.insert(key.clone());
    }

    /// The last standing of a loop that was taken away.
    pub(super) fn keep_gone(&mut self, standing: Standing) {
        self.keep.remove(&standing.key);
        self.gone.push(standing);
    }

    /// A mark that goes back, which no standing does by itself: it is given up first and kept anew after that.
    pub(super) fn reset(&mut self, standing: &Standing) {
        // That of a loop that was taken away is given up already; another word gives it up all the same.
        let given_up = if standing.fingerprint.is_empty() { "ahead" } else { "" };
        self.reset.push(Standing { fingerprint: given_up.to_owned(), ..standing.clone() });
        self.keep(&standing.key);
    }

    /// A signal that is settled.
    pub(super) fn take(&mut self, signal: Signal) {
        self.taken.push(signal);
    }

    /// Something to be done after the rows are durable.
    pub(super) fn effect(&mut self, command: Command) {
        self.effects.push(command);
    }

    /// All of it, with the standings as they are now.
    pub(super) fn commands(self, members: &BTreeMap<LoopKey, Box<Member>>) -> Vec<Command> {
        let Self { receipts, keep, gone: mut standings, reset, taken, effects } = self;
        standings.reserve(keep.len());
        standings.extend(keep.iter().filter_map(|key| members.get(key)).map(|member| member.standing.clone()));
        let mut commands = Vec::with_capacity(effects.len() + 1);
        if !reset.is_empty() {
            commands.push(Command::Keep { receipts: Vec::new(), standings: reset, taken: Vec::new() });
        }
        if !(receipts.is_empty() && standings.is_empty() && taken.is_empty()) {
            commands.push(Command::Keep { receipts, standings, taken });
        }
        commands.extend(effects);
        commands
    }
}
