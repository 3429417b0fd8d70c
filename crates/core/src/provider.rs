//! Trouble with a model provider, in words that are the same for every agent. Which words of which program mean what is the
//! adapters' to say; what a round does about it is [`crate::round`]'s.

use serde::{Deserialize, Serialize};

/// What kept an agent from its work, though its program ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderTrouble {
    /// What sort.
    pub kind: TroubleKind,
    /// The HTTP status, where one was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// When it may be tried again, in milliseconds since 1970, where the provider said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at_ms: Option<i64>,
    /// What was said, bounded and without secrets.
    pub text: String,
}

/// Sorts of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TroubleKind {
    /// The key or the sign-in is not accepted (401, 403).
    Auth,
    /// Too many requests for now (429, a subscription's limit until its reset).
    RateLimited,
    /// The account has no credit left; time alone does not help.
    Quota,
    /// The provider has too much to do (503, 529).
    Overloaded,
    /// The provider broke (other 5xx).
    Server,
    /// The provider was not reached, or the line was cut.
    Network,
    /// The conversation no longer fits into the model.
    Context,
    /// The model declined to answer.
    Declined,
    /// The request itself is wrong: an unknown model, an option that is gone.
    BadRequest,
    /// The agent ended without saying how it went.
    Unclear,
}

impl TroubleKind {
    /// Every sort.
    pub const ALL: [Self; 10] = [
        Self::Auth,
        Self::RateLimited,
        Self::Quota,
        Self::Overloaded,
        Self::Server,
        Self::Network,
        Self::Context,
        Self::Declined,
        Self::BadRequest,
        Self::Unclear,
    ];

    /// The word in reports and JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::RateLimited => "rate-limited",
            Self::Quota => "quota",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Network => "network",
            Self::Context => "context",
            Self::Declined => "declined",
            Self::BadRequest => "bad-request",
            Self::Unclear => "unclear",
        }
    }

    /// The sort that an HTTP status stands for, where nothing better is known.
    #[must_use]
    pub fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Auth,
            402 => Self::Quota,
            429 => Self::RateLimited,
            503 | 529 => Self::Overloaded,
            500.. => Self::Server,
            _ => Self::BadRequest,
        }
    }

    /// Whether time alone may cure it.
    #[must_use]
    pub fn passes(self) -> bool {
        match self {
            Self::RateLimited | Self::Overloaded | Self::Server | Self::Network => true,
            Self::Auth | Self::Quota | Self::Context | Self::Declined | Self::BadRequest | Self::Unclear => false,
        }
    }
}
