//! Who a process is beyond its number, which the kernel gives out again. Does not look for anybody.

use crate::process_table;
use std::fs;

/// A process that cannot be confused with a later one of the same number, not even across a reboot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Its number.
    pub pid: u32,
    /// The boot it lives in.
    pub boot_id: String,
    /// When it started, in clock ticks since that boot.
    pub start_ticks: u64,
}

/// The identity of this process.
pub fn identity() -> ProcessIdentity {
    let pid = std::process::id();
    let start_ticks = process_table::read_entry(pid).map(|entry| entry.start).unwrap_or_default();
    ProcessIdentity { pid, boot_id: boot_id(), start_ticks }
}

/// Whether exactly that process still runs; one that ended and awaits its parent does not.
pub fn is_alive(who: &ProcessIdentity) -> bool {
    who.boot_id == boot_id()
        && process_table::read_entry(who.pid).is_some_and(|entry| entry.start == who.start_ticks && !entry.is_dead())
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}
