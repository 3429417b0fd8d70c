//! A daemon that stands by while another process schedules the same PostgreSQL store: it waits until that process ends,
//! or until its lease has expired. It starts nothing meanwhile.

use super::{DaemonLog, ServiceNotifier};
use crate::error::CommandError;
use crate::signals::SignalListener;
use loopwright::store::{DISPATCHER, LeaseHolder, StoreErrorKind};
use loopwright::{Engine, EngineError};
use std::time::Duration;

/// How often the lease of the process that schedules is read: one small query.
const LOOK: Duration = Duration::from_secs(2);

/// How standing by ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandbyEnd {
    /// This process schedules now.
    Leading,
    /// A signal asked it to end.
    Stopped,
}

/// Stands by until this process has the lease, or a signal asks it to end.
pub(super) async fn stand_by(
    engine: &Engine,
    holder: &str,
    (log, notify): (&DaemonLog, &ServiceNotifier),
    stop: &mut SignalListener,
) -> Result<StandbyEnd, CommandError> {
    log.log(
        "standby",
        &format!("{holder}; this process takes over when that one ends, or three minutes after it freezes"),
    );
    notify.ready("standing by");
    let mut is_away = false;
    loop {
        tokio::select! {
            () = stop.next() => return Ok(StandbyEnd::Stopped),
            () = engine.settings().clock.after(LOOK) => {}
        }
        // An answer of a database that is away takes long; a signal does not wait for it.
        let taken = tokio::select! {
            () = stop.next() => return Ok(StandbyEnd::Stopped),
            taken = take_over(engine) => taken,
        };
        match taken {
            Ok(true) => return Ok(StandbyEnd::Leading),
            Ok(false) => is_away = false,
            // The one that schedules waits for the database too.
            Err(EngineError::Store(error))
                if matches!(error.kind, StoreErrorKind::Away(_) | StoreErrorKind::Busy(_)) =>
            {
                if !std::mem::replace(&mut is_away, true) {
                    log.warn(&error.to_string());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Takes the lease if it is free. It is read first, because taking it makes all writers wait.
async fn take_over(engine: &Engine) -> Result<bool, EngineError> {
    let leases = engine.store().leases().await?;
    if leases.iter().any(|lease| lease.name == DISPATCHER && lease.holder == LeaseHolder::Other) {
        return Ok(false);
    }
    match engine.lease_dispatcher().await {
        Err(EngineError::Store(error)) if matches!(error.kind, StoreErrorKind::Held(_) | StoreErrorKind::Busy(_)) => {
            Ok(false)
        }
        leased => leased.map(|()| true),
    }
}
