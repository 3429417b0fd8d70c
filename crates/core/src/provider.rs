//! Problems with a model provider, in the same words for every agent. [`judge_exchanges`] finds them in what the proxy
//! saw; the adapters also map the messages of each program to them. [`crate::round`] decides how a round reacts.

mod classify;
mod exchange;
mod judge;
mod reset;
mod retry;

use crate::words::worded;
pub use exchange::{ExchangeEnd, ProviderExchange};
pub use judge::{AgentStop, is_hopeless, judge_exchanges};
pub use reset::{find_reset, is_plausible_reset};
pub use retry::RetryHeaders;

use classify::QuotaRecovery;
use serde::{Deserialize, Serialize};

/// The length limit of the kept message, in characters.
const TEXT_MAX: usize = 500;

/// A problem that kept an agent from working although its program ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderTrouble {
    /// The kind of the problem.
    pub kind: TroubleKind,
    /// The HTTP status, if reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The time from which a retry may succeed, in milliseconds since 1970, if the provider reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at_ms: Option<i64>,
    /// The message, truncated and without secrets.
    pub text: String,
}

impl ProviderTrouble {
    /// Classifies a problem from the report of an agent's program: a status, if it gave one, and a message. A status or
    /// a time of recovery in the message also counts.
    #[must_use]
    pub fn classify(status: Option<u16>, text: &str, now_ms: i64) -> Self {
        let status = status.or_else(|| classify::find_status(text));
        let retry_at_ms = find_reset(text, now_ms);
        let opens = if retry_at_ms.is_some() { QuotaRecovery::Later } else { QuotaRecovery::Never };
        Self { retry_at_ms, ..Self::new(classify::classify_text(status, text, opens), status, text) }
    }

    /// A problem of a known kind.
    #[must_use]
    pub fn new(kind: TroubleKind, status: Option<u16>, text: &str) -> Self {
        let text = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT_MAX).collect();
        Self { kind, status, retry_at_ms: None, text }
    }
}

worded! {
    /// Kinds of provider problems.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum TroubleKind {
        /// The key or the sign-in is not accepted (401, 403).
        Auth = "auth",
        /// Too many requests for now (429, a subscription's limit until its reset).
        RateLimited = "rate-limited",
        /// The account has no credit left; time alone does not help.
        Quota = "quota",
        /// The provider is overloaded (503, 529).
        Overloaded = "overloaded",
        /// The provider failed (other 5xx).
        Server = "server",
        /// The provider could not be reached, or the connection was interrupted.
        Network = "network",
        /// The conversation no longer fits into the model.
        Context = "context",
        /// The model declined to answer.
        Declined = "declined",
        /// The request itself is invalid: an unknown model, a removed option.
        BadRequest = "bad-request",
        /// The agent ended without reporting a result.
        Unclear = "unclear",
    }
}

impl TroubleKind {
    /// The kind for an HTTP status, if nothing better is known.
    #[must_use]
    pub fn from_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Auth,
            402 => Self::Quota,
            408 => Self::Network,
            429 => Self::RateLimited,
            503 | 529 => Self::Overloaded,
            500.. => Self::Server,
            _ => Self::BadRequest,
        }
    }

    /// The remedy for a person, if waiting does not help.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::Auth => {
                "fix the provider's key or sign in again: `loopwright doctor` shows which variable or sign-in"
            }
            Self::Quota => "the account needs credit, or name another agent under `fallback`",
            Self::Context => "reduce the loop's context and task, or set `model` to one with a larger context",
            Self::Declined => "check the loop's task: the model declines it; or name another agent under `fallback`",
            Self::BadRequest => "check the loop's `model`: the provider does not know the model or the option",
            Self::Unclear => "`loopwright logs` shows the agent's output",
            Self::RateLimited | Self::Overloaded | Self::Server | Self::Network => {
                "the problem may be temporary: try again"
            }
        }
    }

    /// The wait before retry number `again` (from zero) if the provider gave none, in milliseconds.
    #[must_use]
    pub fn back_off_ms(self, again: u32) -> u64 {
        let steps: [u64; 5] = match self {
            Self::RateLimited => [60, 120, 300, 600, 900],
            _ => [5, 20, 60, 120, 300],
        };
        steps[usize::try_from(again).unwrap_or(usize::MAX).min(steps.len() - 1)] * 1000
    }

    /// Whether waiting alone may help.
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
    fn problem_is_classified_by_its_status_and_by_its_message() {
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
        for (status, text, kind, expected_status) in cases {
            let heard = ProviderTrouble::classify(status, text, 1_794_762_000_000);
            assert_eq!((heard.kind, heard.status), (kind, expected_status), "{text}");
        }
    }

    #[test]
    fn message_is_truncated_and_on_one_line() {
        let long = format!("a\nb\x1b[31m{}", "x".repeat(9000));
        let heard = ProviderTrouble::classify(None, &long, 0);
        assert_eq!(heard.text.chars().count(), TEXT_MAX);
        assert!(!heard.text.chars().any(char::is_control));
    }
}
