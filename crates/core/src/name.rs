//! Names that are safe as a path, as a git ref and on a screen: only these types build paths, refs and table rows.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest name.
const NAME_MAX: usize = 64;

/// The reason why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct NameError {
    reason: String,
}

fn no<T>(reason: impl Into<String>) -> Result<T, NameError> {
    Err(NameError { reason: reason.into() })
}

/// A loop's name: lower-case letters, digits, `-`, `_` and `.`, starting with a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct LoopName(String);

impl LoopName {
    /// Accepts a name that can be trusted as a path and as a ref.
    ///
    /// # Errors
    /// The rule that the text violates.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        check_length(text)?;
        if let Some(bad) = text.chars().find(|c| !(c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(*c)))
        {
            return no(bad_character(bad, "lower-case letters, digits, `-`, `_` and `.`"));
        }
        if !text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()) {
            return no("a name starts with a letter or a digit");
        }
        check_shape(text)?;
        Ok(Self(text.to_owned()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a file system that ignores case would treat both names as one.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl fmt::Display for LoopName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for LoopName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for LoopName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Checks the name of a gate, a dimension or another part of a loop, which may also have capitals and inner spaces.
///
/// # Errors
/// The rule that the text violates.
pub fn check_part_name(text: &str) -> Result<(), NameError> {
    check_length(text)?;
    if let Some(bad) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || "-_. ".contains(*c))) {
        return no(bad_character(bad, "letters, digits, `-`, `_`, `.` and spaces"));
    }
    if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) || text.ends_with(' ') {
        return no("a name starts with a letter or a digit and does not end in a space");
    }
    check_shape(text)
}

fn check_length(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return no("a name has at least one character");
    }
    let count = text.chars().take(NAME_MAX + 1).count();
    if count > NAME_MAX { no(format!("a name has at most {NAME_MAX} characters")) } else { Ok(()) }
}

fn bad_character(bad: char, allowed: &str) -> String {
    if bad.is_ascii_graphic() {
        return format!("`{bad}` is not allowed in a name; use {allowed}");
    }
    // Lookalike letters are shown by number, because showing them would mislead.
    format!("character U+{:04X} is not allowed in a name; use {allowed}", u32::from(bad))
}

/// Rules of git refs and of file systems that reserve names.
fn check_shape(text: &str) -> Result<(), NameError> {
    if text.contains("..") {
        return no("a name has no `..`");
    }
    if text.ends_with(".lock") || text.ends_with('.') || text.ends_with('-') {
        return no("a name does not end in `.lock`, `.` or `-`");
    }
    let stem = text.split('.').next().unwrap_or(text).to_ascii_lowercase();
    if is_device(&stem) { no(format!("`{stem}` is a device name on some systems")) } else { Ok(()) }
}

fn is_device(stem: &str) -> bool {
    let numbered = |prefix: &str| {
        stem.strip_prefix(prefix).is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    matches!(stem, "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

/// The digits of Crockford's base 32, lower case: no `i`, `l`, `o`, `u`.
const BASE32: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// The number of digits of an id: fifty random bits, so that among a million rounds two are equal once in two thousand.
const ID_DIGITS: usize = 10;
/// Earlier builds wrote ten digits of the time first, so that all ids of a day began alike.
const OLD_ID_DIGITS: usize = 20;

/// A round's identity: `r` and ten random digits, of which the first few usually suffice. Safe as a path and as a ref.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct RoundId(String);

impl RoundId {
    /// Makes an id from random bytes, of which the first fifty bits count.
    #[must_use]
    pub fn new(random: [u8; 8]) -> Self {
        let bits = u64::from_be_bytes(random) >> 14;
        Self(format!("r{}", base32(bits, ID_DIGITS)))
    }

    /// Accepts text that [`RoundId::new`] of this build or an earlier one could have made.
    ///
    /// # Errors
    /// If it could not.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let digits = text.strip_prefix('r').unwrap_or_default();
        let has_length = matches!(digits.len(), ID_DIGITS | OLD_ID_DIGITS);
        let fits = has_length && digits.bytes().all(|byte| BASE32.contains(&byte));
        if fits { Ok(Self(text.to_owned())) } else { no("a round id is `r` and ten digits or letters") }
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn base32(number: u64, digits: usize) -> String {
    let digit = |at: usize| char::from(BASE32[(number >> (5 * (digits - 1 - at)) & 31) as usize]);
    (0..digits).map(digit).collect()
}

impl fmt::Display for RoundId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for RoundId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for RoundId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_tricks_and_lookalikes_are_not_names() {
        let long = "a".repeat(300);
        for bad in [
            "",
            "../../etc",
            "-rf",
            "con",
            "CON",
            "nul.txt",
            "com1",
            "a/b",
            "a\\b",
            "a\0b",
            "a b",
            "ci\u{202e}repeews",
            "\u{441}i-sweeper",
            "a..b",
            "a.lock",
            "a.",
            "a-",
            ".a",
            "_a",
            "A",
            "a:b",
            "a~1",
            "a^",
            "a*",
            "a?",
            "a[",
            "a@{b",
            "ä",
            &long,
        ] {
            assert!(LoopName::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "ci-sweeper", "daily_triage", "v1.2", "0day", "console", "com10", &"a".repeat(64)] {
            assert!(LoopName::parse(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn part_names_may_have_spaces_inside() {
        assert!(check_part_name("Unit tests").is_ok());
        for bad in ["", " a", "a ", "a/b", "nul", "a..b", "ü"] {
            assert!(check_part_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn round_ids_are_short_and_parse_back() {
        let id = RoundId::new([0xff; 8]);
        assert_eq!(id.as_str(), "rzzzzzzzzzz");
        assert_eq!(RoundId::parse(id.as_str()), Ok(id));
        assert_ne!(RoundId::new([1; 8]), RoundId::new([2; 8]));
        assert!(RoundId::parse("r01m7qbv5pted0dma8254").is_ok(), "ids of earlier builds stay valid");
        for bad in ["", "r", "r0000000000000000000i", "x00000000000000000000", "r../../0000000000000"] {
            assert!(RoundId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
