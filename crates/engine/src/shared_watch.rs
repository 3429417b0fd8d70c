//! The watch over a store that machines share. While rounds run in this process, it reads the decisions of people on
//! other machines to stop one round, or everything. It ends agents; the rounds record their end themselves.

use crate::clock::Clock;
use crate::daemon::STOP_FLAG;
use crate::live_rounds::LiveRounds;
use crate::store::{RoundRequestState, RowChange, Store, StoreBatch, StoreError, StoreErrorKind};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often it looks while rounds run.
pub(crate) const LOOK: Duration = Duration::from_secs(5);

/// Watches until the store is closed.
pub(crate) async fn watch(store: Weak<Store>, clock: Arc<dyn Clock>, live_rounds: LiveRounds) {
    loop {
        clock.after(LOOK).await;
        let Some(store) = store.upgrade() else { return };
        let running = live_rounds.names();
        if !running.is_empty() {
            // After an error it looks again later.
            let _ = look(&store, clock.now_ms(), &live_rounds, &running).await;
        }
    }
}

async fn look(store: &Store, now_ms: i64, live_rounds: &LiveRounds, running: &[String]) -> Result<(), StoreError> {
    if let Some(flag) = store.flags().await?.into_iter().find(|flag| flag.name == STOP_FLAG) {
        let why = format!("everything is stopped by {}: {}", flag.actor, flag.why);
        running.iter().for_each(|round| live_rounds.end(round, &why));
        return Ok(());
    }
    for request in store.stop_requests().await? {
        if running.contains(&request.round) {
            let settled = RowChange::RequestSettled { id: request.id, state: RoundRequestState::Applied };
            let settled = store.append(StoreBatch::of_rows(now_ms, vec![settled])).await;
            if matches!(&settled, Err(StoreError { kind: StoreErrorKind::Conflict(_), .. })) {
                // The person has withdrawn it.
                continue;
            }
            // Also after an error: the answer to a write that happened may be lost, and then no later look finds it.
            live_rounds.end(&request.round, &format!("{} by {}", request.text, request.actor));
            settled?;
        }
    }
    Ok(())
}
