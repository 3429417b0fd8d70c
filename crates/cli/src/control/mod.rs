//! The daemon and the commands beside it: a verb that changes something while a daemon runs on the
//! store has the daemon perform it. The very same code runs there, with the daemon's engine and a printer that writes to the
//! connection; nothing is done in two ways.

mod client;
mod hands;
mod serve;
pub(crate) mod socket;
mod wire;

pub(crate) use client::Peer;
pub(crate) use hands::{Hands, Shared};
pub(crate) use serve::Hall;

use crate::context::Context;
use crate::error::CommandError;
use crate::exit::Exit;

/// Whether a daemon might listen. A state directory that cannot be found out is told of by the verb itself.
pub(crate) fn is_there(cx: &Context) -> bool {
    cx.state_dir().is_ok_and(|(state, _)| socket::is_there(&state))
}

/// Has the daemon perform this process's own command line, if one listens.
pub(crate) async fn forwarded(cx: &Context) -> Result<Option<Exit>, CommandError> {
    match Peer::find(&cx.state_dir()?.0).await? {
        Some(peer) => peer.forward(std::env::args_os().skip(1), cx).await.map(Some),
        None => Ok(None),
    }
}
