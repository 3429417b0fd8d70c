//! `dev …`: helpers for people who write loops. They use no store and no repository.

pub(crate) mod model;

use crate::context::CommandContext;
use crate::error::VerbResult;

#[derive(Debug, clap::Args)]
pub(crate) struct DevArgs {
    #[command(subcommand)]
    what: DevCommand,
}

#[derive(Debug, clap::Subcommand)]
enum DevCommand {
    /// Serve a scripted model on loopback, to try loops without costs
    Model(model::ModelArgs),
}

pub(crate) async fn run(args: DevArgs, cx: &CommandContext) -> VerbResult {
    match args.what {
        DevCommand::Model(args) => model::run(args, cx).await,
    }
}
