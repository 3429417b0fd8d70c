//! The global stop in a store that machines share: a task beside the daemon reads it, and notifies the daemon when
//! another process set or removed it.

use super::message::DaemonSender;
use super::requests::STOP_FLAG;
use crate::engine::Engine;
use crate::shared_watch::LOOK;
use crate::store::{FlagRow, StoreError};

/// Follows the flag until the daemon has ended.
pub(super) async fn follow(engine: Engine, sender: DaemonSender) {
    let mut known: Option<FlagRow> = None;
    loop {
        tokio::select! {
            () = engine.settings.clock.after(LOOK) => {}
            () = sender.closed() => return,
        }
        // After an error it is read at the next look.
        let Ok(flag) = read(&engine).await else { continue };
        if flag == known {
            continue;
        }
        let thaws = sender.ask(|desk| desk.thaws).await;
        let (Ok(thaws), Ok(flag)) = (thaws, read(&engine).await) else { continue };
        known.clone_from(&flag);
        if sender.send(move |desk| desk.apply_flag(flag, thaws)).is_err() {
            return;
        }
    }
}

async fn read(engine: &Engine) -> Result<Option<FlagRow>, StoreError> {
    Ok(engine.store.flags().await?.into_iter().find(|flag| flag.name == STOP_FLAG))
}
