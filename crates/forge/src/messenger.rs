//! Errors of messengers: receivers of messages that have no repository.

use crate::http::{HttpAnswer, HttpFailure, pause_until, retry_at};
use loopwright_core::deliver::DeliverError;

/// The error of a message without an answer.
pub(crate) fn failure(receiver: &str, failure: &HttpFailure) -> DeliverError {
    match failure {
        HttpFailure::NotSent(why) => DeliverError::transient(format!("{receiver} cannot be reached: {why}")),
        HttpFailure::Lost(why) => DeliverError::in_doubt(format!("{receiver} did not confirm the message: {why}")),
        HttpFailure::Paused(until_ms) => {
            DeliverError::transient(format!("{receiver} limits messages; it is tried again later"))
                .retry_at(Some(*until_ms))
        }
    }
}

/// The error of an answer other than success; `words` are the receiver's own.
pub(crate) fn status(receiver: &str, answer: &HttpAnswer, now_ms: i64, words: &str) -> DeliverError {
    let text = format!("{receiver} answers {}: {}", answer.status, plain(words));
    match answer.status {
        _ if retry_at(answer, now_ms).is_some() => DeliverError::transient(text).retry_at(retry_at(answer, now_ms)),
        401 | 403 | 404 | 410 => DeliverError::blocked(format!("{text}; check its address and its secret")),
        408 | 409 | 423 | 425 => DeliverError::transient(format!("{text}; it is tried again later")),
        300..=399 => DeliverError::blocked(format!("{text}; redirects are not followed")),
        500.. => DeliverError::in_doubt(text).retry_at(pause_until(answer, now_ms)),
        _ => DeliverError::refused(text),
    }
}

/// A receiver's words as one short line.
fn plain(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    line.trim().to_owned()
}
