//! Two-stage stop: the first Ctrl-C or SIGTERM asks the round to end, the second ends everything at once. The journal
//! survives both; what a second signal leaves is taken up by the next command.

use crate::exit::Exit;
use crate::output;
use loopwright::proc::Cancel;
use std::sync::{Arc, OnceLock};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The round that runs, once there is one: its processes are ended by the second signal.
pub(crate) type Running = Arc<OnceLock<String>>;

/// A request to stop that signals throw. Signals that cannot be heard keep their usual meaning.
pub(crate) fn cancel(running: &Running) -> Cancel {
    let cancel = Cancel::new();
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    if let [Ok(interrupt), Ok(terminate), Ok(hangup)] = kinds.map(signal) {
        tokio::spawn(listen([interrupt, terminate, hangup], cancel.clone(), Arc::clone(running)));
    }
    cancel
}

async fn listen(mut signals: [Signal; 3], cancel: Cancel, running: Running) {
    next(&mut signals).await;
    output::note("interrupted: ending the round; once more ends everything at once");
    cancel.cancel();
    next(&mut signals).await;
    if let Some(round) = running.get() {
        // Whatever is left is swept by the next command as well.
        let _ = loopwright::proc::sweep(&format!("lw-{round}"));
    }
    std::process::exit(Exit::INTERRUPTED.into());
}

async fn next([interrupt, terminate, hangup]: &mut [Signal; 3]) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}
