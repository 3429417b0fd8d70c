//! Two-stage stop: the first Ctrl-C or SIGTERM asks the round to end, the second ends everything at once. The journal
//! survives both; what a second signal leaves is taken up by the next command.

use crate::exit::CommandExit;
use crate::output;
use loopwright::proc::CancelToken;
use std::sync::{Arc, OnceLock};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The round that runs, once there is one: its processes are ended by the second signal.
pub(crate) type CurrentRound = Arc<OnceLock<String>>;

/// The signals that ask a process to end. Those that cannot be heard keep their usual meaning.
pub(crate) struct SignalListener(Vec<Signal>);

impl SignalListener {
    /// Interrupt, terminate and hang-up.
    pub(crate) fn new() -> Self {
        Self::for_kinds([SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()])
    }

    /// These.
    pub(crate) fn for_kinds<const N: usize>(kinds: [SignalKind; N]) -> Self {
        Self(kinds.into_iter().filter_map(|kind| signal(kind).ok()).collect())
    }

    /// Comes back with the next one.
    pub(crate) async fn next(&mut self) {
        let signals = &mut self.0;
        std::future::poll_fn(|cx| {
            let came = signals.iter_mut().any(|signal| signal.poll_recv(cx).is_ready());
            if came { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }
}

/// A request to stop that signals throw.
pub(crate) fn cancel_on_signal(running: &CurrentRound) -> CancelToken {
    let cancel = CancelToken::new();
    tokio::spawn(listen(SignalListener::new(), cancel.clone(), Arc::clone(running)));
    cancel
}

async fn listen(mut signals: SignalListener, cancel: CancelToken, running: CurrentRound) {
    signals.next().await;
    output::note("interrupted: ending the round; once more ends everything at once");
    cancel.cancel();
    signals.next().await;
    if let Some(round) = running.get() {
        // Whatever is left is swept by the next command as well.
        let _ = loopwright::proc::sweep(&format!("lw-{round}"));
    }
    std::process::exit(CommandExit::INTERRUPTED.into());
}
