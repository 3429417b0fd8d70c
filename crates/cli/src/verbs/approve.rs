//! `approve` and `deny`: answer a question about a waiting candidate. An approval binds the candidate that the inbox
//! showed. If no other approval is missing, the engine delivers at once, and the exit code is that of the delivery. A
//! denial ends the round. The engine decides whether the person may answer.

use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult, close, safe};
use crate::view::find;
use crate::view::inbox::answer_command;
use crate::view::page;
use crate::view::proposal::ProposalView;
use crate::view::rounds::RoundRecord;
use loopwright::Engine;
use loopwright::proc::CancelToken;
use loopwright::store::{InboxKind, InboxRow, OutboxState, Store};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::report::RoundReport;
use serde_json::json;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ApproveArgs {
    /// The id of an inbox item or of a round
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) id: Option<String>,
    /// Approve every waiting candidate of a loop
    #[arg(long, value_name = "LOOP")]
    pub(crate) all: Option<String>,
    /// Answer for all items of the round that may have been delivered
    #[arg(long, conflicts_with = "all")]
    pub(crate) whole_round: bool,
    /// Approve only this candidate, by the hash that `inbox` shows; can be repeated
    #[arg(long, value_name = "HASH")]
    pub(crate) candidate: Vec<String>,
    /// Do not show the candidate and ask, also on a terminal
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DenyArgs {
    /// The id of an inbox item or of a round
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) id: Option<String>,
    /// Deny every waiting candidate of a loop
    #[arg(long, value_name = "LOOP")]
    pub(crate) all: Option<String>,
    /// Answer for all items of the round that may have been delivered
    #[arg(long, conflicts_with = "all")]
    pub(crate) whole_round: bool,
    /// The reason; makers of later rounds see it
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
}

/// The longest reason, in bytes.
const WHY_MAX: usize = 4000;

/// The most open questions that are read.
const QUESTIONS_MAX: u32 = 1000;

/// The lines of a diff that are shown before the question.
const DIFF_LINES: usize = 2000;

/// Shows the candidates and asks, where a person sits at a terminal. The answer binds the candidates that were shown;
/// `None` if the answer is no.
pub(crate) async fn confirm(mut args: ApproveArgs, cx: &CommandContext) -> Result<Option<ApproveArgs>, CommandError> {
    let store = cx.open_store_read_only().await?;
    let questions = find_questions(cx, store.as_ref(), args.id.as_deref(), args.all.as_deref()).await?;
    let mut page = String::new();
    for question in &questions {
        page.push_str(&question_page(cx, store.as_ref(), question).await?);
    }
    cx.out.paged(&page, &cx.env);
    let asked = match questions.as_slice() {
        [only] => format!("Approve {}?", safe(&only.id)),
        _ => format!("Approve all {}?", questions.len()),
    };
    if !cx.out.ask(&asked) {
        cx.out.print("nothing was approved; to deny with a reason: loopwright deny ID --why \"…\"");
        return Ok(None);
    }
    if let Some(moved) = questions.iter().find(|question| !is_bound(question, &args.candidate)) {
        return Err(moved_error(moved));
    }
    args.candidate = questions.into_iter().filter_map(|question| question.candidate).collect();
    Ok(Some(args))
}

async fn question_page(cx: &CommandContext, store: &Store, question: &InboxRow) -> Result<String, CommandError> {
    let Some(row) = store.round(&question.round).await? else {
        return Err(find::not_found(&question.round));
    };
    let record = RoundRecord::read(store, &row.id).await?;
    let proposal = ProposalView::read(cx, &row, &record).await?;
    let head = page::render_report(&record.report());
    Ok(format!("{head}\n{}\n", proposal.render(&cx.out, DIFF_LINES)))
}

pub(crate) async fn approve(args: ApproveArgs, cx: &CommandContext) -> VerbResult {
    let answers = InboxAnswers::open(cx, args.id.as_deref(), args.all.as_deref(), args.whole_round).await?;
    if let Some(moved) = answers.questions.iter().find(|question| !is_bound(question, &args.candidate)) {
        answers.engine.close().await?;
        return Err(moved_error(moved));
    }
    let mut reports = Vec::new();
    for question in &answers.questions {
        let bind = cx.recorded_bindings(&answers.engine, &question.round).await?;
        let candidate = question.candidate.clone().unwrap_or_default();
        reports.push(match answers.item {
            Some(position) => answers.engine.settle_delivery(&question.round, position, cx.actor(), None, &bind).await,
            None => answers.engine.approve(&question.round, &candidate, cx.actor(), &bind).await,
        });
    }
    let reports = close(&answers.engine, reports.into_iter().collect::<Result<Vec<_>, _>>()).await?;
    Ok(answer(cx, &args.all, &reports, page_of_answer))
}

pub(crate) async fn deny(args: DenyArgs, cx: &CommandContext) -> VerbResult {
    if args.why.trim().is_empty() || args.why.len() > WHY_MAX {
        let text = format!("`--why` takes some text of at most {WHY_MAX} bytes");
        return Err(CommandError::new(CommandErrorKind::Usage, text));
    }
    let answers = InboxAnswers::open(cx, args.id.as_deref(), args.all.as_deref(), args.whole_round).await?;
    let mut reports = Vec::new();
    for question in &answers.questions {
        let bind = cx.recorded_bindings(&answers.engine, &question.round).await?;
        reports.push(match answers.item {
            Some(position) => {
                let why = Some(args.why.as_str());
                answers.engine.settle_delivery(&question.round, position, cx.actor(), why, &bind).await
            }
            None => answers.engine.deny(&question.round, cx.actor(), &args.why, &bind).await,
        });
    }
    let reports = close(&answers.engine, reports.into_iter().collect::<Result<Vec<_>, _>>()).await?;
    answer(cx, &args.all, &reports, |report| {
        format!("denied: round {} of {}", safe(&report.round), safe(&report.loop_name))
    });
    Ok(CommandExit::DONE)
}

/// Prints the answers: one report, or a list of them with `--all`. The exit code is the first that is not 0.
fn answer(
    cx: &CommandContext,
    all: &Option<String>,
    reports: &[RoundReport],
    page: impl Fn(&RoundReport) -> String,
) -> CommandExit {
    match reports {
        [only] if all.is_none() => drop(cx.out.answer(only, || page(only))),
        reports => drop(cx.out.answer(&json!({"schema": 1, "rounds": reports}), || {
            reports.iter().map(&page).collect::<Vec<_>>().join("\n")
        })),
    }
    let mut exits = reports.iter().map(|report| CommandExit::from_outcome(report.outcome));
    exits.find(|exit| *exit != CommandExit::DONE).unwrap_or(CommandExit::DONE)
}

fn is_bound(question: &InboxRow, named: &[String]) -> bool {
    named.is_empty() || question.candidate.as_ref().is_none_or(|candidate| named.contains(candidate))
}

fn moved_error(question: &InboxRow) -> CommandError {
    let text = format!("`{}` waits with another candidate than the one that you named", question.id);
    CommandError::refused(text).hint(format!("see `loopwright diff {}`, then approve again", question.round))
}

/// Questions, and the engine that takes their answers.
struct InboxAnswers {
    questions: Vec<InboxRow>,
    /// The position of the item in doubt that the answer is about; `None` for all of them, and for an approval.
    item: Option<u32>,
    engine: Engine,
}

impl InboxAnswers {
    async fn open(
        cx: &CommandContext,
        id: Option<&str>,
        all: Option<&str>,
        whole_round: bool,
    ) -> Result<Self, CommandError> {
        let store = cx.open_store_read_only().await?;
        let questions = find_questions(cx, store.as_ref(), id, all).await?;
        let item = match (questions.as_slice(), id) {
            ([only], Some(id)) if only.kind == InboxKind::InDoubt && !whole_round => {
                Some(doubted_item(store.as_ref(), only, id).await?)
            }
            _ => None,
        };
        let engine = cx.open_engine(None, &CancelToken::new()).await?;
        Ok(Self { questions, item, engine })
    }
}

/// The open question of an id, or all candidates of a loop of this repository that wait for an approval.
async fn find_questions(
    cx: &CommandContext,
    store: &Store,
    id: Option<&str>,
    all: Option<&str>,
) -> Result<Vec<InboxRow>, CommandError> {
    let Some(name) = all else { return Ok(vec![find_question(store, id.unwrap_or_default()).await?]) };
    let repo = cx.repo().await?;
    let mut open = store.inbox(QUESTIONS_MAX).await?;
    let is_asked = |question: &InboxRow| question.loop_name == name && question.kind == InboxKind::Approval;
    open.retain(|question| question.repo == repo.id && is_asked(question));
    if open.is_empty() {
        return Err(CommandError::refused(format!("no candidate of `{name}` waits")).hint("see `loopwright inbox`"));
    }
    Ok(open)
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
        return Err(error.hint("answer for one of these ids, or for all of them with `--whole-round`"));
    }
    let asked = rows.iter().find(|row| format!("d-{}", row.id) == question.id);
    let position = asked.and_then(|row| u32::try_from(row.position).ok());
    position.ok_or_else(|| CommandError::refused(format!("`{}` has no item in the outbox", question.id)))
}

/// The open question whether an item of a round arrived.
async fn find_delivery_question(store: &Store, round: &str) -> Result<Option<InboxRow>, CommandError> {
    let open = store.inbox(QUESTIONS_MAX).await?;
    Ok(open.into_iter().find(|question| question.round == round && question.kind == InboxKind::InDoubt))
}

fn not_waiting(round: &str, outcome: &str) -> CommandError {
    CommandError::refused(format!("round {round} does not wait for an answer: it is {outcome}"))
        .hint(format!("see `loopwright why {round}`"))
}

fn page_of_answer(report: &RoundReport) -> String {
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
