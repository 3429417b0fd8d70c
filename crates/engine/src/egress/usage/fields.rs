//! The usage figures as providers spell them, and their conversion into Loopwright's kinds of tokens.

use loopwright_core::budget::Tokens;
use serde_json::Value;

/// A usage object that cannot be read, or has no known figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnreadableUsage;

/// The figures that one answer has reported so far. Providers report sums for the answer, some of them several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct UsageFields {
    input: u64,
    output: u64,
    /// Input from a cache that is part of `input` (OpenAI, Gemini).
    cached: u64,
    /// Input from a cache that is not part of `input` (Anthropic).
    cache_read: u64,
    cache_write: u64,
    /// Thoughts that are not part of `output` (Gemini).
    thoughts: u64,
    /// Input of a provider's own tools that is not part of `input` (Gemini).
    tools: u64,
    /// Every part of an answer reports the sum so far (Gemini).
    is_running: bool,
    /// The answer came from a faster, more expensive tier (Anthropic).
    is_fast: bool,
}

impl UsageFields {
    /// Reads a usage object.
    pub(super) fn read(json: &[u8]) -> Result<Self, UnreadableUsage> {
        let value: Value = serde_json::from_slice(json).map_err(|_| UnreadableUsage)?;
        let figure = |names: &[&str]| names.iter().try_fold(None, |found, name| Ok(found.or(number(&value, name)?)));
        let input = figure(&["/input_tokens", "/prompt_tokens", "/promptTokenCount"])?;
        let output = figure(&["/output_tokens", "/completion_tokens", "/candidatesTokenCount"])?;
        if input.is_none() && output.is_none() {
            return Err(UnreadableUsage);
        }
        let or_none = |found: Option<u64>| found.unwrap_or(0);
        let cached =
            ["/input_tokens_details/cached_tokens", "/prompt_tokens_details/cached_tokens", "/cachedContentTokenCount"];
        Ok(Self {
            input: or_none(input),
            output: or_none(output),
            cached: or_none(figure(&cached)?),
            cache_read: or_none(figure(&["/cache_read_input_tokens"])?),
            cache_write: or_none(figure(&["/cache_creation_input_tokens"])?),
            thoughts: or_none(figure(&["/thoughtsTokenCount"])?),
            tools: or_none(figure(&["/toolUsePromptTokenCount"])?),
            is_running: figure(&["/promptTokenCount", "/candidatesTokenCount"])?.is_some(),
            is_fast: value.get("speed").and_then(Value::as_str).is_some_and(|speed| speed != "standard"),
        })
    }

    /// The maximum of two reports, figure by figure: a reported figure never decreases.
    pub(super) fn max_by_figure(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cached: self.cached.max(other.cached),
            cache_read: self.cache_read.max(other.cache_read),
            cache_write: self.cache_write.max(other.cache_write),
            thoughts: self.thoughts.max(other.thoughts),
            tools: self.tools.max(other.tools),
            is_running: self.is_running || other.is_running,
            is_fast: self.is_fast || other.is_fast,
        }
    }

    /// Whether it costs more than the model's usual price.
    pub(super) fn is_fast(self) -> bool {
        self.is_fast
    }

    /// Whether later parts of the answer may report higher figures.
    pub(super) fn is_running(self) -> bool {
        self.is_running
    }

    /// The figures in Loopwright's kinds of tokens.
    pub(super) fn tokens(self) -> Tokens {
        // Gateways for several providers report the same cached input in both ways.
        let cache_read = if self.cached > 0 { self.cached } else { self.cache_read };
        Tokens {
            input: self.input.saturating_sub(self.cached).saturating_add(self.tools),
            output: self.output.saturating_add(self.thoughts),
            cache_read,
            cache_write: self.cache_write,
        }
    }
}

/// A figure by its JSON path; a value that is not a count makes the whole object unreadable.
fn number(usage: &Value, place: &str) -> Result<Option<u64>, UnreadableUsage> {
    match usage.pointer(place) {
        None | Some(Value::Null) => Ok(None),
        Some(figure) => figure.as_u64().map(Some).ok_or(UnreadableUsage),
    }
}
