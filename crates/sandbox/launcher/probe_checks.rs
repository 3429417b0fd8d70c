//! What the probe wants to know and only the inside can tell. Nothing of this runs for a real program.

use crate::report::send_record;
use crate::sys;
use crate::wire::{LaunchPlan, HelperRecord, LaunchStep};

/// Looks that need the walls only half built.
pub fn outside(_plan: &LaunchPlan) {
    let version = sys::landlock_version().unwrap_or(0);
    send_record(HelperRecord::Seen { step: LaunchStep::Landlock, value: version });
    send_record(HelperRecord::Seen { step: LaunchStep::Proc, value: processes() });
}

/// How many processes `/proc` shows; nobody but init is there.
fn processes() -> u32 {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let is_number = |name: &std::ffi::OsString| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let count = entries.flatten().map(|entry| entry.file_name()).filter(is_number).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The program's exit code: 0 when the filter holds.
pub fn inside() -> i32 {
    let refused =
        sys::enter_namespaces(sys::CLONE_NEWUSER).is_err_and(|error| error.raw_os_error() == Some(sys::EPERM));
    i32::from(!refused)
}
