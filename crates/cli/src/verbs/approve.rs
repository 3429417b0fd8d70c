//! `approve` and `deny`: answer a question about a waiting candidate. An approval binds the candidate that the inbox
//! showed. If no other approval is missing, the engine delivers at once, and the exit code is that of the delivery. A
//! denial ends the round. The engine decides whether the person may answer.

use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult, close, safe};
use crate::view::find;
use crate::view::inbox::answer_command;
use loopwright::Engine;
use loopwright::proc::CancelToken;
use loopwright::round::LoopBindings;
use loopwright::store::{InboxKind, InboxRow, OutboxState, Store};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::report::RoundReport;

#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    /// The id of an inbox item or of a round
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Answer for all items of the round that may have been delivered
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DenyArgs {
    /// The id of an inbox item or of a round
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// The reason; makers of later rounds see it
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    /// Answer for all items of the round that may have been delivered
    #[arg(long)]
    pub(crate) all: bool,
}

/// The longest reason, in bytes.
const WHY_MAX: usize = 4000;

pub(crate) async fn approve(args: ApproveArgs, cx: &CommandContext) -> VerbResult {
    let answer = InboxAnswer::open(cx, &args.id, args.all).await?;
    let (engine, round, bind) = (&answer.engine, &answer.question.round, &answer.bind);
    let candidate = answer.question.candidate.clone().unwrap_or_default();
    let report = match answer.item {
        Some(position) => engine.settle_delivery(round, position, cx.actor(), None, bind).await,
        None => engine.approve(round, &candidate, cx.actor(), bind).await,
    };
    let report = close(&answer.engine, report).await?;
    cx.out.answer(&report, || page(&report));
    Ok(CommandExit::from_outcome(report.outcome))
}

pub(crate) async fn deny(args: DenyArgs, cx: &CommandContext) -> VerbResult {
    if args.why.trim().is_empty() || args.why.len() > WHY_MAX {
        let text = format!("`--why` takes some text of at most {WHY_MAX} bytes");
        return Err(CommandError::new(CommandErrorKind::Usage, text));
    }
    let answer = InboxAnswer::open(cx, &args.id, args.all).await?;
    let (engine, round, bind) = (&answer.engine, &answer.question.round, &answer.bind);
    let report = match answer.item {
        Some(position) => engine.settle_delivery(round, position, cx.actor(), Some(&args.why), bind).await,
        None => engine.deny(round, cx.actor(), &args.why, bind).await,
    };
    let report = close(&answer.engine, report).await?;
    Ok(cx.out.answer(&report, || format!("denied: round {} of {}", safe(&report.round), safe(&report.loop_name))))
}

/// A question, and the engine that takes its answer.
struct InboxAnswer {
    question: InboxRow,
    /// The position of the item in doubt that the answer is about; `None` for all of them, and for an approval.
    item: Option<u32>,
    engine: Engine,
    bind: LoopBindings,
}

impl InboxAnswer {
    async fn open(cx: &CommandContext, id: &str, all: bool) -> Result<Self, CommandError> {
        let store = cx.open_store_read_only().await?;
        let question = find_question(store.as_ref(), id).await?;
        let item = match question.kind {
            InboxKind::InDoubt if !all => Some(doubted_item(store.as_ref(), &question, id).await?),
            _ => None,
        };
        let engine = cx.open_engine(None, &CancelToken::new()).await?;
        let bind = cx.recorded_bindings(&engine, &question.round).await?;
        Ok(Self { question, item, engine, bind })
    }
}

/// The open question of an id. A round that does not wait is refused; an id that matches nothing is unknown.
async fn find_question(store: &Store, id: &str) -> Result<InboxRow, CommandError> {
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

/// The position of the item that an answer is about. The id of a round names it only if no other item is in doubt.
async fn doubted_item(store: &Store, question: &InboxRow, id: &str) -> Result<u32, CommandError> {
    let rows = store.outbox(&question.round).await?;
    let doubts: Vec<_> = rows.iter().filter(|row| row.state == OutboxState::InDoubt).collect();
    if question.id != id && doubts.len() > 1 {
        let text = format!("{} items of round {} may have been delivered", doubts.len(), question.round);
        let mut error = CommandError::new(CommandErrorKind::Usage, text);
        for row in doubts {
            error = error.hint(format!("d-{}  {} {}", row.id, row.kind, row.target.as_deref().unwrap_or_default()));
        }
        return Err(error.hint("answer for one of these ids, or for all of them with `--all`"));
    }
    let asked = rows.iter().find(|row| format!("d-{}", row.id) == question.id);
    let position = asked.and_then(|row| u32::try_from(row.position).ok());
    position.ok_or_else(|| CommandError::refused(format!("`{}` has no item in the outbox", question.id)))
}

/// The open question whether an item of a round arrived.
async fn find_delivery_question(store: &Store, round: &str) -> Result<Option<InboxRow>, CommandError> {
    let open = store.inbox(1000).await?;
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
            "blocked: round {round} of {loop_name}\n  {}\nthe items are kept; fix the cause: the daemon sends them again by itself, `loopwright retry {round}` at once",
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
