//! Sweeping after an engine was killed: its trees are found by their cookie and ended; and process identities.

mod common;

use common::{numbers, runs};
use loopwright_sandbox::{
    ProcessIdentity, SweepError, TreeCookie, identity, is_alive, leftovers, resolve_program, sweep,
};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Acts as an engine: starts a tree with a cookie and prints the pids of all of it.
const ENGINE: &str = r#"
import os, subprocess, sys, time
env = dict(os.environ, LOOPWRIGHT_COOKIE=sys.argv[1])
tree = "echo $$; setsid sh -c 'echo $$; env -i sh -c \"echo \\$\\$; sleep 1000; :\" & wait' & wait"
subprocess.Popen(["sh", "-c", tree], env=env, start_new_session=True)
time.sleep(1000)
"#;

fn engine(cookie: &str) -> (Child, Vec<u32>) {
    #[expect(clippy::disallowed_methods, reason = "a foreign engine does not use engine::proc")]
    let mut child =
        Command::new("python3").args(["-c", ENGINE, cookie]).stdout(Stdio::piped()).spawn().expect("python starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines().take(3);
    let text: Vec<String> = lines.map(|line| line.expect("a line")).collect();
    (child, numbers(&text.join("\n")))
}

fn end(mut child: Child) {
    child.kill().expect("ours to kill");
    child.wait().expect("ours to wait for");
}

#[test]
fn tree_of_a_killed_engine_is_found_and_ended() {
    let (prefix, other) = (TreeCookie::new("store-a"), TreeCookie::new("store-b"));
    let (dead_engine, tree) = engine(&format!("{}-round", prefix.as_str()));
    let (other_engine, other_tree) = engine(other.as_str());
    end(dead_engine);
    assert!(tree.len() == 3 && tree.iter().all(|pid| runs(*pid)), "the tree outlived its engine");
    assert!(sweep(prefix.as_str()).expect("swept") >= 3);
    assert!(!tree.iter().any(|pid| runs(*pid)) && leftovers(prefix.as_str()).is_empty());
    assert!(other_tree.iter().all(|pid| runs(*pid)), "another store's tree was touched");
    assert_eq!(sweep(prefix.as_str()).expect("swept again"), 0);
    end(other_engine);
    assert!(sweep(other.as_str()).expect("swept") >= 3);
}

#[test]
fn sweep_without_a_prefix_is_refused() {
    assert!(matches!(sweep(""), Err(SweepError::EmptyPrefix)));
}

#[test]
fn cookies_are_unique() {
    let (one, two) = (TreeCookie::new("p"), TreeCookie::new("p"));
    assert!(one != two && one.as_str().starts_with("p-") && one.as_str().len() == 34);
}

#[test]
fn this_process_is_alive_and_other_processes_with_its_pid_are_not() {
    let us = identity();
    assert!(us.start_ticks > 0 && is_alive(&us));
    assert!(!is_alive(&ProcessIdentity { start_ticks: us.start_ticks + 1, ..us.clone() }), "a reused number");
    assert!(!is_alive(&ProcessIdentity { boot_id: "another boot".to_owned(), ..us }), "a number of another boot");
}

#[test]
fn programs_are_found_as_the_shell_would() {
    let dir = tempfile::tempdir().expect("temporary directory");
    std::fs::create_dir(dir.path().join("sh")).expect("a folder that is no program");
    std::fs::write(dir.path().join("plain"), "").expect("a file that is no program");
    let path = OsStr::new("/no/such:.:/bin");
    let find = |name| resolve_program(name, path, dir.path());
    assert_eq!(find("sh").as_deref(), Some(Path::new("/bin/sh")));
    assert_eq!(find("plain"), None);
    assert_eq!(find(""), None);
    assert_eq!(resolve_program("./sh", path, Path::new("/bin")).as_deref(), Some(Path::new("/bin/sh")));
}
