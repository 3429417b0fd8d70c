//! A hermetic environment for the real binary: its own home and state, a built environment, comparable output.

use crate::redact::Redactor;
use crate::repo::TestRepo;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Names another copy of the program under test, for an ordinary user who cannot reach the built one.
const BINARY_VARIABLE: &str = "LOOPWRIGHT_TEST_BINARY";

/// A temporary root with everything that the command line may touch. It is removed with the value.
#[derive(Debug)]
pub struct TestEnv {
    _folder: tempfile::TempDir,
    root: PathBuf,
    binary: PathBuf,
    variables: BTreeMap<OsString, OsString>,
    redactor: Redactor,
}

impl TestEnv {
    /// A new environment for the real program, which a test names by `env!("CARGO_BIN_EXE_loopwright")`; `cargo xtask
    /// hostile` may name another copy of it.
    pub fn for_program(built: &str) -> Self {
        Self::new(std::env::var_os(BINARY_VARIABLE).map_or_else(|| PathBuf::from(built), PathBuf::from))
    }

    /// A new environment for any `binary`.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let folder = tempfile::Builder::new().prefix("loopwright-test-").tempdir().expect("a temporary folder");
        let root = folder.path().canonicalize().expect("the folder exists");
        for name in ["home", "state", "config", "tmp"] {
            std::fs::create_dir(root.join(name)).expect("a folder can be made");
        }
        let variables = variables(&root);
        let redactor = Redactor::new(&root);
        Self { _folder: folder, root, binary: binary.into(), variables, redactor }
    }

    /// Sets a variable for every later command.
    #[must_use]
    pub fn with_env(mut self, key: &str, value: impl Into<OsString>) -> Self {
        self.variables.insert(key.into(), value.into());
        self
    }

    /// Adds a replacement to what [`CommandRun::transcript`] shows.
    #[must_use]
    pub fn with_redaction(mut self, pattern: &str, replacement: &str) -> Self {
        self.redactor = self.redactor.with(pattern, replacement);
        self
    }

    /// The environment of every command, for a test that starts the program itself.
    pub fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.variables
    }

    /// The temporary root: `$ROOT` in transcripts.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder commands see as HOME.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The folder commands keep their state in.
    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Closes every pull request of the local forges, as a person would.
    pub fn close_pulls(&self) {
        for forge in std::fs::read_dir(self.state().join("forge")).into_iter().flatten().flatten() {
            for page in std::fs::read_dir(forge.path().join("pulls")).into_iter().flatten().flatten() {
                let text = std::fs::read_to_string(page.path()).expect("a page");
                std::fs::write(page.path(), text.replace("state: open", "state: closed")).expect("it can be written");
            }
        }
    }

    /// An empty repository below the root.
    pub fn repo(&self, name: &str) -> TestRepo {
        TestRepo::init_at(&self.root.join(name))
    }

    /// The binary with its environment and folder set, not yet started: for tests that kill or feed it.
    pub fn command(&self, folder: &Path) -> Command {
        let mut command = Command::new(&self.binary);
        command.current_dir(folder).stdin(Stdio::null()).env_clear().envs(&self.variables);
        command
    }

    /// Runs the binary in the root and waits until it exits.
    pub fn loopwright<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> CommandRun {
        self.loopwright_in(&self.root, words)
    }

    /// Runs the binary in `folder` and waits until it exits.
    pub fn loopwright_in<S: AsRef<OsStr>>(&self, folder: &Path, words: impl IntoIterator<Item = S>) -> CommandRun {
        let mut command = self.command(folder);
        command.args(words);
        let shown: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        let line = format!("loopwright {}", shown.join(" "));
        let output = command.output().expect("the binary can be started");
        CommandRun { line, output, redactor: self.redactor.clone() }
    }

    /// A text with all parts that differ from run to run replaced.
    pub fn redact(&self, text: &str) -> String {
        self.redactor.redact(text)
    }
}

/// The whole environment of a command; it contains nothing of the developer's shell.
fn variables(root: &Path) -> BTreeMap<OsString, OsString> {
    let places = [
        ("HOME", "home"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "home/.local/state"),
        ("LOOPWRIGHT_STATE_DIR", "state"),
        ("TMPDIR", "tmp"),
    ];
    let fixed = [("PATH", crate::TRUSTED_PATH), ("LC_ALL", "C.UTF-8"), ("TZ", "UTC")];
    let places = places.map(|(key, name)| (key.into(), root.join(name).into_os_string()));
    places.into_iter().chain(fixed.map(|(key, value)| (key.into(), value.into()))).collect()
}

/// The result of a command. Check it with [`CommandRun::success`] or [`CommandRun::code`] before anything else.
#[must_use = "a command's end is what a test is about: ask for `success()` or `code(n)`"]
#[derive(Debug)]
pub struct CommandRun {
    line: String,
    output: Output,
    redactor: Redactor,
}

impl CommandRun {
    /// Panics with the whole transcript unless the command exited with 0.
    #[track_caller]
    pub fn success(self) -> Self {
        self.code(0)
    }

    /// Panics with the whole transcript unless the command exited with `expected`.
    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        assert_eq!(self.output.status.code(), Some(expected), "{}", self.unredacted());
        self
    }

    /// Its standard output, unchanged.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// Its standard error, unchanged.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Its standard output, parsed as one JSON document.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        let parsed = serde_json::from_slice(&self.output.stdout);
        parsed.unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.unredacted()))
    }

    /// The command, its exit code and both streams, in a form for snapshots.
    pub fn transcript(&self) -> String {
        self.redactor.redact(&self.unredacted())
    }

    fn unredacted(&self) -> String {
        let end = self.output.status.code().map_or("killed".to_owned(), |code| format!("exit {code}"));
        let mut text = format!("$ {}\n{}", self.line, self.stdout());
        if !self.output.stderr.is_empty() {
            text += &format!("[stderr]\n{}", self.stderr());
        }
        text + &format!("[{end}]\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn developers_environment_is_not_visible() {
        let env = TestEnv::new("/usr/bin/env").with_env("EXTRA", "1");
        let ran = env.loopwright([] as [&str; 0]).success();
        let text = env.redact(&ran.stdout());
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let expected = [
            "EXTRA=1",
            "HOME=$ROOT/home",
            "LC_ALL=C.UTF-8",
            "LOOPWRIGHT_STATE_DIR=$ROOT/state",
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "TMPDIR=$ROOT/tmp",
            "TZ=UTC",
            "XDG_CONFIG_HOME=$ROOT/config",
            "XDG_STATE_HOME=$ROOT/home/.local/state",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn transcript_shows_the_command_both_streams_and_the_exit_code() {
        let env = TestEnv::new("/bin/sh").with_redaction("o.e", "one");
        let ran = env.loopwright(["-c", "echo oNe in $PWD; echo two >&2; exit 3"]).code(3);
        let shown = "$ loopwright -c echo one in $PWD; echo two >&2; exit 3\none in $ROOT\n[stderr]\ntwo\n[exit 3]\n";
        assert_eq!(ran.transcript(), shown);
    }

    #[test]
    fn a_wrong_exit_code_fails_the_test() {
        let env = TestEnv::new("/bin/false");
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| env.loopwright(["x"]).success()));
        assert!(ended.is_err());
    }
}
