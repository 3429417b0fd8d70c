//! Retries for items of events. An event is delivered once, so an item would be lost if its round failed. The round's
//! end therefore writes a signal for each of its items, in the same transaction, until the item has failed so many
//! times that a person is asked. Work that was judged is not retried: the judgement is the answer to the event.

use crate::store::{RowChange, SignalRow, Store, StoreError};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{Phase, ProbeItem, Round};

/// The prefix of such a signal's key.
const AGAIN: &str = "again:";
/// The prefix of the keys of events that may be about an item.
const EVENT: &str = "webhook:";

/// The key of the signal.
fn key(round: &Round, item: &ProbeItem) -> String {
    format!("{AGAIN}{}:{}", round.facts().started.round, item.key)
}

/// Whether the end of a round in this state leaves its items to another round.
fn leaves(round: &Round) -> bool {
    let facts = round.facts();
    let broke = matches!(
        round.phase(),
        Phase::Ended(RoundOutcome::Failed | RoundOutcome::Interrupted | RoundOutcome::RateLimited)
    );
    let is_event = [EVENT, AGAIN].iter().any(|kind| facts.started.occurrence.starts_with(kind));
    broke && is_event && !facts.started.dry_run && !facts.saves_budget
}

/// The signals to write with the end of a round; `is_left` selects the items that are worth another try.
pub(crate) fn retry_signals(round: &Round, now_ms: i64, is_left: impl Fn(&ProbeItem) -> bool) -> Vec<RowChange> {
    if !leaves(round) {
        return Vec::new();
    }
    let started = &round.facts().started;
    let signal = |item: &ProbeItem| {
        RowChange::Signal(SignalRow {
            repo: started.repo.clone(),
            loop_name: started.spec.name.clone(),
            key: key(round, item),
            trigger: "again".to_owned(),
            at_ms: now_ms,
            item: Some(item.key.clone()),
            title: item.title.clone(),
            data: item.data.clone(),
            taken_ms: None,
        })
    };
    round.facts().items.iter().filter(|item| is_left(item)).map(signal).collect()
}

/// The signals that the end of a round has written and no round has taken.
pub(super) async fn pending_retry_signals(store: &Store, round: &Round) -> Result<Vec<SignalRow>, StoreError> {
    let mut written = Vec::new();
    if leaves(round) {
        let started = &round.facts().started;
        for item in &round.facts().items {
            let row = store.signal(&started.repo, &started.spec.name, &key(round, item)).await?;
            written.extend(row.filter(|row| row.taken_ms.is_none()));
        }
    }
    Ok(written)
}
