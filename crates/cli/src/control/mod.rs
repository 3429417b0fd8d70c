//! The daemon and the commands beside it: a verb that changes something while a daemon runs on the
//! store has the daemon perform it. The very same code runs there, with the daemon's engine and a printer that writes to the
//! connection; nothing is done in two ways.

mod client;
mod command_host;
mod control_server;
pub(crate) mod socket;
mod wire;

pub(crate) use client::DaemonConnection;
pub(crate) use command_host::{CommandHost, DaemonResources};
pub(crate) use control_server::ControlServer;

use crate::context::CommandContext;
use crate::error::CommandError;
use crate::exit::CommandExit;

/// Whether a daemon might listen. A state directory that cannot be found out is told of by the verb itself.
pub(crate) fn daemon_may_listen(cx: &CommandContext) -> bool {
    cx.state_dir().is_ok_and(|(state, _)| socket::exists(&state))
}

/// Has the daemon perform this process's own command line, if one listens.
pub(crate) async fn forward_to_daemon(cx: &CommandContext) -> Result<Option<CommandExit>, CommandError> {
    match DaemonConnection::connect(&cx.state_dir()?.0).await? {
        Some(peer) => peer.forward(std::env::args_os().skip(1), cx).await.map(Some),
        None => Ok(None),
    }
}
