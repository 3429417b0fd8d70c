//! The places in which providers state why a model stopped, and what went wrong.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The longest reason.
const REASON_MAX: usize = 64;
/// The word for a refusal that a protocol marks in another way than by a reason.
pub(super) const REFUSAL: &str = "refusal";

/// A choice of Chat Completions, a candidate of Gemini, or the delta of an Anthropic message.
#[derive(Deserialize)]
struct StopPart {
    finish_reason: Option<Value>,
    #[serde(rename = "finishReason")]
    finish_in_camel_case: Option<Value>,
    stop_reason: Option<Value>,
    message: Option<RefusalPart>,
    delta: Option<RefusalPart>,
}

#[derive(Deserialize)]
struct RefusalPart {
    refusal: Option<Value>,
}

impl StopPart {
    fn finish(self) -> Option<String> {
        let refuses = |part: Option<RefusalPart>| part.and_then(|part| word(part.refusal)).is_some();
        let reason = word(self.finish_reason).or(word(self.finish_in_camel_case)).or(word(self.stop_reason));
        if refuses(self.message) || refuses(self.delta) { Some(REFUSAL.to_owned()) } else { reason }
    }
}

fn word(value: Option<Value>) -> Option<String> {
    let text = value?.as_str()?.chars().take(REASON_MAX).collect::<String>();
    Some(text).filter(|text| !text.is_empty())
}

/// The reason in a list of choices or candidates.
pub(super) fn finish_in_list(list: Option<&RawValue>) -> Option<String> {
    let parts: Vec<StopPart> = serde_json::from_str(list?.get()).ok()?;
    parts.into_iter().find_map(StopPart::finish)
}

/// The reason in an object.
pub(super) fn finish_in_object(part: Option<&RawValue>) -> Option<String> {
    serde_json::from_str::<StopPart>(part?.get()).ok()?.finish()
}

/// A reason that is a JSON string.
pub(super) fn finish_word(value: Option<&RawValue>) -> Option<String> {
    word(serde_json::from_str(value?.get()).ok())
}

/// The reason of an incomplete answer of OpenAI's Responses.
pub(super) fn incomplete_reason(details: Option<&RawValue>) -> Option<String> {
    word(serde_json::from_str::<Value>(details?.get()).ok()?.get("reason").cloned())
}

/// Whether Gemini blocked the prompt.
pub(super) fn is_blocked(feedback: Option<&RawValue>) -> bool {
    let feedback = feedback.and_then(|feedback| serde_json::from_str::<Value>(feedback.get()).ok());
    feedback.is_some_and(|feedback| feedback.get("blockReason").is_some_and(Value::is_string))
}

/// Whether the output of OpenAI's Responses has a refusal.
pub(super) fn has_refusal(output: Option<&RawValue>) -> bool {
    #[derive(Deserialize)]
    struct OutputItem {
        content: Option<Vec<OutputPart>>,
    }
    #[derive(Deserialize)]
    struct OutputPart {
        #[serde(rename = "type")]
        kind: Option<Value>,
    }
    let items: Vec<OutputItem> = output.and_then(|output| serde_json::from_str(output.get()).ok()).unwrap_or_default();
    let mut parts = items.into_iter().filter_map(|item| item.content).flatten();
    parts.any(|part| part.kind.as_ref().and_then(Value::as_str) == Some(REFUSAL))
}

/// The message of an error, with its type or code; the error may be a text or an object.
pub(super) fn error_message(error: &RawValue) -> Option<String> {
    let value: Value = serde_json::from_str(error.get()).ok()?;
    if let Some(text) = value.as_str() {
        return Some(text.to_owned()).filter(|text| !text.is_empty());
    }
    let part = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind = part("code").or(part("type")).or(part("status"));
    // Providers put the time of a retry into the details.
    let delay = value.get("details").and_then(Value::as_array).into_iter().flatten();
    let delay = delay.filter_map(|detail| detail.get("retryDelay")?.as_str()).next();
    let delay = delay.map(|delay| format!("; retry in {delay}")).unwrap_or_default();
    // A stream has no status of its own for this error, so its number is kept.
    let status = value.get("code").and_then(Value::as_u64).filter(|code| (400..600).contains(code));
    let delay = status.map_or_else(String::new, |status| format!(" (status code {status})")) + &delay;
    match (kind, part("message")) {
        (Some(kind), Some(message)) => Some(format!("{kind}: {message}{delay}")),
        (kind, message) => message.or(kind).map(|text| format!("{text}{delay}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).expect("JSON")
    }

    #[test]
    fn reasons_are_found_in_every_protocols_place() {
        let list = |text| finish_in_list(Some(&raw(text)));
        assert_eq!(list(r#"[{"delta":{},"finish_reason":"stop"}]"#).as_deref(), Some("stop"));
        assert_eq!(list(r#"[{"delta":{"content":"a"},"finish_reason":null}]"#), None);
        assert_eq!(list(r#"[{"finishReason":"SAFETY"}]"#).as_deref(), Some("SAFETY"));
        assert_eq!(list(r#"[{"message":{"refusal":"no"},"finish_reason":"stop"}]"#).as_deref(), Some("refusal"));
        assert_eq!(list("[]"), None);
        assert_eq!(finish_in_object(Some(&raw(r#"{"stop_reason":"end_turn"}"#))).as_deref(), Some("end_turn"));
        assert_eq!(incomplete_reason(Some(&raw(r#"{"reason":"content_filter"}"#))).as_deref(), Some("content_filter"));
        assert!(is_blocked(Some(&raw(r#"{"blockReason":"OTHER"}"#))) && !is_blocked(Some(&raw("{}"))));
        assert!(has_refusal(Some(&raw(r#"[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]"#))));
        assert!(!has_refusal(Some(&raw(r#"[{"type":"message","content":[{"type":"output_text","text":"a"}]}]"#))));
    }

    #[test]
    fn errors_are_shown_with_their_kind_message_and_delay() {
        let message = |text| error_message(&raw(text)).expect("a message");
        assert_eq!(message(r#""no""#), "no");
        assert_eq!(message(r#"{"type":"overloaded_error","message":"Overloaded"}"#), "overloaded_error: Overloaded");
        let gemini = r#"{"code":429,"status":"RESOURCE_EXHAUSTED","message":"slow","details":[{"retryDelay":"20s"}]}"#;
        assert_eq!(message(gemini), "RESOURCE_EXHAUSTED: slow (status code 429); retry in 20s");
    }
}
