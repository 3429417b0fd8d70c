//! Verifies the sender of a delivery: over the raw bytes, in constant time, and before anything is parsed. A source has
//! the current secret and, during a rotation, the previous one. They are never shown.

use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::header::HeaderMap;
use sha2::Sha256;

/// The largest difference between a signed time and now, in either direction.
const WINDOW_SECS: i64 = 300;
/// The header of Slack's signature.
pub(super) const SLACK_SIGNATURE: &str = "x-slack-signature";
/// The most signatures in one header.
const SIGNATURES_MAX: usize = 8;

/// Why a delivery is not accepted. The answer to the sender does not say which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignatureError {
    /// There is no readable signature, for example only SHA-1.
    Missing,
    /// It was made with another secret or over other bytes.
    Wrong,
    /// Its time is too far from now.
    Stale,
}

/// GitHub: `X-Hub-Signature-256: sha256=<hex>` over the body. The older header with SHA-1 is ignored.
pub(super) fn github(secret: &WebhookSecret, headers: &HeaderMap, body: &[u8]) -> Result<(), SignatureError> {
    let given = header(headers, "x-hub-signature-256").and_then(|text| text.strip_prefix("sha256="));
    let given = given.and_then(|text| decode_hex(text.as_bytes())).ok_or(SignatureError::Missing)?;
    any(secret.texts().map(|key| is_signed(key, &[body], &given)))
}

/// GitLab: signed as in [`standard`] if a signing token is set, otherwise checked by `X-Gitlab-Token`. A signed
/// delivery is not accepted by its token alone.
pub(super) fn gitlab(
    secret: &WebhookSecret,
    headers: &HeaderMap,
    body: &[u8],
    now_ms: i64,
) -> Result<(), SignatureError> {
    if headers.contains_key("webhook-signature") {
        return standard(secret, headers, body, now_ms);
    }
    let given = header(headers, "x-gitlab-token").ok_or(SignatureError::Missing)?;
    any(secret.texts().map(|token| is_same(token, given.as_bytes())))
}

/// The Standard Webhooks scheme: `webhook-signature: v1,<base64>` over id, time and body, with the time within five
/// minutes of now.
pub(super) fn standard(
    secret: &WebhookSecret,
    headers: &HeaderMap,
    body: &[u8],
    now_ms: i64,
) -> Result<(), SignatureError> {
    let id = header(headers, "webhook-id").ok_or(SignatureError::Missing)?;
    let moment = header(headers, "webhook-timestamp").ok_or(SignatureError::Missing)?;
    let given = header(headers, "webhook-signature").ok_or(SignatureError::Missing)?;
    let seconds: i64 = moment.parse().map_err(|_| SignatureError::Missing)?;
    let signatures = given.split(' ').take(SIGNATURES_MAX).filter_map(|text| text.strip_prefix("v1,"));
    let signatures: Vec<Vec<u8>> = signatures.filter_map(|text| decode_base64(text.as_bytes())).collect();
    if signatures.is_empty() {
        return Err(SignatureError::Missing);
    }
    let parts: [&[u8]; 5] = [id.as_bytes(), b".", moment.as_bytes(), b".", body];
    let keys: Vec<Vec<u8>> = secret.keys().collect();
    any(keys.iter().flat_map(|key| signatures.iter().map(|given| is_signed(key, &parts, given))))?;
    in_window(seconds, now_ms)
}

/// Slack: `X-Slack-Signature: v0=<hex>` over the version, the time and the body, with the time within five minutes of
/// now.
pub(super) fn slack(
    secret: &WebhookSecret,
    headers: &HeaderMap,
    body: &[u8],
    now_ms: i64,
) -> Result<(), SignatureError> {
    let moment = header(headers, "x-slack-request-timestamp").ok_or(SignatureError::Missing)?;
    let given = header(headers, SLACK_SIGNATURE).and_then(|text| text.strip_prefix("v0="));
    let given = given.and_then(|text| decode_hex(text.as_bytes())).ok_or(SignatureError::Missing)?;
    let seconds: i64 = moment.parse().map_err(|_| SignatureError::Missing)?;
    let parts: [&[u8]; 4] = [b"v0:", moment.as_bytes(), b":", body];
    any(secret.texts().map(|key| is_signed(key, &parts, &given)))?;
    in_window(seconds, now_ms)
}

fn in_window(seconds: i64, now_ms: i64) -> Result<(), SignatureError> {
    let is_stale = now_ms.div_euclid(1000).abs_diff(seconds) > WINDOW_SECS.unsigned_abs();
    if is_stale { Err(SignatureError::Stale) } else { Ok(()) }
}

/// Evaluates all of them, even after a match.
fn any(all: impl Iterator<Item = bool>) -> Result<(), SignatureError> {
    if all.filter(|good| *good).count() > 0 { Ok(()) } else { Err(SignatureError::Wrong) }
}

fn is_signed(key: &[u8], parts: &[&[u8]], given: &[u8]) -> bool {
    let Some(mut mac) = keyed(key) else { return false };
    parts.iter().for_each(|part| mac.update(part));
    mac.verify_slice(given).is_ok()
}

/// Compares digests instead of texts, so that the duration reveals neither content nor length.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let Some(mut mac) = keyed(one) else { return false };
    mac.update(other);
    let given = mac.finalize().into_bytes();
    is_signed(one, &[one], &given)
}

fn keyed(key: &[u8]) -> Option<Hmac<Sha256>> {
    Hmac::new_from_slice(key).ok()
}

/// A header that occurs once and is text.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    // Two of them would be ambiguous.
    all.next().is_none().then_some(first)
}

fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// Base64 with or without its padding, in either alphabet.
fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    let decoded = BASE64_STANDARD_NO_PAD.decode(text).or_else(|_| BASE64_URL_SAFE_NO_PAD.decode(text));
    decoded.ok()
}

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
    fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.all.iter().map(Vec::as_slice)
    }

    /// The secrets as keys; a secret with the base64 prefix is decoded.
    fn keys(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
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

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    const NOW_MS: i64 = 1_614_265_330_000;

    fn headers(all: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in all {
            map.append(HeaderName::try_from(*name).expect("a name"), HeaderValue::try_from(*value).expect("a value"));
        }
        map
    }

    /// The example that GitHub's documentation publishes.
    #[test]
    fn github_s_published_example_is_accepted_and_variations_are_not() {
        let secret = WebhookSecret::new("It's a Secret to Everybody").expect("long enough");
        let good = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let with = |name: &str, value: &str| github(&secret, &headers(&[(name, value)]), b"Hello, World!");
        assert_eq!(with("x-hub-signature-256", &format!("sha256={good}")), Ok(()));
        let table = [
            ("x-hub-signature-256", format!("sha256={}", &good[..62]), SignatureError::Wrong),
            ("x-hub-signature-256", format!("sha256={}", &good[..63]), SignatureError::Missing),
            ("x-hub-signature-256", format!("sha256=0{}", &good[1..]), SignatureError::Wrong),
            ("x-hub-signature-256", good.to_owned(), SignatureError::Missing),
            ("x-hub-signature-256", "sha256=".to_owned(), SignatureError::Wrong),
            ("x-hub-signature", format!("sha1={}", &good[..40]), SignatureError::Missing),
            ("x-other", format!("sha256={good}"), SignatureError::Missing),
        ];
        for (name, value, expected) in table {
            assert_eq!(with(name, &value), Err(expected), "{name}: {value}");
        }
        let twice =
            headers(&[("x-hub-signature-256", &format!("sha256={good}")), ("x-hub-signature-256", "sha256=00")]);
        assert_eq!(github(&secret, &twice, b"Hello, World!"), Err(SignatureError::Missing));
        let good = headers(&[("x-hub-signature-256", &format!("sha256={good}"))]);
        assert_eq!(github(&secret, &good, b"Hello, World"), Err(SignatureError::Wrong));
        let other = WebhookSecret::new("It's a Secret to Nobody!!!").expect("long enough");
        assert_eq!(github(&other, &good, b"Hello, World!"), Err(SignatureError::Wrong));
        let rotating = other.or_previous("It's a Secret to Everybody").expect("long enough");
        assert_eq!(github(&rotating, &good, b"Hello, World!"), Ok(()));
    }

    /// The example that Slack's documentation publishes.
    #[test]
    fn slack_s_published_example_is_accepted_within_its_window() {
        let secret = WebhookSecret::new("8f742231b10e8888abcd99yyyzzz85a5").expect("long enough");
        let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&\
            channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=\
            https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&\
            trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let good = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
        let at_ms = 1_531_420_618_000;
        let with = |signature: &str, moment: &str, now_ms: i64| {
            slack(
                &secret,
                &headers(&[(SLACK_SIGNATURE, signature), ("x-slack-request-timestamp", moment)]),
                body,
                now_ms,
            )
        };
        let table = [
            (good, "1531420618", at_ms, Ok(())),
            (good, "1531420618", at_ms + 300_000, Ok(())),
            (good, "1531420618", at_ms + 301_000, Err(SignatureError::Stale)),
            (good, "1531420618", at_ms - 301_000, Err(SignatureError::Stale)),
            (good, "1531420619", at_ms, Err(SignatureError::Wrong)),
            (&good[..60], "1531420618", at_ms, Err(SignatureError::Missing)),
            (&good[3..], "1531420618", at_ms, Err(SignatureError::Missing)),
            (good, "soon", at_ms, Err(SignatureError::Missing)),
        ];
        for (signature, moment, now_ms, expected) in table {
            assert_eq!(with(signature, moment, now_ms), expected, "{signature} {moment} {now_ms}");
        }
    }

    /// The example that the specification of Standard Webhooks publishes.
    #[test]
    fn standard_scheme_s_published_example_is_accepted_within_its_window() {
        let secret = WebhookSecret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("long enough");
        let signed = |moment: &str, signature: &str| {
            headers(&[
                ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
                ("webhook-timestamp", moment),
                ("webhook-signature", signature),
            ])
        };
        let (moment, good) = ("1614265330", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let body = br#"{"test": 2432232314}"#;
        let check = |headers: &HeaderMap, now_ms| standard(&secret, headers, body, now_ms);
        assert_eq!(check(&signed(moment, good), NOW_MS), Ok(()));
        assert_eq!(check(&signed(moment, &format!("v1,AAAA {good}")), NOW_MS), Ok(()));
        assert_eq!(check(&signed(moment, good), NOW_MS + 301_000), Err(SignatureError::Stale));
        assert_eq!(check(&signed(moment, good), NOW_MS - 301_000), Err(SignatureError::Stale));
        assert_eq!(check(&signed("1614265331", good), NOW_MS), Err(SignatureError::Wrong));
        assert_eq!(check(&signed(moment, "v1a,AAAA"), NOW_MS), Err(SignatureError::Missing));
        assert_eq!(check(&signed("soon", good), NOW_MS), Err(SignatureError::Missing));
        let mut unnamed = signed(moment, good);
        unnamed.remove("webhook-id");
        assert_eq!(check(&unnamed, NOW_MS), Err(SignatureError::Missing));
    }

    #[test]
    fn gitlab_s_token_is_compared_whole_and_counts_for_nothing_beside_a_signature() {
        let secret = WebhookSecret::new("a-token-of-some-length").expect("long enough");
        let check = |all: &[(&str, &str)]| gitlab(&secret, &headers(all), b"{}", NOW_MS);
        assert_eq!(check(&[("x-gitlab-token", "a-token-of-some-length")]), Ok(()));
        assert_eq!(check(&[("x-gitlab-token", "a-token-of-some-lengt")]), Err(SignatureError::Wrong));
        assert_eq!(check(&[("x-gitlab-token", "a-token-of-some-length2")]), Err(SignatureError::Wrong));
        assert_eq!(check(&[("x-gitlab-token", "")]), Err(SignatureError::Wrong));
        assert_eq!(check(&[]), Err(SignatureError::Missing));
        let both = [
            ("x-gitlab-token", "a-token-of-some-length"),
            ("webhook-id", "1"),
            ("webhook-timestamp", "1614265330"),
            ("webhook-signature", "v1,AAAA"),
        ];
        assert_eq!(check(&both), Err(SignatureError::Wrong));
    }

    #[test]
    fn secrets_are_long_enough_and_never_shown() {
        assert!(WebhookSecret::new("short").is_err() && WebhookSecret::new("two\nlines of a secret").is_err());
        assert!(WebhookSecret::new("whsec_MfKQ9r8GKYqrTwjU").is_err(), "twelve bytes, however they are written");
        let secret = WebhookSecret::new(" a-token-of-some-length\n").expect("long enough");
        assert!(!format!("{secret:?}").contains("token"));
    }
}
