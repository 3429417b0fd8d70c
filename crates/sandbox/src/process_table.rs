//! The process table from `/proc`, and identities and signals that cannot confuse a process with a later one of the same
//! pid. It knows nothing about trees: `tree_members` does.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};

/// One process of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessEntry {
    pub(crate) pid: u32,
    pub(crate) ppid: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) state: u8,
    pub(crate) start: u64,
}

impl ProcessEntry {
    /// Whether it has ended and is not reaped yet.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }
}

/// All processes at about the same time.
pub(crate) struct ProcessTable {
    pub(crate) entries: BTreeMap<u32, ProcessEntry>,
}

impl ProcessTable {
    pub(crate) fn read() -> io::Result<Self> {
        let numbers = fs::read_dir("/proc")?.filter_map(|item| item.ok()?.file_name().to_str()?.parse().ok());
        Ok(Self { entries: numbers.filter_map(read_entry).map(|entry| (entry.pid, entry)).collect() })
    }
}

/// The children of the engine's first thread, to which the kernel assigns orphans, including zombies. `None` if the
/// kernel does not show them.
pub(crate) fn adopted_children(us: u32) -> Option<Vec<u32>> {
    let children = fs::read_to_string(format!("/proc/self/task/{us}/children")).ok()?;
    Some(children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

/// The entry of one process, if it exists.
pub(crate) fn read_entry(pid: u32) -> Option<ProcessEntry> {
    parse_stat(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The second field is the program's name in parentheses and may contain anything, `)` and spaces too, so the fields
/// are counted from the last parenthesis.
fn parse_stat(pid: u32, stat: &[u8]) -> Option<ProcessEntry> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(&stat[name_end + 1..]).ok()?.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    // A group or session outside this pid namespace is shown as 0, and so is "none" (-1 never appears here).
    let id = |index: usize| u32::try_from(number(index)?).ok();
    Some(ProcessEntry {
        pid,
        state: *fields.first()?.as_bytes().first()?,
        ppid: id(1)?,
        group: id(2)?,
        session: id(3)?,
        start: number(19)?,
    })
}

/// The value of a variable in a process's initial environment; `None` also if access is denied.
pub(crate) fn environ_value(pid: u32, name: &str) -> Option<Vec<u8>> {
    const ENVIRON_MAX: u64 = 2 << 20;
    let mut bytes = Vec::new();
    // After a read error the bytes before it are still used.
    let _ = File::open(format!("/proc/{pid}/environ")).ok()?.take(ENVIRON_MAX).read_to_end(&mut bytes);
    bytes.split(|byte| *byte == 0).find_map(|pair| {
        let value = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(value.to_vec())
    })
}

/// Signals exactly this process: the pidfd pins it, and the start time proves that it is the intended one.
pub(crate) fn signal(entry: &ProcessEntry, signal: Signal) -> io::Result<()> {
    let pid = raw_pid(entry.pid)?;
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) if is_same(entry) => Ok(rustix::process::pidfd_send_signal(pidfd, signal)?),
        // Out of descriptors: the check and the signal are two steps then, which is better than no signal.
        Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) if is_same(entry) => {
            Ok(rustix::process::kill_process(pid, signal)?)
        }
        Ok(_) => Err(rustix::io::Errno::SRCH.into()),
        Err(error) => Err(error.into()),
    }
}

/// Signals the group of `member` in one step of the kernel, which no fork can escape.
pub(crate) fn signal_group(member: &ProcessEntry, signal: Signal) -> io::Result<()> {
    if !is_same(member) {
        return Err(rustix::io::Errno::SRCH.into());
    }
    Ok(rustix::process::kill_process_group(raw_pid(member.group)?, signal)?)
}

/// Waits until the last of these has ended, or a short time has passed: an event, with a bound for a stuck process.
pub(crate) fn await_end(entries: &[ProcessEntry]) {
    const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    if let Some(last) = entries.last() {
        poll_exit(last.pid, &MOMENT, || is_same(last));
    }
}

/// Waits until a child has ended, for as long as a healthy host could need, and does not reap it.
pub(crate) fn await_exit(pid: u32) {
    const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
    poll_exit(pid, &PATIENCE, || true);
}

fn poll_exit(pid: u32, patience: &Timespec, is_meant: impl FnOnce() -> bool) {
    let pidfd = raw_pid(pid).and_then(|pid| Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?));
    if let Ok(pidfd) = pidfd
        && is_meant()
    {
        let _ = rustix::event::poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(patience));
    }
}

/// Reaps a child that ended. Only called for pids that no other code waits for.
pub(crate) fn reap(pid: u32) {
    if let Ok(pid) = raw_pid(pid) {
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

pub(crate) fn raw_pid(pid: u32) -> io::Result<Pid> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    raw.ok_or_else(|| io::Error::other(format!("{pid} is not a process number")))
}

/// Whether exactly this process has not ended yet.
pub(crate) fn still_runs(entry: &ProcessEntry) -> bool {
    read_entry(entry.pid).is_some_and(|now| now.start == entry.start && !now.is_dead())
}

fn is_same(entry: &ProcessEntry) -> bool {
    read_entry(entry.pid).is_some_and(|now| now.start == entry.start)
}

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
    let start_ticks = read_entry(pid).map(|entry| entry.start).unwrap_or_default();
    ProcessIdentity { pid, boot_id: boot_id(), start_ticks }
}

/// Whether exactly that process still runs; a zombie does not.
pub fn is_alive(who: &ProcessIdentity) -> bool {
    who.boot_id == boot_id()
        && read_entry(who.pid).is_some_and(|entry| entry.start == who.start_ticks && !entry.is_dead())
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let stat = b"7 (a) R 1 (b\xff) S 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0";
        let expected = ProcessEntry { pid: 7, ppid: 3, group: 4, session: 5, state: b'S', start: 777 };
        assert_eq!(parse_stat(7, stat), Some(expected));
    }

    #[test]
    fn broken_stat_lines_are_not_processes() {
        for stat in [&b""[..], b"7 (a", b"7 (a) S", b"7 (a) S x 4 5", b")"] {
            assert_eq!(parse_stat(7, stat), None);
        }
    }
}
