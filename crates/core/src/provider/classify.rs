//! What a provider's or a program's words about trouble mean, where no status says it better. Providers word the same thing
//! differently from month to month, so this looks for what has been stable, and calls everything else unclear.

use super::TroubleKind;

const CONTEXT: [&str; 9] = [
    "prompt is too long",
    "prompt too long",
    "context_length_exceeded",
    "context length",
    "context window",
    "maximum context",
    "input is too long",
    "input token count",
    "request too large",
];

/// No amount of waiting helps.
const QUOTA: [&str; 5] =
    ["insufficient_quota", "credit balance", "billing_hard_limit", "out of credits", "payment required"];

/// Said both of an empty account and of a window that opens again.
const QUOTA_OR_WINDOW: [&str; 3] = ["exceeded your current quota", "quota exceeded", "billing details"];

/// In this order: the first list that has a word of the text decides.
const WORDS: [(TroubleKind, &[&str]); 7] = [
    (
        TroubleKind::RateLimited,
        &[
            "rate limit",
            "rate_limit",
            "too many requests",
            "usage limit",
            "usage_limit",
            "hit your limit",
            "limit reached",
            "resource_exhausted",
            "exhausted your",
        ],
    ),
    (TroubleKind::Overloaded, &["overloaded", "high demand", "at capacity", "service unavailable"]),
    (
        TroubleKind::Auth,
        &[
            "unauthorized",
            "invalid api key",
            "invalid x-api-key",
            "incorrect api key",
            "api key not valid",
            "authentication",
            "not logged in",
            "please run /login",
            "permission_error",
        ],
    ),
    (TroubleKind::Declined, &["content policy", "usage policy", "content filter", "content_filter", "declined to"]),
    (TroubleKind::BadRequest, &["invalid_request", "not_found_error", "model not found", "unknown model"]),
    (TroubleKind::Server, &["internal server error", "api_error", "internal error"]),
    (
        TroubleKind::Network,
        &[
            "connection refused",
            "connection reset",
            "connection error",
            "connection closed",
            "connectionrefused",
            "econnrefused",
            "econnreset",
            "enotfound",
            "etimedout",
            "unable to connect",
            "fetch failed",
            "socket hang up",
            "stream disconnected",
            "error sending request",
            "network error",
            "timed out",
            "dns error",
        ],
    ),
];

/// What stands before an HTTP status in the words of programs.
const BEFORE_STATUS: [&str; 8] = [
    "unexpected status ",
    "last status: ",
    "status code: ",
    "status code ",
    "statuscode\":",
    "api error: ",
    "\"code\":",
    "http ",
];

/// The sort of trouble that a status and words stand for. `opens` says whether the words name a time of recovery.
pub(super) fn classify_text(status: Option<u16>, text: &str, opens: QuotaRecovery) -> TroubleKind {
    let text = text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&CONTEXT) {
        return TroubleKind::Context;
    }
    if has(&QUOTA) || (has(&QUOTA_OR_WINDOW) && opens == QuotaRecovery::Never) {
        return TroubleKind::Quota;
    }
    let said = || WORDS.iter().find(|(_, words)| has(words)).map_or(TroubleKind::Unclear, |(kind, _)| *kind);
    status.map_or_else(said, TroubleKind::from_status)
}

/// Whether words name a time of recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuotaRecovery {
    Later,
    Never,
}

/// The HTTP status that is named in words.
pub(super) fn find_status(text: &str) -> Option<u16> {
    let text = text.to_ascii_lowercase();
    let after = |word: &&str| text.find(*word).and_then(|at| leading(text[at + word.len()..].trim_start()));
    BEFORE_STATUS.iter().find_map(after).or_else(|| leading(&text))
}

/// Three digits of an error status, and no fourth.
fn leading(text: &str) -> Option<u16> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text.get(..3).filter(|_| digits == 3)?.parse().ok()?;
    (400..600).contains(&number).then_some(number)
}
