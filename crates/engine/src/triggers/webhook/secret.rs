//! Secrets of webhooks: the current one and, during a rotation, the previous one. They are never shown.

use super::signature::decode_base64;

/// Shorter secrets can be guessed.
const LEAST: usize = 16;
/// Longer secrets are a mistake.
const MOST: usize = 4096;

/// A source's secret.
#[derive(Clone)]
pub struct WebhookSecret {
    all: Vec<Vec<u8>>,
}

/// A text that is not a valid secret; it is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a webhook's secret has 16 to 4096 bytes and no line break inside it")]
pub struct BadSecret;

impl WebhookSecret {
    /// A secret, without surrounding white space.
    ///
    /// # Errors
    /// When it is too short or too long, or has a line break.
    pub fn new(text: &str) -> Result<Self, BadSecret> {
        Ok(Self { all: vec![checked(text)?] })
    }

    /// Adds the previous secret: both are valid while senders change over.
    ///
    /// # Errors
    /// When that is too short or too long, or has a line break.
    pub fn or_previous(mut self, text: &str) -> Result<Self, BadSecret> {
        self.all.push(checked(text)?);
        Ok(self)
    }

    /// The secrets as they are written.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.all.iter().map(Vec::as_slice)
    }

    /// The secrets as keys; a secret with the base64 prefix is decoded.
    pub(super) fn keys(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        self.all.iter().map(|text| coded(text).unwrap_or_else(|| text.clone()))
    }
}

/// The key in a secret that is base64.
fn coded(text: &[u8]) -> Option<Vec<u8>> {
    text.strip_prefix(b"whsec_").and_then(decode_base64)
}

fn checked(text: &str) -> Result<Vec<u8>, BadSecret> {
    let text = text.trim();
    // The length of the key counts, not of its encoding.
    let length = coded(text.as_bytes()).map_or(text.len(), |key| key.len());
    let is_good = (LEAST..=MOST).contains(&length) && !text.contains(['\n', '\r', '\0']);
    if is_good { Ok(text.as_bytes().to_vec()) } else { Err(BadSecret) }
}

impl std::fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret(***, {} in use)", self.all.len())
    }
}
