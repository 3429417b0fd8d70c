//! One JSON document of a provider's answer: the model, the tier, the usage, the reason for which the model stopped,
//! and its error. All other content, such as the model's text, is skipped.

use super::fields::{ReadUsage, UsageFields};
use super::{stop_fields, text_bytes};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Most bytes of a usage object that are read; a longer one is not usage.
const USAGE_MAX: usize = 16 << 10;
/// The longest name of a model, a tier or a type.
const NAME_MAX: usize = 256;
/// Most bytes of an error object that are read.
const ERROR_MAX: usize = 16 << 10;

/// The relevant parts of one document of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Document {
    /// Its `type`.
    pub(super) kind: Option<String>,
    pub(super) model: Option<String>,
    /// The tier of service (OpenAI).
    pub(super) tier: Option<String>,
    /// Its usage.
    pub(super) usage: Option<ReadUsage>,
    pub(super) is_error: bool,
    /// The message of its error, with the error's type or code.
    pub(super) error: Option<String>,
    /// The reason for which the model stopped, in the provider's word.
    pub(super) finish: Option<String>,
    /// It belongs to a protocol that marks the end of its answers.
    pub(super) is_known: bool,
    /// The bytes of the text that the model wrote in it.
    pub(super) text: u64,
}

/// The relevant keys, each with any value: a value of another type is skipped, not an error.
#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "type")]
    kind: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
    message: Option<Box<RawValue>>,
    response: Option<Box<RawValue>>,
    model: Option<Box<RawValue>>,
    #[serde(rename = "modelVersion")]
    model_version: Option<Box<RawValue>>,
    service_tier: Option<Box<RawValue>>,
    usage: Option<Box<RawValue>>,
    #[serde(rename = "usageMetadata")]
    usage_metadata: Option<Box<RawValue>>,
    choices: Option<Box<RawValue>>,
    candidates: Option<Box<RawValue>>,
    delta: Option<Box<RawValue>>,
    #[serde(alias = "stopReason")]
    stop_reason: Option<Box<RawValue>>,
    code: Option<Box<RawValue>>,
    incomplete_details: Option<Box<RawValue>>,
    output: Option<Box<RawValue>>,
    #[serde(rename = "promptFeedback")]
    prompt_feedback: Option<Box<RawValue>>,
}

impl Raw {
    /// The reason for which the model stopped.
    fn finish(&self) -> Option<String> {
        use stop_fields as stop;
        if stop::has_refusal(self.output.as_deref()) || stop::is_blocked(self.prompt_feedback.as_deref()) {
            return Some(stop::REFUSAL.to_owned());
        }
        stop::finish_word(self.stop_reason.as_deref())
            .or_else(|| stop::finish_in_list(self.choices.as_deref()))
            .or_else(|| stop::finish_in_list(self.candidates.as_deref()))
            .or_else(|| stop::finish_in_object(self.delta.as_deref()))
            .or_else(|| stop::incomplete_reason(self.incomplete_details.as_deref()))
    }

    fn error_message(&self) -> Option<String> {
        let is_short = |text: &&RawValue| text.get().len() <= ERROR_MAX;
        let Some(error) = self.error.as_deref() else { return self.bare_error() };
        is_short(&error).then(|| stop_fields::error_message(error)).flatten()
    }

    /// The error of an event of OpenAI's Responses that is nothing else: its code and message have no object of their own.
    fn bare_error(&self) -> Option<String> {
        let text =
            |value: &Option<Box<RawValue>>| -> Option<String> { serde_json::from_str(value.as_ref()?.get()).ok() };
        text(&self.kind).filter(|kind| kind == "error")?;
        let message = text(&self.message)?;
        Some(text(&self.code).map_or_else(|| message.clone(), |code| format!("{code}: {message}")))
    }
}

/// The documents in a text: one object, or an array of them; `None` for a text that is not JSON.
pub(super) fn read(text: &[u8]) -> Option<Vec<Document>> {
    let text = text.trim_ascii();
    if text.is_empty() || text == b"[DONE]" {
        return Some(Vec::new());
    }
    let raw: Vec<Raw> = match text.first() {
        Some(b'[') => serde_json::from_slice(text).ok()?,
        Some(b'{') => vec![serde_json::from_slice(text).ok()?],
        _ => serde_json::from_slice::<serde::de::IgnoredAny>(text).map(|_| Vec::new()).ok()?,
    };
    let mut documents: Vec<Document> = raw.into_iter().map(Document::from).collect();
    // The text of all documents of an array counts with its first one.
    if let Some(first) = documents.first_mut() {
        first.text = text_bytes::count(text);
    }
    documents.retain(|document| *document != Document::default());
    Some(documents)
}

impl From<Raw> for Document {
    /// Providers wrap their answer in `message` or `response`. Of the wrapped part only model, tier and usage count:
    /// its `type` is not the type of the document.
    fn from(raw: Raw) -> Self {
        let (finish, error) = (raw.finish(), raw.error_message());
        let is_list = raw.choices.is_some() || raw.candidates.is_some();
        let wrapped = raw.message.or(raw.response).and_then(|inner| serde_json::from_str::<Raw>(inner.get()).ok());
        let inner = wrapped.map(Self::from).unwrap_or_default();
        let usage = raw.usage.or(raw.usage_metadata).filter(|usage| usage.get().starts_with('{'));
        let read_usage = |usage: Box<RawValue>| {
            if usage.get().len() > USAGE_MAX { Some(ReadUsage::Odd) } else { UsageFields::read(usage.get()) }
        };
        let kind = name(raw.kind);
        let is_event = kind.as_deref().is_some_and(|kind| kind == "message_start" || kind.starts_with("response."));
        Self {
            finish: finish.or(inner.finish),
            error: error.or(inner.error),
            is_known: is_list || is_event,
            kind,
            model: name(raw.model.or(raw.model_version)).or(inner.model),
            tier: name(raw.service_tier).or(inner.tier),
            usage: usage.and_then(read_usage).or(inner.usage),
            is_error: raw.error.is_some_and(|error| error.get().starts_with(['{', '"'])),
            text: 0,
        }
    }
}

fn name(value: Option<Box<RawValue>>) -> Option<String> {
    let text: String = serde_json::from_str(value?.get()).ok()?;
    Some(text).filter(|text| text.len() <= NAME_MAX)
}
