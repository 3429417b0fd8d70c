//! Failures with their step, and their transport to the engine. It decides nothing.

use crate::wire::{FD_STATUS, HelperRecord, LaunchStep};
use std::fs::File;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

/// A step that failed.
#[derive(Clone, Copy, Debug)]
pub struct StepFailure {
    step: LaunchStep,
    errno: i32,
    index: u32,
}

pub type StepResult<T = ()> = Result<T, StepFailure>;

/// Turns a system error into a failure of a step.
pub trait FailedStep<T> {
    fn at(self, step: LaunchStep) -> StepResult<T>;
    fn at_place(self, step: LaunchStep, index: usize) -> StepResult<T>;
}

impl<T> FailedStep<T> for io::Result<T> {
    fn at(self, step: LaunchStep) -> StepResult<T> {
        self.at_place(step, 0)
    }

    fn at_place(self, step: LaunchStep, index: usize) -> StepResult<T> {
        self.map_err(|error| {
            // Errors without a number come from the standard library's own checks of arguments.
            let errno = error.raw_os_error().unwrap_or(crate::sys::EINVAL);
            StepFailure { step, errno, index: u32::try_from(index).unwrap_or(u32::MAX) }
        })
    }
}

pub fn send_record(record: HelperRecord) {
    // SAFETY: the engine passed this descriptor for the whole life of the helper, and ManuallyDrop never closes it.
    let mut pipe = ManuallyDrop::new(unsafe { File::from_raw_fd(FD_STATUS) });
    // If the engine is gone, the lifeline closes too, and outer handles that.
    let _ = pipe.write_all(&record.encode());
}

impl StepFailure {
    pub fn send_failure(self) {
        send_record(HelperRecord::Failed { step: self.step, errno: self.errno, index: self.index });
    }

    /// Reports that this restriction is missing; the start continues.
    pub fn send_gap(self) {
        send_record(HelperRecord::Gap { step: self.step, errno: self.errno });
    }
}
