//! `rounds`: list rounds, newest first.

use super::{CommandContext, CommandError, VerbResult};
use crate::view::find::{self, LookupTarget, unknown_loop};
use crate::view::repo_view::RepoView;
use crate::view::rounds::{self, RoundListView};
use crate::view::time::now_ms;
use loopwright::store::{RoundsQuery, Store};

#[derive(Debug, clap::Args)]
pub(crate) struct RoundsArgs {
    /// List only the rounds of this loop
    #[arg(value_name = "LOOP")]
    pub(crate) name: Option<String>,
    /// List at most N rounds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

pub(crate) async fn run(args: RoundsArgs, cx: &CommandContext) -> VerbResult {
    let (here, store) = super::status::here_and_store(cx).await?;
    if let Some(name) = &args.name {
        // An unknown loop is reported as unknown, also before any round has run.
        ensure_loop_known(here.as_ref(), store.as_deref(), name).await?;
    }
    let repo = here.and_then(|here| here.scope(args.name.as_deref()));
    let query = RoundsQuery { repo, loop_name: args.name, limit: args.limit, ..RoundsQuery::default() };
    let rounds = RoundListView::read(store.as_deref(), query).await?;
    Ok(cx.out.answer(&rounds, || page(&rounds, cx.out.width())))
}

async fn ensure_loop_known(here: Option<&RepoView>, store: Option<&Store>, name: &str) -> Result<(), CommandError> {
    let in_file = here.is_some_and(|here| here.has_loop_named(name));
    match store {
        Some(store) => match find::find_target(store, name, in_file).await? {
            LookupTarget::Loop(_) => Ok(()),
            LookupTarget::Round(_) => {
                Err(unknown_loop(name).hint(format!("`{name}` is a round: loopwright show {name}")))
            }
        },
        None if in_file => Ok(()),
        None => Err(unknown_loop(name)),
    }
}

fn page(rounds: &RoundListView, width: usize) -> String {
    match rounds.rounds.first() {
        None => "no rounds yet\nstart one with `loopwright run LOOP`".to_owned(),
        Some(newest) => {
            format!(
                "{}\n\nshow one with: loopwright show {}",
                rounds::render_table(&rounds.rounds, now_ms(), width),
                newest.round
            )
        }
    }
}
