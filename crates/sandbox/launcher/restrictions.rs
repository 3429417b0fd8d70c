//! The permanent restrictions of a process: privileges, resources, and access to files that are not its own.

use crate::confinement::SandboxMount;
use crate::sys;
use crate::wire::LaunchPlan;
use std::io;

/// The highest capability of any kernel; the first unknown capability ends the loop.
const CAPABILITY_MAX: u64 = 63;

/// No program can add privileges, and all present ones are dropped.
pub fn give_up_privileges() -> io::Result<()> {
    const PR_CAPBSET_DROP: i32 = 24;
    const PR_SET_NO_NEW_PRIVS: i32 = 38;
    const PR_CAP_AMBIENT: i32 = 47;
    const PR_CAP_AMBIENT_CLEAR_ALL: u64 = 4;
    sys::control(PR_SET_NO_NEW_PRIVS, 1, 0)?;
    sys::control(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0)?;
    for capability in 0..=CAPABILITY_MAX {
        match sys::control(PR_CAPBSET_DROP, capability, 0) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(sys::EINVAL) && capability > 0 => break,
            Err(error) => return Err(error),
        }
    }
    sys::clear_capabilities()
}

pub fn limit(plan: &LaunchPlan) -> io::Result<()> {
    plan.rlimits.iter().try_for_each(|(resource, ceiling)| sys::set_limit(*resource, *ceiling))
}

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
const SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 3;

/// Everything can be read, and only the writable mounts and devices can be changed. The mounts enforce the same rule;
/// landlock enforces it in another part of the kernel.
pub fn landlock(plan: &LaunchPlan) -> io::Result<()> {
    let version = sys::landlock_version()?;
    let known = match version {
        0 => return Err(io::Error::from_raw_os_error(95)),
        1 => (1 << 13) - 1,
        2 => (1 << 14) - 1,
        3 | 4 => (1 << 15) - 1,
        _ => (1 << 16) - 1,
    };
    let scopes = if version >= 6 { SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS } else { 0 };
    let words = match version {
        1..=3 => 1,
        4 | 5 => 2,
        _ => 3,
    };
    let rules = sys::landlock_ruleset([known, 0, scopes], words)?;
    sys::landlock_allow(&rules, known & (EXECUTE | READ_FILE | READ_DIR), &sys::open_path("/", 0)?)?;
    sys::landlock_allow(&rules, known & (OF_FILES | READ_DIR), &sys::open_path("/dev", 0)?)?;
    sys::landlock_allow(&rules, known, &sys::open_path("/dev/shm", 0)?)?;
    for place in plan.places.iter().filter(|place| place.what.is_writable()) {
        allow_changes(&rules, known, place)?;
    }
    sys::landlock_enforce(&rules)
}

fn allow_changes(rules: &std::os::fd::OwnedFd, known: u64, place: &SandboxMount) -> io::Result<()> {
    match sys::open_path(&place.at, sys::O_DIRECTORY) {
        Ok(folder) => sys::landlock_allow(rules, known, &folder),
        Err(error) if error.raw_os_error() == Some(sys::ENOTDIR) => {
            sys::landlock_allow(rules, known & OF_FILES, &sys::open_path(&place.at, 0)?)
        }
        Err(error) => Err(error),
    }
}
