//! `show`: one round, or a loop with its last rounds. `why`: why a round ended as it did, or why a loop is or is not
//! running, from the record.

use super::{CommandContext, CommandError, VerbResult, safe};
use crate::control::DaemonConnection;
use crate::dry_run::DryRunItem;
use crate::view::explain::{DaemonAnswer, ExplanationView};
use crate::view::find::{self, LookupTarget};
use crate::view::loop_page::LoopPage;
use crate::view::page;
use crate::view::proposal::ProposalView;
use crate::view::repo_view::RepoView;
use crate::view::rounds::{RoundCeiling, RoundRecord, duration_s};
use crate::view::standing::{RoundStanding, read_standing};
use crate::view::time::{Moment, now_ms};
use loopwright::store::RoundRow;
use loopwright_core::dispatch::{LoopExplanation, LoopKey};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::report::RoundReport;
use serde::Serialize;

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

/// The document of `show ROUND --json`: the report as the record gives it now, and the state of the round.
#[derive(Debug, Serialize)]
pub(crate) struct RoundDocument {
    #[serde(flatten)]
    report: RoundReport,
    repo: String,
    status: &'static str,
    phase: &'static str,
    started: Moment,
    ended: Option<Moment>,
    duration_s: Option<f64>,
    /// The ceilings of the round itself, as its loop declared them at the start.
    ceiling: RoundCeiling,
    /// The staged items, each as the forge receives it.
    would_send: Vec<DryRunItem>,
}

impl RoundDocument {
    /// Builds the document from the record.
    pub(crate) fn new(row: &RoundRow, record: &RoundRecord, standing: RoundStanding) -> Self {
        Self {
            report: record.report(),
            repo: row.repo.clone(),
            status: standing.word(),
            phase: row.phase.word(),
            started: Moment(row.started_ms),
            ended: row.ended_ms.map(Moment),
            duration_s: duration_s(row),
            ceiling: RoundCeiling::of_spec(&record.round.facts().started.spec),
            would_send: DryRunItem::from_round(&record.round),
        }
    }
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
            let standing = read_standing(store.as_ref(), &row).await?;
            if cx.out.is_json() {
                return Ok(cx.out.document(&RoundDocument::new(&row, &record, standing)));
            }
            let report = record.report();
            let mut shown = page::render_report(&report, standing, &cx.out);
            if report.outcome == Some(RoundOutcome::Escalated) {
                shown.push('\n');
                // The record is worth showing also when the repository or the change is gone.
                shown.push_str(&match ProposalView::read(cx, &row, &record).await {
                    Ok(proposal) => proposal.render(&cx.out, DIFF_LINES),
                    Err(error) => format!("damaged: {}\n", safe(&error.text)),
                });
            }
            Ok(cx.out.paged(&shown, &cx.env))
        }
        (LookupTarget::Loop(name), store) => {
            let shown = LoopPage::read(store.as_deref(), here.as_ref(), &name, now_ms()).await?;
            Ok(cx.out.answer(&shown, || shown.render(now_ms(), &cx.out)))
        }
        (LookupTarget::Round(row), None) => Err(find::not_found(&row.id)),
    }
}

/// The daemon's explanation. A command that runs in its own process beside a daemon does so because the daemon did not
/// answer.
async fn ask_daemon(cx: &CommandContext, here: Option<&RepoView>, name: &str) -> Result<DaemonAnswer, CommandError> {
    let Some(daemon) = cx.daemon() else {
        let peer = DaemonConnection::connect(&cx.state_dir()?.0).await?;
        return Ok(peer.and_then(|peer| peer.pid).map_or(DaemonAnswer::None, DaemonAnswer::Silent));
    };
    let Some(here) = here else { return Ok(DaemonAnswer::None) };
    Ok(match daemon.explain(&LoopKey::new(&here.repo.id, name)).await? {
        LoopExplanation::Unknown => DaemonAnswer::None,
        why => DaemonAnswer::Explained(why),
    })
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
