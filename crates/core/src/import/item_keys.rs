//! The keys of items that another tool has processed. Loopwright's keys have a revision (`pr-7@<commit>`), those of
//! loop-harness often have none (`7`). A key with the revision `*` stands for the item in every revision.

use super::ImportFit;
use crate::spec::{LoopSpec, ProbeSpec};

/// The longest key.
const KEY_MAX: usize = 200;
/// The least digits of a shortened commit.
const COMMIT_MIN: usize = 7;

/// The key that stands for an item in every revision; `None` for a key without a revision.
#[must_use]
pub fn every_revision(key: &str) -> Option<String> {
    let (name, revision) = key.rsplit_once('@')?;
    (revision != "*").then(|| format!("{name}@*"))
}

/// A processed item, as the loop knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessedItem {
    /// The loop's probe finds it under this key.
    Known(String),
    /// No probe of the loop has this key; the maker reads it in its state.
    Raw(String),
    /// Not a key: empty, too long, or with control characters.
    Unusable,
}

impl ProcessedItem {
    /// The item of an imported loop in a repository.
    #[must_use]
    pub fn new(spec: &LoopSpec, id: &str, fit: &ImportFit<'_>) -> Self {
        let id = id.trim();
        if id.is_empty() || id.len() > KEY_MAX || id.chars().any(char::is_control) {
            return Self::Unusable;
        }
        let known = match probe(spec) {
            Some("open-prs") => numbered(id, "pr"),
            Some("open-issues") => numbered(id, "issue"),
            Some("outdated") => id.contains('@').then(|| id.to_owned()),
            Some("commits") => commit(id, fit),
            _ => None,
        };
        known.map_or_else(|| Self::Raw(id.to_owned()), Self::Known)
    }
}

/// The built-in probe of a loop.
fn probe(spec: &LoopSpec) -> Option<&str> {
    match spec.on.probe.as_ref()? {
        ProbeSpec::Named(name) => Some(name),
        ProbeSpec::Ask(ask) => Some(&ask.probe),
        ProbeSpec::Run { .. } => None,
    }
}

/// `7`, `#7` and `pr-7` are `pr-7@*`.
fn numbered(id: &str, kind: &str) -> Option<String> {
    let number = id.strip_prefix(kind).and_then(|rest| rest.strip_prefix(['-', '#', ':'])).unwrap_or(id);
    let number = number.strip_prefix('#').unwrap_or(number);
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("{kind}-{}@*", number.trim_start_matches('0')))
}

/// The probe only ever finds the latest commit, so a shortened commit matters if it is that one.
fn commit(id: &str, fit: &ImportFit<'_>) -> Option<String> {
    let is_hash = id.len() >= COMMIT_MIN && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = id.to_ascii_lowercase();
    let whole = fit.head.filter(|head| head.starts_with(&id)).map(str::to_owned);
    let whole = whole.or_else(|| matches!(id.len(), 40 | 64).then_some(id))?;
    is_hash.then(|| format!("{}@{whole}", fit.branch.unwrap_or("HEAD")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::LoopLevel;

    fn item(probe: &str, id: &str) -> ProcessedItem {
        let mut spec = LoopSpec::new("a", "b", LoopLevel::L1Report);
        spec.on.probe = (!probe.is_empty()).then(|| ProbeSpec::Named(probe.to_owned()));
        let head = Some("0123456789abcdef0123456789abcdef01234567");
        ProcessedItem::new(&spec, id, &ImportFit { head, branch: Some("main"), ..ImportFit::default() })
    }

    #[test]
    fn ids_become_the_keys_that_the_loops_probe_finds() {
        let known = |key: &str| ProcessedItem::Known(key.to_owned());
        for id in ["7", "#7", "pr-7", "pr#7", "007"] {
            assert_eq!(item("open-prs", id), known("pr-7@*"), "{id}");
        }
        assert_eq!(item("open-issues", "12"), known("issue-12@*"));
        assert_eq!(item("outdated", "serde@1.0.220"), known("serde@1.0.220"));
        assert_eq!(item("outdated", "@octokit/rest@21.0.0"), known("@octokit/rest@21.0.0"));
        assert_eq!(item("commits", "0123456"), known("main@0123456789abcdef0123456789abcdef01234567"));
        assert_eq!(item("commits", &"A".repeat(40)), known(&format!("main@{}", "a".repeat(40))));
    }

    #[test]
    fn ids_that_no_probe_finds_stay_as_they_are() {
        let raw = |id: &str| ProcessedItem::Raw(id.to_owned());
        for (probe, id) in [
            ("failing-ci", "17"),
            ("", "17"),
            ("open-prs", "seven"),
            ("open-prs", "pr-"),
            ("commits", "fedcba9"),
            ("commits", "0123"),
            ("outdated", "serde"),
        ] {
            assert_eq!(item(probe, id), raw(id), "{probe}");
        }
    }

    #[test]
    fn ids_that_cannot_be_keys_are_refused() {
        for id in ["", "  ", "a\u{7}b", "a\nb", &"x".repeat(201)] {
            assert_eq!(item("", id), ProcessedItem::Unusable, "{id:?}");
        }
    }

    #[test]
    fn key_for_every_revision_replaces_the_last_revision_only() {
        assert_eq!(every_revision("pr-7@abc").as_deref(), Some("pr-7@*"));
        assert_eq!(every_revision("@octokit/rest@21").as_deref(), Some("@octokit/rest@*"));
        assert_eq!(every_revision("pr-7"), None);
        assert_eq!(every_revision("pr-7@*"), None);
    }
}
