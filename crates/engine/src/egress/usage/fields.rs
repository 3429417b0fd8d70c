//! The usage figures as providers spell them, and their conversion into Loopwright's kinds of tokens.

use loopwright_core::budget::Tokens;
use serde_json::Value;

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
    pub(super) is_running: bool,
    /// The answer came from a faster, more expensive tier (Anthropic).
    pub(super) is_fast: bool,
}

impl UsageFields {
    /// Reads a usage object; `None` if it has no known figure.
    pub(super) fn read(json: &str) -> Option<ReadUsage> {
        let Ok(value) = serde_json::from_str(json) else { return Some(ReadUsage::Odd) };
        Self::read_figures(&value).map_or(Some(ReadUsage::Odd), |found| found.map(ReadUsage::Figures))
    }

    /// The outer `None` means that a figure is not a count.
    fn read_figures(value: &Value) -> Option<Option<Self>> {
        let figure = |names: &[&str]| {
            names.iter().try_fold(None, |found: Option<u64>, name| Some(found.or(number(value, name)?)))
        };
        let input = figure(&["/input_tokens", "/prompt_tokens", "/promptTokenCount", "/inputTokens"])?;
        let output = figure(&["/output_tokens", "/completion_tokens", "/candidatesTokenCount", "/outputTokens"])?;
        if input.is_none() && output.is_none() {
            return Some(None);
        }
        let or_none = |found: Option<u64>| found.unwrap_or(0);
        let cached =
            ["/input_tokens_details/cached_tokens", "/prompt_tokens_details/cached_tokens", "/cachedContentTokenCount"];
        Some(Some(Self {
            input: or_none(input),
            output: or_none(output),
            cached: or_none(figure(&cached)?),
            cache_read: or_none(figure(&["/cache_read_input_tokens", "/cacheReadInputTokens"])?),
            cache_write: or_none(figure(&["/cache_creation_input_tokens", "/cacheWriteInputTokens"])?),
            thoughts: or_none(figure(&["/thoughtsTokenCount"])?),
            tools: or_none(figure(&["/toolUsePromptTokenCount"])?),
            is_running: figure(&["/promptTokenCount", "/candidatesTokenCount"])?.is_some(),
            is_fast: value.get("speed").and_then(Value::as_str).is_some_and(|speed| speed != "standard"),
        }))
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

/// A usage object with something in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadUsage {
    /// Its figures.
    Figures(UsageFields),
    /// It cannot be read, so the cost of its answer is not known.
    Odd,
}

/// The most tokens of one kind that an answer can have. No model has a context of a tenth of that, so a larger figure has
/// another unit, or is wrong.
const FIGURE_MAX: u64 = 100_000_000;

/// A figure by its JSON path, if it has one; `None` for a value that is not a count, because that makes the whole object
/// unreadable.
fn number(usage: &Value, place: &str) -> Option<Option<u64>> {
    match usage.pointer(place) {
        None | Some(Value::Null) => Some(None),
        Some(figure) => figure.as_u64().filter(|figure| *figure <= FIGURE_MAX).map(Some),
    }
}
