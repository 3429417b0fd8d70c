//! The static test inventory: which tests a tree has, read from source text, so that a deleted, skipped, renamed or
//! emptied test is seen whatever the runner prints.
//!
//! It reads Rust, Python, JavaScript and TypeScript, Go, and shell; each with a small lexer that comments and strings
//! cannot fool, linear in the text and without panics on any bytes. It knows no types and runs nothing: a test that is
//! disabled by means the text does not show (a manifest, a runner's settings) is the sensitive paths' business.

mod go;
mod javascript;
mod mask;
mod python;
mod rust;
mod shell;
mod steering;
mod tokens;

pub use steering::find_test_steering;

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A larger file is not read; in the sealed tree that makes its tests missing, which is the safe side.
pub const FILE_BYTES_MAX: usize = 2 << 20;

/// Most tests of one file.
const TESTS_MAX: usize = 10_000;

/// Deepest nesting that is read; what is deeper counts as no test, which is the safe side.
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

/// Whether runners take a file for a suite by its name alone. Sources are never among them: a Rust file is one only in
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

/// One test as its text shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InventoryTest {
    /// Its name within the file: modules, classes and blocks around it, then itself.
    pub(crate) name: String,
    /// It does not run.
    pub(crate) is_skipped: bool,
    /// Conditions under which it runs, or runs to another end, as they are written.
    pub(crate) guards: BTreeSet<String>,
    /// Assertion-looking calls that could fail.
    pub(crate) assertions: usize,
    /// The body does nothing.
    pub(crate) is_empty: bool,
    /// The body without blanks, where tests live among the code and cannot be put back from base.
    pub(crate) text: Option<String>,
}

/// The tests of a tree, or of the changed part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestInventory {
    tests: BTreeMap<(TestSuite, String, String), InventoryTest>,
}

/// Why a test of base is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingReason {
    /// Nothing by its name is there: deleted, renamed, commented out, or its file is no longer collected.
    Gone,
    /// It is there and does not run, or runs only under a new condition.
    Skipped,
    /// It runs and no longer asserts anything.
    Emptied,
}

impl std::fmt::Display for MissingReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Gone => "gone",
            Self::Skipped => "skipped",
            Self::Emptied => "emptied",
        })
    }
}

/// A test that base had and the sealed tree has not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MissingTest {
    /// Its suite.
    pub suite: TestSuite,
    /// `path::name`.
    pub id: String,
    /// What became of it.
    pub why: MissingReason,
}

impl std::fmt::Display for MissingTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is {}", self.id, self.why)
    }
}

impl TestInventory {
    /// Reads files; what holds no tests costs nothing. Give both sides the same paths: all files, or all changed ones.
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
            // A second test by the same name is its own id, so that deleting one of them shows.
            let count = seen.entry(test.name.clone()).or_default();
            *count += 1;
            if *count > 1 {
                test.name = format!("{}#{count}", test.name);
            }
            self.tests.insert((suite, path.to_owned(), test.name.clone()), test);
        }
    }

    /// How many tests run.
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

/// Every test that ran in base and is missing, skipped or emptied in the sealed tree. A test that moved to another file
/// of its suite under the same name is present; new tests are welcome.
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

/// Tests among the code whose text differs from base's: they may ask for less than they did. New ones are welcome.
#[must_use]
pub fn rewritten_tests(base: &TestInventory, sealed: &TestInventory) -> Vec<String> {
    let both = base.tests.iter().filter_map(|(key, before)| Some((key, before, sealed.tests.get(key)?)));
    let differ = both.filter(|(_, before, after)| before.text.is_some() && before.text != after.text);
    differ.map(|((_, path, name), ..)| format!("{path}::{name}")).collect()
}

/// Tests that only the sealed tree has, by suite and last name: where a moved test could be.
fn spare<'a>(base: &TestInventory, sealed: &'a TestInventory) -> BTreeMap<(TestSuite, String), Vec<&'a InventoryTest>> {
    let mut spare: BTreeMap<(TestSuite, String), Vec<&InventoryTest>> = BTreeMap::new();
    for (key, test) in sealed.tests.iter().filter(|(key, _)| !base.tests.contains_key(*key)) {
        spare.entry((key.0, moved_name(key.0, &test.name))).or_default().push(test);
    }
    spare
}

/// Takes a moved test out of the spare ones, so that one test never stands in for two.
fn take_moved<'a>(
    spare: &mut BTreeMap<(TestSuite, String), Vec<&'a InventoryTest>>,
    suite: TestSuite,
    name: &str,
) -> Option<&'a InventoryTest> {
    let tests = spare.get_mut(&(suite, moved_name(suite, name)))?;
    let running = tests.iter().position(|test| !test.is_skipped).or(if tests.is_empty() { None } else { Some(0) })?;
    Some(tests.swap_remove(running))
}

/// What stays of a name when the test moves: a Rust test keeps its function's name, since its module is its file; the
/// others keep all of it. A shell script is its file, so only a move of the whole file is one.
fn moved_name(suite: TestSuite, name: &str) -> String {
    let name = name.split('#').next().unwrap_or(name);
    match suite {
        // A macro or a function around a test is no module, and a test inside one may never run.
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
