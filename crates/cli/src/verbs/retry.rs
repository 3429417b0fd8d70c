//! `retry`: start another round like an ended one.

use super::Ended;
use crate::context::Context;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A round's id or its beginning
    #[arg(value_name = "ROUND")]
    pub(crate) id: String,
}

pub(crate) async fn run(args: Args, _: &Context) -> Ended {
    Err(CommandError::failed(format!("not in this build yet: {args:?}")))
}
