//! The identity of a process beyond its pid, which the kernel reuses. It does not search for processes.

use crate::process_table;
use std::fs;

/// A process that cannot be confused with a later one of the same pid, not even across a reboot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Its pid.
    pub pid: u32,
    /// The boot in which it runs.
    pub boot_id: String,
    /// Its start time, in clock ticks since that boot.
    pub start_ticks: u64,
}

/// The identity of this process.
pub fn identity() -> ProcessIdentity {
    let pid = std::process::id();
    let start_ticks = process_table::read_entry(pid).map(|entry| entry.start).unwrap_or_default();
    ProcessIdentity { pid, boot_id: boot_id(), start_ticks }
}

/// Whether exactly that process still runs; a zombie does not.
pub fn is_alive(who: &ProcessIdentity) -> bool {
    who.boot_id == boot_id()
        && process_table::read_entry(who.pid).is_some_and(|entry| entry.start == who.start_ticks && !entry.is_dead())
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}
