//! The memory of this process: protects it from other processes, and releases what a mostly waiting process does not
//! need. It does not affect children: the sandbox confines them.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use std::io;
use std::ops::Range;

/// Makes this process unreadable to others of the same user (no ptrace, no `/proc/PID/mem` or `environ`) and disables
/// core files.
///
/// A program that is executed later is readable again, so the helper can still write its own id maps.
pub fn make_undumpable() -> io::Result<()> {
    hide_memory()?;
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}

/// The same without a change of limits, which children would inherit: for a process inside a sandbox.
pub fn hide_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Releases freed memory that the allocator still holds, and pages of the program's own file that were only needed to
/// start and can be read again. It takes some milliseconds after a start with much work, and has no other effect on the
/// process: code that is needed again is mapped again.
pub fn release_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer and may be called from any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    for pages in untouched(&maps, &program.to_string_lossy()) {
        // SAFETY: these are whole mappings of a file that no process can write to, with no page that differs from the
        // file; any thread that needs a dropped page reads it from the file again. An error leaves them as they are.
        unsafe {
            libc::madvise(pages.start as *mut libc::c_void, pages.len(), libc::MADV_DONTNEED);
        }
    }
}

/// The resident memory of this process in bytes; zero if the kernel does not say.
#[must_use]
pub fn resident_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// Mappings of a file that are not writable and of which no page was ever written, not even by relocations.
fn untouched(maps: &str, file: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut current = None;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        match (first, words.next()) {
            ("Anonymous:" | "Private_Dirty:" | "Shared_Dirty:", Some(kib)) if kib != "0" => current = None,
            // The last line of every mapping.
            ("VmFlags:", _) => found.extend(current.take()),
            (range, Some(mode)) if !range.ends_with(':') => {
                let is_meant = !mode.contains('w') && mode.ends_with('p') && !file.is_empty() && line.ends_with(file);
                current = addresses(range).filter(|_| is_meant);
            }
            _ => {}
        }
    }
    found
}

fn addresses(range: &str) -> Option<Range<usize>> {
    let (from, to) = range.split_once('-')?;
    Some(usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
1000-5000 r--p 00000000 fe:00 7 /bin/it
Private_Dirty:         0 kB
Anonymous:             0 kB
VmFlags: rd mr mw me sd
5000-9000 r-xp 00004000 fe:00 7 /bin/it
Private_Dirty:         0 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me sd
9000-a000 r--p 00008000 fe:00 7 /bin/it
Private_Dirty:         4 kB
Anonymous:             4 kB
VmFlags: rd mr mw me ac sd
a000-b000 rw-p 00009000 fe:00 7 /bin/it
Private_Dirty:         0 kB
Anonymous:             0 kB
VmFlags: rd wr mr mw me ac sd
c000-d000 r-xp 00000000 fe:00 8 /lib/other
Private_Dirty:         0 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me sd
d000-e000 r--p 00000000 00:00 0
Private_Dirty:         0 kB
Anonymous:             0 kB
VmFlags: rd mr mw me sd
";

    #[test]
    fn only_pages_equal_to_the_file_are_dropped() {
        assert_eq!(untouched(MAPS, "/bin/it"), [0x1000..0x5000, 0x5000..0x9000]);
        assert!(untouched(MAPS, "").is_empty());
    }

    #[test]
    fn process_works_after_it_released_memory() {
        let before: Vec<String> = (0..1_000).map(|number| format!("number {number}")).collect();
        release_memory();
        assert!(before.iter().enumerate().all(|(number, text)| *text == format!("number {number}")));
    }
}
