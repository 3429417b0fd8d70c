//! `approve`: let a waiting candidate out.

use super::Ended;
use crate::context::Context;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An id from the inbox, or a round's
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

pub(crate) async fn run(args: Args, _: &Context) -> Ended {
    Err(CommandError::failed(format!("not in this build yet: {args:?}")))
}
