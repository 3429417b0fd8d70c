//! Two-stage stop: the first Ctrl-C or SIGTERM asks the round to end, the second ends everything at once. The journal
//! survives both; the next command recovers whatever a second signal leaves.

use crate::error::CommandExit;
use crate::output;
use loopwright::proc::CancelToken;
use std::sync::{Arc, OnceLock};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The running round, once there is one: the second signal ends its processes.
pub(crate) type CurrentRound = Arc<OnceLock<String>>;

/// The signals that ask a process to end. A signal that cannot be caught keeps its default action.
pub(crate) struct SignalListener(Vec<Signal>);

impl SignalListener {
    /// Interrupt, terminate and hang-up.
    pub(crate) fn new() -> Self {
        Self::for_kinds([SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()])
    }

    /// Listens for these signals.
    pub(crate) fn for_kinds<const N: usize>(kinds: [SignalKind; N]) -> Self {
        Self(kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect())
    }

    /// Returns when the next signal arrives.
    pub(crate) async fn next(&mut self) {
        let signals = &mut self.0;
        std::future::poll_fn(|cx| {
            let came = signals.iter_mut().any(|signal| signal.poll_recv(cx).is_ready());
            if came { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}

/// A request to stop that signals trigger.
pub(crate) fn cancel_on_signal(running: &CurrentRound) -> CancelToken {
    let cancel = CancelToken::new();
    tokio::spawn(listen(SignalListener::new(), cancel.clone(), Arc::clone(running)));
    cancel
}

async fn listen(mut signals: SignalListener, cancel: CancelToken, running: CurrentRound) {
    signals.next().await;
    output::note("interrupted: ending the round; interrupt again to end everything at once");
    cancel.cancel();
    signals.next().await;
    if let Some(round) = running.get() {
        // The next command removes anything that is left.
        let _ = loopwright::proc::sweep(&format!("lw-{round}"));
    }
    CommandExit::INTERRUPTED.end_process()
}
