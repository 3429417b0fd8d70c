//! Importing items: those that another tool has processed count as processed. The journal records the import as one
//! event; an item that the store knows already keeps its state.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::random;
use crate::store::{ItemRow, NewEvent, RowChange, StoreBatch, WorkItemState};
use std::collections::BTreeSet;

/// The most items of one loop that are imported, the newest first.
pub const IMPORTED_ITEMS_MAX: usize = 10_000;

/// The processed items of one loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessedItems {
    /// The loop's name.
    pub loop_name: String,
    /// The keys, each with the time of its processing in milliseconds, if it is known.
    pub items: Vec<(String, Option<i64>)>,
}

/// A request to import items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemImport {
    /// The repository's id.
    pub repo: String,
    /// The tool that processed the items.
    pub source: String,
    /// The person who requests it.
    pub actor: String,
    /// The items of each loop.
    pub loops: Vec<ProcessedItems>,
}

/// Records the items as processed, all or none. Returns the number of new items of each loop, in the order of the
/// request.
///
/// # Errors
/// When the store cannot be read or written.
pub async fn import_items(engine: &Engine, import: ItemImport) -> Result<Vec<usize>, EngineError> {
    let (now, round) = (engine.now_ms(), format!("import-{}", random::nonce()?));
    let (mut changes, mut counts) = (Vec::new(), Vec::new());
    for one in import.loops {
        let mut new = BTreeSet::new();
        for (key, at) in one.items.into_iter().take(IMPORTED_ITEMS_MAX) {
            if new.contains(&key) || engine.store.item(&import.repo, &one.loop_name, &key).await?.is_some() {
                continue;
            }
            changes.push(RowChange::Item(ItemRow {
                repo: import.repo.clone(),
                loop_name: one.loop_name.clone(),
                key: key.clone(),
                state: WorkItemState::Processed,
                failures: 0,
                round: round.clone(),
                updated_ms: at.unwrap_or(now).min(now),
            }));
            new.insert(key);
        }
        counts.push((one.loop_name, new.len()));
    }
    if !changes.is_empty() {
        let loops: serde_json::Map<_, _> = counts.iter().map(|(name, count)| (name.clone(), (*count).into())).collect();
        let body = serde_json::json!({
            "event": "items-imported", "actor": import.actor, "repo": import.repo, "source": import.source, "loops": loops,
        });
        let events = vec![NewEvent { kind: "items-imported".to_owned(), body: body.to_string() }];
        engine.append(StoreBatch { round, expect_index: 0, at_ms: now, events, changes }).await?;
    }
    Ok(counts.into_iter().map(|(_, count)| count).collect())
}
