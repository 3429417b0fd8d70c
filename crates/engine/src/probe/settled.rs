//! Which items are done: read from the store, and remembered while nothing about items is written, so that a loop that looks
//! every minute and finds what it found before reads nothing.

use super::command;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::store::{Change, ItemState};
use loopwright_core::hash;
use loopwright_core::round::{Item, Probed};
use loopwright_core::spec::LoopSpec;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Items remembered; then everything is read again.
const REMEMBERED_MAX: usize = 50_000;

/// Items that are known to need nothing more, and what was worked out of a base.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settled(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    items: HashSet<String>,
    /// How often everything was forgotten; what was read before the last time is not learnt after it.
    forgotten: u64,
    /// A commit and a digest of some of its files, by who asked.
    digests: HashMap<String, (String, String)>,
}

impl Settled {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.known().items.contains(name)
    }

    fn learn(&self, name: String, read_at: u64) {
        let mut known = self.known();
        if known.forgotten != read_at {
            return;
        }
        if known.items.len() >= REMEMBERED_MAX {
            known.items.clear();
        }
        known.items.insert(name);
    }

    /// What was worked out of a commit's files before.
    pub(super) fn digest(&self, asker: &str, oid: &str) -> Option<String> {
        self.known().digests.get(asker).filter(|(of, _)| of == oid).map(|(_, digest)| digest.clone())
    }

    pub(super) fn keep_digest(&self, asker: String, oid: String, digest: String) {
        let mut known = self.known();
        if known.digests.len() >= REMEMBERED_MAX {
            known.digests.clear();
        }
        known.digests.insert(asker, (oid, digest));
    }

    /// Forgets which items are done: something about items was written.
    pub(crate) fn forget(&self) {
        let mut known = self.known();
        known.items.clear();
        known.forgotten += 1;
    }
}

/// Whether rows change what is known of items.
pub(crate) fn speaks_of_items(changes: &[Change]) -> bool {
    changes.iter().any(|change| matches!(change, Change::Item(_) | Change::ItemGone { .. }))
}

/// What a probe found, of what is not done yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Undone {
    /// All of it is done.
    Nothing,
    /// The probe broke.
    Failed(String),
    /// These items, with how often each failed. Empty when the probe names none.
    Work(Vec<(Item, i64)>),
}

impl Engine {
    /// Leaves out what is done, given up or waiting: the engine, not the model, decides what is processed. As many items as
    /// one round takes, and no more; one that failed before is taken alone, so that it takes no other along to the inbox.
    pub(crate) async fn undone(&self, repo: &str, spec: &LoopSpec, probed: Probed) -> Result<Undone, EngineError> {
        let items = match probed {
            Probed::Nothing => return Ok(Undone::Nothing),
            Probed::Failed { text } => return Ok(Undone::Failed(text)),
            Probed::Work { items } if items.is_empty() => return Ok(Undone::Work(Vec::new())),
            Probed::Work { items } => items,
        };
        let mut open: Vec<(Item, i64)> = Vec::new();
        for item in items {
            let name = name(repo, &spec.name, &item.key);
            if self.settled.knows(&name) {
                continue;
            }
            let read_at = self.settled.known().forgotten;
            match self.store.item(repo, &spec.name, &item.key).await? {
                Some(row) if row.state != ItemState::Failed => self.settled.learn(name, read_at),
                Some(row) if row.failures > 0 && open.is_empty() => {
                    return Ok(Undone::Work(vec![(item, row.failures)]));
                }
                Some(row) if row.failures > 0 => {}
                row => open.push((item, row.map_or(0, |row| row.failures))),
            }
            if open.len() >= spec.on.batch() {
                break;
            }
        }
        Ok(if open.is_empty() { Undone::Nothing } else { Undone::Work(sharing(open)) })
    }
}

/// Items of one round, which share the room that one has in the record.
fn sharing(mut items: Vec<(Item, i64)>) -> Vec<(Item, i64)> {
    let count = items.len();
    items.iter_mut().for_each(|(item, _)| command::share(item, count));
    items
}

/// One name for an item of a loop.
pub(super) fn name(repo: &str, loop_name: &str, key: &str) -> String {
    hash::of_fields(&[repo.as_bytes(), loop_name.as_bytes(), key.as_bytes()])
}
