//! One exchange with a model provider, as the proxy saw it. The proxy fills it in; [`super::judge`] decides what it
//! means. It holds no content of the conversation, except the provider's own error message.

use super::retry::RetryHeaders;
use crate::budget::Tokens;
use crate::words::worded;
use serde::{Deserialize, Serialize};

/// The longest error message that is kept, in characters.
const ERROR_MAX: usize = 500;

worded! {
    /// How an exchange ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum ExchangeEnd {
        /// The answer was received completely, with the end that its protocol demands.
        Complete = "complete",
        /// The answer stopped before its end.
        Cut = "cut",
        /// No byte of the answer came within the provider's limit.
        NoFirstByte = "no-first-byte",
        /// The answer started, and then no byte came within the provider's limit.
        Stalled = "stalled",
        /// An HTML page came in the place of an answer.
        Page = "page",
        /// The answer is not in any known format.
        Malformed = "malformed",
        /// The answer was empty.
        Empty = "empty",
        /// The provider could not be reached, or closed the connection without an answer.
        Unreachable = "unreachable",
        /// The agent ended the exchange before its end, or ended itself.
        Left = "left",
    }
}

/// One request to a provider, and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderExchange {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The model that the request named; empty if it named none.
    pub asked_model: String,
    /// The model that the answer named; empty if it named none.
    pub answered_model: String,
    /// The request offers tools. Agents also send requests without tools beside their work, such as for a title.
    pub has_tools: bool,
    /// The HTTP status; `None` if no head of an answer came.
    pub status: Option<u16>,
    /// The headers that name times.
    pub headers: RetryHeaders,
    /// The reason for which the model stopped, in the provider's word.
    pub finish: Option<String>,
    /// The usage that the answer reported, if it reported any.
    pub usage: Option<Tokens>,
    /// How it ended.
    pub end: ExchangeEnd,
    /// The time from the request to the first byte of the answer, in milliseconds.
    pub first_byte_ms: Option<u64>,
    /// The time without a byte at the end of the exchange, in milliseconds.
    pub silent_ms: u64,
    /// The time since the end of the exchange, in milliseconds.
    pub age_ms: u64,
    /// Bytes of the request's body.
    pub sent_bytes: u64,
    /// Bytes of the answer's body.
    pub received_bytes: u64,
    /// The provider's error message; empty if it sent none.
    pub error: String,
}

impl ProviderExchange {
    /// An exchange that has just started.
    #[must_use]
    pub fn new(provider: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            asked_model: String::new(),
            answered_model: String::new(),
            has_tools: false,
            status: None,
            headers: RetryHeaders::default(),
            finish: None,
            usage: None,
            end: ExchangeEnd::Left,
            first_byte_ms: None,
            silent_ms: 0,
            age_ms: 0,
            sent_bytes: 0,
            received_bytes: 0,
            error: String::new(),
        }
    }

    /// Keeps the beginning of the provider's error message.
    pub fn set_error(&mut self, text: &str) {
        self.error = text.trim().chars().take(ERROR_MAX).collect();
    }

    /// Whether the provider accepted the request.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    /// Whether the provider was silent for longer than its limits allow.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        matches!(self.end, ExchangeEnd::NoFirstByte | ExchangeEnd::Stalled)
    }
}
