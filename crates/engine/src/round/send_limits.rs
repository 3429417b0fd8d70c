//! The limits of a loop's outputs over 24 hours, counted from the store: for a kind, and for a kind and a target. The limit
//! of one round is checked when its items are staged.

use super::StageError;
use super::context::RoundContext;
use super::rows::may_have_arrived;
use crate::store::{OutboxRow, RoundsQuery};
use loopwright_core::outbox::StagedItem;
use loopwright_core::round::RoundFacts;

/// The number of earlier rounds that are counted.
const ROUNDS_MAX: u32 = 2_000;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The limit that the item would exceed, as a sentence.
pub(super) async fn exceeded_limit(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    item: &StagedItem,
) -> Result<Option<String>, StageError> {
    let Some(output) = facts.started.spec.output.iter().find(|output| output.kind == item.kind) else {
        return Ok(None);
    };
    if output.day_max.is_none() && output.target_max.is_none() {
        return Ok(None);
    }
    let sent = sent_today(cx, facts, item).await?;
    let to_target = sent.iter().filter(|row| row.target == item.target).count();
    let kind = item.kind;
    let over =
        |count: usize, limit: Option<u32>| limit.filter(|limit| count >= usize::try_from(*limit).unwrap_or(usize::MAX));
    if let Some(limit) = over(sent.len(), output.day_max) {
        return Ok(Some(format!("the loop has sent {limit} of {kind} within 24 hours, its `day_max`")));
    }
    let target = item.target.as_deref().unwrap_or("one target");
    Ok(over(to_target, output.target_max)
        .map(|limit| format!("the loop has sent {limit} of {kind} to {target} within 24 hours, its `target_max`")))
}

/// The loop's other items of this kind that may have arrived within 24 hours, or that another process sends now.
async fn sent_today(
    cx: &RoundContext<'_>,
    facts: &RoundFacts,
    item: &StagedItem,
) -> Result<Vec<OutboxRow>, StageError> {
    let started = &facts.started;
    let since_ms = cx.engine.now_ms() - DAY_MS;
    let query = RoundsQuery {
        repo: Some(started.repo.clone()),
        loop_name: Some(started.spec.name.clone()),
        limit: ROUNDS_MAX,
        ..RoundsQuery::default()
    };
    let mut sent = Vec::new();
    for row in cx.engine.store.rounds(query).await? {
        // A round that waited for a person sends later than it started.
        if row.ended_ms.is_some_and(|at_ms| at_ms < since_ms) {
            continue;
        }
        let items = cx.engine.store.outbox(&row.id).await?;
        let counts = |other: &OutboxRow| {
            let is_itself = other.round == cx.id && other.position == i64::from(item.position);
            may_have_arrived(other) && other.kind == item.kind && other.updated_ms >= since_ms && !is_itself
        };
        sent.extend(items.into_iter().filter(counts));
    }
    Ok(sent)
}
