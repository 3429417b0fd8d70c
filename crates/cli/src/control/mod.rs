//! The daemon and the commands beside it: while a daemon runs on the store, it performs the verbs that change
//! something. The same code runs there, with the daemon's engine and a printer that writes to the connection.

mod client;
mod command_runner;
mod control_server;
mod face_request;
pub(crate) mod socket;
mod wire;

pub(crate) use client::{DaemonConnection, is_frozen};
pub(crate) use command_runner::{CommandAnswer, CommandRunner};
pub(crate) use control_server::ControlServer;
pub(crate) use face_request::{FaceAnswer, FaceRequest};

use crate::context::{CommandContext, CommandEnvironment, SharedClients};
use crate::error::{CommandError, CommandExit};
use crate::web::SignInLinks;
use loopwright::Engine;
use loopwright::daemon::Daemon;
use loopwright::proc::CancelToken;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Whether a daemon might listen. The verb itself reports a state directory that cannot be determined.
pub(crate) fn daemon_may_listen(cx: &CommandContext) -> bool {
    cx.state_dir().is_ok_and(|(state, _)| socket::exists(&state))
}

/// Runs this process's own command line, with further arguments, in the daemon, if one listens.
pub(crate) async fn forward_to_daemon(
    cx: &CommandContext,
    further: &[OsString],
) -> Result<Option<CommandExit>, CommandError> {
    match DaemonConnection::connect(&cx.state_dir()?.0).await? {
        Some(peer) => peer.forward(std::env::args_os().skip(1).chain(further.iter().cloned()), cx).await.map(Some),
        None => Ok(None),
    }
}

/// The daemon's resources that a command may use.
pub(crate) struct DaemonResources {
    /// The engine that owns the store.
    pub(crate) engine: Engine,
    /// The task that starts due loops.
    pub(crate) daemon: Daemon,
    /// The daemon's own environment, with its keys.
    pub(crate) env: CommandEnvironment,
    /// Its state directory.
    pub(crate) state: PathBuf,
    /// Its database, when it is not in the state directory.
    pub(crate) store: Option<String>,
    /// Its clients of forges and messengers.
    pub(crate) clients: SharedClients,
    /// The one-time links of its HTTP server, if it has one.
    pub(crate) web: Option<Arc<SignInLinks>>,
}

impl fmt::Debug for DaemonResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

/// The process that does the work.
#[derive(Debug, Clone, Default)]
pub(crate) enum CommandHost {
    /// This process; signals end it.
    #[default]
    ThisProcess,
    /// The daemon, for a command from another process; a cancel message from there ends it.
    Daemon(Arc<DaemonResources>, CancelToken),
}
