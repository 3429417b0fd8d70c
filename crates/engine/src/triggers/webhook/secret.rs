//! Secrets of webhooks: the one in use, and while it is changed the one before. They are never shown.

use super::signature::decode_base64;

/// Shorter ones can be guessed.
const LEAST: usize = 16;
/// Longer ones are a mistake.
const MOST: usize = 4096;

/// A source's secret.
#[derive(Clone)]
pub struct WebhookSecret {
    all: Vec<Vec<u8>>,
}

/// A text that is no secret; it is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a webhook's secret has 16 to 4096 bytes, and none of them is a line break inside it")]
pub struct BadSecret;

impl WebhookSecret {
    /// A secret, without the white space around it.
    ///
    /// # Errors
    /// When it is too short to be one.
    pub fn new(text: &str) -> Result<Self, BadSecret> {
        Ok(Self { all: vec![checked(text)?] })
    }

    /// The same, with the secret that was in use before: both are good while senders are changed over.
    ///
    /// # Errors
    /// When that is too short to be one.
    pub fn or_previous(mut self, text: &str) -> Result<Self, BadSecret> {
        self.all.push(checked(text)?);
        Ok(self)
    }

    /// The secrets as they are written.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.all.iter().map(Vec::as_slice)
    }

    /// The secrets as keys: one that says so is base64.
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
    // What counts is the key, not how it is written.
    let length = coded(text.as_bytes()).map_or(text.len(), |key| key.len());
    let is_good = (LEAST..=MOST).contains(&length) && !text.contains(['\n', '\r', '\0']);
    if is_good { Ok(text.as_bytes().to_vec()) } else { Err(BadSecret) }
}

impl std::fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret(***, {} in use)", self.all.len())
    }
}
