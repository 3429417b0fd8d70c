//! Checks of the probe that only run inside the sandbox. None of them runs for a real program.

use crate::report::send_record;
use crate::sys;
use crate::wire::{HelperRecord, LaunchPlan, LaunchStep};

/// Checks that need a partly built sandbox.
pub fn outside(_plan: &LaunchPlan) {
    let version = sys::landlock_version().unwrap_or(0);
    send_record(HelperRecord::Seen { step: LaunchStep::Landlock, value: version });
    send_record(HelperRecord::Seen { step: LaunchStep::Proc, value: processes() });
}

/// The number of processes in `/proc`; only init is there.
fn processes() -> u32 {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let is_number = |name: &std::ffi::OsString| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let count = entries.flatten().map(|entry| entry.file_name()).filter(is_number).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The exit code of the program: 0 if the filter works.
pub fn inside() -> i32 {
    let refused =
        sys::enter_namespaces(sys::CLONE_NEWUSER).is_err_and(|error| error.raw_os_error() == Some(sys::EPERM));
    i32::from(!refused)
}
