//! The figures of usage as providers spell them, and what they mean in our own kinds of tokens.

use loopwright_core::budget::Tokens;
use serde_json::Value;

/// An object of usage that cannot be read, or has nothing in it that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnreadableUsage;

/// What one answer told so far, figure by figure. Providers tell sums of the answer, some of them several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct UsageFields {
    input: u64,
    output: u64,
    /// Input from a cache that is part of `input` (OpenAI, Gemini).
    cached: u64,
    /// Input from a cache that comes on top (Anthropic).
    cache_read: u64,
    cache_write: u64,
    /// Thoughts that are not part of `output` (Gemini).
    thoughts: u64,
    /// Input of a provider's own tools that is not part of `input` (Gemini).
    tools: u64,
    /// It is told anew in every part of an answer (Gemini).
    is_running: bool,
    /// The answer was given faster than usual, for more money (Anthropic).
    is_fast: bool,
}

impl UsageFields {
    /// Reads an object of usage.
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

    /// The greater of two tellings, figure by figure: what was once told is not taken back.
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

    /// Whether it costs more than the model usually does.
    pub(super) fn is_fast(self) -> bool {
        self.is_fast
    }

    /// Whether more of the same may follow in a later part of the answer.
    pub(super) fn is_running(self) -> bool {
        self.is_running
    }

    /// The same in our kinds.
    pub(super) fn tokens(self) -> Tokens {
        // Gateways that speak for several providers tell the same reading of a cache in both ways.
        let cache_read = if self.cached > 0 { self.cached } else { self.cache_read };
        Tokens {
            input: self.input.saturating_sub(self.cached).saturating_add(self.tools),
            output: self.output.saturating_add(self.thoughts),
            cache_read,
            cache_write: self.cache_write,
        }
    }
}

/// A figure by its place; one that is there and is no count makes the whole unreadable.
fn number(usage: &Value, place: &str) -> Result<Option<u64>, UnreadableUsage> {
    match usage.pointer(place) {
        None | Some(Value::Null) => Ok(None),
        Some(figure) => figure.as_u64().map(Some).ok_or(UnreadableUsage),
    }
}
