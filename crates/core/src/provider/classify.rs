//! Classifies error messages of providers and programs if no status is better. Providers reword the same error from
//! month to month, so this file searches for phrases that have been stable, and classifies everything else as unclear.

use super::TroubleKind;

const CONTEXT: &str = "prompt is too long|prompt too long|context_length_exceeded|context length|context window|\
    maximum context|input is too long|input token count|request too large";

/// Waiting does not help.
const QUOTA: &str = "insufficient_quota|credit balance|billing_hard_limit|out of credits|payment required";

/// Used both for an empty account and for a limit that resets.
const QUOTA_OR_WINDOW: &str = "exceeded your current quota|quota exceeded|billing details";

/// In this order: the first list with a phrase in the text decides.
const WORDS: [(TroubleKind, &str); 7] = [
    (
        TroubleKind::RateLimited,
        "rate limit|rate_limit|too many requests|usage limit|usage_limit|hit your limit|limit reached|\
        resource_exhausted|exhausted your|throttlingexception",
    ),
    (TroubleKind::Overloaded, "overloaded|high demand|at capacity|service unavailable"),
    (
        TroubleKind::Auth,
        "unauthorized|invalid api key|invalid x-api-key|incorrect api key|api key not valid|authentication|\
        not logged in|please run /login|permission_error",
    ),
    (TroubleKind::Declined, "content policy|usage policy|content filter|content_filter|declined to"),
    (TroubleKind::BadRequest, "invalid_request|not_found_error|model not found|unknown model"),
    (TroubleKind::Server, "internal server error|api_error|internal error"),
    (
        TroubleKind::Network,
        "connection refused|connection reset|connection error|connection closed|connectionrefused|econnrefused|\
        econnreset|enotfound|etimedout|unable to connect|fetch failed|socket hang up|stream disconnected|\
        error sending request|network error|timed out|dns error",
    ),
];

/// Words that precede an HTTP status in the messages of programs.
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

/// The kind of problem for a status and a message. `opens` states whether the message names a time of recovery.
pub(super) fn classify_text(status: Option<u16>, text: &str, opens: QuotaRecovery) -> TroubleKind {
    let text = text.to_ascii_lowercase();
    let has = |words: &str| words.split('|').any(|word| text.contains(word));
    if has(CONTEXT) {
        return TroubleKind::Context;
    }
    if has(QUOTA) || (has(QUOTA_OR_WINDOW) && opens == QuotaRecovery::Never) {
        return TroubleKind::Quota;
    }
    let said = || WORDS.iter().find(|(_, words)| has(words)).map_or(TroubleKind::Unclear, |(kind, _)| *kind);
    status.map_or_else(said, TroubleKind::from_status)
}

/// Whether a message names a time of recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuotaRecovery {
    Later,
    Never,
}

/// The HTTP status in a message.
pub(super) fn find_status(text: &str) -> Option<u16> {
    let text = text.to_ascii_lowercase();
    let after = |word: &&str| text.find(*word).and_then(|at| leading(text[at + word.len()..].trim_start()));
    BEFORE_STATUS.iter().find_map(after).or_else(|| leading(&text))
}

/// Exactly three digits of an error status.
fn leading(text: &str) -> Option<u16> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text.get(..3).filter(|_| digits == 3)?.parse().ok()?;
    (400..600).contains(&number).then_some(number)
}
