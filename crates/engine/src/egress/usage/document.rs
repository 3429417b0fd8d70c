//! One JSON document of a provider's answer: the model, the tier, the usage and whether it is an error. All other
//! content, such as the model's text, is skipped.

use super::fields::{UnreadableUsage, UsageFields};
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
    pub(super) usage: Option<Result<UsageFields, UnreadableUsage>>,
    pub(super) is_error: bool,
}

/// The relevant keys, each with any value: a value of another type is skipped, not an error.
#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow, rename = "modelVersion")]
    model_version: Option<&'a RawValue>,
    #[serde(borrow)]
    service_tier: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, rename = "usageMetadata")]
    usage_metadata: Option<&'a RawValue>,
}

/// The documents in a text: one object, or an array of them; none for any other text.
pub(super) fn read(text: &[u8]) -> Vec<Document> {
    let raw: Vec<Raw<'_>> = match text.trim_ascii_start().first() {
        Some(b'[') => serde_json::from_slice(text).unwrap_or_default(),
        _ => serde_json::from_slice(text).into_iter().collect(),
    };
    raw.into_iter().map(Document::from).filter(|document| *document != Document::default()).collect()
}

impl From<Raw<'_>> for Document {
    /// Providers wrap their answer in `message` or `response`. Of the wrapped part only model, tier and usage count:
    /// its `type` is not the type of the document.
    fn from(raw: Raw<'_>) -> Self {
        let wrapped = raw.message.or(raw.response).and_then(|inner| serde_json::from_str::<Raw<'_>>(inner.get()).ok());
        let inner = wrapped.map(Self::from).unwrap_or_default();
        let usage = raw.usage.or(raw.usage_metadata).filter(|usage| usage.get().starts_with('{'));
        Self {
            kind: name(raw.kind),
            model: name(raw.model.or(raw.model_version)).or(inner.model),
            tier: name(raw.service_tier).or(inner.tier),
            usage: usage.map(|usage| fields(usage.get())).or(inner.usage),
            is_error: raw.error.is_some_and(|error| error.get().starts_with(['{', '"'])),
        }
    }
}

fn fields(usage: &str) -> Result<UsageFields, UnreadableUsage> {
    if usage.len() > USAGE_MAX { Err(UnreadableUsage) } else { UsageFields::read(usage.as_bytes()) }
}

fn name(value: Option<&RawValue>) -> Option<String> {
    let text: String = serde_json::from_str(value?.get()).ok()?;
    Some(text).filter(|text| text.len() <= NAME_MAX)
}
