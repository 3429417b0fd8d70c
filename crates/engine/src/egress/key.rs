//! Secrets of the proxy: a provider's key, and the token that an agent sends instead. Neither can be printed by
//! accident.

use crate::random;
use hyper::header::HeaderValue;
use loopwright_core::hash;
use std::fmt;

/// The longest key.
const KEY_MAX: usize = 8 << 10;

/// A provider's key. Only the proxy can read it; nothing can print it.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderKey(Box<str>);

/// Why a text is not a key. The error does not contain the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key is empty, too long, or has a character that no header can carry")]
pub struct ProviderKeyError;

impl ProviderKey {
    /// A key as the user wrote it; surrounding spaces and line ends are dropped.
    ///
    /// # Errors
    /// When it is not valid in a header.
    pub fn new(text: &str) -> Result<Self, ProviderKeyError> {
        let text = text.trim();
        let usable = !text.is_empty() && text.len() <= KEY_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
        if usable { Ok(Self(text.into())) } else { Err(ProviderKeyError) }
    }

    /// The key of a provider that needs none: requests to it carry no key at all.
    #[must_use]
    pub fn keyless() -> Self {
        Self("".into())
    }

    /// Whether requests carry no key.
    pub(super) fn is_keyless(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes, to find them in answers; empty if there is no key.
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// A header value with a word before the key, marked as sensitive so that it is never printed.
    pub(super) fn header(&self, before: &str) -> HeaderValue {
        let text = format!("{before}{}", self.0);
        let mut value = HeaderValue::from_str(&text).expect("a key is made of visible ASCII");
        value.set_sensitive(true);
        value
    }
}

impl fmt::Debug for ProviderKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Key(…)")
    }
}

/// The token of one start.
pub(super) struct GrantToken(String);

impl GrantToken {
    pub(super) fn new() -> Result<Self, std::io::Error> {
        let bytes = random::bytes::<32>().map_err(std::io::Error::other)?;
        Ok(Self(format!("lw-{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Whether this is the token. All bytes of the hashes are compared, so that the time reveals nothing about the
    /// token.
    pub(super) fn matches(&self, shown: &[u8]) -> bool {
        let (ours, theirs) = (hash::hash_bytes(self.0.as_bytes()), hash::hash_bytes(shown));
        ours.bytes().zip(theirs.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }
}

impl fmt::Debug for GrantToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_a_token_are_never_printed() {
        let key = ProviderKey::new(" sk-secret-7\n").expect("a key");
        assert_eq!(format!("{key:?} {:?}", key.header("Bearer ")), "Key(…) Sensitive");
        assert_eq!(key.bytes(), b"sk-secret-7");
        let token = GrantToken::new().expect("a token");
        assert!(!format!("{token:?}").contains(token.text()));
    }

    #[test]
    fn text_that_no_header_can_carry_is_not_a_key() {
        for text in ["", "  ", "a b", "a\r\nb", "schlüssel", &"x".repeat(KEY_MAX + 1)] {
            assert_eq!(ProviderKey::new(text), Err(ProviderKeyError));
        }
    }

    #[test]
    fn only_the_token_itself_is_the_token() {
        let token = GrantToken::new().expect("a token");
        assert!(token.matches(token.text().as_bytes()));
        assert!(!token.matches(&token.text().as_bytes()[1..]) && !token.matches(b"") && !token.matches(b"lw-"));
    }
}
