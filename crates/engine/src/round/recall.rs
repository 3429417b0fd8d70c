//! Recall: reads the loop's memory. The cost does not grow with history: counters and the last few rounds only.

use super::context::RoundContext;
use super::start::CALIBRATION;
use super::{StageError, bounds, memory, money};
use crate::autonomy;
use crate::clock;
use crate::store::{RoundsQuery, SpendScope, WorkItemState};
use loopwright_core::level::LoopLevel;
use loopwright_core::round::{Event, MemoryRecalled, RoundFacts};

/// The number of past rounds that the maker sees.
const HISTORY: u32 = 5;
/// The most item keys that are read.
const ITEMS: u32 = 1000;

pub(super) async fn recall(cx: &RoundContext<'_>, facts: &RoundFacts) -> Result<Event, StageError> {
    let (store, repo, name) = (&cx.engine.store, &*cx.key.repo, &*cx.key.name);
    let own_day = cx.engine.settings.zone.of_loop(&facts.started.spec).day(cx.started_ms);
    let spend = store.spend(SpendScope::Loop, repo, name, &own_day).await?;
    let (of_repo, of_loop) = (Some(repo.to_owned()), Some(name.to_owned()));
    let query = RoundsQuery { repo: of_repo, loop_name: of_loop, limit: HISTORY + 1, ..RoundsQuery::default() };
    let rounds = store.rounds(query).await?;
    let history =
        rounds.iter().filter(|row| row.id != cx.id && row.trigger != CALIBRATION).take(HISTORY as usize).map(|row| {
            let outcome = row.outcome.map_or("open", |outcome| outcome.word());
            format!("{} {outcome}: {}", clock::rfc3339(row.started_ms), row.summary)
        });
    let accounts = money::accounts(cx.engine, facts, cx.started_ms).await?;
    let items = store.items(repo, name, ITEMS).await?;
    let mut settled: Vec<_> =
        items.into_iter().filter(|item| item.state != WorkItemState::Failed).map(|item| item.key).collect();
    // The round's own items count however long ago they were settled.
    for item in &facts.items {
        let row = crate::probe::item_row(store, repo, name, &item.key).await?;
        settled.retain(|key| *key != item.key);
        let is_settled = row.is_some_and(|row| row.state != WorkItemState::Failed);
        settled.splice(0..0, is_settled.then(|| item.key.clone()));
    }
    let declared = facts.started.spec.level;
    let ceiling = autonomy::settle_level(cx.engine, &cx.key, declared, &facts.started.spec_hash).await;
    Ok(Event::Recalled(MemoryRecalled {
        ceiling: ceiling.map_err(StageError::Fatal)?,
        day_micros: u64::try_from(spend.reserved_micros.saturating_add(spend.settled_micros)).unwrap_or(0),
        settled_items: bounds::list(settled),
        history: history.collect(),
        accounts,
        memory: memory::select_memories(store.memory(repo, name).await?, cx.started_ms),
    }))
}

/// The level at which a person's gate decides: evidence that arrived while the round ran or was suspended lowers it.
pub(super) async fn level_now(cx: &RoundContext<'_>, facts: &RoundFacts) -> Result<LoopLevel, StageError> {
    let level = facts.started.spec.level;
    if level != LoopLevel::L3Unattended {
        return Ok(level);
    }
    let ceiling = autonomy::settle_level(cx.engine, &cx.key, level, &facts.started.spec_hash).await;
    Ok(ceiling.map_err(StageError::Fatal)?.map_or(level, |ceiling| ceiling.level))
}
