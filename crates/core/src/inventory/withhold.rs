//! Chooses the files of tests that a round withholds from its maker. The files that stay must work without them, so a
//! file stays if another file, a command or the task names it, or if it shares its package with other tests.
//!
//! Whole files are chosen, by a secret number. The engine knows which tests are red on base and leaves them out.

use super::{FILE_BYTES_MAX, TestInventory, TestSuite, is_suite};
use crate::hash::hash_fields;
use crate::paths::{GlobError, Globs};
use std::collections::{BTreeMap, BTreeSet};

/// The files of base among which tests are chosen.
#[derive(Debug, Clone, Copy)]
pub struct WithholdChoice<'a> {
    /// The texts of base's tests, of the files beside them and of the files at the root, by path.
    pub texts: &'a BTreeMap<String, String>,
    /// Files with a test that is red on base: the maker must see them.
    pub red: &'a BTreeSet<String>,
    /// Commands and prompts of the loop, and the round's items. A file that they name is not withheld.
    pub task: &'a str,
    /// The languages whose tests the gates run; empty if a gate's command does not show it.
    pub suites: &'a BTreeSet<TestSuite>,
}

/// Words of a command that show which tests it runs.
const SUITE_WORDS: [(TestSuite, &str); 5] = [
    (TestSuite::Python, "python python3 pytest unittest nose2 tox nox"),
    (TestSuite::JavaScript, "node npm npx yarn pnpm bun deno jest vitest mocha ava"),
    (TestSuite::Rust, "cargo"),
    (TestSuite::Go, "go"),
    (TestSuite::Shell, "bats"),
];

/// The languages of the tests that a command runs; empty if it does not show it.
#[must_use]
pub fn suites_of_command(run: &[String]) -> BTreeSet<TestSuite> {
    let words: BTreeSet<&str> =
        run.iter().flat_map(|word| word.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')).collect();
    let named = SUITE_WORDS.iter().filter(|(_, known)| known.split(' ').any(|word| words.contains(word)));
    named.map(|(suite, _)| *suite).collect()
}

/// Withholds this share of the tests, in percent, if there are at least `tests_min`. A secret `roll` decides which.
#[must_use]
pub fn withheld_by_share(choice: WithholdChoice<'_>, percent: u8, tests_min: usize, roll: u64) -> Vec<String> {
    let is_run = |path: &str| {
        choice.suites.is_empty() || TestSuite::from_path(path).is_some_and(|suite| choice.suites.contains(&suite))
    };
    let suites = choice.texts.iter().filter(|(path, _)| is_suite(path) && is_run(path));
    let counted: Vec<(&str, usize)> = suites.map(|(path, text)| (path.as_str(), tests_in(path, text))).collect();
    let total: usize = counted.iter().map(|(_, tests)| tests).sum();
    let mut free: Vec<(&str, usize)> =
        counted.into_iter().filter(|(path, tests)| *tests > 0 && choice.may_miss(path)).collect();
    if total < tests_min || free.is_empty() {
        return Vec::new();
    }
    free.sort_by_key(|(path, _)| hash_fields(&[&roll.to_le_bytes(), path.as_bytes()]));
    let (wanted, mut chosen, mut sum) = (total * usize::from(percent) / 100, Vec::new(), 0);
    for (path, tests) in free {
        // One file is withheld even if it holds more than the share, unless it holds most of the tests.
        if sum + tests <= wanted || (chosen.is_empty() && tests * 2 <= total) {
            sum += tests;
            chosen.push(path.to_owned());
        }
    }
    chosen.sort();
    chosen
}

/// Withholds the files that these patterns match, except those with a test that is red on base.
///
/// # Errors
/// A pattern is not a glob.
pub fn withheld_by_globs(
    paths: &BTreeSet<String>,
    globs: &[String],
    red: &BTreeSet<String>,
) -> Result<Vec<String>, GlobError> {
    let globs = Globs::new(globs)?;
    Ok(paths.iter().filter(|path| globs.matches(path) && !red.contains(*path)).cloned().collect())
}

/// Recorded results that belong to withheld files, such as `__snapshots__/a.test.js.snap`: they contain the answers.
#[must_use]
pub fn companions(paths: &BTreeSet<String>, withheld: &[String]) -> Vec<String> {
    let names: Vec<(&str, &str)> = withheld.iter().map(|path| (file_name(path), stem(path))).collect();
    let belongs = |path: &&String| {
        let name = file_name(path);
        let is_recorded = path.contains("snapshots/") || name.ends_with(".snap") || name.ends_with(".ambr");
        is_recorded && names.iter().any(|(file, stem)| name.starts_with(file) || starts_word(name, stem))
    };
    paths.iter().filter(belongs).filter(|path| !withheld.contains(path)).cloned().collect()
}

fn tests_in(path: &str, text: &str) -> usize {
    TestInventory::from_files(std::iter::once((path, text))).len()
}

impl WithholdChoice<'_> {
    /// Whether everything else works without this file.
    fn may_miss(&self, path: &str) -> bool {
        let Some(text) = self.texts.get(path).filter(|text| text.len() <= FILE_BYTES_MAX) else { return false };
        let needles = needles(path);
        let names_it = |text: &str| needles.iter().any(|needle| has_word(text, needle));
        !self.red.contains(path)
            && !is_shared_go_file(path, text)
            && !has_word(self.task, stem(path))
            && !self.texts.iter().any(|(other, text)| other != path && names_it(text))
    }
}

/// The words by which another file names this one.
fn needles(path: &str) -> Vec<String> {
    let stem = stem(path);
    match TestSuite::from_path(path) {
        // The name of a Rust test is often an everyday word.
        Some(TestSuite::Rust) => {
            vec![format!("mod {stem}"), format!("{stem}.rs"), format!("--test {stem}"), format!("\"{stem}\"")]
        }
        Some(TestSuite::Go) => vec![file_name(path).to_owned()],
        _ => vec![stem.to_owned()],
    }
}

/// A Go file of tests shares its package with others: they use its functions, types and variables.
fn is_shared_go_file(path: &str, text: &str) -> bool {
    let is_own = |line: &str| ["Test", "Benchmark", "Example", "Fuzz"].iter().any(|word| line.starts_with(word));
    let defines = |line: &str| match line.strip_prefix("func ") {
        Some(rest) => !is_own(rest),
        None => ["type ", "var ", "const "].iter().any(|word| line.starts_with(word)),
    };
    TestSuite::from_path(path) == Some(TestSuite::Go) && text.lines().any(defines)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The name without its last ending.
fn stem(path: &str) -> &str {
    let name = file_name(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn starts_word(text: &str, word: &str) -> bool {
    let next = text.as_bytes().get(word.len());
    text.starts_with(word) && (next.is_none_or(|byte| !is_word_byte(*byte)) || text[word.len()..].starts_with("__"))
}

/// Whether a text contains a word, not as a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let bytes = text.as_bytes();
    let is_free = |at: Option<&u8>| at.is_none_or(|byte| !is_word_byte(*byte));
    text.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        is_free(before) && is_free(bytes.get(at + word.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    fn suite(count: usize) -> String {
        (0..count).map(|at| format!("def test_{at}():\n    assert {at} == {at}\n")).collect()
    }

    fn chosen(texts: &BTreeMap<String, String>, red: &[&str], task: &str, roll: u64) -> Vec<String> {
        let red = red.iter().map(|path| (*path).to_owned()).collect();
        withheld_by_share(WithholdChoice { texts, red: &red, task, suites: &BTreeSet::new() }, 20, 20, roll)
    }

    #[test]
    fn about_a_fifth_of_the_tests_is_withheld_in_whole_files_by_a_secret_number() {
        let texts: BTreeMap<String, String> = (0..10).map(|at| (format!("tests/test_m{at}.py"), suite(4))).collect();
        let first = chosen(&texts, &[], "", 1);
        assert_eq!(first.len(), 2, "{first:?}");
        assert_eq!(first, chosen(&texts, &[], "", 1));
        assert!((2..40).any(|roll| chosen(&texts, &[], "", roll) != first));
    }

    #[test]
    fn fewer_than_twenty_tests_are_all_shown() {
        let texts = base(&[("tests/test_a.py", &suite(9)), ("tests/test_b.py", &suite(10))]);
        assert!(chosen(&texts, &[], "", 1).is_empty());
    }

    #[test]
    fn files_that_are_red_or_named_elsewhere_stay() {
        let all = base(&[
            ("tests/test_red.py", &suite(5)),
            ("tests/test_base.py", &suite(5)),
            ("tests/test_task.py", &suite(5)),
            ("tests/test_user.py", &format!("from test_base import Case\n{}", suite(5))),
            ("tests/conftest.py", "import pytest\n"),
            ("tests/test_free.py", &suite(5)),
        ]);
        for roll in 0..50 {
            let withheld = chosen(&all, &["tests/test_red.py"], "fix what tests/test_task.py shows", roll);
            assert!(withheld == ["tests/test_free.py"] || withheld == ["tests/test_user.py"], "{withheld:?}");
        }
    }

    #[test]
    fn tests_that_no_gate_runs_are_not_withheld() {
        let mut texts: BTreeMap<String, String> = (0..6).map(|at| (format!("tests/test_m{at}.py"), suite(4))).collect();
        texts.insert("tests/test_x.sh".to_owned(), "test_x() {\n  true\n}\n".to_owned());
        let command = ["sh", "-c", "cd . && python3 -m unittest"].map(str::to_owned);
        let (suites, red) = (suites_of_command(&command), BTreeSet::new());
        assert_eq!(suites, [TestSuite::Python].into());
        for roll in 0..50 {
            let choice = WithholdChoice { texts: &texts, red: &red, task: "", suites: &suites };
            assert!(withheld_by_share(choice, 20, 20, roll).iter().all(|path| path.ends_with(".py")));
        }
        assert!(suites_of_command(&["make".to_owned(), "test".to_owned()]).is_empty());
    }

    #[test]
    fn a_file_with_most_of_the_tests_stays() {
        let texts = base(&[("tests/test_all.py", &suite(30))]);
        assert!(chosen(&texts, &[], "", 3).is_empty());
    }

    #[test]
    fn go_files_that_define_helpers_stay() {
        let tests: String = (0..10).map(|at| format!("func TestA{at}(t *testing.T) {{\n\tt.Fatal()\n}}\n")).collect();
        let texts = base(&[
            ("a_test.go", &format!("package a\n{tests}func helper() {{}}\n")),
            ("b_test.go", &format!("package a\nvar cases = 3\n{tests}")),
            ("c_test.go", &format!("package a\n{tests}")),
        ]);
        assert_eq!(chosen(&texts, &[], "", 5), ["c_test.go"]);
    }

    #[test]
    fn recorded_answers_go_with_their_tests() {
        let paths: BTreeSet<String> =
            ["src/__snapshots__/a.test.js.snap", "src/__snapshots__/b.test.js.snap", "tests/snapshots/api__x.snap"]
                .map(str::to_owned)
                .into();
        assert_eq!(companions(&paths, &["src/a.test.js".to_owned()]), ["src/__snapshots__/a.test.js.snap"]);
        assert_eq!(companions(&paths, &["tests/api.rs".to_owned()]), ["tests/snapshots/api__x.snap"]);
    }

    #[test]
    fn patterns_withhold_what_they_match_but_for_red_files() {
        let paths = ["tests/a.py", "tests/b.py", "src/a.py"].map(str::to_owned).into();
        let red = ["tests/b.py".to_owned()].into();
        assert_eq!(withheld_by_globs(&paths, &["tests/**".to_owned()], &red).expect("a glob"), ["tests/a.py"]);
    }
}
