//! Recall: reads the loop's memory. The cost does not grow with history: counters and the last few rounds only.

use super::{RoundDriver, StageError, bounds, memory};
use crate::clock;
use crate::store::{RoundsQuery, SpendScope, WorkItemState};
use loopwright_core::round::{Event, MemoryRecalled};

/// The number of past rounds that the maker sees.
const HISTORY: u32 = 5;
/// The most item keys that are read.
const ITEMS: u32 = 1000;

impl RoundDriver<'_> {
    pub(super) async fn recall(&mut self) -> Result<Event, StageError> {
        let started = &self.round.facts().started;
        let (repo, name) = (started.repo.clone(), started.spec.name.clone());
        let store = self.engine.store();
        let day = clock::day(self.started_ms);
        let spend = store.spend(SpendScope::Loop, &repo, &name, &day).await?;
        let query = RoundsQuery {
            repo: Some(repo.clone()),
            loop_name: Some(name.clone()),
            limit: HISTORY + 1,
            ..RoundsQuery::default()
        };
        let rounds = store.rounds(query).await?;
        let history = rounds.iter().filter(|row| row.id != started.round).take(HISTORY as usize);
        let history = history.map(|row| {
            format!(
                "{} {}: {}",
                clock::rfc3339(row.started_ms),
                row.outcome.map_or("open", |outcome| outcome.word()),
                row.summary
            )
        });
        let accounts = self.accounts().await?;
        let items = store.items(&repo, &name, ITEMS).await?;
        let mut settled: Vec<_> =
            items.into_iter().filter(|item| item.state != WorkItemState::Failed).map(|item| item.key).collect();
        // The round's own items count however long ago they were settled.
        for item in &self.round.facts().items {
            let row = store.item(&repo, &name, &item.key).await?;
            settled.retain(|key| *key != item.key);
            settled.splice(0..0, row.filter(|row| row.state != WorkItemState::Failed).map(|row| row.key));
        }
        let memory = store.memory(&repo, &name).await?;
        Ok(Event::Recalled(MemoryRecalled {
            day_micros: u64::try_from(spend.reserved_micros.saturating_add(spend.settled_micros)).unwrap_or(0),
            settled_items: bounds::list(settled),
            history: history.collect(),
            accounts,
            memory: memory::select_memories(memory, self.started_ms),
        }))
    }
}
