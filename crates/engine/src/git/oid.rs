//! Object names: the one type for commit, tree and blob hashes. It checks only the spelling; the repository knows
//! whether an object exists.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A full object name in lower-case hex, SHA-1 (40 digits) or SHA-256 (64 digits).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

/// The text was not a full object name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an object name: `{0}`")]
pub struct BadOid(String);

impl Oid {
    /// The hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Git's "no such object" of the same length, used in leases for "must not exist yet".
    pub(crate) fn zero_like(&self) -> String {
        "0".repeat(self.0.len())
    }

    /// Builds an object name from the raw bytes of an index entry.
    pub(crate) fn from_raw(raw: &[u8]) -> Self {
        Self(raw.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl FromStr for Oid {
    type Err = BadOid;

    fn from_str(text: &str) -> Result<Self, BadOid> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if matches!(text.len(), 40 | 64) && text.bytes().all(hex) {
            return Ok(Self(text.to_owned()));
        }
        Err(BadOid(text.chars().take(80).collect()))
    }
}

impl TryFrom<String> for Oid {
    type Error = BadOid;

    fn try_from(text: String) -> Result<Self, BadOid> {
        text.parse()
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> Self {
        oid.0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_lower_case_hex_is_an_object_name() {
        let sha1 = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(sha1.parse::<Oid>().map(String::from).as_deref(), Ok(sha1));
        assert!("f".repeat(64).parse::<Oid>().is_ok());
        for bad in ["", "HEAD", "0123", &"F".repeat(40), &"g".repeat(40), "--all", &"a".repeat(41)] {
            assert!(bad.parse::<Oid>().is_err(), "{bad}");
        }
    }
}
