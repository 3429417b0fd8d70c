//! One pass of the suite as one kind of user: builds it, runs it, and reads the end of each case.

use super::{CaseResults, ContainmentResult};
use crate::command::{HOSTILE, THREADS_VARIABLE, run, run_watched, test_threads};
use crate::summary::without_colour;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The ordinary user's number: it has no name and no home, and differs from the number of unmapped users.
const USER: u32 = 61_234;

/// Names the file to which tests append the cases that this host cannot run.
const SKIPS_VARIABLE: &str = "LOOPWRIGHT_TEST_SKIPS";

/// Names the program under test for tests that cannot access the program they were built with.
const BINARY_VARIABLE: &str = "LOOPWRIGHT_TEST_BINARY";

/// The built suite.
pub(super) struct HostileSuite {
    tests: Vec<String>,
    test_binary: PathBuf,
    program: PathBuf,
    triple: String,
    filter: Vec<String>,
}

/// The user that runs the cases.
pub(super) enum SuiteUser {
    /// The user who runs this command.
    Caller,
    /// A user without privileges, in a folder of its own.
    Ordinary(tempfile::TempDir),
}

/// With the whole workspace, cargo chooses the features of the test step before it, and builds nothing twice.
const WORDS: [&str; 5] = ["--workspace", "--test", "hostile", "--features", HOSTILE];

impl HostileSuite {
    /// Builds the suite and lists its cases, so that a case that never ran is noticed.
    pub(super) fn build(mut cargo: Command, filter: &[&str]) -> Result<Self, String> {
        cargo.args(["nextest", "list"]).args(WORDS).args(["--message-format", "json"]).args(filter);
        let output = cargo.stderr(std::process::Stdio::inherit()).output();
        let output = output.map_err(|error| format!("build the suite: {error}"))?;
        if !output.status.success() {
            return Err("the suite does not build".to_owned());
        }
        let list =
            serde_json::from_slice(&output.stdout).map_err(|error| format!("read the list of cases: {error}"))?;
        Self::from_list(&list, filter).ok_or_else(|| "the list of cases has another shape".to_owned())
    }

    fn from_list(list: &Value, filter: &[&str]) -> Option<Self> {
        let meta = &list["rust-build-meta"];
        let suite = list["rust-suites"].as_object()?.values().next()?;
        let program = meta["non-test-binaries"].as_object()?.values().next()?.as_array()?.first()?;
        let matches = |case: &Value| case["filter-match"]["status"] == "matches";
        let tests = suite["testcases"].as_object()?.iter().filter(|(_, case)| matches(case));
        Some(Self {
            tests: tests.map(|(name, _)| name.clone()).collect(),
            test_binary: suite["binary-path"].as_str()?.into(),
            program: Path::new(meta["target-directory"].as_str()?).join(program["path"].as_str()?),
            triple: meta["platforms"]["host"]["platform"]["triple"].as_str()?.to_owned(),
            filter: filter.iter().map(|&word| word.to_owned()).collect(),
        })
    }

    /// Runs every case. A case without a reported end was not contained.
    pub(super) fn run(&self, who: &SuiteUser) -> Result<CaseResults, String> {
        let skips = who.skips()?;
        let mut command = crate::command::cargo();
        command.args(["nextest", "run", "--no-tests=warn"]).args(WORDS).args(&self.filter);
        command.env(SKIPS_VARIABLE, skips.path()).env("INSTA_UPDATE", "no");
        command.env(THREADS_VARIABLE, test_threads());
        if let SuiteUser::Ordinary(folder) = who {
            let triple = self.triple.to_uppercase().replace('-', "_");
            command.env(format!("CARGO_TARGET_{triple}_RUNNER"), folder.path().join("as-user"));
            command.env(BINARY_VARIABLE, folder.path().join("loopwright")).env("TMPDIR", folder.path().join("t"));
        }
        let mut ends: CaseResults =
            self.tests.iter().map(|name| (name.clone(), ContainmentResult::NotContained)).collect();
        // The runner's own status only repeats the ends of the cases.
        let _ = run_watched(command, &mut |line| {
            drop(contained(line).and_then(|name| ends.insert(name, ContainmentResult::Contained)))
        });
        let skip_lines = fs::read_to_string(skips.path()).map_err(|error| format!("read the skips: {error}"))?;
        for (name, reason) in skip_lines.lines().filter_map(skipped) {
            ends.entry(name).and_modify(|held| not_enforceable(held, reason));
        }
        Ok(ends)
    }
}

/// A failed case stays failed, whatever it reported before.
fn not_enforceable(held: &mut ContainmentResult, reason: String) {
    if *held == ContainmentResult::Contained {
        *held = ContainmentResult::NotEnforceable(reason);
    }
}

impl SuiteUser {
    /// Copies suite and program to a place where a user without privileges can run them: the checkout may be in root's
    /// home.
    pub(super) fn ordinary(suite: &HostileSuite) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("prepare the ordinary user's folder: {error}");
        let folder = tempfile::Builder::new().prefix("lw-").tempdir().map_err(failed)?;
        let at = folder.path();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        fs::copy(&suite.test_binary, at.join("hostile")).map_err(failed)?;
        fs::copy(&suite.program, at.join("loopwright")).map_err(failed)?;
        fs::create_dir(at.join("t")).and_then(|()| chown(at.join("t"), Some(USER), Some(USER))).map_err(failed)?;
        let runner = at.join("as-user");
        fs::write(&runner, script(at)).map_err(failed)?;
        fs::set_permissions(&runner, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        let mut tried = crate::command::program("/bin/sh");
        tried.arg(&runner).args(["any", "--list", "--format", "terse"]).stdout(std::process::Stdio::null());
        run(tried).map_err(|why| format!("the suite does not start as user {USER}: {why}"))?;
        Ok(Self::Ordinary(folder))
    }

    fn skips(&self) -> Result<tempfile::NamedTempFile, String> {
        let file = match self {
            Self::Caller => tempfile::NamedTempFile::new(),
            Self::Ordinary(folder) => tempfile::NamedTempFile::new_in(folder.path()),
        };
        let file = file.map_err(|error| format!("make the file for skips: {error}"))?;
        if let Self::Ordinary(_) = self {
            chown(file.path(), Some(USER), Some(USER)).map_err(|error| format!("hand the file over: {error}"))?;
        }
        Ok(file)
    }
}

/// The command that the test runner starts instead of the suite: it drops root's privileges and executes the copy.
fn script(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "#!/bin/sh\n# Started as: as-user SUITE ARGUMENTS; the suite that runs is the copy beside this file.\nshift\n\
         cd '{folder}/t' || exit 1\n\
         exec setpriv --reuid={USER} --regid={USER} --clear-groups -- '{folder}/hostile' \"$@\"\n"
    )
}

/// The name of a passed case: `PASS [   0.5s] (3/9) loopwright-cli::hostile paths::h058_…`.
fn contained(line: &str) -> Option<String> {
    let plain = without_colour(line);
    let words: Vec<&str> = plain.split_whitespace().collect();
    let is_pass = words.first() == Some(&"PASS") && words.contains(&"loopwright-cli::hostile");
    is_pass.then(|| words.last().map(|name| (*name).to_owned())).flatten()
}

/// A line of the skip file: `SKIPPED: name: reason`.
fn skipped(line: &str) -> Option<(String, String)> {
    let (name, reason) = line.strip_prefix("SKIPPED: ")?.split_once(": ")?;
    Some((name.to_owned(), reason.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pass_of_the_suite_is_contained() {
        let passed = "        PASS [   0.548s] (207/207) loopwright-cli::hostile workspaces::h112_a_file";
        assert_eq!(contained(passed).as_deref(), Some("workspaces::h112_a_file"));
        for line in [
            "        FAIL [   0.548s] (1/2) loopwright-cli::hostile workspaces::h112_a_file",
            "     TIMEOUT [ 300.0s] (1/2) loopwright-cli::hostile workspaces::h112_a_file",
            "        LEAK [   0.548s] (1/2) loopwright-cli::hostile workspaces::h112_a_file",
            "        PASS [   0.548s] (1/2) loopwright-cli::run workspaces::h112_a_file",
        ] {
            assert_eq!(contained(line), None, "{line}");
        }
    }

    #[test]
    fn skip_names_its_case_and_a_failed_case_stays_failed() {
        let line = "SKIPPED: walls::h069_x: no memory controller: not writable";
        let (name, reason) = skipped(line).expect("the line is one");
        assert_eq!((name.as_str(), reason.as_str()), ("walls::h069_x", "no memory controller: not writable"));
        let mut held = ContainmentResult::NotContained;
        not_enforceable(&mut held, reason.clone());
        assert_eq!(held, ContainmentResult::NotContained);
        held = ContainmentResult::Contained;
        not_enforceable(&mut held, reason.clone());
        assert_eq!(held, ContainmentResult::NotEnforceable(reason));
    }
}
