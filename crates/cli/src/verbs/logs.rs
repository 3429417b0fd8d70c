//! `logs`: print what agents and gates wrote.

use super::Ended;
use crate::context::Context;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A round's id or its beginning, or a loop's name
    #[arg(value_name = "ROUND|LOOP")]
    pub(crate) id: Option<String>,
    /// Go on printing what comes
    #[arg(short, long)]
    pub(crate) follow: bool,
}

pub(crate) async fn run(args: Args, _: &Context) -> Ended {
    Err(CommandError::failed(format!("not in this build yet: {args:?}")))
}
