//! `why`: explain from the record how a round ended as it did.

use super::Ended;
use crate::context::Context;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A round's id or its beginning, or a loop's name
    #[arg(value_name = "ROUND|LOOP")]
    pub(crate) id: String,
}

pub(crate) async fn run(args: Args, _: &Context) -> Ended {
    Err(CommandError::failed(format!("not in this build yet: {args:?}")))
}
