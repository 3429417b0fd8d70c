//! Presses of buttons below a question in Slack: a signed form with one field, `payload`. The answer to Slack only says
//! that the press is recorded, because Slack waits for three seconds.

use super::event::{DeliveryBody, MalformedDelivery, is_word, line};
use crate::store::{AnswerRow, AnswerState};
use loopwright_core::answer::AnswerVerb;
use loopwright_core::config::SLACK_ACCOUNT;
use loopwright_core::hash;
use serde_json::Value;

/// Reads a request whose signature is valid. `None` if no button of a question was pressed.
pub(super) fn read(signature: &str, body: &[u8], now_ms: i64) -> Result<Option<AnswerRow>, MalformedDelivery> {
    let payload = form_field(body, "payload").ok_or(MalformedDelivery("no field `payload`"))?;
    let payload: Value = serde_json::from_str(&payload).map_err(|_| MalformedDelivery("`payload` is not JSON"))?;
    let value = DeliveryBody(&payload);
    if value.text("/type") != Some("block_actions") {
        return Ok(None);
    }
    let verb = match value.text("/actions/0/action_id") {
        Some("loopwright_approve") => AnswerVerb::Approve,
        Some("loopwright_deny") => AnswerVerb::Deny,
        _ => return Ok(None),
    };
    let account = value.text("/user/id").filter(|id| is_word(id)).ok_or(MalformedDelivery("no user"))?;
    let pressed = value.text("/actions/0/value").and_then(|text| text.split_once(' '));
    let (question, candidate) = pressed.ok_or(MalformedDelivery("the button has no question"))?;
    if !is_word(question) || !is_word(candidate) {
        return Err(MalformedDelivery("the button has no question"));
    }
    let name = ["/user/username", "/user/name"].iter().find_map(|path| value.text(path)).unwrap_or(account);
    Ok(Some(AnswerRow {
        // The signature covers the time and the body, so a request that is sent again has the same id, also with the
        // digits of its signature in capitals.
        id: format!("slack:{}", hash::hash_bytes(signature.to_ascii_lowercase().as_bytes())),
        question: question.to_owned(),
        candidate: candidate.to_owned(),
        place: SLACK_ACCOUNT.to_owned(),
        account: account.to_owned(),
        name: line(name),
        verb,
        why: String::new(),
        problem: None,
        state: AnswerState::Received,
        reply: None,
        tries: 0,
        at_ms: now_ms,
    }))
}

/// A field of `application/x-www-form-urlencoded`.
fn form_field(body: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let mut found = text.split('&').filter_map(|pair| pair.split_once('=')).filter(|(key, _)| *key == name);
    let (_, value) = found.next()?;
    // Two of them would be ambiguous.
    if found.next().is_some() { None } else { decode(value) }
}

fn decode(text: &str) -> Option<String> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = rest.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit()? << 4 | digit()?
            }
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(payload: &str) -> Vec<u8> {
        let encoded: String = payload.bytes().map(|byte| format!("%{byte:02X}")).collect();
        format!("payload={encoded}").into_bytes()
    }

    #[test]
    fn a_press_of_a_button_is_an_answer_of_its_user() {
        let body = form(
            r#"{"type":"block_actions","user":{"id":"U1","username":"grace"},"actions":[{"action_id":"loopwright_deny","value":"slack-1 c1"}]}"#,
        );
        let answer = read("v0=aa", &body, 7).expect("it can be read").expect("an answer");
        assert_eq!((answer.question.as_str(), answer.candidate.as_str()), ("slack-1", "c1"));
        assert_eq!((answer.account.as_str(), answer.name.as_str(), answer.verb), ("U1", "grace", AnswerVerb::Deny));
        assert_eq!(answer.id, read("v0=aa", &body, 8).expect("again").expect("an answer").id);
        assert_eq!(answer.id, read("v0=AA", &body, 8).expect("in capitals").expect("an answer").id);
        assert_ne!(answer.id, read("v0=ab", &body, 8).expect("another").expect("an answer").id);
    }

    #[test]
    fn other_requests_are_ignored_or_malformed_and_none_panics() {
        for ignored in [r#"{"type":"view_submission"}"#, r#"{"type":"block_actions","actions":[{"action_id":"x"}]}"#] {
            assert_eq!(read("v0=aa", &form(ignored), 0), Ok(None), "{ignored}");
        }
        let bad = [
            b"".to_vec(),
            b"payload=%".to_vec(),
            b"payload=%f".to_vec(),
            b"payload=%ff".to_vec(),
            b"payload=1&payload=2".to_vec(),
            form("[]x"),
            form(r#"{"type":"block_actions","actions":[{"action_id":"loopwright_deny","value":"slack-1 c1"}]}"#),
            form(
                r#"{"type":"block_actions","user":{"id":"U1"},"actions":[{"action_id":"loopwright_deny","value":"x"}]}"#,
            ),
        ];
        for body in bad {
            assert!(read("v0=aa", &body, 0).is_err(), "{}", String::from_utf8_lossy(&body));
        }
    }
}
