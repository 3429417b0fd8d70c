//! Errors of git calls, sorted into kinds that a caller can act on. An error never carries whole outputs: the excerpt
//! of standard error is short and made printable.

use std::fmt;

/// The longest excerpt of git's standard error that an error keeps.
const EXCERPT_MAX: usize = 600;

/// A git call that failed.
#[derive(Debug, thiserror::Error)]
#[error("git {verb}: {kind}{}", Excerpt(.stderr))]
pub struct GitError {
    /// The git verb that was called.
    pub verb: String,
    /// The arguments after the engine's own flags.
    pub args: Vec<String>,
    /// The kind of failure.
    pub kind: GitErrorKind,
    /// The beginning of standard error, printable.
    pub stderr: String,
}

/// The kinds of failure, one for each different reaction of a caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitErrorKind {
    /// The folder is in no git repository.
    #[error("not a git repository")]
    NotARepository,
    /// Objects of a repository are missing or cannot be read, or a repository of the engine is none any more.
    #[error("the repository is damaged")]
    Damaged,
    /// The repository has no working copy, so it has no loop files either.
    #[error("the repository is bare")]
    Bare,
    /// The repository has no commit to start from.
    #[error("the repository has no commits")]
    NoCommits,
    /// A branch, ref or object does not exist.
    #[error("unknown ref or object")]
    UnknownRef,
    /// A lock file of git is in the way; the engine never removes it.
    #[error("the repository is locked by another git process")]
    Locked,
    /// A ref is not where the caller last saw it, or exists already; nothing was overwritten.
    #[error("the ref moved or exists already")]
    Moved,
    /// The other side refuses the push: no permission, a protected branch, an address that is not allowed.
    #[error("the push is refused")]
    Denied,
    /// The deadline passed; the process was killed.
    #[error("timed out")]
    Timeout,
    /// The output is larger than the caller's limit.
    #[error("the output is over its limit")]
    TooLarge,
    /// Git is not installed.
    #[error("git is not installed, or in no folder of PATH")]
    Missing,
    /// Git is older than the oldest version that is known to work.
    #[error("git {0} is too old")]
    TooOld(String),
    /// Anything else; the exit code if there was one.
    #[error("failed ({})", .0.map_or("no exit code".to_owned(), |code| format!("exit {code}")))]
    Failed(Option<i32>),
}

impl GitError {
    pub(crate) fn new(verb: &str, args: &[String], kind: GitErrorKind, stderr: &[u8]) -> Self {
        Self { verb: verb.to_owned(), args: args.to_vec(), kind, stderr: excerpt(stderr) }
    }

    /// The same error with a kind that the caller knows better.
    pub(crate) fn with_kind(mut self, kind: GitErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// The user's possible fix, if one is known.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self.kind {
            GitErrorKind::NotARepository => {
                "run it inside a git repository, or name one with --repo; `git init` makes one"
            }
            GitErrorKind::Damaged => {
                "`git fsck` in that folder lists the damage; for an `engine.git`, restore a backup with `loopwright \
                 restore`, or move the folder away: the next round makes a new one, and candidates that wait in the old \
                 one can only be denied"
            }
            GitErrorKind::Bare => "name a working copy with --repo; loop files are read from it",
            GitErrorKind::NoCommits => "make a first commit: git add -A && git commit -m start",
            GitErrorKind::UnknownRef => {
                "check the name with `git branch --list`; `base:` takes a branch, tag or commit"
            }
            GitErrorKind::Locked => "wait for the other git process, or remove its stale .lock file yourself",
            GitErrorKind::Missing => "install git",
            GitErrorKind::TooOld(_) => "install git 2.38 or newer",
            _ => return None,
        })
    }
}

/// Git's messages for a ref or object that does not exist.
const NOT_THERE: [&str; 6] = [
    "unknown revision",
    "bad revision",
    "Needed a single revision",
    "not our ref",
    "does not exist in",
    "Not a valid object name",
];

/// Git's messages for objects that are not what their names say.
const DAMAGED: [&str; 6] = [
    "is corrupt",
    "object file ",
    "unable to read tree",
    "inflate: ",
    "packfile ",
    "is far too short to be a packfile",
];

/// Git's messages for a push that the forge does not accept. Git asks for a user after a rejected credential, and this
/// call has no terminal.
const DENIED: [&str; 5] = [
    "[remote rejected]",
    "Authentication failed",
    "returned error: 401",
    "returned error: 403",
    "could not read Username",
];

/// Classifies a failed call by git's messages. They are stable because every call runs with `LC_ALL=C`.
pub(crate) fn classify(code: Option<i32>, stderr: &[u8]) -> GitErrorKind {
    let text = String::from_utf8_lossy(stderr);
    let says = |needle: &str| text.contains(needle);
    if says(".lock': File exists") || says("Unable to create") && says(".lock") {
        GitErrorKind::Locked
    } else if says("not a git repository") {
        GitErrorKind::NotARepository
    } else if says("but expected") || says("reference already exists") || says("[rejected]") {
        GitErrorKind::Moved
    } else if DENIED.iter().any(|words| says(words)) || says("fatal: repository '") && says("' not found") {
        GitErrorKind::Denied
    } else if DAMAGED.iter().any(|words| says(words)) {
        GitErrorKind::Damaged
    } else if NOT_THERE.iter().any(|words| says(words)) {
        GitErrorKind::UnknownRef
    } else {
        GitErrorKind::Failed(code)
    }
}

fn excerpt(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let printable = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    printable.take(EXCERPT_MAX).collect()
}

struct Excerpt<'a>(&'a str);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}
