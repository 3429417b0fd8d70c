//! Words that are not allowed in code, and the comment with which every file opens.

use super::source::SourceFile;
use std::path::Path;

/// Exceptions to "no sleep in tests": one `path reason` for each line.
const SLEEPS: &str = "xtask/sleeps.txt";

/// The words that are not allowed anywhere, with the reason.
const BANNED: [(&str, &str); 4] = [
    ("#[ignore", "an ignored test never runs"),
    ("todo!(", "unfinished code is not committed"),
    ("unimplemented!(", "unfinished code is not committed"),
    ("should_panic", "assert the error itself, a panic can come from anywhere"),
];

pub(crate) fn check(root: &Path, sources: &[SourceFile]) -> Result<Vec<String>, String> {
    let allowed = std::fs::read_to_string(root.join(SLEEPS)).map_err(|error| format!("read `{SLEEPS}`: {error}"))?;
    let mut findings = Vec::new();
    for source in sources {
        if !source.text.starts_with("//!") {
            findings
                .push(format!("{}:1: a file opens with a `//!` comment that states its responsibility", source.path));
        }
        for (index, line) in source.code.lines().enumerate() {
            let place = format!("{}:{}", source.path, index + 1);
            findings.extend(banned(line).map(|(word, why)| format!("{place}: `{word}`: {why}")));
            if has_unsafe(line) && !source.path.starts_with("crates/sandbox/") {
                findings.push(format!("{place}: `unsafe` belongs to crates/sandbox alone"));
            }
            if source.is_test(index) && has_sleep(line) && !is_allowed(&allowed, &source.path) {
                findings
                    .push(format!("{place}: a test waits for a condition (`testkit::wait::until`), it does not sleep"));
            }
        }
    }
    Ok(findings)
}

fn banned(line: &str) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
    BANNED.into_iter().filter(|(word, _)| line.contains(word))
}

/// `sleep(` as a whole word; `sleep_until(` does not count.
fn has_sleep(line: &str) -> bool {
    line.match_indices("sleep(").any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// The keyword, not a lint's name such as `unsafe_code`.
fn has_unsafe(line: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
}

fn is_allowed(list: &str, path: &str) -> bool {
    list.lines()
        .any(|line| line.split_once(' ').is_some_and(|(file, reason)| file == path && !reason.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_found_as_a_whole_word() {
        assert!(has_sleep("std::thread::sleep(x)"));
        assert!(has_sleep("sleep(x).await"));
        assert!(!has_sleep("sleep_until(x)"));
        assert!(!has_sleep("no_sleep(x)"));
    }

    #[test]
    fn unsafe_is_found_as_the_keyword_only() {
        assert!(has_unsafe("let x = unsafe { y };"));
        assert!(!has_unsafe("#![forbid(unsafe_code)]"));
    }

    #[test]
    fn banned_words_are_found_in_code() {
        assert_eq!(banned("    #[ignore = \"\"]").count(), 1);
        assert_eq!(banned("let done = 1;").count(), 0);
    }

    #[test]
    fn an_exception_needs_a_reason() {
        assert!(is_allowed("a/b.rs the kernel has no event for this\n", "a/b.rs"));
        assert!(!is_allowed("a/b.rs \n", "a/b.rs"));
        assert!(!is_allowed("a/b.rs why\n", "a/c.rs"));
    }
}
