//! Makes output comparable: parts that differ from run to run (paths, hashes, ids, times) become a name in brackets.

use regex::Regex;
use std::path::Path;

/// The patterns and their replacements, in this order: longer hashes before shorter ones.
const PATTERNS: [(&str, &str); 8] = [
    (r"\b[0-9a-f]{64}\b", "[sha256]"),
    (r"\b[0-9a-f]{40}\b", "[sha]"),
    (r"\br[0-9a-hjkmnp-tv-z]{26}\b", "[round]"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?", "[time]"),
    (r#"("\w+_ms":\s*)\d+"#, "${1}0"),
    (r"\b\d+(?:\.\d+)? ?(?:ms|µs)\b", "[duration]"),
    (r"\b\d+\.\d+ ?s\b", "[duration]"),
    (r"\bpid \d+\b", "pid [pid]"),
];

/// An ordered list of replacements.
#[derive(Clone, Debug)]
pub struct Redactor {
    patterns: Vec<(Regex, String)>,
}

impl Redactor {
    /// The replacements that every test needs, with `root` shown as `$ROOT`.
    pub fn new(root: &Path) -> Self {
        let place = (regex::escape(&root.to_string_lossy()), "$$ROOT".to_owned());
        let common = PATTERNS.map(|(pattern, name)| (pattern.to_owned(), name.to_owned()));
        let all = std::iter::once(place).chain(common);
        Self { patterns: all.map(|(pattern, name)| (compile(&pattern), name)).collect() }
    }

    /// Adds a replacement that one test needs; `replacement` may use `${1}`.
    #[must_use]
    pub fn with(mut self, pattern: &str, replacement: &str) -> Self {
        self.patterns.push((compile(pattern), replacement.to_owned()));
        self
    }

    /// The text with everything replaced.
    pub fn redact(&self, text: &str) -> String {
        let replace =
            |text: String, (pattern, name): &(Regex, String)| pattern.replace_all(&text, name.as_str()).into_owned();
        self.patterns.iter().fold(text.to_owned(), replace)
    }
}

fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a redaction is a regular expression")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_change_from_run_to_run_get_a_name() {
        let redactor = Redactor::new(Path::new("/tmp/x.y")).with("loop-[0-9]+", "loop-N");
        let table = [
            ("report: /tmp/x.y/state/r.md", "report: $ROOT/state/r.md"),
            ("/tmp/xzy/state", "/tmp/xzy/state"),
            ("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904", "tree [sha]"),
            ("round r01arz3ndektsv4rrffq69g5fav ended", "round [round] ended"),
            ("at 2026-11-15T10:30:00Z", "at [time]"),
            ("at 2026-11-15 10:30:00.123+01:00", "at [time]"),
            ("took 12 ms, then 1.5 s", "took [duration], then [duration]"),
            ("every 15m, idle 30s", "every 15m, idle 30s"),
            (r#"{"duration_ms": 17}"#, r#"{"duration_ms": 0}"#),
            ("held by pid 4711", "held by pid [pid]"),
            ("loop-7", "loop-N"),
        ];
        for (text, expected) in table {
            assert_eq!(redactor.redact(text), expected);
        }
    }
}
