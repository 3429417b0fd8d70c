//! The examinations that every candidate gets, whatever gates a loop declares: secrets, protected and allowed paths,
//! the test inventory, sensitive paths. This module only collects findings; the driver decides which of them refuse,
//! reject or escalate.

use super::{CandidateFacts, GatesError};
use loopwright_core::inventory::{self, FILE_BYTES_MAX, MissingTest, TestInventory, TestSuite};
use loopwright_core::paths::{self, ChangedFile, ProtectedPaths, RUNS_BEFORE_TESTS, SensitivePath};
use loopwright_core::round::SealFindings;
use loopwright_core::secrets::{CandidateTexts, SecretHit, SecretScanner};
use loopwright_core::spec::LoopSpec;

/// The findings in a candidate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CandidateExamination {
    /// Secrets; any refuses the round.
    pub secrets: Vec<SecretHit>,
    /// Changes to protected files; any rejects the round.
    pub protected: Vec<String>,
    /// Changes outside the allowed paths; any rejects the round.
    pub outside: Vec<String>,
    /// Tests of base that are missing, skipped or emptied; any rejects the round.
    pub missing_tests: Vec<MissingTest>,
    /// Paths that need a person's approval at every level.
    pub sensitive: Vec<SensitivePath>,
    /// Code that needs a person unless falsified tests fail as they should.
    pub steering: Vec<SensitivePath>,
    /// Settings of test runners, which falsified tests can settle as well.
    pub runner_files: Vec<SensitivePath>,
    /// Tests that assert less often than in base. One change may do that; a loop that does it again and again needs a
    /// person.
    pub weakened_tests: Vec<String>,
    /// Facts that the report points out.
    pub notes: Vec<String>,
}

impl From<CandidateExamination> for SealFindings {
    fn from(found: CandidateExamination) -> Self {
        Self {
            refused_paths: Vec::new(),
            secrets: found.secrets.iter().map(|hit| format!("{} at {}", hit.rule, hit.place)).collect(),
            protected: found.protected,
            missing_tests: found.missing_tests.iter().map(ToString::to_string).collect(),
            outside: found.outside,
            sensitive: listed(&found.sensitive),
            steering: listed(&found.steering),
            runner_files: listed(&found.runner_files),
            weakened_tests: found.weakened_tests,
            notes: found.notes,
            proposed_before: None,
        }
    }
}

fn listed(found: &[SensitivePath]) -> Vec<String> {
    found.iter().map(|one| format!("{}: {}", one.path, one.why)).collect()
}

/// Examines a candidate. `sensitive` adds to the built-in list. `texts` are the outgoing texts besides the tree: the
/// commit message and every outbox item, each with its location. `scanner` knows the values that may not leave.
///
/// # Errors
/// A pattern of the loop is not a glob.
pub fn examine(
    spec: &LoopSpec,
    sensitive: &[String],
    facts: &CandidateFacts,
    scanner: &SecretScanner,
    texts: &[(&str, &str)],
) -> Result<CandidateExamination, GatesError> {
    let protected =
        ProtectedPaths::new(&spec.protect)?.violations(&facts.changes, |path| facts.base_paths.contains(path));
    let files = facts.changes.iter().zip(&facts.files).map(|(change, file)| ChangedFile {
        change,
        before: file.before.as_deref(),
        after: file.after.as_deref(),
    });
    let files: Vec<ChangedFile<'_>> = files.collect();
    let in_base = |path: &str| facts.base_paths.contains(path);
    let mut found = paths::find_sensitive(files.iter().copied(), sensitive, in_base)?;
    found.extend(paths::find_harmful(&files, &facts.added, &facts.base_paths));
    let mut notes = protected.notes;
    let is_settled = |one: &SensitivePath| paths::is_runner_config(&one.path) || one.why == RUNS_BEFORE_TESTS;
    let (runner_files, mut sensitive): (Vec<_>, Vec<_>) =
        allowed(spec, found, &mut notes).into_iter().partition(is_settled);
    let mut unproven = Vec::new();
    for file in &facts.added {
        let steering = inventory::find_test_steering(file);
        let path = |why: String| SensitivePath { path: file.path.clone(), why, kind: None };
        sensitive.extend(steering.always.into_iter().map(path));
        unproven.extend(steering.unless_proven.into_iter().map(path));
    }
    let (base, sealed) = inventories(facts);
    // A unit test inside a source file cannot be restored from base, so a rewritten one needs a person's approval.
    let rewritten = inventory::rewritten_tests(&base, &sealed).into_iter().take(REWRITTEN_MAX);
    let why = "a test that base has was rewritten";
    sensitive.extend(rewritten.map(|path| SensitivePath { path, why: why.to_owned(), kind: None }));
    notes.extend(test_edits(facts));
    let weakened_tests: Vec<String> = inventory::weakened_tests(&base, &sealed);
    notes.extend(weakened_tests.iter().take(REWRITTEN_MAX).map(|test| format!("a test checks less: {test}")));
    Ok(CandidateExamination {
        secrets: secrets(facts, scanner, texts),
        protected: protected.violations,
        outside: paths::outside_allowed(&spec.allow_paths, &facts.changes)?,
        missing_tests: inventory::compare(&base, &sealed),
        sensitive,
        steering: unproven,
        runner_files,
        weakened_tests,
        notes,
    })
}

fn secrets(facts: &CandidateFacts, scanner: &SecretScanner, texts: &[(&str, &str)]) -> Vec<SecretHit> {
    let before: Vec<&[u8]> = facts.files.iter().filter_map(|file| file.before.as_deref()).collect();
    let present = facts.files.iter().filter(|file| file.after.is_some());
    let names: Vec<&str> = present.map(|file| file.path.as_str()).collect();
    scanner.scan_candidate(&CandidateTexts { added: &facts.added, before: &before, names: &names, texts })
}

/// Most rewritten tests that a report names.
const REWRITTEN_MAX: usize = 10;

/// The tests of both versions of the changed files. Only changed files can lose a test, and a moved test is in two of
/// them.
fn inventories(facts: &CandidateFacts) -> (TestInventory, TestInventory) {
    let side = |bytes: fn(&super::FileFact) -> Option<&[u8]>| {
        let files = facts.files.iter().filter(|file| TestSuite::from_path(&file.path).is_some());
        let texts = files.filter_map(move |file| Some((file.path.as_str(), bytes(file)?)));
        // The inventory does not read larger files, so they are not converted either.
        let texts = texts.filter(|(_, bytes)| bytes.len() <= FILE_BYTES_MAX);
        TestInventory::from_files(texts.map(|(path, bytes)| (path, String::from_utf8_lossy(bytes))))
    };
    (side(|file| file.before.as_deref()), side(|file| file.after.as_deref()))
}

/// The findings without those whose kind the loop allows; these become notes.
fn allowed(spec: &LoopSpec, found: Vec<SensitivePath>, notes: &mut Vec<String>) -> Vec<SensitivePath> {
    let mut left = Vec::new();
    for one in found {
        match spec.allow_sensitive.iter().find(|allowed| Some(allowed.kind) == one.kind) {
            Some(allowed) => {
                notes.push(format!("sensitive, allowed as `{}`: {}: {}", allowed.kind, one.path, one.why));
            }
            None => left.push(one),
        }
    }
    left
}

/// Edited tests keep their names but may check less, so the report names their files.
fn test_edits(facts: &CandidateFacts) -> Vec<String> {
    let edited = facts.files.iter().filter(|file| file.before.is_some() && file.after.is_some());
    let tests = edited.filter(|file| {
        TestSuite::from_path(&file.path).is_some_and(|suite| suite != TestSuite::Rust || file.path.contains("test"))
    });
    let named = tests.filter(|file| file.path.to_ascii_lowercase().contains("test") || file.path.contains("spec"));
    named.map(|file| format!("tests were edited in `{}`", file.path)).collect()
}
