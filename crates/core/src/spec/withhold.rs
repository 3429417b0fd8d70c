//! The tests that a round withholds from its maker and its checker.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// The share of tests that an unattended loop withholds by default, in percent.
pub const WITHHELD_DEFAULT: u8 = 20;

/// The tests that are absent while the maker and the checker work: a share such as `20%`, patterns of paths, or `off`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum WithholdRule {
    /// A share of the tests.
    #[serde(serialize_with = "percent")]
    Share(#[schemars(with = "String")] u8),
    /// Patterns of paths.
    Globs(Vec<String>),
    /// No tests.
    Off(WithholdOff),
}

/// The word `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WithholdOff {
    /// No test is withheld.
    Off,
}

fn percent<S: Serializer>(share: &u8, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&format!("{share}%"))
}

impl WithholdRule {
    /// Parses `20%`; from 1 to 90.
    pub(crate) fn parse_share(text: &str) -> Option<Self> {
        let share: u8 = text.strip_suffix('%')?.trim().parse().ok()?;
        (1..=90).contains(&share).then_some(Self::Share(share))
    }
}
