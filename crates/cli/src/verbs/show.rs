//! `show`: one round, or a loop with its last rounds. `why`: why a round ended as it did, or why a loop is or is not
//! running, from the record.

use super::{CommandContext, CommandError, VerbResult};
use crate::view::explain::ExplanationView;
use crate::view::find::{self, LookupTarget};
use crate::view::loop_page::LoopPage;
use crate::view::page;
use crate::view::proposal::ProposalView;
use crate::view::repo_view::RepoView;
use crate::view::rounds::RoundRecord;
use crate::view::time::now_ms;
use loopwright_core::dispatch::{LoopExplanation, LoopKey};
use loopwright_core::outcome::RoundOutcome;

/// The lines of a waiting diff that are shown.
const DIFF_LINES: usize = 200;

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// A round by its id or its first characters, or a loop by its name
    #[arg(value_name = "ROUND|LOOP")]
    pub(crate) id: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct WhyArgs {
    /// A round by its id or its first characters, an inbox item by its id, or a loop by its name
    #[arg(value_name = "ID|LOOP")]
    pub(crate) id: String,
}

pub(crate) async fn run(args: ShowArgs, cx: &CommandContext) -> VerbResult {
    let (here, store) = tokio::join!(RepoView::find_with_loop(cx, &args.id), super::status::open_store_if_any(cx));
    let (here, store) = (here?, store?);
    let in_file = here.as_ref().is_some_and(|here| here.file(&args.id).is_some());
    let target = match &store {
        Some(store) => find::find_target(store.as_ref(), &args.id, in_file).await?,
        None if in_file => LookupTarget::Loop(args.id),
        None => return Err(find::not_found(&args.id)),
    };
    match (target, store) {
        (LookupTarget::Round(row), Some(store)) => {
            let record = RoundRecord::read(store.as_ref(), &row.id).await?;
            let report = record.report();
            if cx.out.is_json() {
                return Ok(cx.out.document(&report));
            }
            let mut shown = page::render_report(&report);
            if report.outcome == Some(RoundOutcome::Escalated) {
                shown.push('\n');
                shown.push_str(&ProposalView::read(cx, &row, &record).await?.render(&cx.out, DIFF_LINES));
            }
            Ok(cx.out.paged(&shown, &cx.env))
        }
        (LookupTarget::Loop(name), store) => {
            let shown = LoopPage::read(store.as_deref(), here.as_ref(), &name, now_ms()).await?;
            Ok(cx.out.answer(&shown, || shown.render(now_ms(), cx.out.width())))
        }
        (LookupTarget::Round(row), None) => Err(find::not_found(&row.id)),
    }
}

/// The daemon's explanation, if a daemon runs and knows the loop.
async fn ask_daemon(
    cx: &CommandContext,
    here: Option<&RepoView>,
    name: &str,
) -> Result<Option<LoopExplanation>, CommandError> {
    let (Some(daemon), Some(here)) = (cx.daemon(), here) else { return Ok(None) };
    let why = daemon.explain(&LoopKey::new(&here.repo.id, name)).await?;
    Ok(Some(why).filter(|why| *why != LoopExplanation::Unknown))
}

pub(crate) async fn explain(args: WhyArgs, cx: &CommandContext) -> VerbResult {
    let (here, store) = tokio::join!(RepoView::find_with_loop(cx, &args.id), super::status::open_store_if_any(cx));
    let (here, store) = (here?, store?);
    let in_file = here.as_ref().is_some_and(|here| here.has_loop_named(&args.id));
    let target = match &store {
        Some(store) => find::find_target(store.as_ref(), &args.id, in_file).await?,
        None if in_file => LookupTarget::Loop(args.id.clone()),
        None => return Err(find::not_found(&args.id)),
    };
    let explanation = match (&target, &store) {
        (LookupTarget::Round(row), Some(store)) => ExplanationView::for_round(store.as_ref(), row).await?,
        (LookupTarget::Round(row), None) => return Err(find::not_found(&row.id)),
        (LookupTarget::Loop(name), _) => {
            let why = ask_daemon(cx, here.as_ref(), name).await?;
            ExplanationView::for_loop(store.as_deref(), here.as_ref(), name, now_ms(), why).await?
        }
    };
    Ok(cx.out.answer(&explanation, || explanation.render()))
}
