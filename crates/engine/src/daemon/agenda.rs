//! The daemon's timed tasks besides due loops: rounds that can resume, questions that expire. They are in memory only:
//! the next start reads all of them from the store again.

use loopwright_core::dispatch::LoopKey;
use std::collections::BTreeMap;

/// The most entries. The next start finds the others again.
const ERRANDS_MAX: usize = 10_000;

/// One timed task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AgendaEntry {
    /// A round that an earlier engine left, or that was left open.
    Retake { key: LoopKey, round: String },
    /// A suspended round whose budget may have room again, or a round whose receiver may accept its items again.
    Resume { key: LoopKey, round: String },
    /// Questions that were not answered in time.
    Expire,
    /// Questions that loops ask elsewhere, and their answers.
    AskPeople,
    /// Data past its retention.
    Collect,
}

/// Entries by their time, and those that wait for an event.
#[derive(Debug, Default)]
pub(super) struct DaemonAgenda {
    due: BTreeMap<(i64, u64), AgendaEntry>,
    blocked: Vec<AgendaEntry>,
    next: u64,
}

impl DaemonAgenda {
    /// Adds an entry; a second copy of the same entry is ignored.
    pub(super) fn schedule(&mut self, at_ms: i64, errand: AgendaEntry) {
        self.due.retain(|_, known| *known != errand);
        self.blocked.retain(|known| *known != errand);
        if self.due.len() < ERRANDS_MAX {
            self.due.insert((at_ms, self.next), errand);
            self.next += 1;
        }
    }

    /// Adds an entry, unless it is present with an earlier time.
    pub(super) fn schedule_earliest(&mut self, at_ms: i64, errand: AgendaEntry) {
        let is_earlier = self.due.iter().any(|((known_ms, _), known)| *known == errand && *known_ms <= at_ms);
        if !is_earlier {
            self.schedule(at_ms, errand);
        }
    }

    /// Keeps an entry until something changes.
    pub(super) fn block(&mut self, errand: AgendaEntry) {
        if self.blocked.len() < ERRANDS_MAX && !self.blocked.contains(&errand) {
            self.blocked.push(errand);
        }
    }

    /// Something changed: blocked entries are tried again.
    pub(super) fn unblock(&mut self, now_ms: i64) {
        for errand in std::mem::take(&mut self.blocked) {
            self.schedule(now_ms, errand);
        }
    }

    /// The time of the next entry.
    pub(super) fn next_ms(&self) -> Option<i64> {
        self.due.keys().next().map(|(at_ms, _)| *at_ms)
    }

    /// Removes and returns the entries whose time has come.
    pub(super) fn take_due(&mut self, now_ms: i64) -> Vec<AgendaEntry> {
        let later = self.due.split_off(&(now_ms.saturating_add(1), 0));
        std::mem::replace(&mut self.due, later).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_due_once_at_their_time_and_blocked_ones_after_a_change() {
        let (key, round) = (LoopKey::new("r", "l"), "1".to_owned());
        let resume = AgendaEntry::Resume { key, round };
        let mut agenda = DaemonAgenda::default();
        agenda.schedule(20, resume.clone());
        agenda.schedule(10, AgendaEntry::Expire);
        agenda.schedule(15, resume.clone());
        assert_eq!((agenda.next_ms(), agenda.take_due(9)), (Some(10), vec![]));
        assert_eq!(agenda.take_due(15), [AgendaEntry::Expire, resume.clone()]);
        agenda.block(resume.clone());
        assert_eq!(agenda.next_ms(), None);
        agenda.unblock(30);
        assert_eq!(agenda.take_due(30), [resume]);
    }
}
