//! The injected fault, and the hook that injects it.

use loopwright::seam::{SeamFault, SeamHook, SeamMoment};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The effect at the chosen call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The call fails and had no effect.
    FailBefore,
    /// The process dies before the call.
    CrashBefore,
    /// The call took effect, then reports an error.
    FailAfter,
    /// The process dies right after the call took effect.
    CrashAfter,
    /// No fault.
    None,
}

impl Mode {
    pub(crate) const ALL: [Self; 4] = [Self::FailBefore, Self::CrashBefore, Self::FailAfter, Self::CrashAfter];

    pub(crate) fn word(self) -> String {
        format!("{self:?}")
    }

    pub(crate) fn parse(word: &str) -> Self {
        Self::ALL.into_iter().find(|mode| mode.word() == word).unwrap_or(Self::None)
    }

    fn moment(self) -> Option<SeamMoment> {
        match self {
            Self::FailBefore | Self::CrashBefore => Some(SeamMoment::Before),
            Self::FailAfter | Self::CrashAfter => Some(SeamMoment::After),
            Self::None => None,
        }
    }
}

/// One fault: a mode at the n-th call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) mode: Mode,
    pub(crate) n: usize,
}

impl Fault {
    pub(crate) fn none() -> Self {
        Self { mode: Mode::None, n: 0 }
    }
}

/// Counts calls and strikes once. It records the strike in a file, because the process may be dead afterwards.
pub(crate) struct Hook {
    pub(crate) fault: Fault,
    pub(crate) count: AtomicUsize,
    pub(crate) struck: PathBuf,
}

impl SeamHook for Hook {
    fn hit(&self, moment: SeamMoment, site: &'static str) -> Result<(), SeamFault> {
        if self.fault.mode.moment() != Some(moment) || self.count.fetch_add(1, Ordering::SeqCst) != self.fault.n {
            return Ok(());
        }
        std::fs::write(&self.struck, site).expect("the mark is written");
        match self.fault.mode {
            Mode::CrashBefore | Mode::CrashAfter => die(),
            Mode::FailBefore => Err(SeamFault { site, when: "before" }),
            Mode::FailAfter => Err(SeamFault { site, when: "after" }),
            Mode::None => Ok(()),
        }
    }
}

/// Like `kill -9`: no destructor runs.
fn die() -> ! {
    let me = rustix::process::getpid();
    rustix::process::kill_process(me, rustix::process::Signal::KILL).expect("a process may kill itself");
    unreachable!("the signal cannot be caught")
}
