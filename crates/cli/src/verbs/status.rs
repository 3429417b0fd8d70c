//! `status`: show all loops and how they stand.

use super::Ended;
use crate::context::Context;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show it again and again until interrupted
    #[arg(long)]
    pub(crate) watch: bool,
}

pub(crate) async fn run(args: Args, _: &Context) -> Ended {
    Err(CommandError::failed(format!("not in this build yet: {args:?}")))
}
