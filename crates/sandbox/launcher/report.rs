//! Failures with their step, and the way they are told to the engine. Decides nothing.

use crate::wire::{FD_STATUS, Record, Step};
use std::fs::File;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

/// A step that could not be done.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    step: Step,
    errno: i32,
    index: u32,
}

pub type Outcome<T = ()> = Result<T, Failure>;

/// Turns the system's reason into a failure of a step.
pub trait At<T> {
    fn at(self, step: Step) -> Outcome<T>;
    fn at_place(self, step: Step, index: usize) -> Outcome<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, step: Step) -> Outcome<T> {
        self.at_place(step, 0)
    }

    fn at_place(self, step: Step, index: usize) -> Outcome<T> {
        self.map_err(|error| {
            // Errors without a number come from the standard library's own checks of arguments.
            let errno = error.raw_os_error().unwrap_or(crate::sys::EINVAL);
            Failure { step, errno, index: u32::try_from(index).unwrap_or(u32::MAX) }
        })
    }
}

pub fn tell(record: Record) {
    // SAFETY: the engine gave us this descriptor for the whole life of the helper, and ManuallyDrop never closes it.
    let mut pipe = ManuallyDrop::new(unsafe { File::from_raw_fd(FD_STATUS) });
    // An engine that is gone closes the lifeline too, and that is heard elsewhere.
    let _ = pipe.write_all(&record.encode());
}

impl Failure {
    pub fn tell(self) {
        tell(Record::Failed { step: self.step, errno: self.errno, index: self.index });
    }

    /// The wall is missing, and the start goes on.
    pub fn tell_gap(self) {
        tell(Record::Gap { step: self.step, errno: self.errno });
    }
}
