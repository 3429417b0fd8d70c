//! No process survives its round, however the round ends (family E, 64 to 68 and 76). The children here leave their
//! session, drop their environment, ignore every signal they can, stop themselves, hold pipes, listen.

use crate::stage::{FIX, PASS, Stage};
use loopwright_testkit::{Canary, wait};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

/// Far more than any grace period, far less than the children would run.
const SOON: Duration = Duration::from_secs(60);

/// The children's mark: a number of seconds that no other process sleeps. Their environment is empty, so no cookie
/// identifies them.
struct Mark(String);

impl Mark {
    fn new() -> Self {
        let digits: String = Canary::new().value().bytes().map(|byte| (b'0' + byte % 10) as char).collect();
        Self(format!("86400.{}", &digits[4..]))
    }

    /// Steps that leave children of every kind behind.
    fn steps(&self) -> String {
        let mark = &self.0;
        let listener = format!(
            "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); time.sleep({mark})"
        );
        format!(
            "setsid-child env -i setsid sh -c \"sleep {mark} & sleep {mark}\"\n\
             run sh -c \"setsid env -i sh -c '(setsid sleep {mark} &) &'\"\n\
             setsid-child env -i sh -c \"trap '' TERM INT HUP QUIT; while :; do sleep {mark}; done\"\n\
             setsid-child env -i sh -c \"sleep {mark} & kill -STOP $!; kill -STOP $$\"\n\
             run sh -c \"env -i sleep {mark} &\"\n\
             setsid-child env -i python3 -c \"{listener}\"\n\
             leak-pipe\n"
        )
    }

    /// Processes whose command line has the mark.
    fn living(&self) -> Vec<u32> {
        processes().filter(|pid| command_line(*pid).contains(&self.0)).collect()
    }

    /// Their process namespaces, other than this test's own.
    fn namespaces(&self) -> BTreeSet<String> {
        let own = namespace("self");
        self.living()
            .iter()
            .filter_map(|pid| namespace(&pid.to_string()))
            .filter(|one| Some(one) != own.as_ref())
            .collect()
    }

    #[track_caller]
    fn assert_dead(&self, namespaces: &BTreeSet<String>) {
        wait::until("every child to be gone", SOON, || self.living().is_empty());
        let inside = |pid: &u32| namespace(&pid.to_string()).is_some_and(|one| namespaces.contains(&one));
        wait::until("the round's namespaces to be empty", SOON, || !processes().any(|pid| inside(&pid)));
    }
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("there is /proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok())
}

fn command_line(pid: u32) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned()
}

fn namespace(pid: &str) -> Option<String> {
    fs::read_link(format!("/proc/{pid}/ns/pid")).ok().map(|link| link.display().to_string())
}

/// Asserts that the round has ended together with all its processes: the test does not wait for the children.
#[track_caller]
fn dead_at_once(mark: &Mark) {
    let left = mark.living();
    let commands: Vec<String> = left.iter().map(|pid| command_line(*pid)).collect();
    assert!(left.is_empty(), "processes outlive their round: {commands:?}");
}

#[test]
fn h066_nothing_outlives_the_end_of_a_round() {
    let (stage, mark) = (Stage::new(), Mark::new());
    let _ = stage.maker(&format!("{FIX}{}", mark.steps())).ships();
    dead_at_once(&mark);
}

#[test]
fn h066_nothing_of_a_checker_outlives_the_end_of_a_round() {
    let (stage, mark) = (Stage::new(), Mark::new());
    let _ = stage.checker(&format!("{}{}", mark.steps(), crate::stage::PASS_STEPS)).ships();
    dead_at_once(&mark);
}

#[test]
fn h066_nothing_of_a_gate_outlives_the_end_of_a_round() {
    let mark = Mark::new();
    let stage = Stage::new().base(
        "check.sh",
        format!(
            "setsid env -i sh -c '(setsid sleep {0} &) &'\nsetsid env -i sh -c \"trap '' TERM INT; sleep {0}\" &\n\
             env -i sleep {0} &\nset -e\nfor t in tests/test_*.sh; do sh \"$t\"; done\necho 1 passed\n",
            mark.0
        ),
    );
    let _ = stage.maker(FIX).ships();
    dead_at_once(&mark);
}

#[test]
fn h064_nothing_outlives_a_deadline() {
    let (stage, mark) = (Stage::new().with("budget: { round: { idle: 1s } }"), Mark::new());
    stage.maker(&format!("{FIX}{}ignore-term\nhang", mark.steps())).ends("over-budget", "limit");
    dead_at_once(&mark);
}

#[test]
fn h064_nothing_of_a_gate_outlives_its_deadline() {
    let mark = Mark::new();
    let gate = "{ name: tests, run: [sh, check.sh], timeout: 2s }";
    let stage = Stage::new().gates(&[gate]).with("attempts: 1").base(
        "check.sh",
        format!("setsid env -i sh -c '(setsid sleep {0} &) &'\ntrap '' TERM INT HUP\nsleep {0}\n", mark.0),
    );
    stage.maker(FIX).ends("rejected", "gate-rejected");
    dead_at_once(&mark);
}

#[test]
fn h064_nothing_outlives_a_maker_that_stops_itself() {
    let (stage, mark) = (Stage::new().with("budget: { round: { idle: 1s } }"), Mark::new());
    stage.maker(&format!("{FIX}{}stop-self", mark.steps())).ends("over-budget", "limit");
    dead_at_once(&mark);
}

/// Starts a round whose maker starts its children and hangs, and sends the engine a signal once they all run.
#[track_caller]
fn struck(signal: Signal) -> (Mark, BTreeSet<String>, std::process::ExitStatus) {
    let (stage, mark) = (Stage::new(), Mark::new());
    stage.commit(&format!("@ maker\n{FIX}{}ignore-term\nhang\n{PASS}", mark.steps()));
    let mut running = stage.start();
    wait::until("the maker's children", SOON, || mark.living().len() >= 6);
    let namespaces = mark.namespaces();
    let engine = i32::try_from(running.child.id()).ok().and_then(Pid::from_raw).expect("a process has a number");
    kill_process(engine, signal).expect("the engine runs");
    let status = running.child.wait().expect("it ends");
    (mark, namespaces, status)
}

#[test]
fn h064_nothing_outlives_an_interrupt() {
    let (mark, namespaces, status) = struck(Signal::INT);
    assert_eq!(status.code(), Some(130));
    dead_at_once(&mark);
    mark.assert_dead(&namespaces);
}

#[test]
fn h064_nothing_outlives_a_request_to_end() {
    let (mark, namespaces, status) = struck(Signal::TERM);
    assert_eq!(status.code(), Some(130));
    dead_at_once(&mark);
    mark.assert_dead(&namespaces);
}

#[test]
fn h066_nothing_outlives_an_engine_that_was_killed() {
    let (mark, namespaces, status) = struck(Signal::KILL);
    assert_eq!(status.signal(), Some(9));
    mark.assert_dead(&namespaces);
}
