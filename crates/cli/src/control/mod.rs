//! The daemon and the commands beside it: while a daemon runs on the store, it performs the verbs that change
//! something. The same code runs there, with the daemon's engine and a printer that writes to the connection.

mod client;
mod command_host;
mod control_server;
pub(crate) mod socket;
mod wire;

pub(crate) use client::DaemonConnection;
pub(crate) use command_host::{CommandHost, DaemonResources};
pub(crate) use control_server::ControlServer;

use crate::context::CommandContext;
use crate::error::{CommandError, CommandExit};

/// Whether a daemon might listen. The verb itself reports a state directory that cannot be determined.
pub(crate) fn daemon_may_listen(cx: &CommandContext) -> bool {
    cx.state_dir().is_ok_and(|(state, _)| socket::exists(&state))
}

/// Runs this process's own command line in the daemon, if one listens.
pub(crate) async fn forward_to_daemon(cx: &CommandContext) -> Result<Option<CommandExit>, CommandError> {
    match DaemonConnection::connect(&cx.state_dir()?.0).await? {
        Some(peer) => peer.forward(std::env::args_os().skip(1), cx).await.map(Some),
        None => Ok(None),
    }
}
