//! Shared helpers of the tests with real processes: short ways to start one, and to check whether one is gone.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use loopwright_sandbox::{
    CancelToken, Confinement, FinishedRun, MountSource, OutputStream, OutputWatch, RunLimits, SpawnRequest, TreeCookie,
    WatchFlow, run,
};
use std::time::Duration;
use tokio::time::Instant;

/// A shell script in an otherwise ordinary environment.
pub fn sh(script: &str) -> SpawnRequest {
    command("/bin/sh", &["-c", script])
}

/// A Python script, for actions that a shell cannot do.
pub fn python(script: &str) -> SpawnRequest {
    command("python3", &["-c", script])
}

pub fn command(program: &str, args: &[&str]) -> SpawnRequest {
    let mut spawn = SpawnRequest::new(program, "/", TreeCookie::new("test"));
    spawn.env.insert("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
    spawn.args = args.iter().map(Into::into).collect();
    spawn
}

pub fn limited(mut spawn: SpawnRequest, change: impl FnOnce(&mut RunLimits)) -> SpawnRequest {
    // A limit for every test: a program that should have ended shows as `RunEnd::Wall`, not as a hung suite.
    spawn.limits.wall = Some(Duration::from_secs(60));
    change(&mut spawn.limits);
    spawn
}

/// Runs without a watcher.
pub async fn ended(spawn: SpawnRequest) -> FinishedRun {
    let spawn = if spawn.limits.wall.is_none() { limited(spawn, |_| ()) } else { spawn };
    run(spawn, &mut (), &CancelToken::new(), |_| ()).await.expect("the program starts")
}

/// Calls back once, when the program has written a whole line.
pub struct OnLine<F>(pub Vec<u8>, pub Option<F>);

impl<F: FnOnce(&str) -> WatchFlow + Send> OnLine<F> {
    pub fn new(then: F) -> Self {
        Self(Vec::new(), Some(then))
    }
}

impl<F: FnOnce(&str) -> WatchFlow + Send> OutputWatch for OnLine<F> {
    fn chunk(&mut self, _: OutputStream, bytes: &[u8]) -> WatchFlow {
        self.0.extend_from_slice(bytes);
        let whole = self.0.contains(&b'\n');
        match self.1.take_if(|_| whole) {
            Some(then) => then(&String::from_utf8_lossy(&self.0)),
            None => WatchFlow::Continue,
        }
    }
}

pub fn numbers(text: &str) -> Vec<u32> {
    text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Whether a process with this pid runs (a zombie does not).
pub fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z') && !rest.starts_with('X'))
}

/// Waits for a condition that depends on another process, and fails with its name if it does not become true.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
}

/// The same program inside a sandbox: its own workspace, `/tmp` in memory, no network.
pub fn walled(
    mut spawn: SpawnRequest,
    workspace: &std::path::Path,
    change: impl FnOnce(&mut Confinement),
) -> SpawnRequest {
    let mut confine = Confinement::default();
    confine.mount("/tmp", MountSource::Memory(64 << 20));
    confine.mount("/workspace", MountSource::Writable(workspace.to_owned()));
    change(&mut confine);
    spawn.cwd = "/workspace".into();
    spawn.confine = Some(confine);
    spawn
}

/// A temporary folder for the test.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("temporary directory")
}

/// A program that leaves a survivor behind, as hostile as possible without privileges: orphaned, in its own session,
/// without the engine's environment, ignoring SIGTERM. The survivor runs `body` and closes its streams with
/// `silence()`.
pub fn survivor(body: &str) -> String {
    let deaf = format!(
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
         def silence():\n  null = os.open('/dev/null', os.O_RDWR)\n  for fd in (0, 1, 2): os.dup2(null, fd)\n{body}"
    );
    format!(
        "import os, sys, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    os.setsid()\n    \
         os.execve(sys.executable, [sys.executable, '-c', {deaf:?}], {{}})\n  os._exit(0)\nos.wait()"
    )
}

/// Doubles to 64 processes in separate sessions, each of which then forks forever; never more than 128 at once.
pub const FORKS: &str = r#"
import os
print("go", flush=True)
for i in range(6):
    if os.fork() == 0: os.setsid()
while True:
    if os.fork() == 0: os._exit(0)
    os.wait()
"#;

/// The output of a confined shell script, both streams together.
pub async fn prints(spawn: SpawnRequest) -> String {
    let end = ended(spawn).await;
    end.stdout.to_lossy_string() + &end.stderr.to_lossy_string()
}
