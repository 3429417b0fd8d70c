//! Finds a program by name in a given PATH. It never reads this process's own environment.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The absolute path of the program that execvp would run for `name`, with this PATH, in this directory.
pub fn resolve_program(name: &str, path: &OsStr, cwd: &Path) -> Option<PathBuf> {
    find(OsStr::new(name), path, cwd)
}

pub(crate) fn find(name: &OsStr, path: &OsStr, cwd: &Path) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    if name.as_bytes().contains(&b'/') {
        return executable(cwd.join(name));
    }
    // An empty PATH entry means the working directory, which `join` gives.
    path.as_bytes().split(|byte| *byte == b':').find_map(|dir| executable(cwd.join(OsStr::from_bytes(dir)).join(name)))
}

fn executable(candidate: PathBuf) -> Option<PathBuf> {
    let runs = candidate.is_file() && rustix::fs::access(&candidate, rustix::fs::Access::EXEC_OK).is_ok();
    if runs { std::path::absolute(candidate).ok() } else { None }
}
