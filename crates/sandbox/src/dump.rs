//! Keeps this process's memory to itself. Nothing about children: the walls are around them.

use std::io;

/// Makes this process unreadable to others of the same user (no ptrace, no `/proc/PID/mem` or `environ`) and ends core files.
///
/// What is executed later can be read again, so the helper still writes its own id maps.
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
