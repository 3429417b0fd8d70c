//! Quantities with their units: money, tokens, time spans. Parses user input; no arithmetic that can wrap.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use std::time::Duration;

/// Money in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, JsonSchema)]
#[schemars(transparent)]
pub struct Usd(#[schemars(with = "f64")] pub u64);

impl Usd {
    /// From a number of dollars; `None` if negative, not finite or more than a billion dollars.
    #[must_use]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        let fits = dollars.is_finite() && (0.0..=1.0e9).contains(&dollars);
        fits.then(|| Self((dollars * 1.0e6).round() as u64))
    }

    /// In dollars, for people and JSON.
    #[must_use]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1.0e6
    }

    /// In millionths.
    #[must_use]
    pub fn micros(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for Usd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} USD", self.dollars())
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Self::from_dollars(dollars).ok_or_else(|| serde::de::Error::custom("not an amount of money"))
    }
}

/// A time span as loop files write it: `30s`, `15m`, `2h`, `1d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, JsonSchema)]
#[schemars(transparent)]
pub struct TimeSpan(#[schemars(with = "String", regex(pattern = r"^[0-9]+(ms|s|m|h|d)$"))] Duration);

impl TimeSpan {
    /// The longest allowed span: ten years.
    pub const MAX: Duration = Duration::from_secs(3650 * 86_400);

    /// Parses one number with one unit. `None` for anything else, for zero, and for more than [`TimeSpan::MAX`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at_checked(digits)?;
        let number: u64 = number.parse().ok()?;
        let millis = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        let span = Duration::from_millis(number.checked_mul(millis)?);
        (!span.is_zero() && span <= Self::MAX).then_some(Self(span))
    }

    /// From a number of seconds, for defaults in code.
    #[must_use]
    pub const fn secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// As the standard library's type.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }
}

/// A text that is no time span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not one number and one unit, such as `30s`, `15m`, `2h` or `7d`")]
pub struct TimeSpanError;

impl std::str::FromStr for TimeSpan {
    type Err = TimeSpanError;

    fn from_str(text: &str) -> Result<Self, TimeSpanError> {
        Self::parse(text).ok_or(TimeSpanError)
    }
}

impl std::fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let millis = self.0.as_millis();
        let (unit, size) = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)]
            .into_iter()
            .find(|(_, size)| millis >= *size && millis.is_multiple_of(*size))
            .unwrap_or(("ms", 1));
        write!(f, "{}{unit}", millis / size)
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Parses a number of tokens: `400000`, `400k`, `2m`.
#[must_use]
pub fn parse_tokens(text: &str) -> Option<u64> {
    let (number, unit) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1_000),
        (at, 'm' | 'M') => (&text[..at], 1_000_000),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_parse_and_print_in_the_same_form() {
        for text in ["30s", "15m", "2h", "1d", "90s", "1500ms"] {
            assert_eq!(TimeSpan::parse(text).map(|span| span.to_string()).as_deref(), Some(text));
        }
        for text in ["", "m", "0s", "-5m", "5分", "15", "1w", "99999999999999999d", "18446744073709551615h"] {
            assert_eq!(TimeSpan::parse(text), None, "{text}");
        }
    }

    #[test]
    fn tokens_take_a_thousand_suffix() {
        assert_eq!(parse_tokens("400k"), Some(400_000));
        assert_eq!(parse_tokens("12"), Some(12));
        assert_eq!(parse_tokens("k"), None);
        assert_eq!(parse_tokens("99999999999999999999m"), None);
    }

    #[test]
    fn money_refuses_nonsense() {
        assert_eq!(Usd::from_dollars(2.5), Some(Usd(2_500_000)));
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1.0e12] {
            assert_eq!(Usd::from_dollars(bad), None);
        }
    }
}
