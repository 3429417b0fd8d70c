//! `deny`: end a waiting round with a no.

use super::Ended;
use crate::context::Context;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An id from the inbox, or a round's
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Why not; the maker of a later round is told
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
}

pub(crate) async fn run(args: Args, _: &Context) -> Ended {
    Err(CommandError::failed(format!("not in this build yet: {args:?}")))
}
