//! The one error of the command line: what went wrong, of which kind, where, and what to do about it.
//! Printing it is [`crate::output`]'s; deciding the exit code is here.

use crate::exit::CommandExit;
use loopwright::EngineError;
use loopwright::git::{GitError, GitErrorKind};
use loopwright::store::{StoreError, StoreErrorKind};
use serde::{Deserialize, Serialize};

/// What kind of no this is. The words are part of the JSON of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CommandErrorKind {
    /// We or the world broke.
    Failed,
    /// The command line itself is wrong.
    Usage,
    /// A file that people write is wrong: configuration, loop file, script, repository.
    Invalid,
    /// Nothing has that name.
    Unknown,
    /// Policy says no, or the content moved.
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

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FileLocation {
    /// The file, as it was named.
    pub(crate) file: String,
    /// Line from 1; none when the whole file is meant.
    pub(crate) line: Option<u32>,
    /// Column from 1.
    pub(crate) column: Option<u32>,
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) struct CommandError {
    /// What kind of no.
    pub(crate) kind: CommandErrorKind,
    /// What went wrong, as a lower-case fragment.
    pub(crate) text: String,
    /// What to do about it.
    pub(crate) hints: Vec<String>,
    /// Where.
    pub(crate) places: Vec<FileLocation>,
    /// What people see instead of the text when files have problems.
    pub(crate) detail: Option<Box<ErrorDetail>>,
}

/// Problems of files, as people see them.
#[derive(Debug)]
pub(crate) struct ErrorDetail {
    /// Each with its line and a caret.
    pub(crate) rendered: String,
    /// How many there are.
    pub(crate) summary: String,
}

impl CommandError {
    /// An error of a kind.
    pub(crate) fn new(kind: CommandErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), hints: Vec::new(), places: Vec::new(), detail: None }
    }

    /// We or the world broke.
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

    /// Policy says no.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self::new(CommandErrorKind::Refused, text)
    }

    /// Adds a way out.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a place.
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
        let kind = match error.kind {
            GitErrorKind::NotARepository | GitErrorKind::Bare | GitErrorKind::NoCommits | GitErrorKind::UnknownRef => {
                CommandErrorKind::Invalid
            }
            _ => CommandErrorKind::Failed,
        };
        let text = match error.kind {
            GitErrorKind::NotARepository | GitErrorKind::Bare | GitErrorKind::NoCommits | GitErrorKind::Missing => {
                error.kind.to_string()
            }
            _ => error.to_string(),
        };
        let hint = error.hint();
        Self { hints: hint.map(str::to_owned).into_iter().collect(), ..Self::new(kind, text) }
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
            StoreErrorKind::Io(_) | StoreErrorKind::Unsuitable(_) => Self::failed(error.to_string())
                .hint("see `loopwright doctor`; a round that was under way goes on at the next start"),
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
                .hint("see `loopwright check`, and take those parts out of the loop file"),
            EngineError::Unknown(_) => Self::unknown(error.to_string()).hint("see `loopwright rounds`"),
            EngineError::Ambiguous { .. } => Self::unknown(error.to_string()).hint("give more of the id"),
            EngineError::Refused(refusal) => {
                let error = Self::refused(refusal.to_string());
                match refusal.approvers() {
                    [] => error.hint("see `loopwright inbox`"),
                    names => error.hint(format!("these may: {}", names.join(", "))),
                }
            }
            EngineError::Stale(_) => Self::refused(error.to_string()).hint("see `loopwright inbox`"),
            EngineError::TooManyOpen { .. } => Self::refused(error.to_string())
                .hint("merge or close one of them, or raise `open_max` in the loop file"),
            EngineError::Busy { .. } => Self::failed(error.to_string()).hint("see `loopwright status`"),
            EngineError::Place(_)
            | EngineError::Daemon(_)
            | EngineError::Forge(_)
            | EngineError::WorkGone(_)
            | EngineError::Workspace(_)
            | EngineError::Gates(_)
            | EngineError::History { .. }
            | EngineError::Unreadable { .. }
            | EngineError::Unsent { .. }
            | EngineError::Unrecorded { .. }
            | EngineError::Sweep(_)
            | EngineError::Egress(_)
            | EngineError::Random(_) => Self::failed(error_chain(&error)),
        }
    }
}

/// An error with its causes, as one line.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
