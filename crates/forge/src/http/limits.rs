//! Rate limits in the headers of GitHub, GitLab, Gitea and Slack.

use super::HttpAnswer;

/// The wait after a limit that names no time; GitHub asks for at least a minute.
const DEFAULT_WAIT_MS: i64 = 60_000;
/// No limit is longer than a day; a larger number is a mistake of the server.
const WAIT_MAX_MS: i64 = 24 * 3_600_000;

/// The end of the rate limit that an answer reports; `None` if it reports no limit.
pub(crate) fn retry_at(answer: &HttpAnswer, now_ms: i64) -> Option<i64> {
    let limited = match answer.status {
        429 => true,
        // GitHub reports both of its limits as 403, which also means a missing permission.
        403 => {
            answer.header("retry-after").is_some()
                || answer.header("x-ratelimit-remaining") == Some("0")
                || says_limited(&answer.body)
        }
        _ => false,
    };
    limited.then(|| at(answer, now_ms).unwrap_or(now_ms + DEFAULT_WAIT_MS).clamp(now_ms, now_ms + WAIT_MAX_MS))
}

/// Until when an answer asks for no further request: a rate limit, or an unavailable server that names a time.
pub(crate) fn pause_until(answer: &HttpAnswer, now_ms: i64) -> Option<i64> {
    let unavailable = || {
        let after = answer.header("retry-after").filter(|_| answer.status == 503)?;
        seconds_or_date(after, now_ms).map(|at| at.clamp(now_ms, now_ms + WAIT_MAX_MS))
    };
    retry_at(answer, now_ms).or_else(unavailable)
}

fn says_limited(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body.get(..4096).unwrap_or(body)).to_lowercase();
    text.contains("secondary rate limit") || text.contains("abuse detection") || text.contains("rate limit exceeded")
}

fn at(answer: &HttpAnswer, now_ms: i64) -> Option<i64> {
    let after = answer.header("retry-after").and_then(|text| seconds_or_date(text, now_ms));
    let reset = || {
        let names = ["x-ratelimit-reset", "ratelimit-reset"];
        names.into_iter().find_map(|name| answer.header(name)).and_then(|text| reset_time(text, now_ms))
    };
    after.or_else(reset)
}

/// The time that `Retry-After` names: a number of seconds, or a date.
fn seconds_or_date(text: &str, now_ms: i64) -> Option<i64> {
    let text = text.trim();
    match text.parse::<i64>() {
        Ok(seconds) => Some(now_ms.saturating_add(seconds.max(0).saturating_mul(1000))),
        Err(_) => {
            let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
            Some(date.as_millisecond())
        }
    }
}

/// A reset time: seconds since 1970, or, in the newer header, seconds from now.
fn reset_time(text: &str, now_ms: i64) -> Option<i64> {
    const A_YEAR_SECS: i64 = 366 * 24 * 3600;
    let seconds: i64 = text.trim().parse().ok()?;
    let base_ms = if seconds < A_YEAR_SECS { now_ms } else { 0 };
    // A whole second is added, because the limit ends during that second.
    Some(base_ms.saturating_add(seconds.saturating_add(1).saturating_mul(1000)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};

    const NOW: i64 = 1_700_000_000_000;

    fn wait(status: u16, headers: &[(&'static str, &str)], body: &str) -> Option<i64> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"));
        }
        let answer = HttpAnswer { status, headers: map, body: body.to_owned().into() };
        retry_at(&answer, NOW).map(|at| (at - NOW) / 1000)
    }

    #[test]
    fn every_form_of_a_limit_is_read() {
        assert_eq!(wait(429, &[("retry-after", "7")], ""), Some(7));
        assert_eq!(wait(429, &[("retry-after", "Tue, 14 Nov 2023 22:13:30 GMT")], ""), Some(10));
        assert_eq!(wait(429, &[], ""), Some(60));
        assert_eq!(wait(429, &[("retry-after", "nonsense")], ""), Some(60));
        assert_eq!(wait(429, &[("retry-after", "99999999999")], ""), Some(24 * 3600));
        assert_eq!(wait(429, &[("ratelimit-reset", "1700000020")], ""), Some(21));
        assert_eq!(wait(429, &[("ratelimit-reset", "20")], ""), Some(21));
        let exhausted = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1700000030")];
        assert_eq!(wait(403, &exhausted, ""), Some(31));
        assert_eq!(wait(403, &[], r#"{"message":"You have exceeded a secondary rate limit."}"#), Some(60));
    }

    #[test]
    fn a_missing_permission_is_not_a_limit() {
        let remaining = [("x-ratelimit-remaining", "4999"), ("x-ratelimit-reset", "1700000030")];
        assert_eq!(wait(403, &remaining, r#"{"message":"Resource not accessible"}"#), None);
        assert_eq!(wait(500, &[("retry-after", "7")], ""), None);
    }
}
