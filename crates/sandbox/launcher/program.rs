//! The last steps, in the program's own process: limits, the second walls, and its execution.

use crate::report::{At, Failure, Outcome};
use crate::sys;
use crate::wire::{Act, Plan, Step};
use crate::{looks, walls};
use std::ffi::CString;
use std::io;
use std::time::Duration;

/// A program file that somebody still holds open for writing is "busy" for an instant, which is worth a few tries.
const BUSY_TRIES: usize = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

pub fn run(plan: &Plan) -> ! {
    match start(plan) {
        Ok(code) => sys::exit(code),
        Err(failure) => {
            failure.tell();
            sys::exit(127)
        }
    }
}

fn start(plan: &Plan) -> Outcome<i32> {
    sys::new_session();
    // Handling is the default already: the engine reset it, and nothing here changed it.
    sys::unblock_signals();
    sys::close_on_exec_from(3).at(Step::Limits)?;
    std::env::set_current_dir(crate::outer::as_path(&plan.cwd)).at(Step::Cwd)?;
    let strings = Strings::new(plan).at(Step::Execute)?;
    walls::limit(plan).at(Step::Limits)?;
    if let Err(missing) = walls::landlock(plan).at(Step::Landlock) {
        missing.tell_gap();
    }
    plan.filters.iter().try_for_each(|filter| sys::install_filter(filter)).at(Step::Seccomp)?;
    match plan.act {
        Act::Look => Ok(looks::inside()),
        Act::Execute => Err(strings.execute()),
    }
}

struct Strings {
    /// Where the program may be, in order.
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
}

impl Strings {
    fn new(plan: &Plan) -> io::Result<Self> {
        let all = |list: &[Vec<u8>]| list.iter().map(|one| sys::c_string(one)).collect::<io::Result<Vec<_>>>();
        let name = plan.argv.first().map(Vec::as_slice).unwrap_or_default();
        Ok(Self { candidates: all(&candidates(name, &plan.path))?, argv: all(&plan.argv)?, env: all(&plan.env)? })
    }

    /// As execvp does, but without its resort to a shell.
    fn execute(&self) -> Failure {
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

fn failed(error: io::Error) -> Failure {
    match Err::<(), _>(error).at(Step::Execute) {
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
