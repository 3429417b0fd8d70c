//! `approve`, `deny` and `hold`: answer a question about a waiting candidate, or extend the time to answer. An approval binds the candidate that the inbox
//! showed. If no other approval is missing, the engine delivers at once, and the exit code is that of the delivery. A
//! denial ends the round. The engine decides whether the person may answer.

use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult, close, safe};
use crate::view::find;
use crate::view::inbox::{answer_command, is_twin};
use crate::view::page;
use crate::view::proposal::ProposalView;
use crate::view::rounds::RoundRecord;
use crate::view::standing::read_standing;
use crate::view::time::date_and_time;
use loopwright::proc::CancelToken;
use loopwright::store::{InboxKind, InboxRow, OutboxState, Store};
use loopwright::{Engine, EngineError, QuestionHold};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::report::RoundReport;
use loopwright_core::round::HOLD_MAX_MS;
use loopwright_core::units::TimeSpan;
use serde_json::json;
use std::time::Duration;

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
    /// Deny only this candidate, by the hash that `inbox` shows; can be repeated
    #[arg(long, value_name = "HASH")]
    pub(crate) candidate: Vec<String>,
    /// The reason; makers of later rounds see it
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HoldArgs {
    /// The id of an inbox item or of a round
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// How long the question stays open from now on, at least; at most 30 days
    #[arg(long = "for", value_name = "TIME", default_value = "7d")]
    pub(crate) lasts: TimeSpan,
    /// Hold only this candidate, by the hash that `inbox` shows
    #[arg(long, value_name = "HASH")]
    pub(crate) candidate: Option<String>,
    /// The reason, for the report
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}

/// The longest reason, in bytes.
const WHY_MAX: usize = 4000;

/// The most open questions that are read.
const QUESTIONS_MAX: u32 = 1000;

/// The lines of a diff on one page of `top`. A pager has no such limit.
const DIFF_LINES: usize = 2000;

/// Shows the candidates with all lines of their changes and asks, where a person sits at a terminal. The answer binds
/// the candidates that were shown; `None` if the answer is no. A change that is too long to show is not asked about.
pub(crate) async fn confirm(mut args: ApproveArgs, cx: &CommandContext) -> Result<Option<ApproveArgs>, CommandError> {
    let (questions, page, is_whole) = shown_questions(cx, args.id.as_deref(), args.all.as_deref(), usize::MAX).await?;
    cx.out.paged(&page, &cx.env);
    if !is_whole {
        return Err(not_shown_error(&questions));
    }
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

/// A question with everything that a person should see before an answer.
#[derive(Debug)]
pub(crate) struct ShownQuestion {
    pub(crate) id: String,
    pub(crate) loop_name: String,
    pub(crate) kind: InboxKind,
    pub(crate) summary: String,
    /// The candidate that the page shows. An approval binds it.
    pub(crate) candidate: Option<String>,
    pub(crate) round: String,
    pub(crate) page: String,
    /// Whether the page has all lines of the change.
    pub(crate) is_whole: bool,
}

/// Reads a question and its page.
pub(crate) async fn shown_question(cx: &CommandContext, id: &str) -> Result<ShownQuestion, CommandError> {
    let (mut questions, page, is_whole) = shown_questions(cx, Some(id), None, DIFF_LINES).await?;
    let question = questions.pop().ok_or_else(|| find::not_found(id))?;
    let InboxRow { id, loop_name, kind, summary, candidate, round, .. } = question;
    Ok(ShownQuestion { id, loop_name, kind, summary, candidate, round, page, is_whole })
}

async fn shown_questions(
    cx: &CommandContext,
    id: Option<&str>,
    all: Option<&str>,
    diff_lines: usize,
) -> Result<(Vec<InboxRow>, String, bool), CommandError> {
    let store = cx.open_store_read_only().await?;
    let (questions, _) = find_questions(cx, store.as_ref(), id, all).await?;
    let (mut page, mut is_whole) = (String::new(), true);
    for question in &questions {
        let (part, is_part_whole) = question_page(cx, store.as_ref(), question, diff_lines).await?;
        page.push_str(&part);
        is_whole &= is_part_whole;
    }
    Ok((questions, page, is_whole))
}

/// The page of a question, and whether it has all lines of the change.
async fn question_page(
    cx: &CommandContext,
    store: &Store,
    question: &InboxRow,
    diff_lines: usize,
) -> Result<(String, bool), CommandError> {
    let Some(row) = store.round(&question.round).await? else {
        return Err(find::not_found(&question.round));
    };
    let record = RoundRecord::read(store, &row.id).await?;
    let proposal = ProposalView::read(cx, &row, &record).await?;
    let head = page::render_report(&record.report(), read_standing(store, &row).await?, &cx.out);
    Ok((format!("{head}\n{}\n", proposal.render(&cx.out, diff_lines)), proposal.is_whole(diff_lines)))
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
    let reports = answers.conclude(cx, reports, page_of_answer).await?;
    Ok(answer(cx, &args.all, &reports, page_of_answer))
}

pub(crate) async fn deny(args: DenyArgs, cx: &CommandContext) -> VerbResult {
    if args.why.trim().is_empty() || args.why.len() > WHY_MAX {
        let text = format!("`--why` takes some text of at most {WHY_MAX} bytes");
        return Err(CommandError::new(CommandErrorKind::Usage, text));
    }
    let answers = InboxAnswers::open(cx, args.id.as_deref(), args.all.as_deref(), args.whole_round).await?;
    if let Some(moved) = answers.questions.iter().find(|question| !is_bound(question, &args.candidate)) {
        answers.engine.close().await?;
        return Err(moved_error(moved));
    }
    let mut reports = Vec::new();
    for question in &answers.questions {
        let bind = cx.recorded_bindings(&answers.engine, &question.round).await?;
        reports.push(match answers.item {
            Some(position) => {
                let why = Some(args.why.as_str());
                answers.engine.settle_delivery(&question.round, position, cx.actor(), why, &bind).await
            }
            None => {
                let seen = question.candidate.as_deref().filter(|_| !args.candidate.is_empty()).unwrap_or_default();
                answers.engine.deny_candidate(&question.round, seen, cx.actor(), &args.why, &bind).await
            }
        });
    }
    let reports = answers.conclude(cx, reports, page_of_denial).await?;
    answer(cx, &args.all, &reports, page_of_denial);
    Ok(CommandExit::DONE)
}

/// Gives a waiting question more time. Nothing is sent, and nothing ends.
pub(crate) async fn hold(args: HoldArgs, cx: &CommandContext) -> VerbResult {
    if args.why.as_ref().is_some_and(|why| why.trim().is_empty() || why.len() > WHY_MAX) {
        let text = format!("`--why` takes some text of at most {WHY_MAX} bytes");
        return Err(CommandError::new(CommandErrorKind::Usage, text));
    }
    let lasts = args.lasts.duration();
    let lasts_ms = i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX);
    if lasts_ms == 0 || lasts_ms > HOLD_MAX_MS {
        return Err(CommandError::new(
            CommandErrorKind::Usage,
            "`--for` takes a time of at most 30 days, such as `7d`",
        ));
    }
    let answers = InboxAnswers::open(cx, Some(&args.id), None, false).await?;
    let held = hold_question(&args, lasts, &answers, cx).await;
    let (report, until) = close(&answers.engine, held).await?;
    cx.out.answer(&report, || format!("held: the question of round {} stays open until {until}", safe(&report.round)));
    Ok(CommandExit::DONE)
}

async fn hold_question(
    args: &HoldArgs,
    lasts: Duration,
    answers: &InboxAnswers,
    cx: &CommandContext,
) -> Result<(RoundReport, String), CommandError> {
    let Some(question) = answers.questions.first().filter(|question| question.kind == InboxKind::Approval) else {
        let text = format!("`{}` does not expire: it waits for an answer without an end", args.id);
        return Err(CommandError::refused(text).hint("see `loopwright inbox`"));
    };
    if !is_bound(question, args.candidate.as_slice()) {
        return Err(moved_error(question));
    }
    let bind = cx.recorded_bindings(&answers.engine, &question.round).await?;
    let candidate = args.candidate.clone().unwrap_or_default();
    let hold = QuestionHold { actor: cx.actor(), candidate, lasts, why: args.why.clone() };
    let report = answers.engine.hold_question(&question.round, hold, &bind).await?;
    let until = answers.engine.question_end(&question.round).await?;
    Ok((report, until.map(date_and_time).unwrap_or_default()))
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

/// The error about candidates whose changes are too long to show. A person who has read them elsewhere names them.
fn not_shown_error(questions: &[InboxRow]) -> CommandError {
    let error =
        CommandError::refused("the change is too long to be shown whole, so this command does not ask about it");
    questions.iter().fold(error, |error, question| {
        let candidate = question.candidate.as_deref().unwrap_or_default();
        let read = format!("to read it on a branch: loopwright take {}", question.round);
        let then = format!("to approve it then: loopwright approve {} --candidate {candidate} --yes", question.id);
        error.hint(read).hint(then)
    })
}

fn moved_error(question: &InboxRow) -> CommandError {
    let text = format!("`{}` waits with another candidate than the one that you named", question.id);
    CommandError::refused(text).hint(format!("see `loopwright diff {}`, then answer again", question.round))
}

/// Questions, and the engine that takes their answers.
struct InboxAnswers {
    questions: Vec<InboxRow>,
    /// The position of the item in doubt that the answer is about; `None` for all of them, and for an approval.
    item: Option<u32>,
    /// Open questions about the same candidates in other rounds of the same loop.
    twins: Vec<InboxRow>,
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
        let (questions, twins) = find_questions(cx, store.as_ref(), id, all).await?;
        let item = match (questions.as_slice(), id) {
            ([only], Some(id)) if only.kind == InboxKind::InDoubt && !whole_round => {
                Some(doubted_item(store.as_ref(), only, id).await?)
            }
            _ => None,
        };
        let engine = cx.open_engine(None, &CancelToken::new()).await?;
        Ok(Self { questions, item, twins, engine })
    }

    /// Closes the engine after the answers. If one of them failed, the others are named before the error: they count.
    async fn conclude(
        &self,
        cx: &CommandContext,
        answered: Vec<Result<RoundReport, EngineError>>,
        page: impl Fn(&RoundReport) -> String,
    ) -> Result<Vec<RoundReport>, CommandError> {
        let (reports, failed) = split(answered);
        let closed = self.close_twins(cx, &reports).await;
        close(&self.engine, closed).await?;
        let Some(error) = failed else { return Ok(reports) };
        reports.iter().for_each(|report| cx.out.note(&page(report)));
        Err(error.into())
    }

    /// Closes the questions whose candidate was answered in another round. While that round still waits, such as for
    /// another approval, they stay open.
    async fn close_twins(&self, cx: &CommandContext, reports: &[RoundReport]) -> Result<(), CommandError> {
        for twin in &self.twins {
            let is_first = |report: &&RoundReport| report.candidate.is_some() && report.candidate == twin.candidate;
            let Some(first) = reports.iter().find(is_first) else { continue };
            if first.outcome == Some(RoundOutcome::Escalated) {
                continue;
            }
            let bind = cx.recorded_bindings(&self.engine, &twin.round).await?;
            self.engine.close_duplicate(&twin.round, &first.round, cx.actor(), &bind).await?;
            cx.out.note(&format!("closed: round {} has the same candidate", safe(&twin.round)));
        }
        Ok(())
    }
}

/// The open question of an id, or all candidates of a loop of this repository that wait for an approval; and the
/// questions about the same candidates.
async fn find_questions(
    cx: &CommandContext,
    store: &Store,
    id: Option<&str>,
    all: Option<&str>,
) -> Result<(Vec<InboxRow>, Vec<InboxRow>), CommandError> {
    let mut open = store.inbox(QUESTIONS_MAX).await?;
    let Some(name) = all else {
        let asked = find_question(store, id.unwrap_or_default()).await?;
        open.retain(|other| is_twin(&asked, other));
        return Ok((vec![asked], open));
    };
    let repo = cx.repo().await?;
    let is_asked = |question: &InboxRow| question.loop_name == name && question.kind == InboxKind::Approval;
    open.retain(|question| question.repo == repo.id && is_asked(question));
    if open.is_empty() {
        return Err(CommandError::refused(format!("no candidate of `{name}` waits")).hint("see `loopwright inbox`"));
    }
    let mut asked: Vec<InboxRow> = Vec::new();
    let mut twins = Vec::new();
    for question in open {
        let known = asked.iter().any(|first| is_twin(first, &question));
        if known { twins.push(question) } else { asked.push(question) }
    }
    Ok((asked, twins))
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

/// The answers that the engine took, and the first error of the others.
fn split<T>(answered: Vec<Result<T, EngineError>>) -> (Vec<T>, Option<EngineError>) {
    let (mut reports, mut failed) = (Vec::new(), None);
    for answer in answered {
        match answer {
            Ok(report) => reports.push(report),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    (reports, failed)
}

fn page_of_denial(report: &RoundReport) -> String {
    format!("denied: round {} of {}", safe(&report.round), safe(&report.loop_name))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_that_fails_does_not_hide_the_others() {
        let failure = |text: &str| Err(EngineError::Stale(text.to_owned()));
        let (answers, failed) = split(vec![Ok("r1"), failure("first"), Ok("r2"), failure("second")]);
        assert_eq!(answers, ["r1", "r2"]);
        assert_eq!(failed.expect("an error").to_string(), EngineError::Stale("first".to_owned()).to_string());
        assert!(split(vec![Ok("r1")]).1.is_none());
    }
}
