//! A second process for tests that need one: the test binary again, running one of its own tests, with a variable that
//! says what to do. Without the variable those tests end at once.
#![allow(clippy::disallowed_methods, reason = "a test may start itself and read its environment")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use loopwright::store::{ProcessInfo, Store, StoreErrorKind, StoreMode};

use super::rows::{batch, lease, with};

const STORE: &str = "STORE_TEST_CHILD";

/// The store that this process was started for, if it is a child.
fn store_argument() -> Option<PathBuf> {
    std::env::var_os(STORE).map(PathBuf::from)
}

/// A command that runs one test of this binary as a child on `store`.
pub(crate) fn command(test: &str, store: &Path) -> Vec<String> {
    let exe = std::env::current_exe().expect("this binary");
    let variable = format!("{STORE}={}", store.display());
    let exe = exe.to_str().expect("a path in UTF-8").to_owned();
    ["env", &variable, &exe, "--exact", test, "--nocapture"].map(str::to_owned).to_vec()
}

/// A child that prints a line after each step.
pub(crate) struct Speaker {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Speaker {
    /// Starts the child that appends to `store` without end.
    pub(crate) fn appending(store: &Path) -> Self {
        let words = command("store::child::child_appends_without_end", store);
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child, lines }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The number in the child's next line.
    pub(crate) fn acknowledged(&mut self) -> i64 {
        loop {
            let line = self.lines.next().expect("the child continues").expect("its output");
            if let Some(number) = line.strip_prefix("acknowledged ") {
                return number.parse().expect("a number");
            }
        }
    }

    /// Kills it without warning and returns the last number it printed.
    pub(crate) fn kill(mut self) -> i64 {
        self.child.kill().expect("kill the child");
        self.child.wait().expect("its end");
        let rest = self.lines.map_while(Result::ok);
        let numbers = rest.filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok());
        numbers.last().unwrap_or(0)
    }
}

#[tokio::test]
async fn child_appends_without_end() {
    let Some(path) = store_argument() else { return };
    let store = Store::open_sqlite(&path, StoreMode::Write(ProcessInfo::current(7))).await.expect("own");
    let mut seen = store.events("r1").await.expect("events").len() as i64;
    seen = store.append(with(batch("r1", seen, "step"), [lease("r1")])).await.expect("take it");
    loop {
        seen = store.append(batch("r1", seen, "step")).await.expect("append");
        let mut out = std::io::stdout();
        writeln!(out, "acknowledged {seen}").and_then(|()| out.flush()).expect("say so");
    }
}

/// Runs on a disk of two megabytes: fills it, hits the limit, frees space, continues.
#[tokio::test]
async fn child_fills_the_disk() {
    let Some(path) = store_argument() else { return };
    let ballast = path.with_file_name("ballast");
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
    std::fs::write(&ballast, vec![0; 600 << 10]).expect("ballast");
    let store = Store::open_sqlite(&path, StoreMode::Write(ProcessInfo::current(7))).await.expect("own");
    let large = || {
        let mut large = batch("r1", 0, "step");
        large.events[0].body = "x".repeat(20_000);
        large
    };
    let mut seen = 0;
    let error = loop {
        match store.append(loopwright::store::StoreBatch { expect_index: seen, ..large() }).await {
            Ok(count) => seen = count,
            Err(error) => break error,
        }
    };
    assert!(matches!(error.kind, StoreErrorKind::Io(_)), "{error}");
    assert_eq!(store.events("r1").await.expect("reading still works").len() as i64, seen);
    std::fs::remove_file(ballast).expect("room again");
    assert_eq!(store.append(batch("r1", seen, "step")).await.expect("append"), seen + 1);
    assert!(store.verify().await.expect("verify").is_ok());
    std::fs::write(path.with_file_name("passed"), seen.to_string()).expect("say so");
    writeln!(std::io::stdout(), "\nfull after {seen} events").expect("say so");
}
