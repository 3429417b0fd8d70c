//! The headers of a provider's answer that name a time: `retry-after`, `retry-after-ms`, `x-ratelimit-*` and
//! `anthropic-ratelimit-*`. Times are read as delays from the answer, by the provider's own `date` if it sent one, so
//! that a clock that is wrong does not matter.

use super::reset::{AHEAD_MAX_MS, find_epoch, find_span, find_stamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most headers of one answer that are kept, and the longest value.
const HEADERS_MAX: usize = 32;
const VALUE_MAX: usize = 120;

/// Limits and their resets. A reset counts if its limit has nothing left.
const RESETS: [(&str, &str); 8] = [
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ("anthropic-ratelimit-unified-remaining", "anthropic-ratelimit-unified-reset"),
];

/// The headers of one answer that name times, by their names in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RetryHeaders(BTreeMap<String, String>);

impl RetryHeaders {
    /// Keeps those of these headers that matter.
    pub fn from_headers<'h>(headers: impl IntoIterator<Item = (&'h str, &'h str)>) -> Self {
        let matters = |name: &str| {
            matches!(name, "date" | "retry-after" | "retry-after-ms")
                || name.starts_with("x-ratelimit-")
                || name.starts_with("anthropic-ratelimit-")
        };
        let kept = headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
        let kept = kept.filter(|(name, value)| matters(name) && value.len() <= VALUE_MAX).take(HEADERS_MAX);
        Self(kept.map(|(name, value)| (name, value.trim().to_owned())).collect())
    }

    /// The delay from the answer after which a retry may succeed, in milliseconds. `answered_ms` is the time of the
    /// answer, for a provider that sent no `date`; without either, only relative times count.
    #[must_use]
    pub fn delay_ms(&self, answered_ms: Option<i64>) -> Option<u64> {
        let from_ms = self.get("date").and_then(http_date).or(answered_ms);
        let until = |at_ms: i64| from_ms.map(|from_ms| at_ms.saturating_sub(from_ms).max(0));
        let exact = self.get("retry-after-ms").and_then(|value| find_span(&format!("{value}ms")));
        let usual = || {
            let value = self.get("retry-after")?;
            find_span(value)
                .filter(|_| value.starts_with(|c: char| c.is_ascii_digit()))
                .or_else(|| until(http_date(value)?))
        };
        let found = exact.or_else(usual).or_else(|| self.longest_reset(&until))?;
        u64::try_from(found).ok().filter(|_| found <= AHEAD_MAX_MS)
    }

    /// The time until every limit without rest is reset.
    fn longest_reset(&self, until: &dyn Fn(i64) -> Option<i64>) -> Option<i64> {
        let is_used_up = |name: &str| {
            self.get(name).is_some_and(|value| value == "0")
                || name.contains("unified") && self.get("anthropic-ratelimit-unified-status") == Some("rejected")
        };
        let resets = RESETS.iter().filter(|(left, _)| is_used_up(left)).filter_map(|(_, reset)| self.get(reset));
        let delay = |value: &str| {
            let moment = find_epoch(value).or_else(|| find_stamp(&value.to_ascii_lowercase()));
            moment.map_or_else(|| find_span(value), until)
        };
        resets.filter_map(delay).max()
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// A date of HTTP, in milliseconds since 1970.
fn http_date(value: &str) -> Option<i64> {
    let zoned = jiff::fmt::rfc2822::parse(value).ok()?;
    Some(zoned.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers, and the delay that they name.
    type HeaderCase<'h> = (&'h [(&'h str, &'h str)], Option<u64>);

    #[test]
    fn delay_is_the_one_that_the_provider_named() {
        let date = ("Date", "Sun, 15 Nov 2026 17:00:00 GMT");
        let table: &[HeaderCase] = &[
            (&[("retry-after", "30")], Some(30_000)),
            (&[("Retry-After", "1.5")], Some(1_500)),
            (&[("retry-after-ms", "250"), ("retry-after", "30")], Some(250)),
            (&[date, ("retry-after", "Sun, 15 Nov 2026 18:00:00 GMT")], Some(3_600_000)),
            (&[("retry-after", "Sun, 15 Nov 2026 18:00:00 GMT")], Some(3_600_000 + 5_000)),
            (&[date, ("retry-after", "Sun, 15 Nov 2026 16:00:00 GMT")], Some(0)),
            (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")], Some(360_000)),
            (&[("x-ratelimit-remaining-tokens", "7"), ("x-ratelimit-reset-tokens", "6m0s")], None),
            (
                &[
                    date,
                    ("anthropic-ratelimit-requests-remaining", "0"),
                    ("anthropic-ratelimit-requests-reset", "2026-11-15T17:02:00Z"),
                    ("anthropic-ratelimit-input-tokens-remaining", "0"),
                    ("anthropic-ratelimit-input-tokens-reset", "2026-11-15T17:05:00Z"),
                ],
                Some(300_000),
            ),
            (
                &[
                    date,
                    ("anthropic-ratelimit-unified-status", "rejected"),
                    ("anthropic-ratelimit-unified-reset", "1794765600"),
                ],
                Some(3_600_000),
            ),
            (&[date, ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1794762060000")], Some(60_000)),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "99999999999")], None),
            (&[("retry-after", "-5")], None),
            (&[], None),
        ];
        // Five seconds before the providers' date.
        let answered_ms = 1_794_761_995_000;
        for (headers, delay_ms) in table {
            let kept = RetryHeaders::from_headers(headers.iter().copied());
            assert_eq!(kept.delay_ms(Some(answered_ms)), *delay_ms, "{headers:?}");
        }
    }

    #[test]
    fn only_headers_that_name_times_are_kept() {
        let kept = RetryHeaders::from_headers([("set-cookie", "a=b"), ("x-request-id", "7"), ("Retry-After", "1")]);
        assert_eq!(serde_json::to_string(&kept).expect("JSON"), r#"{"retry-after":"1"}"#);
    }
}
