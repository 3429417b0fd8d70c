//! Which items of a probe are still open.

use super::command;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::store::WorkItemState;
use loopwright_core::round::{ProbeAnswer, ProbeItem};
use loopwright_core::spec::LoopSpec;

/// The open items of a probe.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Undone {
    /// All items are done.
    Nothing,
    /// The probe failed.
    Failed(String),
    /// These items, each with its number of failures. Empty if the probe names no items.
    Work(Vec<(ProbeItem, i64)>),
}

impl Engine {
    /// Removes items that are done, given up or waiting: the engine, not the model, decides what is processed. Returns
    /// at most as many items as one round takes. An item that failed before gets a round of its own, so that its
    /// failure does not affect other items.
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
                Some(row) if row.state != WorkItemState::Failed => {}
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

/// The items of one round, which share one record's space.
fn sharing(mut items: Vec<(ProbeItem, i64)>) -> Vec<(ProbeItem, i64)> {
    let count = items.len();
    items.iter_mut().for_each(|(item, _)| command::cut_to_share(item, count));
    items
}
