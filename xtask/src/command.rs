//! Starts other programs for xtask: from the workspace's root, without the variables that the outer cargo left in the
//! environment.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Prefixes of variables that belong to the outer `cargo run` or to the developer's shell and would change what tests see.
const SCRUBBED: [&str; 6] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "GIT_", "LOOPWRIGHT_"];

/// Names the number of tests that the test runner starts at a time.
pub(crate) const THREADS_VARIABLE: &str = "NEXTEST_TEST_THREADS";

/// The feature that every build of the test command has: the hostile verbs of the scripted agent.
pub(crate) const HOSTILE: &str = "loopwright-cli/hostile";

/// Two tests for each core. Most tests wait for processes, deadlines and the disk for more than half of their time, so
/// that one test for each core leaves the cores idle.
pub(crate) fn test_threads() -> String {
    (2 * std::thread::available_parallelism().map_or(1, usize::from)).to_string()
}

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the workspace's root").to_path_buf()
}

/// A program started in the workspace's root.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root()).stdin(Stdio::null());
    for (key, _) in std::env::vars_os() {
        let text = key.to_string_lossy();
        if SCRUBBED.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&key);
        }
    }
    command
}

/// The cargo that runs xtask, otherwise the one on the path.
pub(crate) fn cargo() -> Command {
    let name = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    program(&name)
}

/// Runs to the end with inherited output; an exit status other than success is an error that names the command.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    let shown = show(&command);
    let status = command.status().map_err(|error| format!("start `{shown}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` ended with {status}")) }
}

/// The first line that a program prints, or `None` if it is missing or fails.
pub(crate) fn first_output_line(mut command: Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
    output.status.success().then_some(text)
}

/// Runs to the end, prints every line immediately, and passes it to `see`. Both streams are read, so neither can block.
pub(crate) fn run_watched(mut command: Command, see: &mut dyn FnMut(&str)) -> Result<(), String> {
    let shown = show(&command);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("start `{shown}`: {error}"))?;
    let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
    let stderr = child.stderr.take().expect("stderr was asked to be a pipe");
    let (sender, lines) = std::sync::mpsc::channel();
    let other = sender.clone();
    std::thread::spawn(move || forward(stdout, &sender));
    std::thread::spawn(move || forward(stderr, &other));
    for line in lines {
        println!("{line}");
        see(&line);
    }
    let status = child.wait().map_err(|error| format!("wait for `{shown}`: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` ended with {status}")) }
}

fn forward(stream: impl Read, lines: &std::sync::mpsc::Sender<String>) {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        let text = String::from_utf8_lossy(&line);
        if lines.send(text.trim_end_matches(['\n', '\r']).to_owned()).is_err() {
            return;
        }
        line.clear();
    }
}

fn show(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Builds the program with the hostile verbs and returns its path. With the whole workspace, cargo chooses the features of
/// the test command, and builds nothing that the tests have built.
pub(crate) fn build_hostile_program(profile: &str) -> Result<PathBuf, String> {
    let mut build = cargo();
    build.args(["build", "--quiet", "--workspace", "--bin", "loopwright", "--features", HOSTILE]);
    build.args(["--profile", profile]);
    run(build)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join(if profile == "dev" { "debug" } else { profile }).join("loopwright"))
}
