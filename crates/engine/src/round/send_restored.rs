//! Sends of a restored state. The state does not know the rounds between its backup and its loss, so a due item may have
//! been shipped by one of them. Before each first attempt the forge is asked for effects of the same work by rounds that
//! are not on record. A person decides about the effects that are found, and about receivers that cannot be searched.

use super::StageError;
use crate::backup::RestoredState;
use crate::clock::rfc3339;
use crate::engine::Engine;
use loopwright_core::deliver::{Deliver, DeliverErrorKind, Delivery, WorkLookup};
use loopwright_core::round::RoundFacts;

/// How long after a restore a receiver that cannot be asked keeps items for a person.
const UNKNOWN_MS: i64 = 7 * 86_400_000;

/// The effects that a lost round may have had.
pub(super) enum LostWork {
    None,
    /// The work may have been sent: only a person can find out.
    Maybe(String),
    /// The receiver cannot be read now.
    Unread(String),
}

pub(super) async fn lost_work(
    engine: &Engine,
    facts: &RoundFacts,
    receiver: &dyn Deliver,
    item: &Delivery,
    restored: RestoredState,
) -> Result<LostWork, StageError> {
    let since = format!("this state was restored from a backup of {}", rfc3339(restored.as_of_ms));
    match receiver.find_work(item).await {
        Ok(WorkLookup::Known(all)) => {
            for found in all {
                if engine.store.round(&found.round).await?.is_none() {
                    let (round, place) = (&found.round, &found.place);
                    return Ok(LostWork::Maybe(format!(
                        "{since}, and round {round}, which it does not know, has sent this work already: {place}"
                    )));
                }
            }
            Ok(LostWork::None)
        }
        Ok(WorkLookup::Unknown) if is_due_soon(facts, engine.now_ms(), restored) => Ok(LostWork::Maybe(format!(
            "{since}, and the receiver cannot show whether a lost round has sent this work already"
        ))),
        Ok(WorkLookup::Unknown) => Ok(LostWork::None),
        Err(error) if error.kind == DeliverErrorKind::Refused => Ok(LostWork::None),
        Err(error) => Ok(LostWork::Unread(error.text)),
    }
}

/// Whether the round may repeat the work of a lost one: a schedule started it within days after the restore.
fn is_due_soon(facts: &RoundFacts, now_ms: i64, restored: RestoredState) -> bool {
    facts.started.trigger != "manual" && now_ms < restored.restored_ms.saturating_add(UNKNOWN_MS)
}
