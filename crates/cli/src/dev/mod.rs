//! `dev …`: helpers for people who write loops. They touch no store and no repository.

pub(crate) mod model;

use crate::context::Context;
use crate::verbs::Ended;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Serve a scripted model on loopback, to try loops without costs
    Model(model::Args),
}

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    match args.what {
        What::Model(args) => model::run(args, cx).await,
    }
}
