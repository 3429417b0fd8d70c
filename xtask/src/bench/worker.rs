//! The library's part of the benchmarks: a child process that receives commands line by line.

use crate::command::cargo;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Builds the worker in the `dist` profile and returns its path, which only cargo knows.
pub(super) fn build() -> Result<PathBuf, String> {
    let mut build = cargo();
    build.args([
        "build",
        "--quiet",
        "--profile",
        "dist",
        "-p",
        "loopwright",
        "--bench",
        "rounds",
        "--message-format=json",
    ]);
    let output = build.stderr(Stdio::inherit()).output().map_err(|error| format!("start cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_ours = |message: &Value| message["target"]["name"] == "rounds" && message["executable"].is_string();
    let found = messages.rfind(is_ours).and_then(|message| message["executable"].as_str().map(PathBuf::from));
    found.ok_or_else(|| "the library's half of the benchmarks could not be built".to_owned())
}

/// A worker that waits for commands.
pub(super) struct BenchWorker {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl BenchWorker {
    /// Starts the worker on a repository.
    pub(super) fn start_rounds(program: &Path, state: &Path, repo: &Path, file: &Path) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.arg("serve").args([state, repo, file]);
        Self::start(command)
    }

    /// Starts the worker on workspaces only.
    pub(super) fn start_workspaces(program: &Path, state: &Path, repo: &Path) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.arg("spaces").args([state, repo]);
        Self::start(command)
    }

    fn start(mut command: Command) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("start the worker: {error}"))?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("stdout was asked to be a pipe"));
        Ok(Self { child, orders, answers })
    }

    /// Sends one command and reads its answer.
    pub(super) fn request(&mut self, order: &str) -> Result<Value, String> {
        let orders = self.orders.as_mut().expect("orders are open until it is dropped");
        writeln!(orders, "{order}").map_err(|error| format!("send to the worker: {error}"))?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|error| format!("read from the worker: {error}"))?;
        serde_json::from_str(&line).map_err(|_| format!("the worker ended at `{order}`"))
    }
}

impl Drop for BenchWorker {
    fn drop(&mut self) {
        // When its input is closed, the worker releases the store and ends.
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

/// Fills a new store with this many past events of a repository that does not exist.
pub(super) fn fill_store(program: &Path, state: &Path, events: usize) -> Result<(), String> {
    let mut command = Command::new(program);
    command.arg("fill").arg(state).args(["bench-0123456789ab", &events.to_string()]);
    crate::command::run(command)
}

/// The lines that the worker prints for some arguments.
pub(super) fn run_worker(program: &Path, words: &[&str]) -> Result<Vec<Value>, String> {
    let output = Command::new(program).args(words).output().map_err(|error| format!("start the worker: {error}"))?;
    if !output.status.success() {
        return Err(format!("the worker failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The seconds in an answer.
pub(super) fn seconds(value: &Value) -> f64 {
    value["nanos"].as_u64().unwrap_or(0) as f64 / 1e9
}
