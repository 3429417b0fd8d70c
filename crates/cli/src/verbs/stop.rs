//! `stop`: asks the daemon to let its rounds end and to end itself, and waits until it has. It is asked by a signal, which
//! every build understands.

use super::Ended;
use crate::context::Context;
use crate::control::Peer;
use crate::error::CommandError;
use crate::exit::Exit;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::json;
use std::os::fd::OwnedFd;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Do not let rounds end: interrupt them
    #[arg(long)]
    now: bool,
}

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    let (state, _) = cx.state_dir()?;
    let Some(peer) = Peer::find(&state).await? else {
        cx.out.answer(&json!({"schema": 1, "stopped": null}), || "no daemon runs here".to_owned());
        return Ok(Exit::DONE);
    };
    let unknown = || CommandError::failed("the daemon is not a process of this machine");
    let pid = peer.pid.and_then(Pid::from_raw).ok_or_else(unknown)?;
    let process = pidfd_open(pid, PidfdFlags::NONBLOCK).map_err(|error| gone(pid, error))?;
    drop(peer);
    let times = if args.now { 2 } else { 1 };
    for _ in 0..times {
        pidfd_send_signal(&process, Signal::TERM).map_err(|error| gone(pid, error))?;
    }
    cx.out.note(&format!("asked the daemon, process {}, to end; waiting for its rounds", pid.as_raw_nonzero()));
    ended(&process).map_err(|error| CommandError::failed(format!("wait for the daemon: {error}")))?;
    let document = json!({"schema": 1, "stopped": pid.as_raw_nonzero()});
    cx.out.answer(&document, || format!("the daemon, process {}, has ended", pid.as_raw_nonzero()));
    Ok(Exit::DONE)
}

/// The descriptor of a process can be read from its end on. Nothing else goes on here meanwhile; Ctrl-C ends us.
fn ended(process: &OwnedFd) -> rustix::io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(process, PollFlags::IN)], None) {
            Err(Errno::INTR) => {}
            polled => return polled.map(drop),
        }
    }
}

fn gone(pid: Pid, error: Errno) -> CommandError {
    CommandError::failed(format!("signal process {}: {error}", pid.as_raw_nonzero()))
}
