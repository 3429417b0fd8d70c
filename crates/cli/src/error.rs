//! The end of a command: the one error with its text, kind, locations and hints, and the exit codes. A round's own codes
//! are in `core` ([`RoundOutcome::exit_code`]); no other code decides a number. [`crate::output`] prints errors.

use loopwright::EngineError;
use loopwright::git::{GitError, GitErrorKind};
use loopwright::store::{StoreError, StoreErrorKind};
use loopwright_core::outcome::RoundOutcome;
use serde::{Deserialize, Serialize};

/// The end of a verb.
pub(crate) type VerbResult = Result<CommandExit, CommandError>;

/// The end of a command, as the shell sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandExit(pub(crate) u8);

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

    /// Ends this process at once.
    pub(crate) fn end_process(self) -> ! {
        std::process::exit(i32::from(self.0))
    }
}

/// The kind of an error. The words are part of the JSON of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CommandErrorKind {
    /// Loopwright or its environment broke.
    Failed,
    /// The command line itself is wrong.
    Usage,
    /// A file that people write is wrong: configuration, loop file, script, repository.
    Invalid,
    /// Nothing has that name.
    Unknown,
    /// Policy refuses it, or the content changed.
    Refused,
    /// Another process holds the store.
    Held,
    /// A signal ended it.
    Interrupted,
}

impl CommandErrorKind {
    /// The exit code of this kind.
    pub(crate) fn exit(self) -> CommandExit {
        match self {
            Self::Failed | Self::Held => CommandExit::FAILED,
            Self::Usage | Self::Invalid | Self::Unknown => CommandExit::USAGE,
            Self::Refused => CommandExit::REFUSED,
            Self::Interrupted => CommandExit::INTERRUPTED,
        }
    }
}

/// A location in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FileLocation {
    /// The file, as it was named.
    pub(crate) file: String,
    /// Line from 1; `None` when the whole file is meant.
    pub(crate) line: Option<u32>,
    /// Column from 1.
    pub(crate) column: Option<u32>,
}

/// The reason why a command did not do its work.
#[derive(Debug)]
pub(crate) struct CommandError {
    /// Its kind.
    pub(crate) kind: CommandErrorKind,
    /// The problem, as a lower-case fragment.
    pub(crate) text: String,
    /// Ways to fix it.
    pub(crate) hints: Vec<String>,
    /// The locations of the problem.
    pub(crate) places: Vec<FileLocation>,
    /// Shown to people instead of the text when files have problems.
    pub(crate) detail: Option<Box<ErrorDetail>>,
}

/// Problems of files, as people see them.
#[derive(Debug)]
pub(crate) struct ErrorDetail {
    /// Each problem with its line and a caret.
    pub(crate) rendered: String,
    /// The number of problems and files.
    pub(crate) summary: String,
}

impl CommandError {
    /// An error of a kind.
    pub(crate) fn new(kind: CommandErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), hints: Vec::new(), places: Vec::new(), detail: None }
    }

    /// Loopwright or its environment broke.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::new(CommandErrorKind::Failed, text)
    }

    /// A file that people write is wrong.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(CommandErrorKind::Invalid, text)
    }

    /// Nothing has that name.
    pub(crate) fn unknown(text: impl Into<String>) -> Self {
        Self::new(CommandErrorKind::Unknown, text)
    }

    /// Policy refuses it.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::new(CommandErrorKind::Refused, text)
    }

    /// Adds a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a location.
    pub(crate) fn at_location(mut self, file: impl Into<String>, line: u32, column: u32) -> Self {
        let number = |number| Some(number).filter(|number| *number > 0);
        self.places.push(FileLocation { file: file.into(), line: number(line), column: number(column) });
        self
    }
}

/// A count with its noun.
pub(crate) fn with_count(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

impl From<GitError> for CommandError {
    fn from(error: GitError) -> Self {
        let shown = match error.kind {
            GitErrorKind::NotARepository | GitErrorKind::Bare | GitErrorKind::NoCommits => {
                Self::invalid(error.kind.to_string())
            }
            GitErrorKind::Missing => Self::failed(error.kind.to_string()),
            GitErrorKind::UnknownRef => Self::invalid(error.to_string()),
            _ => Self::failed(error.to_string()),
        };
        Self { hints: error.hint().map(str::to_owned).into_iter().collect(), ..shown }
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        match &error.kind {
            StoreErrorKind::Held(lease) => {
                let pid = lease.process.as_ref().map_or(0, |process| process.pid);
                Self::new(CommandErrorKind::Held, lease.to_string())
                    .hint(format!("wait for it to end, or stop it: kill {pid}"))
            }
            StoreErrorKind::Missing => Self::unknown("nothing has run here yet: there is no store")
                .hint("start a loop with `loopwright run LOOP`, or see `loopwright demo`"),
            full if full.is_disk_full() => Self::failed(error.to_string())
                .hint("free space on that disk, or use a state on another one with --state DIR; `loopwright gc` deletes old data")
                .hint("nothing that was recorded is lost: an unfinished round continues at the next start"),
            closed if closed.is_unwritable() => Self::failed(error.to_string())
                .hint("make that folder writable for you, or name another state with --state DIR or LOOPWRIGHT_STATE_DIR"),
            StoreErrorKind::Io(_) | StoreErrorKind::Away(_) | StoreErrorKind::Unsuitable(_) => Self::failed(error.to_string())
                .hint("see `loopwright doctor`; an unfinished round continues at the next start"),
            StoreErrorKind::Newer { .. } => Self::failed(error.to_string())
                .hint("install the newer build again, or use another state with --state DIR; docs/install.md"),
            _ => Self::failed(error.to_string()),
        }
    }
}

impl From<EngineError> for CommandError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Git(error) => error.into(),
            EngineError::NotRunnable { .. } => Self::invalid(error.to_string())
                .hint("see `loopwright check`, and remove those parts from the loop file"),
            EngineError::Unknown(_) => Self::unknown(error.to_string()).hint("see `loopwright rounds`"),
            EngineError::Ambiguous { .. } => Self::unknown(error.to_string()).hint("give more characters of the id"),
            EngineError::Refused(refusal) => {
                let error = Self::refused(refusal.to_string());
                match refusal.approvers() {
                    [] => error.hint("see `loopwright inbox`"),
                    names => error.hint(format!("these people may: {}", names.join(", "))),
                }
            }
            EngineError::Stale(_) => Self::refused(error.to_string()).hint("see `loopwright inbox`"),
            EngineError::TooManyOpen { .. } => Self::refused(error.to_string())
                .hint("merge or close one of them, or raise `open_max` in the loop file"),
            EngineError::Place(_) => Self::failed(error_chain(&error))
                .hint("name a folder that you can write to: --state DIR, or LOOPWRIGHT_STATE_DIR"),
            EngineError::Busy { .. } => Self::failed(error.to_string()).hint("see `loopwright status`"),
            _ => Self::failed(error_chain(&error)),
        }
    }
}

/// An error with its causes, as one line.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
