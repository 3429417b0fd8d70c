//! Canaries: falsified expectations. A test that passes with the right expected value cannot also pass with a wrong one,
//! unless something lies: the comparison, the runner, its report, its exit code.
//!
//! This module finds the tests of a file and the literals that they expect, and writes falsified copies. It knows
//! tokens, not grammars: a falsification may miss. The engine therefore tries each one on base first.

mod data;
mod literals;
mod marks;
mod ranges;
mod report;
mod spans;

pub use data::falsify_data;
pub use marks::{with_harmless_comment, with_harmless_marks};
pub use report::{
    CanaryReport, TestsByFile, failed_test_ids, is_file_failed, is_own_failure, is_reported_failed, judge_canaries,
    names_test,
};

use super::mask::CommentGrammar;
use super::tokens::SourceTokens;
use crate::hash;
use serde::{Deserialize, Serialize};

/// The largest file that is falsified.
pub const CANARY_FILE_BYTES_MAX: usize = 512 << 10;

/// The largest number of literals that one falsification changes.
const EDITS_MAX: usize = 40;

/// A language that the falsifier can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CanaryLanguage {
    Python,
    JavaScript,
    Rust,
    Go,
    /// Java, Kotlin, C and C++: braces, `//`, double quotes.
    CFamily,
    Ruby,
    Shell,
}

impl CanaryLanguage {
    fn from_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        Some(match name.rsplit_once('.')?.1 {
            "py" => Self::Python,
            "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" => Self::JavaScript,
            "rs" => Self::Rust,
            "go" => Self::Go,
            "java" | "kt" | "kts" | "c" | "cc" | "cpp" | "cxx" | "h" | "hpp" | "cs" | "swift" => Self::CFamily,
            "rb" => Self::Ruby,
            "sh" | "bash" | "bats" => Self::Shell,
            _ => return None,
        })
    }

    fn grammar(self) -> CommentGrammar {
        match self {
            Self::Python | Self::Ruby => CommentGrammar::Python,
            Self::JavaScript => CommentGrammar::JavaScript,
            Self::Rust => CommentGrammar::Rust,
            Self::Go | Self::CFamily => CommentGrammar::Go,
            Self::Shell => CommentGrammar::Shell,
        }
    }

    /// A single quote delimits one character, not a text.
    fn has_characters(self) -> bool {
        matches!(self, Self::Rust | Self::Go | Self::CFamily)
    }
}

/// One replacement, relative to the start of its test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryEdit {
    /// The first byte that is replaced.
    pub start: usize,
    /// The byte after the last one that is replaced.
    pub end: usize,
    /// The new text.
    pub text: String,
}

/// The falsification of one test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCanary {
    /// The file of the test.
    pub path: String,
    /// The test's own name.
    pub name: String,
    /// The line of the first replacement, from 1.
    pub line: usize,
    /// The hash of the test's text; the falsification applies to this text only.
    pub body: String,
    /// The replacements, in order.
    pub edits: Vec<CanaryEdit>,
}

/// How many literals of a test a falsification changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CanaryWidth {
    /// One literal.
    One,
    /// All literals of the best kind: for a test whose falsification cannot be tried on base.
    All,
}

/// A test of a file, by its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanaryTest {
    /// Its own name; the path of the file when the whole file is one test.
    pub name: String,
    start: usize,
    end: usize,
}

/// The tests of a file. A file of tests without a recognised test is one test with the name of its path.
#[must_use]
pub fn canary_tests(path: &str, text: &str) -> Vec<CanaryTest> {
    let Some(language) = readable(path, text) else { return Vec::new() };
    spans::find(path, text, language)
}

/// A falsification of each test that has one. `roll` decides which literal and which value.
#[must_use]
pub fn find_canaries(path: &str, text: &str, width: CanaryWidth, roll: u64) -> Vec<TestCanary> {
    let Some(language) = readable(path, text) else { return Vec::new() };
    let tokens = SourceTokens::of(text, language.grammar());
    let mut found = Vec::new();
    for (at, test) in spans::find(path, text, language).into_iter().enumerate() {
        let mut dice = CanaryDice::new(roll, &test.name, at);
        let sites = ranges::sites(text, &tokens, language, &test);
        let edits = choose(text, language, &sites, width, &mut dice);
        let Some(first) = edits.first() else { continue };
        found.push(TestCanary {
            path: path.to_owned(),
            line: text[..first.start].matches('\n').count() + 1,
            body: hash::hash_bytes(&text.as_bytes()[test.start..test.end]),
            edits: edits
                .into_iter()
                .map(|edit| CanaryEdit { start: edit.start - test.start, end: edit.end - test.start, ..edit })
                .collect(),
            name: test.name,
        });
    }
    found
}

/// The text with these falsifications, and how many of them applied. A test whose text differs is left as it is.
#[must_use]
pub fn apply_canaries(path: &str, text: &str, canaries: &[&TestCanary]) -> (String, usize) {
    let tests = canary_tests(path, text);
    let mut edits: Vec<CanaryEdit> = Vec::new();
    let mut applied = 0;
    for canary in canaries.iter().filter(|canary| canary.path == path) {
        let same = |test: &&CanaryTest| {
            test.name == canary.name && hash::hash_bytes(&text.as_bytes()[test.start..test.end]) == canary.body
        };
        let Some(test) = tests.iter().find(same) else { continue };
        applied += 1;
        edits.extend(canary.edits.iter().map(|edit| CanaryEdit {
            start: test.start + edit.start,
            end: test.start + edit.end,
            text: edit.text.clone(),
        }));
    }
    (replaced(text, edits), applied)
}

fn readable(path: &str, text: &str) -> Option<CanaryLanguage> {
    CanaryLanguage::from_path(path).filter(|_| text.len() <= CANARY_FILE_BYTES_MAX)
}

/// The replacements, outermost first and never overlapping.
fn replaced(text: &str, mut edits: Vec<CanaryEdit>) -> String {
    edits.sort_by_key(|edit| edit.start);
    let (mut out, mut at) = (String::with_capacity(text.len() + 64), 0);
    for edit in edits {
        let (Some(before), true) = (text.get(at..edit.start), edit.end >= edit.start) else { continue };
        out.push_str(before);
        out.push_str(&edit.text);
        at = edit.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// The replacements of the best kind of sites that yields one.
fn choose(
    text: &str,
    language: CanaryLanguage,
    sites: &[ranges::CanarySite],
    width: CanaryWidth,
    dice: &mut CanaryDice,
) -> Vec<CanaryEdit> {
    for rank in ranges::RANKS {
        let of_rank = sites.iter().filter(|site| site.rank == rank);
        let mut edits: Vec<CanaryEdit> = of_rank.filter_map(|site| site.edit(text, language, dice.roll())).collect();
        if edits.is_empty() {
            continue;
        }
        edits.sort_by_key(|edit| edit.start);
        edits.dedup_by_key(|edit| edit.start);
        return match width {
            CanaryWidth::All => edits.into_iter().take(EDITS_MAX).collect(),
            // The expected value is usually the last literal.
            CanaryWidth::One => edits.pop().into_iter().collect(),
        };
    }
    Vec::new()
}

/// Numbers that depend on a secret roll and a test's name only.
struct CanaryDice(u64);

impl CanaryDice {
    fn new(roll: u64, name: &str, at: usize) -> Self {
        let seed = hash::hash_fields(&[&roll.to_le_bytes(), name.as_bytes(), &at.to_le_bytes()]);
        Self(u64::from_str_radix(seed.get(..16).unwrap_or("1"), 16).unwrap_or(roll) | 1)
    }

    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[cfg(test)]
mod tests;
