//! Runs the sandbox tests again as an ordinary user if they run as root; and on a host without user namespaces.

#![expect(clippy::disallowed_methods, reason = "the tests run again as another user, without engine::proc")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Test programs beside this one, by the prefix of their names.
fn program(name: &str) -> Option<PathBuf> {
    let us = std::env::current_exe().ok()?;
    let beside = fs::read_dir(us.parent()?).ok()?.flatten().map(|entry| entry.path());
    let matches = |path: &PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        file.strip_prefix(name).is_some_and(|rest| rest.starts_with('-') && !rest.contains('.'))
    };
    beside.filter(matches).max_by_key(|path| fs::metadata(path).and_then(|data| data.modified()).ok())
}

/// A copy that every user can execute, and a folder that every user can write to.
fn public(program: &Path, dir: &Path) -> PathBuf {
    let copy = dir.join("program");
    fs::copy(program, &copy).expect("copy");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("executable");
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).expect("writable");
    copy
}

fn passes_as_nobody(name: &str) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let Some(program) = program(name) else { return };
    let dir = tempfile::tempdir().expect("temporary directory");
    let copy = public(&program, dir.path());
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"])
        .arg(copy)
        .args(["--test-threads", "2"])
        .env("TMPDIR", dir.path())
        .env("HOME", dir.path())
        .current_dir(dir.path())
        .output()
        .expect("setpriv starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("test result: ok") && !text.contains("running 0 tests"), "{text}");
}

#[test]
fn restrictions_work_for_an_ordinary_user() {
    passes_as_nobody("walls");
}

#[test]
fn confined_programs_run_for_an_ordinary_user() {
    passes_as_nobody("confined");
}

#[test]
fn confined_trees_end_for_an_ordinary_user() {
    passes_as_nobody("confined_trees");
}

#[test]
fn probe_works_for_an_ordinary_user() {
    passes_as_nobody("probe");
}
