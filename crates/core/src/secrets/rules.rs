//! Compares texts with the table of public formats, and decides whether a match is a placeholder.

use super::formats::{PatternTrust, ROWS};
use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use std::ops::Range;
use std::sync::LazyLock;

/// Words that mark a value as an example.
const PLACEHOLDERS: &str = "example xxxx placeholder changeme change-me change_me your- your_ yourtoken dummy \
    redacted removed < ${ {{ $( %s insert replace fake sample not-a- not_a_ 1234567890abcdef1234 abcdefghijklmnop \
    deadbeefdeadbeef ...";

/// The first check: the words of all rows, each with its row.
static WORDS: LazyLock<(AhoCorasick, Vec<usize>)> = LazyLock::new(|| {
    let words = ROWS.iter().enumerate().flat_map(|(at, row)| row.words.split(',').map(move |word| (word, at)));
    let (words, rows): (Vec<_>, Vec<_>) = words.unzip();
    let built = AhoCorasickBuilder::new().ascii_case_insensitive(true).build(words);
    (built.expect("the words are constants"), rows)
});

/// A value found in a text.
pub(super) struct FormatMatch {
    pub(super) rule: &'static str,
    pub(super) span: Range<usize>,
    pub(super) trust: PatternTrust,
}

/// All real values in a text, with their rules.
pub(super) fn find_formats(text: &str) -> Vec<FormatMatch> {
    let rows = possible(text);
    let rows = rows.iter().enumerate().filter(|(_, is_possible)| **is_possible).map(|(at, _)| at);
    rows.flat_map(|at| values(text, at)).collect()
}

/// The rows with a word in the text.
fn possible(text: &str) -> Vec<bool> {
    let (words, rows) = &*WORDS;
    let mut possible = vec![false; ROWS.len()];
    for found in words.find_overlapping_iter(text) {
        possible[rows[found.pattern().as_usize()]] = true;
    }
    possible
}

fn values(text: &str, at: usize) -> impl Iterator<Item = FormatMatch> + '_ {
    let row = &ROWS[at];
    let values = row.regex().captures_iter(text).filter_map(|found| found.get(1).or_else(|| found.get(0)));
    let real = values.filter(|value| is_real(value.as_str(), row.trust));
    real.map(|value| FormatMatch { rule: row.name, span: whole(text, row.name, value.range()), trust: row.trust })
}

/// A private key extends to its last line.
fn whole(text: &str, rule: &str, value: Range<usize>) -> Range<usize> {
    let tail = if rule == "private-key" { text[value.end..].find("-----END") } else { Some(0) };
    value.start..tail.map_or(text.len(), |tail| value.end + tail)
}

fn is_real(value: &str, trust: PatternTrust) -> bool {
    let lower = value.to_ascii_lowercase();
    if PLACEHOLDERS.split_whitespace().any(|word| lower.contains(word)) {
        return false;
    }
    // A private key's header contains no value; any other value that repeats one character is an example.
    let tail: Vec<char> = lower.chars().rev().take(12).collect();
    let is_same = tail.iter().all(|c| *c == tail[0]);
    match trust {
        PatternTrust::Distinct => !is_same,
        PatternTrust::Random => !is_same && is_random(value),
    }
}

/// A value that people do not type: letters with digits, and enough different ones.
pub(super) fn is_random(value: &str) -> bool {
    let has_letter = value.chars().any(|c| c.is_ascii_alphabetic());
    let has_digit = value.chars().any(|c| c.is_ascii_digit());
    let is_url = value.contains("://");
    has_letter && has_digit && !is_url && entropy(value) >= threshold(value.len())
}

/// Short values cannot have many bits per character, even if they are random.
fn threshold(length: usize) -> f64 {
    if length < 12 {
        2.4
    } else if length < 20 {
        3.1
    } else {
        3.3
    }
}

/// Shannon entropy in bits per byte.
fn entropy(value: &str) -> f64 {
    let mut counts = [0_u32; 256];
    value.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let length = value.len() as f64;
    counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / length).map(|p| -p * p.log2()).sum()
}
