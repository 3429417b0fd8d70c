//! The daemon: owns the store, starts loops when they are due, performs the commands of others, and ends in order. What is
//! due is the dispatcher's business; here is the process around it.

pub(crate) mod detach;
pub(crate) mod log;
mod notify;

use crate::context::Context;
use crate::control::{Hall, Shared, socket};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::panic;
use crate::signals::Heard;
use crate::verbs::Ended;
use loopwright::Engine;
use loopwright::proc::Cancel;
use notify::Notify;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::SignalKind;

/// Whether somebody looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Terminal {
    /// Started by hand or by a manager, which keep what is printed.
    Own,
    /// Started by `--detach`: says one document and turns to its log.
    None,
}

/// Runs the daemon until it is asked to end.
pub(crate) async fn run(cx: &Context, grace: Duration, terminal: Terminal) -> Ended {
    if terminal == Terminal::None {
        detach::leave();
    }
    panic::report_and_go_on();
    // From here on agents run beside us, and this process knows keys. A kernel that says no leaves what was before.
    let _ = loopwright::proc::make_undumpable();
    let house = House::open(cx).await?;
    house.ready(cx, terminal);
    house.live(cx, grace).await;
    house.close().await
}

struct House {
    engine: Engine,
    state: PathBuf,
    hall: Arc<Hall>,
    notify: Notify,
}

impl House {
    async fn open(cx: &Context) -> Result<Self, CommandError> {
        let (state, _) = cx.state_dir()?;
        let settings = cx.settings(None)?;
        let store = settings.store.clone();
        let engine = Engine::open(settings).await?;
        let failed = |error| CommandError::failed(format!("open the control socket: {error}"));
        let listener = socket::bind(&state).await.map_err(failed)?;
        cx.recover(&engine, &Cancel::new()).await?;
        let shared = Shared { engine: engine.clone(), env: cx.env.clone(), state: state.clone(), store };
        let hall = Hall::new(Arc::new(shared));
        tokio::spawn(Arc::clone(&hall).open(listener));
        Ok(Self { engine, state, hall, notify: Notify::new(cx.env.notify.clone()) })
    }

    fn ready(&self, cx: &Context, terminal: Terminal) {
        let pid = std::process::id();
        let document = json!({"schema": 1, "daemon": {"pid": pid}});
        cx.out.answer(&document, || format!("up: process {pid}; Ctrl-C ends it"));
        self.notify.ready("ready");
        if terminal == Terminal::None {
            log::Streams::take(&self.state);
        }
    }

    async fn live(&self, cx: &Context, grace: Duration) {
        let mut end = Heard::of([SignalKind::interrupt(), SignalKind::terminate()]);
        end.next().await;
        self.notify.stopping();
        cx.out.note("asked to end: letting rounds end; once more interrupts them");
        self.hall.close();
        tokio::select! {
            _ = tokio::time::timeout(grace, self.hall.is_empty()) => {}
            () = end.next() => {}
        }
        self.hall.cancel_all();
        let _ = tokio::time::timeout(Duration::from_secs(20), self.hall.is_empty()).await;
    }

    async fn close(self) -> Ended {
        socket::remove(&self.state);
        self.engine.close().await?;
        Ok(Exit::DONE)
    }
}
