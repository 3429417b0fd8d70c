//! `up`: the daemon, in the foreground or in the background.

use super::{CommandContext, VerbResult};
use crate::daemon::{self, DaemonLaunch, detach};
use loopwright_core::units::TimeSpan;
use std::net::SocketAddr;

#[derive(Debug, clap::Args)]
pub(crate) struct UpArgs {
    /// Start the daemon in the background and return when it is ready
    #[arg(long)]
    detach: bool,
    /// How long running rounds may take to end when the daemon stops
    #[arg(long, value_name = "SPAN", default_value = "60s")]
    grace: TimeSpan,
    /// Receive webhooks at this address [default: `webhooks.listen` of your configuration, else none]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Set in the process that `--detach` starts
    #[arg(long, hide = true, conflicts_with = "detach")]
    detached: bool,
}

pub(crate) async fn run(args: UpArgs, cx: &CommandContext) -> VerbResult {
    if args.detach {
        return detach::run(cx).await;
    }
    let terminal = if args.detached { DaemonLaunch::Detached } else { DaemonLaunch::Foreground };
    daemon::run(cx, args.grace.duration(), terminal, args.listen).await
}
