//! Sends the messages of questions. A durable row comes before each message; a row that was left behind by a crash is
//! looked for before it is sent again.

use super::message;
use super::{Engine, ROWS_MAX, warn_about_question};
use crate::error::EngineError;
use crate::outbox::{DeliveryOutcome, PriorDelivery, deliver_one};
use crate::round::rows::question_id;
use crate::store::{
    AnswerRow, AnswerState, InboxKind, InboxRow, QuestionRow, QuestionState, RowChange, StoreError, StoreErrorKind,
};
use crate::takeover::RoundBinder;
use loopwright_core::deliver::{Delivery, DeliveryReceipt};
use loopwright_core::round::{Phase, Round};
use loopwright_core::spec::AskPlace;
use std::collections::BTreeSet;

/// How long a pass waits for a receiver that may show a message late, and how often it asks it.
const PATIENCE_MS: i64 = 8_000;
const LOOKS_MAX: u32 = 4;
/// The most attempts to reply to one answer.
const REPLIES_MAX: i64 = 5;

/// Asks about every waiting candidate whose loop asks elsewhere and that was not asked about there yet.
pub(super) async fn ask(engine: &Engine, rebind: &dyn RoundBinder) -> Result<(), EngineError> {
    let open = engine.store.inbox(ROWS_MAX).await?;
    for row in open.into_iter().filter(|row| row.kind == InboxKind::Approval) {
        // A record that cannot be read is reported where the round is resumed.
        let Ok(recorded) = engine.load_round(&row.round).await else { continue };
        let round = recorded.round;
        if !matches!(round.phase(), Phase::Waiting(_)) || round.facts().is_blocked {
            continue;
        }
        for place in round.facts().started.spec.approvals.ask.clone() {
            ask_in(engine, rebind, &round, &row, place).await?;
        }
    }
    Ok(())
}

async fn ask_in(
    engine: &Engine,
    rebind: &dyn RoundBinder,
    round: &Round,
    inbox: &InboxRow,
    place: AskPlace,
) -> Result<(), EngineError> {
    let Some(candidate) = &inbox.candidate else { return Ok(()) };
    let id = message::question_key(round.facts(), place, candidate);
    let (prior, row) = match engine.store.question(&id).await? {
        Some(row) if row.state == QuestionState::Claimed => {
            let row = QuestionRow { tries: row.tries + 1, ..row };
            engine.write_rows(vec![RowChange::Question(row.clone())]).await?;
            (PriorDelivery::MaybeSent, row)
        }
        Some(_) => return Ok(()),
        None => {
            let row = new_question(engine, round, id, place, candidate);
            if !insert(engine, RowChange::NewQuestion(row.clone())).await? {
                return Ok(());
            }
            (PriorDelivery::Fresh, row)
        }
    };
    let form = message::command_form(&rebind.rebind(engine, &round.facts().started).0, round.facts()).await;
    let delivery = message::ask(round, &row, form);
    match send(engine, rebind, round, &delivery, prior).await {
        Ok(receipt) => {
            let target = row.target.clone().or_else(|| message::created_target(&receipt.place));
            let (state, place) = (QuestionState::Sent, Some(receipt.place));
            let sent = QuestionRow { state, target, receipt: place, asked_ms: receipt.at_ms, tries: 0, ..row };
            engine.write_rows(vec![RowChange::Question(touched(engine, sent))]).await
        }
        Err(text) => {
            if row.tries <= 1 {
                let round = &row.round;
                warn_about_question(engine, &format!("round {round} cannot be asked about on {place}: {text}"));
            }
            let failed = QuestionRow { receipt: Some(text), ..row };
            engine.write_rows(vec![RowChange::Question(touched(engine, failed))]).await
        }
    }
}

fn new_question(engine: &Engine, round: &Round, id: String, place: AskPlace, candidate: &str) -> QuestionRow {
    let started = &round.facts().started;
    let target = if place == AskPlace::Forge { message::item_target(round.facts()) } else { None };
    QuestionRow {
        id,
        round: started.round.clone(),
        loop_name: started.spec.name.clone(),
        repo: started.repo.clone(),
        place,
        candidate: candidate.to_owned(),
        target,
        state: QuestionState::Claimed,
        receipt: None,
        asked_ms: engine.now_ms(),
        tries: 1,
        updated_ms: engine.now_ms(),
    }
}

fn touched(engine: &Engine, row: QuestionRow) -> QuestionRow {
    QuestionRow { updated_ms: engine.now_ms(), ..row }
}

/// Inserts a row; false if it exists already.
pub(super) async fn insert(engine: &Engine, change: RowChange) -> Result<bool, EngineError> {
    match engine.write_rows(vec![change]).await {
        Ok(()) => Ok(true),
        Err(EngineError::Store(StoreError { kind: StoreErrorKind::Conflict(_), .. })) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sends one message, or returns the problem for people.
async fn send(
    engine: &Engine,
    rebind: &dyn RoundBinder,
    round: &Round,
    delivery: &Delivery,
    prior: PriorDelivery,
) -> Result<DeliveryReceipt, String> {
    let (engine, _) = rebind.rebind(engine, &round.facts().started);
    let receiver = message::receiver(&engine, round.facts(), delivery).await.map_err(|error| error.text)?;
    if prior == PriorDelivery::MaybeSent {
        receiver.expect_earlier(delivery);
    }
    let (mut prior, ends_ms) = (prior, engine.now_ms().saturating_add(PATIENCE_MS));
    for look in 1.. {
        let error = match deliver_one(receiver.as_ref(), &engine.settings.seam, delivery, prior).await {
            DeliveryOutcome::Sent(receipt) => return Ok(receipt),
            DeliveryOutcome::InDoubt(text) | DeliveryOutcome::Refused(text) => return Err(text),
            DeliveryOutcome::Blocked(error) => return Err(error.text),
            DeliveryOutcome::Lost(error) => {
                prior = PriorDelivery::MaybeSent;
                error
            }
            DeliveryOutcome::Retry(error) => {
                prior = prior.after(&error);
                error
            }
        };
        // The receiver shows a message late. A pass of a new process would begin its look-ups again, so this one ends them.
        let soon = error.retry_at_ms.filter(|at_ms| *at_ms <= ends_ms && look < LOOKS_MAX);
        let Some(at_ms) = soon else { return Err(error.text) };
        engine.settings.clock.until(at_ms).await;
    }
    unreachable!("the last look returns")
}

/// Replies to answers that do not count: one reply for each account and question in a pass, because anyone may write
/// below a question on a public forge.
pub(super) async fn reply(engine: &Engine, rebind: &dyn RoundBinder) -> Result<(), EngineError> {
    let mut replied = BTreeSet::new();
    for answer in engine.store.pending_answers(ROWS_MAX).await? {
        let is_new = replied.insert((answer.question.clone(), answer.account.clone()));
        match answer.state {
            AnswerState::Refused if !is_new => {
                let further = AnswerRow { state: AnswerState::Replied, ..answer };
                engine.write_rows(vec![RowChange::Answer(further)]).await?;
            }
            AnswerState::Refused | AnswerState::Replying => reply_to(engine, rebind, answer).await?,
            AnswerState::Received | AnswerState::Counted | AnswerState::Replied => {}
        }
    }
    Ok(())
}

async fn reply_to(engine: &Engine, rebind: &dyn RoundBinder, answer: AnswerRow) -> Result<(), EngineError> {
    let prior = match answer.state {
        AnswerState::Replying => PriorDelivery::MaybeSent,
        _ => PriorDelivery::Fresh,
    };
    let answer = AnswerRow { state: AnswerState::Replying, tries: answer.tries + 1, ..answer };
    engine.write_rows(vec![RowChange::Answer(answer.clone())]).await?;
    let known = match engine.store.question(&answer.question).await? {
        Some(row) if row.receipt.is_some() => engine.load_round(&row.round).await.ok().map(|round| (row, round)),
        _ => None,
    };
    let sent = match known {
        Some((row, recorded)) => {
            let delivery = message::reply(&recorded.round, &row, &answer);
            send(engine, rebind, &recorded.round, &delivery, prior).await.map(drop)
        }
        None => Err("its question is not known any more".to_owned()),
    };
    let is_over = match sent {
        Ok(()) => true,
        Err(text) => {
            let is_over = answer.tries >= REPLIES_MAX;
            if is_over {
                warn_about_question(engine, &format!("the reply to {} cannot be sent: {text}", answer.name));
            }
            is_over
        }
    };
    match is_over {
        true => engine.write_rows(vec![RowChange::Answer(AnswerRow { state: AnswerState::Replied, ..answer })]).await,
        false => Ok(()),
    }
}

/// Shows the decision where a question was asked whose candidate does not wait any more.
pub(super) async fn close(engine: &Engine, rebind: &dyn RoundBinder) -> Result<(), EngineError> {
    for row in engine.store.open_questions(ROWS_MAX).await? {
        let inbox = engine.store.inbox_item(&question_id(&row.round)).await?;
        let is_asked =
            inbox.is_some_and(|inbox| inbox.closed_ms.is_none() && inbox.candidate.as_ref() == Some(&row.candidate));
        let recorded = engine.load_round(&row.round).await.ok();
        let is_blocked = recorded.as_ref().is_some_and(|recorded| recorded.round.facts().is_blocked);
        let is_busy = recorded.as_ref().is_some_and(|recorded| !recorded.round.is_at_rest());
        if (is_asked && !is_blocked) || is_busy {
            continue;
        }
        close_one(engine, rebind, row, recorded.map(|recorded| recorded.round)).await?;
    }
    Ok(())
}

async fn close_one(
    engine: &Engine,
    rebind: &dyn RoundBinder,
    row: QuestionRow,
    round: Option<Round>,
) -> Result<(), EngineError> {
    // A question that never arrived, or whose record is gone, has nothing to show.
    let Some(round) = round.filter(|_| row.state == QuestionState::Sent) else {
        let closed = QuestionRow { state: QuestionState::Closed, ..row };
        return engine.write_rows(vec![RowChange::Question(touched(engine, closed))]).await;
    };
    let prior = if row.tries > 0 { PriorDelivery::MaybeSent } else { PriorDelivery::Fresh };
    let row = touched(engine, QuestionRow { tries: row.tries + 1, ..row });
    engine.write_rows(vec![RowChange::Question(row.clone())]).await?;
    let delivery = message::close(&round, &row);
    let state = match send(engine, rebind, &round, &delivery, prior).await {
        Ok(_) => QuestionState::Closed,
        Err(text) if row.tries >= REPLIES_MAX => {
            warn_about_question(engine, &format!("the decision about round {} cannot be shown: {text}", row.round));
            QuestionState::Closed
        }
        Err(_) => return Ok(()),
    };
    engine.write_rows(vec![RowChange::Question(touched(engine, QuestionRow { state, ..row }))]).await
}
