//! Exit codes, as documented constants. A round's own codes are in `core` ([`RoundOutcome::exit_code`]); this module
//! names them for the command line, and no other code decides a number.

use loopwright_core::outcome::RoundOutcome;
use std::process::ExitCode;

/// The end of a command, as the shell sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandExit(u8);

impl CommandExit {
    /// Done.
    pub(crate) const DONE: Self = Self(0);
    /// Loopwright or its environment broke; also a store that another process holds.
    pub(crate) const FAILED: Self = Self(1);
    /// Wrong usage, invalid configuration, unknown name.
    pub(crate) const USAGE: Self = Self(2);
    /// A gate or a checker rejected the work; `gates test` found a problem.
    pub(crate) const REJECTED: Self = Self(11);
    /// Policy refuses it; also an answer to content that changed.
    pub(crate) const REFUSED: Self = Self(15);
    /// Interrupted by a signal.
    pub(crate) const INTERRUPTED: Self = Self(130);

    /// The code of a round's outcome; a round without an outcome counts as failed.
    pub(crate) fn from_outcome(outcome: Option<RoundOutcome>) -> Self {
        outcome.map_or(Self::FAILED, |outcome| Self(outcome.exit_code()))
    }
}

impl From<u8> for CommandExit {
    /// The exit code of a command that ran in the daemon.
    fn from(code: u8) -> Self {
        Self(code)
    }
}

impl From<CommandExit> for u8 {
    fn from(exit: CommandExit) -> Self {
        exit.0
    }
}

impl From<CommandExit> for ExitCode {
    fn from(exit: CommandExit) -> Self {
        Self::from(exit.0)
    }
}

impl From<CommandExit> for i32 {
    fn from(exit: CommandExit) -> Self {
        Self::from(exit.0)
    }
}
