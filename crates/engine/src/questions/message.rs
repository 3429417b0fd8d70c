//! The messages of a question: the question itself, the reply to an answer that does not count, and the decision. Each is
//! a delivery with its own marker.

use crate::engine::Engine;
use crate::outbox::connect_forge;
use crate::round::delivery;
use crate::store::{AnswerRow, QuestionRow};
use loopwright_core::answer::CommandForm;
use loopwright_core::deliver::{Deliver, DeliverError, Delivery, QuestionPart};
use loopwright_core::forge::CommentsOf;
use loopwright_core::outbox::{StagedItem, item_id};
use loopwright_core::question::{QuestionText, plain_line};
use loopwright_core::round::{Round, RoundFacts};
use loopwright_core::spec::{ActionKind, AskPlace};
use std::path::Path;
use std::sync::Arc;

/// Positions of a loop's own items begin at 1 and are few, so these belong to no item.
const ASK: u32 = 90_001;
const REPLY: u32 = 90_002;
const CLOSE: u32 = 90_003;

/// The id of the question about a candidate in a place.
pub(super) fn question_key(facts: &RoundFacts, place: AskPlace, candidate: &str) -> String {
    let started = &facts.started;
    format!("{place}-{}", item_id(&started.spec.name, &started.round, ASK, candidate))
}

/// The issue or pull request of the round's item: `issue-3`, `pr-7`.
pub(super) fn item_target(facts: &RoundFacts) -> Option<String> {
    let of_key = |key: &str| {
        let (target, _) = key.split_once('@')?;
        comments_of(target).map(|_| target.to_owned())
    };
    facts.items.iter().find_map(|item| of_key(&item.key))
}

/// The issue or pull request that a target names.
pub(super) fn comments_of(target: &str) -> Option<CommentsOf> {
    let (kind, number) = target.split_once('-')?;
    match (kind, number.parse().ok()?) {
        ("issue", number) => Some(CommentsOf::Issue(number)),
        ("pr", number) => Some(CommentsOf::Pull(number)),
        _ => None,
    }
}

/// The target of an issue by the address in its receipt, which ends with its number.
pub(super) fn created_target(place: &str) -> Option<String> {
    let number = place.rsplit('/').next()?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("issue-{number}"))
}

/// The question.
pub(super) fn ask(round: &Round, row: &QuestionRow, form: CommandForm) -> Delivery {
    let text = QuestionText::about(round.facts(), &row.candidate);
    let body = match row.place {
        AskPlace::Slack => text.plain(),
        AskPlace::Forge => text.markdown(form),
    };
    let mut item = item(row, ASK, body);
    if item.kind == ActionKind::IssueCreate {
        item.title = Some(format!("Approve? {}", text.title));
    }
    let value = format!("{} {}", row.id, row.candidate);
    message(round, item, &row.candidate, QuestionPart::Ask { value })
}

/// The reply to an answer that does not count.
pub(super) fn reply(round: &Round, row: &QuestionRow, answer: &AnswerRow) -> Delivery {
    let why = answer.reply.as_deref().unwrap_or_default();
    let body = format!("The answer of {} does not count: {}\n", plain_line(&answer.name), plain_line(why));
    let place = row.receipt.clone().unwrap_or_default();
    message(round, item(row, REPLY, body), &answer.id, QuestionPart::Reply { place })
}

/// The decision.
pub(super) fn close(round: &Round, row: &QuestionRow) -> Delivery {
    let title = QuestionText::about(round.facts(), &row.candidate).title;
    let outcome = round.outcome().map_or("it waits for another answer".to_owned(), |outcome| outcome.to_string());
    let reason =
        round.facts().reasons.last().map_or(String::new(), |reason| format!(" ({})", plain_line(&reason.text)));
    let body = format!("Decided: {title}\n\nOutcome: {outcome}{reason}\n");
    let place = row.receipt.clone().unwrap_or_default();
    message(round, item(row, CLOSE, body), &row.candidate, QuestionPart::Close { place })
}

fn item(row: &QuestionRow, position: u32, body: String) -> StagedItem {
    let (kind, target) = match (row.place, row.target.as_deref().and_then(comments_of)) {
        (AskPlace::Slack, _) => (ActionKind::Slack, None),
        (AskPlace::Forge, None) => (ActionKind::IssueCreate, None),
        (AskPlace::Forge, Some(CommentsOf::Issue(number))) => (ActionKind::IssueComment, Some(number)),
        (AskPlace::Forge, Some(CommentsOf::Pull(number))) => (ActionKind::PrComment, Some(number)),
    };
    StagedItem { target: target.map(|number| number.to_string()), ..StagedItem::new(position, "question", kind, body) }
}

fn message(round: &Round, item: StagedItem, seed: &str, part: QuestionPart) -> Delivery {
    // The labels and the commit are those of the loop's outputs.
    Delivery { labels: Vec::new(), commit: None, tree: None, question: Some(part), ..delivery(round, &item, seed) }
}

/// How people begin their answer on the forge of a round. A forge that cannot be connected is reported by the delivery.
pub(super) async fn command_form(engine: &Engine, facts: &RoundFacts) -> CommandForm {
    let connected = connect_forge(engine, &facts.started.spec, Path::new(&facts.started.repo_path)).await;
    connected.map_or(CommandForm::Slash, |connected| connected.read.command_form())
}

/// The receiver of a question's messages.
pub(super) async fn receiver(
    engine: &Engine,
    facts: &RoundFacts,
    delivery: &Delivery,
) -> Result<Arc<dyn Deliver>, DeliverError> {
    if delivery.item.kind == ActionKind::Slack {
        let slack = engine.settings.forges.as_ref().map_or(Ok(None), |forges| forges.messenger(&delivery.item))?;
        return slack.ok_or_else(|| DeliverError::blocked("`slack` is not configured"));
    }
    let connected = connect_forge(engine, &facts.started.spec, Path::new(&facts.started.repo_path)).await?;
    Ok(connected.deliver)
}
