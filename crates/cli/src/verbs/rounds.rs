//! `rounds`: list rounds, newest first.

use super::{CommandContext, CommandError, VerbResult};
use crate::output::CommandOutput;
use crate::view::find::{self, LookupTarget, unknown_loop};
use crate::view::repo_view::RepoView;
use crate::view::rounds::{self, RoundListView, RoundsListed};
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
    /// Leave out the first N rounds of the list
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u32,
    /// List only the rounds that a process runs now
    #[arg(long)]
    pub(crate) running: bool,
    /// List the rounds of all repositories, also inside a repository
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
}

pub(crate) async fn run(args: RoundsArgs, cx: &CommandContext) -> VerbResult {
    let (here, store) = super::status::here_and_store(cx).await?;
    if let Some(name) = &args.name {
        // An unknown loop is reported as unknown, also before any round has run.
        ensure_loop_known(here.as_ref(), store.as_deref(), name).await?;
    }
    let repo = here.filter(|_| !args.all).and_then(|here| here.scope_for(cx, args.name.as_deref()));
    let (limit, offset) = (args.limit, args.offset);
    let query = RoundsQuery { repo, loop_name: args.name, limit, offset, ..RoundsQuery::default() };
    let listed = if args.running { RoundsListed::Running } else { RoundsListed::All };
    let rounds = RoundListView::read(store.as_deref(), query, listed).await?.with_actions(&cx.state_dir()?.0);
    Ok(cx.out.answer(&rounds, || page(&rounds, listed, &cx.out)))
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

fn page(rounds: &RoundListView, listed: RoundsListed, out: &CommandOutput) -> String {
    match rounds.rounds.first() {
        None if listed == RoundsListed::Running => "no round runs at the moment".to_owned(),
        None if rounds.page.total > 0 => format!("there are only {} rounds", rounds.page.total),
        None => "no rounds yet\nstart one with `loopwright run LOOP`".to_owned(),
        Some(newest) => {
            format!(
                "{}\n\nshow one with: loopwright show {}",
                rounds::render_table(&rounds.rounds, now_ms(), out),
                newest.round
            )
        }
    }
}
