//! The workers of a store that machines share: a task beside the daemon reads them, and notifies the daemon when one came,
//! went or was drained.

use super::message::DaemonSender;
use crate::engine::Engine;
use crate::shared_watch::LOOK;
use crate::store::StoreError;
use loopwright_core::dispatch::{DispatchInput, FleetMember};

/// Follows the workers until the daemon has ended.
pub(super) async fn follow(engine: Engine, sender: DaemonSender) {
    let mut known = None;
    loop {
        tokio::select! {
            () = engine.settings.clock.after(LOOK) => {}
            () = sender.closed() => return,
        }
        // After an error they are read at the next look.
        let Ok(members) = read(&engine).await else { continue };
        if known.as_ref() == Some(&members) {
            continue;
        }
        known = Some(members.clone());
        if sender.send(move |desk| desk.step(DispatchInput::Members(members))).is_err() {
            return;
        }
    }
}

/// The workers that are connected. One whose machine cannot isolate agents takes no rounds from one that can.
pub(super) async fn read(engine: &Engine) -> Result<Vec<FleetMember>, StoreError> {
    if !engine.store.is_leased() {
        return Ok(Vec::new());
    }
    let is_isolated = engine.host().await.enforces();
    let mut workers = engine.store.workers().await?;
    workers.retain(|worker| worker.is_connected() && (worker.can_isolate() || !is_isolated));
    Ok(workers.iter().map(crate::store::KnownWorker::member).collect())
}
