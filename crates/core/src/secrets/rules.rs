//! The table of public token formats, and what makes a match a placeholder.

use regex::{Regex, RegexSet};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

/// How sure a pattern is by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Its prefix or shape is enough.
    Distinct,
    /// The captured value must also look random.
    Random,
}

/// Name, pattern (the first group, or the whole match, is the value), trust.
const RULES: &[(&str, &str, Trust)] = &[
    ("aws-access-key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b", Trust::Distinct),
    (
        "aws-secret-key",
        r#"(?i)aws.{0,20}(?:secret|sk).{0,20}?['"=:\s]+([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)"#,
        Trust::Random,
    ),
    ("github-token", r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b", Trust::Distinct),
    ("github-fine-grained-token", r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b", Trust::Distinct),
    ("gitlab-token", r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt|oas)-[A-Za-z0-9_-]{20,128}", Trust::Distinct),
    ("slack-token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}", Trust::Distinct),
    ("slack-app-token", r"\bxapp-\d-[A-Z0-9]+-\d+-[a-z0-9]{16,}", Trust::Distinct),
    ("slack-webhook", r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/]{40,})", Trust::Distinct),
    ("stripe-key", r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,255}\b", Trust::Distinct),
    ("stripe-webhook-secret", r"\bwhsec_[A-Za-z0-9+/=]{24,}", Trust::Distinct),
    ("google-api-key", r"\bAIza[0-9A-Za-z_-]{35}", Trust::Distinct),
    ("google-oauth-token", r"\bya29\.[0-9A-Za-z_-]{20,}", Trust::Distinct),
    ("google-oauth-secret", r"\bGOCSPX-[A-Za-z0-9_-]{28}", Trust::Distinct),
    ("npm-token", r"\bnpm_[A-Za-z0-9]{36}\b", Trust::Distinct),
    ("npm-auth", r"(?i)_(?:authToken|auth|password)\s*=\s*([A-Za-z0-9+/=_-]{16,})", Trust::Random),
    ("pypi-token", r"\bpypi-[A-Za-z0-9_-]{50,}", Trust::Distinct),
    ("crates-io-token", r"\bcio[A-Za-z0-9]{32}\b", Trust::Random),
    ("rubygems-key", r"\brubygems_[a-f0-9]{48}\b", Trust::Distinct),
    ("anthropic-key", r"\bsk-ant-[A-Za-z0-9_-]{20,}", Trust::Distinct),
    ("openai-key", r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}", Trust::Distinct),
    ("openai-legacy-key", r"\bsk-[A-Za-z0-9]{32,64}\b", Trust::Random),
    ("openrouter-key", r"\bsk-or-v1-[0-9a-f]{64}\b", Trust::Distinct),
    ("groq-key", r"\bgsk_[A-Za-z0-9]{52}\b", Trust::Distinct),
    ("huggingface-token", r"\bhf_[A-Za-z0-9]{34,}\b", Trust::Distinct),
    ("private-key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----", Trust::Distinct),
    ("age-secret-key", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b", Trust::Distinct),
    ("jwt", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}", Trust::Distinct),
    ("azure-storage-key", r"AccountKey=([A-Za-z0-9+/]{86}==)", Trust::Distinct),
    (
        "azure-client-secret",
        r"(?:^|[^A-Za-z0-9_~.-])([A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34})(?:[^A-Za-z0-9_~.-]|$)",
        Trust::Random,
    ),
    ("azure-sas", r"[?&]sig=([A-Za-z0-9%]{43,}%3D)", Trust::Random),
    ("digitalocean-token", r"\bdo[opr]_v1_[a-f0-9]{64}\b", Trust::Distinct),
    ("twilio-key", r"\bSK[0-9a-f]{32}\b", Trust::Random),
    ("sendgrid-key", r"\bSG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}", Trust::Random),
    ("mailgun-key", r"\bkey-[0-9a-f]{32}\b", Trust::Random),
    ("mailchimp-key", r"\b[0-9a-f]{32}-us\d{1,2}\b", Trust::Random),
    ("telegram-bot-token", r"\b\d{8,10}:AA[A-Za-z0-9_-]{33}", Trust::Distinct),
    ("discord-webhook", r"discord(?:app)?\.com/api/webhooks/\d+/([A-Za-z0-9_-]{40,})", Trust::Distinct),
    ("discord-bot-token", r"\b[MNO][A-Za-z\d_-]{23,25}\.[A-Za-z\d_-]{6}\.[A-Za-z\d_-]{27,38}\b", Trust::Random),
    ("databricks-token", r"\bdapi[0-9a-f]{32}\b", Trust::Distinct),
    ("vault-token", r"\bhv[sb]\.[A-Za-z0-9_-]{24,}", Trust::Distinct),
    ("terraform-token", r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}", Trust::Distinct),
    ("docker-token", r"\bdckr_pat_[A-Za-z0-9_-]{27,}", Trust::Distinct),
    ("grafana-token", r"\bglsa_[A-Za-z0-9]{32}_[a-f0-9]{8}\b", Trust::Distinct),
    ("linear-key", r"\blin_api_[A-Za-z0-9]{40}\b", Trust::Distinct),
    ("notion-token", r"\b(?:secret|ntn)_[A-Za-z0-9]{43,}\b", Trust::Random),
    ("shopify-token", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b", Trust::Distinct),
    ("square-token", r"\bsq0(?:atp|csp)-[0-9A-Za-z_-]{22,}", Trust::Distinct),
    ("sentry-token", r"\bsntrys_[A-Za-z0-9+/=_-]{40,}", Trust::Distinct),
    ("new-relic-key", r"\bNRAK-[A-Z0-9]{27}\b", Trust::Distinct),
    ("postman-key", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b", Trust::Distinct),
    ("heroku-key", r"\bHRKU-[A-Za-z0-9_-]{36,64}", Trust::Distinct),
    (
        "database-url",
        r#"\b(?:postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|amqps?|mssql|clickhouse)://[^\s:/@'"]*:([^\s@/'"]{6,})@"#,
        Trust::Random,
    ),
    ("basic-auth-url", r#"\b(?:https?|ftp|ssh|git)://[^\s:/@'"]+:([^\s@/'"]{6,})@"#, Trust::Random),
    (
        "assigned-secret",
        r#"(?i)(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|client[_-]?secret|private[_-]?key|credentials?)['"]?\s*(?:=>|:=|=|:)\s*['"]([^'"\s]{12,128})['"]"#,
        Trust::Random,
    ),
];

/// Words that mark a value as made up.
const PLACEHOLDERS: [&str; 24] = [
    "example",
    "xxxx",
    "placeholder",
    "changeme",
    "change-me",
    "change_me",
    "your-",
    "your_",
    "yourtoken",
    "dummy",
    "redacted",
    "removed",
    "<",
    "${",
    "{{",
    "$(",
    "%s",
    "insert",
    "replace",
    "fake",
    "sample",
    "not-a-",
    "not_a_",
    "1234567890abcdef1234",
];

static SET: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new(RULES.iter().map(|(_, pattern, _)| ascii(pattern))).expect("the patterns are constants")
});

static EACH: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    RULES.iter().map(|(_, pattern, _)| Regex::new(&ascii(pattern)).expect("the patterns are constants")).collect()
});

/// Tokens are ASCII, and boundaries of Unicode words would take the fast matcher away from every text with an accent.
fn ascii(pattern: &str) -> String {
    pattern.replace(r"\b", r"(?-u:\b)")
}

/// Whether the rule's shape alone is proof, so that decoded bytes may be held against it.
pub(super) fn is_distinct(rule: &str) -> bool {
    RULES.iter().any(|(name, _, trust)| *name == rule && *trust == Trust::Distinct)
}

/// The names of the rules that a text breaks.
pub(super) fn matching(text: &str) -> Vec<&'static str> {
    let broken = SET.matches(text).into_iter().filter(|at| {
        let (_, _, trust) = RULES[*at];
        EACH[*at].captures_iter(text).any(|found| {
            let value = found.get(1).or_else(|| found.get(0)).map_or("", |group| group.as_str());
            is_real(value, trust)
        })
    });
    broken.map(|at| RULES[at].0).collect()
}

/// The text with every real value replaced by the name of its rule.
pub(super) fn redact(text: &str) -> Cow<'_, str> {
    let mut spans: Vec<(Range<usize>, &str)> = SET.matches(text).into_iter().flat_map(|at| spans(text, at)).collect();
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    spans.sort_by_key(|(span, _)| (span.start, span.end));
    let (mut clean, mut from) = (String::with_capacity(text.len()), 0);
    for (span, rule) in spans {
        if span.start >= from {
            clean.push_str(&text[from..span.start]);
            clean.push_str(&format!("[{rule}]"));
        }
        from = from.max(span.end);
    }
    clean.push_str(&text[from..]);
    Cow::Owned(clean)
}

/// Where a rule's values stand; a private key goes down to its last line.
fn spans(text: &str, at: usize) -> Vec<(Range<usize>, &'static str)> {
    let (rule, _, trust) = RULES[at];
    let values = EACH[at].captures_iter(text).filter_map(|found| found.get(1).or_else(|| found.get(0)));
    let real = values.filter(|value| is_real(value.as_str(), trust));
    let span = real.map(|value| {
        let tail = if rule == "private-key" { text[value.end()..].find("-----END") } else { Some(0) };
        value.start()..tail.map_or(text.len(), |tail| value.end() + tail)
    });
    span.map(|span| (span, rule)).collect()
}

fn is_real(value: &str, trust: Trust) -> bool {
    let lower = value.to_ascii_lowercase();
    if PLACEHOLDERS.iter().any(|word| lower.contains(word)) {
        return false;
    }
    // A private key's header has no value in it; everything else that repeats one character is made up.
    let tail: Vec<char> = lower.chars().rev().take(12).collect();
    let is_same = tail.iter().all(|c| *c == tail[0]);
    match trust {
        Trust::Distinct => !is_same,
        Trust::Random => !is_same && is_random(value),
    }
}

/// A value people do not type: letters with digits or signs, and enough of them that differ.
fn is_random(value: &str) -> bool {
    let has_letter = value.chars().any(|c| c.is_ascii_alphabetic());
    let has_digit = value.chars().any(|c| c.is_ascii_digit());
    let is_url = value.contains("://");
    has_letter && has_digit && !is_url && entropy(value) >= threshold(value.len())
}

/// Short values cannot reach many bits a character, however random they are.
fn threshold(length: usize) -> f64 {
    if length < 12 {
        2.4
    } else if length < 20 {
        3.1
    } else {
        3.3
    }
}

/// Shannon's bits a byte.
fn entropy(value: &str) -> f64 {
    let mut counts = [0_u32; 256];
    value.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let length = value.len() as f64;
    counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / length).map(|p| -p * p.log2()).sum()
}
