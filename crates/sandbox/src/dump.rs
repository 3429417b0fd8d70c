//! Protects this process's memory. It does not affect children: the sandbox confines them.

use std::io;

/// Makes this process unreadable to others of the same user (no ptrace, no `/proc/PID/mem` or `environ`) and disables
/// core files.
///
/// A program that is executed later is readable again, so the helper can still write its own id maps.
pub fn make_undumpable() -> io::Result<()> {
    // SAFETY: neither call keeps a pointer; the limit is a live, initialised structure.
    unsafe {
        if libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        if libc::setrlimit(libc::RLIMIT_CORE, &raw const none) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
