//! `approve`: approve a waiting candidate. The answer binds the candidate that the inbox showed. If no other approval
//! is missing, the engine delivers at once, and the exit code is that of the delivery. The engine decides whether the
//! person may approve.

use super::VerbResult;
use crate::context::CommandContext;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::output::safe;
use crate::view::find;
use crate::view::inbox::answer_command;
use loopwright::store::{InboxKind, InboxQuery, InboxRow, Store};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::report::RoundReport;

#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    /// The id of an inbox item or of a round
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

pub(crate) async fn run(args: ApproveArgs, cx: &CommandContext) -> VerbResult {
    let seen = find_question(cx.open_store_read_only().await?.as_ref(), &args.id).await?;
    let candidate = seen.candidate.clone().unwrap_or_default();
    let engine = cx.open_engine(None, &loopwright::proc::CancelToken::new()).await?;
    let bind = cx.recorded_bindings(&engine, &seen.round).await?;
    let report = engine.approve(&seen.round, &candidate, cx.actor(), &bind).await;
    engine.close().await?;
    let report = report?;
    cx.out.answer(&report, || page(&report));
    Ok(CommandExit::from_outcome(report.outcome))
}

/// The open question of an id. A round that does not wait is refused; an id that matches nothing is unknown.
pub(super) async fn find_question(store: &dyn Store, id: &str) -> Result<InboxRow, CommandError> {
    let question = match store.inbox_item(id).await? {
        Some(question) => question,
        None => {
            let round = find::find_round(store, id).await?;
            let asked = match store.inbox_item(&format!("a-{}", round.id)).await? {
                Some(asked) if asked.closed_ms.is_none() => Some(asked),
                asked => find_delivery_question(store, &round.id).await?.or(asked),
            };
            asked.ok_or_else(|| not_waiting(&round.id, round.standing()))?
        }
    };
    if !matches!(question.kind, InboxKind::Approval | InboxKind::InDoubt) {
        let text = format!("`{}` cannot be approved or denied: {}", question.id, question.summary);
        let answer = answer_command(question.kind, &question.loop_name, &question.round);
        let hint = answer.unwrap_or_else(|| format!("see `loopwright show {}`", question.round));
        return Err(CommandError::refused(text).hint(hint));
    }
    if question.closed_ms.is_some() {
        let round = store.round(&question.round).await?;
        let outcome = round.and_then(|round| round.outcome).map_or("answered", |outcome| outcome.word());
        return Err(not_waiting(&question.round, outcome));
    }
    Ok(question)
}

/// The open question whether an item of a round arrived.
async fn find_delivery_question(store: &dyn Store, round: &str) -> Result<Option<InboxRow>, CommandError> {
    let open = store.inbox(InboxQuery::Open(1000)).await?;
    Ok(open.into_iter().find(|question| question.round == round && question.kind == InboxKind::InDoubt))
}

fn not_waiting(round: &str, outcome: &str) -> CommandError {
    CommandError::refused(format!("round {round} does not wait for an answer: it is {outcome}"))
        .hint(format!("see `loopwright why {round}`"))
}

fn page(report: &RoundReport) -> String {
    let outcome = report.outcome.map_or("running", RoundOutcome::word);
    let waits = report.outcome == Some(RoundOutcome::Escalated);
    let partly = report.reasons.last().filter(|reason| waits && reason.code == "approved-in-part");
    if let Some(reason) = partly {
        return format!(
            "{}: round {} of {} waits for more approvals",
            safe(&reason.text),
            safe(&report.round),
            safe(&report.loop_name)
        );
    }
    let blocked = report.reasons.last().filter(|reason| waits && reason.code == "delivery-blocked");
    if let Some(reason) = blocked {
        let (round, loop_name) = (safe(&report.round), safe(&report.loop_name));
        return format!(
            "blocked: round {round} of {loop_name}\n  {}\nthe items are kept; fix the cause, then: loopwright approve {round}",
            safe(&reason.text)
        );
    }
    let mut page = format!("{outcome}: round {} of {}\n", safe(&report.round), safe(&report.loop_name));
    for item in &report.outbox {
        let place = item.receipt.as_deref().map_or(String::new(), |place| format!(" at {}", safe(place)));
        page.push_str(&format!("  {} {}{place}\n", safe(&item.kind), safe(&item.state)));
    }
    page.push_str(&format!("report: loopwright report {}", safe(&report.round)));
    page
}
