//! Temporary files in memory. A test waits for the disk at each commit of its databases and repositories, and nothing that
//! it checks needs the disk: no test cuts the power. In memory, tests take less than half of the time.

use std::path::Path;
use std::process::{Command, ExitCode};

/// The file system in memory that every Linux has.
const MEMORY: &str = "/dev/shm";
/// The tests leave and use less than this.
const FREE_MIN: u64 = 6 << 30;
/// The folder of temporary files, as every program reads it. A folder that the user chose stays.
const VARIABLE: &str = "TMPDIR";

/// Runs this command again with its temporary files in memory, and returns its exit code. `None` if the user chose a
/// folder, or there is not enough memory, or programs cannot be executed there: then they stay on the disk.
pub(crate) fn run_in_memory() -> Option<ExitCode> {
    if std::env::var_os(VARIABLE).is_some() || !has_room(Path::new(MEMORY)) {
        return None;
    }
    let folder = tempfile::Builder::new().prefix("loopwright-").tempdir_in(MEMORY).ok()?;
    println!("temporary files are in memory, under {}; {VARIABLE} names another folder", folder.path().display());
    let mut again = Command::new(std::env::current_exe().ok()?);
    let status = again.args(std::env::args_os().skip(1)).env(VARIABLE, folder.path()).status().ok()?;
    Some(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn has_room(folder: &Path) -> bool {
    use rustix::fs::{StatVfsMountFlags, statvfs};
    statvfs(folder).is_ok_and(|about| {
        about.f_bavail.saturating_mul(about.f_frsize) >= FREE_MIN && !about.f_flag.contains(StatVfsMountFlags::NOEXEC)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_that_does_not_exist_or_executes_nothing_has_no_room() {
        assert!(!has_room(Path::new("/no-such-folder")));
        assert!(!has_room(Path::new("/proc")));
    }
}
