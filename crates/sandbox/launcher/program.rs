//! The last steps, in the program's own process: limits, the second layer of restrictions, and the execution.

use crate::report::{FailedStep, StepFailure, StepResult};
use crate::sys;
use crate::wire::{LaunchPlan, LaunchStep, LaunchTask};
use crate::{probe_checks, restrictions};
use std::ffi::CString;
use std::io;
use std::time::Duration;

/// A program file that another process still holds open for writing is "busy" for a moment, so the helper retries a few
/// times.
const BUSY_TRIES: usize = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

pub fn run(plan: &LaunchPlan) -> ! {
    match start(plan) {
        Ok(code) => sys::exit(code),
        Err(failure) => {
            failure.send_failure();
            sys::exit(127)
        }
    }
}

fn start(plan: &LaunchPlan) -> StepResult<i32> {
    sys::new_session();
    // Handling is the default already: the engine reset it, and nothing here changed it.
    sys::unblock_signals();
    sys::close_on_exec_from(3).at(LaunchStep::Limits)?;
    std::env::set_current_dir(&plan.cwd).at(LaunchStep::Cwd)?;
    let strings = Strings::new(plan).at(LaunchStep::Execute)?;
    restrictions::limit(plan).at(LaunchStep::Limits)?;
    if let Err(missing) = restrictions::landlock(plan).at(LaunchStep::Landlock) {
        missing.send_gap();
    }
    plan.filters.iter().try_for_each(|filter| sys::install_filter(filter)).at(LaunchStep::Seccomp)?;
    match plan.act {
        LaunchTask::Look => Ok(probe_checks::inside()),
        LaunchTask::Execute => Err(strings.execute()),
    }
}

struct Strings {
    /// The possible paths of the program, in order.
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
}

impl Strings {
    fn new(plan: &LaunchPlan) -> io::Result<Self> {
        let all = |list: &[Vec<u8>]| list.iter().map(|one| sys::c_string(one)).collect::<io::Result<Vec<_>>>();
        let name = plan.argv.first().map(Vec::as_slice).unwrap_or_default();
        Ok(Self { candidates: all(&candidates(name, &plan.path))?, argv: all(&plan.argv)?, env: all(&plan.env)? })
    }

    /// As execvp does, but without its fallback to a shell.
    fn execute(&self) -> StepFailure {
        let mut reason = io::Error::from_raw_os_error(sys::ENOENT);
        for candidate in &self.candidates {
            let error = self.try_one(candidate);
            match error.raw_os_error() {
                Some(sys::ENOENT | sys::ENOTDIR) => {}
                Some(sys::EACCES) => reason = error,
                _ => return failed(error),
            }
        }
        failed(reason)
    }

    fn try_one(&self, candidate: &CString) -> io::Error {
        let mut tries = 0;
        loop {
            let error = sys::execute(candidate, &self.argv, &self.env);
            if error.raw_os_error() != Some(sys::ETXTBSY) || tries == BUSY_TRIES {
                return error;
            }
            tries += 1;
            std::thread::sleep(BUSY_PAUSE);
        }
    }
}

fn failed(error: io::Error) -> StepFailure {
    match Err::<(), _>(error).at(LaunchStep::Execute) {
        Err(failure) => failure,
        Ok(()) => sys::exit(127),
    }
}

fn candidates(name: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    if name.is_empty() || name.contains(&b'/') {
        return vec![name.to_vec()];
    }
    // An empty entry means the working directory.
    let dir = |dir: &[u8]| if dir.is_empty() { b".".to_vec() } else { dir.to_vec() };
    path.split(|byte| *byte == b':').map(|entry| [&dir(entry), &b"/"[..], name].concat()).collect()
}
