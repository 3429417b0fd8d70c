//! Trouble with a model provider, in words that are the same for every agent. Which words of which program mean what is the
//! adapters' to say; what a round does about it is [`crate::round`]'s.

mod classify;
mod reset;

use crate::words::worded;
pub use reset::{find_reset, is_plausible_reset};

use classify::QuotaRecovery;
use serde::{Deserialize, Serialize};

/// Characters of what was said that are kept.
const TEXT_MAX: usize = 500;

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

impl ProviderTrouble {
    /// Trouble from what an agent's program said of it: a status where it gave one, and words. A status that only the words
    /// name counts as well, and so does a time of recovery.
    #[must_use]
    pub fn classify(status: Option<u16>, text: &str, now_ms: i64) -> Self {
        let status = status.or_else(|| classify::find_status(text));
        let retry_at_ms = find_reset(text, now_ms);
        let opens = if retry_at_ms.is_some() { QuotaRecovery::Later } else { QuotaRecovery::Never };
        Self { retry_at_ms, ..Self::new(classify::classify_text(status, text, opens), status, text) }
    }

    /// Trouble whose sort is known.
    #[must_use]
    pub fn new(kind: TroubleKind, status: Option<u16>, text: &str) -> Self {
        let text = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT_MAX).collect();
        Self { kind, status, retry_at_ms: None, text }
    }
}

worded! {
    /// Sorts of trouble.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum TroubleKind {
        /// The key or the sign-in is not accepted (401, 403).
        Auth = "auth",
        /// Too many requests for now (429, a subscription's limit until its reset).
        RateLimited = "rate-limited",
        /// The account has no credit left; time alone does not help.
        Quota = "quota",
        /// The provider has too much to do (503, 529).
        Overloaded = "overloaded",
        /// The provider broke (other 5xx).
        Server = "server",
        /// The provider was not reached, or the line was cut.
        Network = "network",
        /// The conversation no longer fits into the model.
        Context = "context",
        /// The model declined to answer.
        Declined = "declined",
        /// The request itself is wrong: an unknown model, an option that is gone.
        BadRequest = "bad-request",
        /// The agent ended without saying how it went.
        Unclear = "unclear",
    }
}

impl TroubleKind {
    /// The sort that an HTTP status stands for, where nothing better is known.
    #[must_use]
    pub fn from_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Auth,
            402 => Self::Quota,
            429 => Self::RateLimited,
            503 | 529 => Self::Overloaded,
            500.. => Self::Server,
            _ => Self::BadRequest,
        }
    }

    /// What a person can do about it, where time does not help.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::Auth => {
                "mend the provider's key or sign in again: `loopwright doctor` says which variable or sign-in"
            }
            Self::Quota => "the account needs credit, or name another agent under `fallback`",
            Self::Context => "let the loop show and ask for less, or name a model that holds more under `fallback`",
            Self::Declined => "look at what the loop asks for: the model will not do it",
            Self::BadRequest => "look at the loop's `model`: the provider does not know it, or not this option",
            Self::Unclear => "`loopwright logs` has what the agent printed",
            Self::RateLimited | Self::Overloaded | Self::Server | Self::Network => "it may pass by itself: try again",
        }
    }

    /// How long to stay away before try number `again` (from zero) where the provider did not say, in milliseconds.
    #[must_use]
    pub fn back_off_ms(self, again: u32) -> u64 {
        let steps: [u64; 5] = match self {
            Self::RateLimited => [60, 120, 300, 600, 900],
            _ => [5, 20, 60, 120, 300],
        };
        steps[usize::try_from(again).unwrap_or(usize::MAX).min(steps.len() - 1)] * 1000
    }

    /// Whether time alone may cure it.
    #[must_use]
    pub fn is_temporary(self) -> bool {
        match self {
            Self::RateLimited | Self::Overloaded | Self::Server | Self::Network => true,
            Self::Auth | Self::Quota | Self::Context | Self::Declined | Self::BadRequest | Self::Unclear => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_known_by_its_status_and_by_its_words() {
        use TroubleKind as Kind;
        let cases = [
            (Some(401), "API Error: 401", Kind::Auth, Some(401)),
            (Some(403), "forbidden", Kind::Auth, Some(403)),
            (Some(429), "slow down", Kind::RateLimited, Some(429)),
            (Some(529), "Overloaded", Kind::Overloaded, Some(529)),
            (Some(500), "boom", Kind::Server, Some(500)),
            (Some(404), "model: x", Kind::BadRequest, Some(404)),
            (Some(400), "Your credit balance is too low to access the API", Kind::Quota, Some(400)),
            (Some(400), "prompt is too long: 210000 tokens > 200000 maximum", Kind::Context, Some(400)),
            (Some(429), "You exceeded your current quota, please check your plan", Kind::Quota, Some(429)),
            (Some(429), "You exceeded your current quota. Please retry in 20s.", Kind::RateLimited, Some(429)),
            (None, "unexpected status 401 Unauthorized: {}", Kind::Auth, Some(401)),
            (None, "exceeded retry limit, last status: 429 Too Many Requests", Kind::RateLimited, Some(429)),
            (None, "We're currently experiencing high demand", Kind::Overloaded, None),
            (None, "You've hit your usage limit. Try again at 5:15 PM.", Kind::RateLimited, None),
            (None, "503: busy", Kind::Overloaded, Some(503)),
            (None, "4294 things", Kind::Unclear, None),
            (None, "Unable to connect to API (ConnectionRefused)", Kind::Network, None),
            (None, "Invalid API key · Please run /login", Kind::Auth, None),
            (None, "{\"code\":\"insufficient_quota\"}", Kind::Quota, None),
            (None, "something else", Kind::Unclear, None),
        ];
        for (status, text, kind, told) in cases {
            let heard = ProviderTrouble::classify(status, text, 1_794_762_000_000);
            assert_eq!((heard.kind, heard.status), (kind, told), "{text}");
        }
    }

    #[test]
    fn what_was_said_is_bounded_and_on_one_line() {
        let long = format!("a\nb\x1b[31m{}", "x".repeat(9000));
        let heard = ProviderTrouble::classify(None, &long, 0);
        assert_eq!(heard.text.chars().count(), TEXT_MAX);
        assert!(!heard.text.chars().any(char::is_control));
    }
}
