//! Decides recorded answers: finds the person behind an account, and passes the answer to the approval policy as every
//! other front end does. An answer counts once, also after a crash in between: its time identifies it in the journal.

use super::{Engine, ROWS_MAX, warn_about_question};
use crate::error::EngineError;
use crate::live_rounds::RoundStarter;
use crate::proc::CancelToken;
use crate::round::{RoundCaller, UNDER_WAY};
use crate::store::{AnswerRow, AnswerState, QuestionRow, RowChange};
use crate::takeover::RoundBinder;
use loopwright_core::BoxFuture;
use loopwright_core::actor::Actor;
use loopwright_core::answer::AnswerVerb;
use loopwright_core::question::plain_line;
use loopwright_core::round::{Event, PersonDecision, Refusal};
use std::collections::BTreeMap;
use std::task::Poll;

/// The result of a decision.
enum Decision {
    Counted,
    Refused(String),
    /// It cannot be decided now.
    Later,
}

/// Decides every answer that was received. Answers to different rounds do not wait for each other's deliveries.
pub(super) async fn decide(engine: &Engine, rebind: &dyn RoundBinder) -> Result<(), EngineError> {
    let pending = engine.store.pending_answers(ROWS_MAX).await?;
    let received = pending.into_iter().filter(|answer| answer.state == AnswerState::Received);
    let own: Vec<AnswerRow> = received.filter(|answer| engine.questions.begin(&answer.id)).collect();
    let mut rounds: BTreeMap<String, Vec<AnswerRow>> = BTreeMap::new();
    for answer in own {
        rounds.entry(answer.question.clone()).or_default().push(answer);
    }
    let mut work: Vec<BoxFuture<'_, Result<(), EngineError>>> = Vec::new();
    for mut answers in rounds.into_values() {
        // One denial is enough, so a denial is decided before an approval that was read in the same pass.
        answers.sort_by_key(|answer| answer.verb != AnswerVerb::Deny);
        work.push(Box::pin(decide_in_order(engine, rebind, answers)));
    }
    join_all(work).await
}

/// Runs all of them at once and returns the first error.
async fn join_all(mut work: Vec<BoxFuture<'_, Result<(), EngineError>>>) -> Result<(), EngineError> {
    let mut result = Ok(());
    std::future::poll_fn(|cx| {
        work.retain_mut(|one| match one.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(ended) => {
                result = std::mem::replace(&mut result, Ok(())).and(ended);
                false
            }
        });
        if work.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    result
}

async fn decide_in_order(
    engine: &Engine,
    rebind: &dyn RoundBinder,
    answers: Vec<AnswerRow>,
) -> Result<(), EngineError> {
    let mut result = Ok(());
    for answer in answers {
        let id = answer.id.clone();
        if result.is_ok() {
            result = decide_one(engine, rebind, answer).await;
        }
        engine.questions.end(&id);
    }
    result
}

async fn decide_one(engine: &Engine, rebind: &dyn RoundBinder, answer: AnswerRow) -> Result<(), EngineError> {
    let decision = match engine.store.question(&answer.question).await? {
        Some(question) => weigh(engine, rebind, &question, &answer).await?,
        None => Decision::Refused("its question is not known here".to_owned()),
    };
    let answer = match decision {
        Decision::Counted => AnswerRow { state: AnswerState::Counted, ..answer },
        Decision::Later => return Ok(()),
        Decision::Refused(why) => {
            let (name, place) = (plain_line(&answer.name), &answer.place);
            warn_about_question(engine, &format!("the answer of {name} on {place} does not count: {why}"));
            AnswerRow { state: AnswerState::Refused, reply: Some(why), ..answer }
        }
    };
    engine.write_rows(vec![RowChange::Answer(answer)]).await
}

async fn weigh(
    engine: &Engine,
    rebind: &dyn RoundBinder,
    question: &QuestionRow,
    answer: &AnswerRow,
) -> Result<Decision, EngineError> {
    let recorded = match engine.load_round(&question.round).await {
        Ok(recorded) => recorded,
        // The store itself has a problem.
        Err(EngineError::Store(error)) => return Err(EngineError::Store(error)),
        // One damaged record must not keep other people's answers from their decision.
        Err(error) => return Ok(Decision::Refused(format!("the record of its round cannot be read: {error}"))),
    };
    let (local, bind) = rebind.rebind(engine, &recorded.round.facts().started);
    if let Some(problem) = &answer.problem {
        return Ok(Decision::Refused(problem.clone()));
    }
    let Some(person) = local.settings.people.person(&answer.place, &answer.account) else {
        return Ok(Decision::Refused(unknown_account(answer)));
    };
    let said = PersonDecision {
        position: None,
        same_as: None,
        actor: Actor::account(person, &answer.place, &answer.account),
        candidate: answer.candidate.clone(),
        why: (answer.verb == AnswerVerb::Deny).then(|| reason(answer, person)),
        at_ms: Some(answer.at_ms),
    };
    if was_counted(engine, &question.round, &said).await? {
        return Ok(Decision::Counted);
    }
    let event = match answer.verb {
        AnswerVerb::Approve => Event::Approved(said.clone()),
        AnswerVerb::Deny => Event::Denied(said.clone()),
    };
    let (cancel, by) = (&CancelToken::new(), RoundStarter::Dispatcher);
    let applied = local.apply_answer(&question.round, event, RoundCaller { bind: &bind, cancel, by }).await;
    Ok(match applied {
        Ok(_) => Decision::Counted,
        Err(EngineError::Refused(refusal)) => {
            if let Refusal::Expired { .. } = &refusal {
                // The question of a daemon that was down at that time; the next pass shows its end.
                let _ = local.expire_round(&question.round, &bind).await;
            }
            Decision::Refused(refusal_text(&refusal))
        }
        Err(EngineError::Stale(text)) if text.ends_with(UNDER_WAY) => Decision::Later,
        Err(EngineError::Stale(text)) => Decision::Refused(text),
        // The journal has the answer, or the next pass tries again.
        Err(error) if was_counted(engine, &question.round, &said).await? => {
            warn_about_question(engine, &format!("round {}: {}", question.round, crate::round::error_chain(&error)));
            Decision::Counted
        }
        Err(EngineError::Busy { .. } | EngineError::Store(_)) => Decision::Later,
        Err(error) => Decision::Refused(error.to_string()),
    })
}

fn reason(answer: &AnswerRow, person: &str) -> String {
    if answer.why.is_empty() { format!("denied on {} by {person}", answer.place) } else { answer.why.clone() }
}

fn unknown_account(answer: &AnswerRow) -> String {
    let AnswerRow { place, account, .. } = answer;
    format!("no person in `people` of the configuration has the account {account} on {place}")
}

fn refusal_text(refusal: &Refusal) -> String {
    match refusal.approvers() {
        [] => refusal.to_string(),
        approvers => format!("{refusal}; these people may: {}", approvers.join(", ")),
    }
}

/// Whether the journal of the round has this answer: a crash, or a failed delivery, came after it.
async fn was_counted(engine: &Engine, round: &str, said: &PersonDecision) -> Result<bool, EngineError> {
    let events = engine.store.events(round).await?;
    let is_it = |event: Event| match (event, &said.why) {
        (Event::Approved(known), None) | (Event::Denied(known), Some(_)) => {
            known.actor == said.actor && known.at_ms == said.at_ms
        }
        _ => false,
    };
    Ok(events.iter().filter_map(|event| serde_json::from_str(&event.body).ok()).any(is_it))
}
