//! One JSON document of a provider's answer: the model, the tier, the usage and whether it is an error. All other
//! content, such as the model's text, is skipped.

use super::fields::UsageFields;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Most bytes of a usage object that are read; a longer one is not usage.
const USAGE_MAX: usize = 16 << 10;
/// The longest name of a model, a tier or a type.
const NAME_MAX: usize = 256;

/// The relevant parts of one document of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Document {
    /// Its `type`.
    pub(super) kind: Option<String>,
    pub(super) model: Option<String>,
    /// The tier of service (OpenAI).
    pub(super) tier: Option<String>,
    /// Its usage, which is empty if it cannot be read.
    pub(super) usage: Option<Option<UsageFields>>,
    pub(super) is_error: bool,
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
}

/// The documents in a text: one object, or an array of them; none for any other text.
pub(super) fn read(text: &[u8]) -> Vec<Document> {
    let raw: Vec<Raw> = match text.trim_ascii_start().first() {
        Some(b'[') => serde_json::from_slice(text).unwrap_or_default(),
        _ => serde_json::from_slice(text).into_iter().collect(),
    };
    raw.into_iter().map(Document::from).filter(|document| *document != Document::default()).collect()
}

impl From<Raw> for Document {
    /// Providers wrap their answer in `message` or `response`. Of the wrapped part only model, tier and usage count:
    /// its `type` is not the type of the document.
    fn from(raw: Raw) -> Self {
        let wrapped = raw.message.or(raw.response).and_then(|inner| serde_json::from_str::<Raw>(inner.get()).ok());
        let inner = wrapped.map(Self::from).unwrap_or_default();
        let usage = raw.usage.or(raw.usage_metadata).filter(|usage| usage.get().starts_with('{'));
        let read_usage = |usage: Box<RawValue>| {
            Some(usage.get()).filter(|usage| usage.len() <= USAGE_MAX).and_then(UsageFields::read)
        };
        Self {
            kind: name(raw.kind),
            model: name(raw.model.or(raw.model_version)).or(inner.model),
            tier: name(raw.service_tier).or(inner.tier),
            usage: usage.map(read_usage).or(inner.usage),
            is_error: raw.error.is_some_and(|error| error.get().starts_with(['{', '"'])),
        }
    }
}

fn name(value: Option<Box<RawValue>>) -> Option<String> {
    let text: String = serde_json::from_str(value?.get()).ok()?;
    Some(text).filter(|text| text.len() <= NAME_MAX)
}
