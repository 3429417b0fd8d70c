//! A repository with loops, its own state directory, and daemons that end with the test.

use loopwright_testkit::{CommandRun, TestEnv, TestRepo, wait};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The longest wait; a busy machine is slow.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A maker that fixes the sum, and a checker that passes it.
pub(crate) const FIX: &str = r#"@ maker
replace calc.sh "$1 - $2" "$1 + $2"

@ checker
verdict pass correctness=5@calc.sh:2 scope=5@calc.sh:2 tests=4@calc.sh:2
"#;

/// A maker that only reports.
pub(crate) const REPORT: &str = "@ maker\nsay all is well\nstage report.md \"All is well.\"\n";

pub(crate) struct World {
    pub(crate) env: TestEnv,
    pub(crate) repo: TestRepo,
}

impl World {
    /// A repository with the L2 loop `fix` and the L1 loop `look`, both started manually only.
    pub(crate) fn new() -> Self {
        let env = TestEnv::for_program(env!("CARGO_BIN_EXE_loopwright"));
        let repo = env.repo("repo");
        repo.write("calc.sh", "#!/bin/sh\necho $(( $1 - $2 ))\n");
        let world = Self { env, repo };
        world.add("fix", "level: L2\nattempts: 1\noutput: [pull-request]\n", FIX);
        world.add("look", "check: none\n", REPORT);
        world.repo.commit("first");
        world
    }

    /// The same with a store outside of the state directory.
    pub(crate) fn on(url: &str) -> Self {
        let Self { env, repo } = Self::new();
        Self { env: env.with_env("LOOPWRIGHT_STORE", url), repo }
    }

    /// Writes a loop with its script; `more` are further lines of its front matter.
    pub(crate) fn add(&self, name: &str, more: &str, script: &str) {
        self.repo.write(
            &format!(".loopwright/loops/{name}.md"),
            format!(
                "---\nname: {name}\nintent: keep the sum right\nagents: {{ maker: {{ use: scripted, script: {name}.script }} }}\n\
                 {more}---\n# Maker\nDo it.\n"
            ),
        );
        self.repo.write(&format!(".loopwright/{name}.script"), script);
    }

    /// Runs a command in the repository.
    pub(crate) fn run(&self, line: &str) -> CommandRun {
        self.env.loopwright_in(self.repo.path(), line.split(' '))
    }

    /// Runs a command that prints a document.
    pub(crate) fn json(&self, line: &str) -> Value {
        self.run(&format!("{line} --json")).success().json()
    }

    /// A daemon that is ready.
    pub(crate) fn up(&self) -> Daemon {
        self.up_with("up")
    }

    /// The same with other arguments.
    pub(crate) fn up_with(&self, line: &str) -> Daemon {
        let daemon = Daemon::start(self, line);
        daemon.wait_for("up: process");
        daemon
    }
}

/// A daemon in the foreground. It is killed when the value is dropped.
pub(crate) struct Daemon {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Daemon {
    /// Starts a daemon without waiting.
    pub(crate) fn start(world: &World, line: &str) -> Self {
        let mut command = world.env.command(world.repo.path());
        command.args(line.split(' '));
        Self::spawn(command)
    }

    /// The same with a given command.
    pub(crate) fn spawn(mut command: std::process::Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary can be started");
        let lines = Arc::<Mutex<Vec<String>>>::default();
        collect(child.stdout.take().expect("piped"), &lines);
        collect(child.stderr.take().expect("piped"), &lines);
        Self { child, lines }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it printed so far.
    pub(crate) fn said(&self) -> String {
        self.lines.lock().expect("no reader panics").join("\n")
    }

    /// Waits for a line that contains this.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        let look = || {
            let lines = self.lines.lock().expect("no reader panics");
            lines.iter().find(|line| line.contains(text)).cloned()
        };
        wait::within(LONG, look).unwrap_or_else(|| panic!("no `{text}` in:\n{}", self.said()))
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = std::process::Command::new("kill").args(["-s", name, &self.pid().to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        let look = || child.try_wait().expect("it is our child");
        let status = wait::within(LONG, look);
        status.unwrap_or_else(|| panic!("it does not end:\n{}", self.said()))
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// Stops it and waits for its end.
    pub(crate) fn stop(mut self) -> String {
        self.signal("TERM");
        let status = self.ended();
        assert!(status.success(), "{status}: {}", self.said());
        self.said()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(stream: impl Read + Send + 'static, lines: &Arc<Mutex<Vec<String>>>) {
    let lines = Arc::clone(lines);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            lines.lock().expect("no reader panics").push(line);
        }
    });
}
