//! Which of the items that a probe found are not done yet.

use super::command;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::store::ItemState;
use loopwright_core::round::{ProbeAnswer, ProbeItem};
use loopwright_core::spec::LoopSpec;

/// What a probe found, of what is not done yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Undone {
    /// All of it is done.
    Nothing,
    /// The probe broke.
    Failed(String),
    /// These items, with how often each failed. Empty when the probe names none.
    Work(Vec<(ProbeItem, i64)>),
}

impl Engine {
    /// Leaves out what is done, given up or waiting: the engine, not the model, decides what is processed. As many items as
    /// one round takes, and no more; one that failed before is taken alone, so that it takes no other along to the inbox.
    pub(crate) async fn undone(&self, repo: &str, spec: &LoopSpec, probed: ProbeAnswer) -> Result<Undone, EngineError> {
        let items = match probed {
            ProbeAnswer::Nothing => return Ok(Undone::Nothing),
            ProbeAnswer::Failed { text } => return Ok(Undone::Failed(text)),
            ProbeAnswer::Work { items } if items.is_empty() => return Ok(Undone::Work(Vec::new())),
            ProbeAnswer::Work { items } => items,
        };
        let mut open: Vec<(ProbeItem, i64)> = Vec::new();
        for item in items {
            match self.store.item(repo, &spec.name, &item.key).await? {
                Some(row) if row.state != ItemState::Failed => {}
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
fn sharing(mut items: Vec<(ProbeItem, i64)>) -> Vec<(ProbeItem, i64)> {
    let count = items.len();
    items.iter_mut().for_each(|(item, _)| command::cut_to_share(item, count));
    items
}
