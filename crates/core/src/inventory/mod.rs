//! The static test inventory: the tests of a tree, read from source text, so that a deleted, skipped, renamed or
//! emptied test is detected whatever the runner prints.
//!
//! It reads Rust, Python, JavaScript and TypeScript, Go, and shell. Each language has a small lexer that comments and
//! strings cannot fool, that is linear in the text, and that does not panic on any bytes. It knows no types and runs
//! nothing. The sensitive paths cover tests that are disabled outside the source text (in a manifest, in a runner's
//! settings).

pub mod canary;
mod go;
mod javascript;
mod mask;
mod python;
mod rust;
mod shell;
mod steering;
mod tokens;
mod withhold;

pub use steering::{TestSteering, find_test_steering};
pub use withhold::{WithholdChoice, companions, suites_of_command, withheld_by_globs, withheld_by_share};

use crate::words::worded;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A larger file is not read. In the sealed tree its tests then count as missing, which is the safe side.
pub const FILE_BYTES_MAX: usize = 2 << 20;

/// The largest number of tests of one file.
const TESTS_MAX: usize = 10_000;

/// The limit on nesting; deeper code counts as containing no test, which is the safe side.
const DEPTH_MAX: usize = 200;

/// A language with tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestSuite {
    /// Rust's `#[test]` functions.
    Rust,
    /// pytest and unittest.
    Python,
    /// node:test, jest, vitest, mocha.
    JavaScript,
    /// `go test`.
    Go,
    /// Scripts, and bats.
    Shell,
}

impl TestSuite {
    /// The suite whose tests a file can hold, by its path.
    #[must_use]
    pub fn from_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name.rsplit_once('.')?.1 {
            "rs" => Some(Self::Rust),
            "py" => Some(Self::Python),
            "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" => {
                javascript::is_test(path).then_some(Self::JavaScript)
            }
            "go" => name.ends_with("_test.go").then_some(Self::Go),
            "sh" | "bash" | "bats" => shell::is_test(path).then_some(Self::Shell),
            _ => None,
        }
    }
}

/// Whether runners collect a file as a suite by its name alone. Sources do not count: a Rust file is a suite only in
/// the `tests` folder of its package.
#[must_use]
pub fn is_suite(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match TestSuite::from_path(path) {
        Some(TestSuite::Rust) => folder == "tests" || (folder.ends_with("/tests") && !folder.contains("src/")),
        Some(TestSuite::Python) => {
            name.starts_with("test_") || name.ends_with("_test.py") || name.ends_with("_tests.py")
        }
        Some(TestSuite::JavaScript) => [".test.", ".spec."].iter().any(|part| name.contains(part)),
        Some(TestSuite::Go) => true,
        Some(TestSuite::Shell) => name.ends_with(".bats") || name.starts_with("test_"),
        None => false,
    }
}

/// The outermost folder of tests that a path is in, by its name.
#[must_use]
pub fn test_folder(path: &str) -> Option<&str> {
    const NAMES: [&str; 7] = ["test", "tests", "__tests__", "spec", "specs", "testing", "testdata"];
    let mut end = 0;
    for part in path.rsplit_once('/')?.0.split('/') {
        end += part.len();
        if NAMES.contains(&part) {
            return path.get(..end);
        }
        end += 1;
    }
    None
}

/// One test as the source text shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InventoryTest {
    /// Its name within the file: modules, classes and blocks around it, then its own name.
    pub(crate) name: String,
    /// It does not run.
    pub(crate) is_skipped: bool,
    /// Conditions under which it runs, or runs with another result, as written.
    pub(crate) guards: BTreeSet<String>,
    /// Calls that look like assertions and could fail.
    pub(crate) assertions: usize,
    /// The body has no effect.
    pub(crate) is_empty: bool,
    /// The body without white space, for tests inside source files, which base's version cannot replace.
    pub(crate) text: Option<String>,
}

/// The tests of a tree, or of the changed part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestInventory {
    tests: BTreeMap<(TestSuite, String, String), InventoryTest>,
}

worded! {
    /// The reason why a test of base is missing.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum MissingReason {
        /// No test has its name: deleted, renamed, commented out, or its file is no longer collected.
        Gone = "gone",
        /// It exists and does not run, or runs only under a new condition.
        Skipped = "skipped",
        /// It runs and no longer asserts anything.
        Emptied = "emptied",
    }
}

/// A test of base that the sealed tree does not have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MissingTest {
    /// Its suite.
    pub suite: TestSuite,
    /// `path::name`.
    pub id: String,
    /// The reason why it is missing.
    pub why: MissingReason,
}

impl std::fmt::Display for MissingTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is {}", self.id, self.why)
    }
}

impl TestInventory {
    /// Reads files; files without tests cost nothing. Pass the same paths for both sides: all files, or all changed
    /// ones.
    pub fn from_files<P: AsRef<str>, T: AsRef<str>>(files: impl Iterator<Item = (P, T)>) -> Self {
        let mut inventory = Self::default();
        for (path, text) in files {
            inventory.add(path.as_ref(), text.as_ref());
        }
        inventory
    }

    fn add(&mut self, path: &str, text: &str) {
        let Some(suite) = TestSuite::from_path(path).filter(|_| text.len() <= FILE_BYTES_MAX) else { return };
        let tests = match suite {
            TestSuite::Rust => rust::tests(text),
            TestSuite::Python => python::tests(path, text),
            TestSuite::JavaScript => javascript::tests(path, text),
            TestSuite::Go => go::tests(text),
            TestSuite::Shell => shell::tests(path, text),
        };
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for mut test in tests.into_iter().take(TESTS_MAX) {
            // A second test with the same name has its own id, so that deleting one of them is detected.
            let count = seen.entry(test.name.clone()).or_default();
            *count += 1;
            if *count > 1 {
                test.name = format!("{}#{count}", test.name);
            }
            self.tests.insert((suite, path.to_owned(), test.name.clone()), test);
        }
    }

    /// The number of tests that run.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tests.values().filter(|test| !test.is_skipped).count()
    }

    /// Whether no test runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids of tests that run, as `path::name`.
    pub fn ids(&self) -> impl Iterator<Item = String> + '_ {
        let running = self.tests.iter().filter(|(_, test)| !test.is_skipped);
        running.map(|((_, path, name), _)| format!("{path}::{name}"))
    }
}

/// All tests that ran in base and are missing, skipped or emptied in the sealed tree. A test that moved to another file
/// of its suite under the same name is present. New tests are allowed.
#[must_use]
pub fn compare(base: &TestInventory, sealed: &TestInventory) -> Vec<MissingTest> {
    let mut spare = spare(base, sealed);
    let mut missing = Vec::new();
    for ((suite, path, name), before) in base.tests.iter().filter(|(_, test)| !test.is_skipped) {
        let here = sealed.tests.get(&(*suite, path.clone(), name.clone()));
        let after = here.or_else(|| take_moved(&mut spare, *suite, name));
        let why = after.map_or(Some(MissingReason::Gone), |after| weaker(before, after));
        missing.extend(why.map(|why| MissingTest { suite: *suite, id: format!("{path}::{name}"), why }));
    }
    missing
}

/// Tests inside source files whose text differs from base's: they may check less than before. New tests are allowed.
#[must_use]
pub fn rewritten_tests(base: &TestInventory, sealed: &TestInventory) -> Vec<String> {
    let both = base.tests.iter().filter_map(|(key, before)| Some((key, before, sealed.tests.get(key)?)));
    let differ = both.filter(|(_, before, after)| before.text.is_some() && before.text != after.text);
    differ.map(|((_, path, name), ..)| format!("{path}::{name}")).collect()
}

/// Tests that check less than in base: they still assert something, but less often.
#[must_use]
pub fn weakened_tests(base: &TestInventory, sealed: &TestInventory) -> Vec<String> {
    let both = base.tests.iter().filter_map(|(key, before)| Some((key, before, sealed.tests.get(key)?)));
    let weaker = both.filter(|(_, before, after)| (1..before.assertions).contains(&after.assertions));
    let shown = weaker.map(|((_, path, name), before, after)| {
        format!("`{path}::{name}` asserts {} times, base {} times", after.assertions, before.assertions)
    });
    shown.collect()
}

/// Tests that only the sealed tree has, by suite and last name: candidates for a moved test.
fn spare<'a>(base: &TestInventory, sealed: &'a TestInventory) -> BTreeMap<(TestSuite, String), Vec<&'a InventoryTest>> {
    let mut spare: BTreeMap<(TestSuite, String), Vec<&InventoryTest>> = BTreeMap::new();
    for (key, test) in sealed.tests.iter().filter(|(key, _)| !base.tests.contains_key(*key)) {
        spare.entry((key.0, moved_name(key.0, &test.name))).or_default().push(test);
    }
    spare
}

/// Removes a moved test from the candidates, so that one test never replaces two.
fn take_moved<'a>(
    spare: &mut BTreeMap<(TestSuite, String), Vec<&'a InventoryTest>>,
    suite: TestSuite,
    name: &str,
) -> Option<&'a InventoryTest> {
    let tests = spare.get_mut(&(suite, moved_name(suite, name)))?;
    let running = tests.iter().position(|test| !test.is_skipped).or(if tests.is_empty() { None } else { Some(0) })?;
    Some(tests.swap_remove(running))
}

/// The part of a name that stays when the test moves: a Rust test keeps its function's name, because its module is its
/// file; tests of other languages keep the whole name. A shell script is its file, so only the whole file can move.
fn moved_name(suite: TestSuite, name: &str) -> String {
    let name = name.split('#').next().unwrap_or(name);
    match suite {
        // A macro or a function around a test is not a module, and a test inside one may never run.
        TestSuite::Rust if name.contains('!') || name.contains("()") => name.to_owned(),
        TestSuite::Rust => name.rsplit("::").next().unwrap_or(name).to_owned(),
        TestSuite::Python | TestSuite::JavaScript | TestSuite::Go | TestSuite::Shell => name.to_owned(),
    }
}

fn weaker(before: &InventoryTest, after: &InventoryTest) -> Option<MissingReason> {
    if after.is_skipped || !after.guards.is_subset(&before.guards) {
        return Some(MissingReason::Skipped);
    }
    let lost_all = before.assertions > 0 && after.assertions == 0;
    let emptied = !before.is_empty && after.is_empty;
    (lost_all || emptied).then_some(MissingReason::Emptied)
}

#[cfg(test)]
mod tests;
