//! The request to start a program: program and its lookup, environment, limits and the cookie that marks the tree. It
//! starts nothing and never reads this process's own environment.

use crate::confinement::Confinement;
use crate::stdin_feed::StdinFeed;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The variable with the cookie in every child's environment.
pub const COOKIE_VAR: &str = "LOOPWRIGHT_COOKIE";

/// One program to run, with everything it will see.
#[derive(Clone, Debug)]
pub struct SpawnRequest {
    /// The program: a path (relative ones start at `cwd`), or a bare name looked up in `env`'s PATH.
    pub program: PathBuf,
    /// Its arguments, without the program's own name.
    pub args: Vec<OsString>,
    /// The whole environment; nothing is inherited.
    pub env: BTreeMap<OsString, OsString>,
    /// The directory it starts in.
    pub cwd: PathBuf,
    /// Its standard input.
    pub stdin: StdinSource,
    /// Its output channel.
    pub output: OutputChannel,
    /// The limits of the run, and the size of the kept output.
    pub limits: RunLimits,
    /// The mark of its tree.
    pub cookie: TreeCookie,
    /// How thoroughly its tree is searched for after its end.
    pub trust: ProgramTrust,
    /// Its kernel restrictions; `None` allows everything that this user may do.
    pub confine: Option<Confinement>,
}

/// The expected behaviour of a program with the processes it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgramTrust {
    /// Any behaviour. At its end the whole process table is searched for members of its tree, by every mark.
    #[default]
    Foreign,
    /// Its processes stay its descendants, as git's do. An orphan of such a tree is a child of this process. So if the
    /// program ended by itself, closed its pipes and left no such child, no process is left and the table is not
    /// searched.
    Ours,
}

impl SpawnRequest {
    /// A program with no arguments, an empty environment, no input and default limits.
    pub fn new(program: impl Into<PathBuf>, cwd: impl Into<PathBuf>, cookie: TreeCookie) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: cwd.into(),
            stdin: StdinSource::Null,
            output: OutputChannel::default(),
            limits: RunLimits::default(),
            cookie,
            trust: ProgramTrust::default(),
            confine: None,
        }
    }
}

/// The standard input of a child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StdinSource {
    /// `/dev/null`.
    #[default]
    Null,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// Bytes that are sent while it runs.
    Feed(StdinFeed),
}

/// The channel of a child's standard output and standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputChannel {
    /// Pipes. Every process that sees the child in `/proc`, which includes all processes it starts, can open them again
    /// and write to them.
    #[default]
    Pipes,
    /// Sockets, which the kernel does not open a second time: only the child, or processes that inherit its output, can
    /// write to them. For programs whose output is trusted.
    Private,
}

/// The limits of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// The time limit of the run.
    pub wall: Option<Duration>,
    /// The longest time without output.
    pub idle: Option<Duration>,
    /// The number of first bytes of each stream that are kept.
    pub keep_head: usize,
    /// The number of last bytes of each stream that are kept.
    pub keep_tail: usize,
    /// The number of bytes of both streams together after which the tree is ended.
    pub output_max: u64,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The time in which it must exit after its watcher reported that it has finished.
    pub finish: Duration,
    /// The time to wait for output after the program ended while another process still holds its pipes.
    pub drain: Duration,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            wall: None,
            idle: None,
            keep_head: 64 << 10,
            keep_tail: 64 << 10,
            output_max: 256 << 20,
            grace: Duration::from_secs(2),
            finish: Duration::from_secs(3),
            drain: Duration::from_secs(1),
        }
    }
}

/// An unguessable mark in the environment of every process of a tree, so that a later engine finds the tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeCookie(String);

impl TreeCookie {
    /// A new cookie `PREFIX-RANDOM`; `sweep("PREFIX-")` finds all of that prefix and no longer one.
    pub fn new(prefix: &str) -> Self {
        let random: String = random_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        Self(format!("{prefix}-{random}"))
    }

    /// A cookie from a record.
    pub fn from_recorded(text: String) -> Self {
        Self(text)
    }

    /// The text for a record.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn random_bytes() -> [u8; 16] {
    let mut bytes = [0_u8; 16];
    // SAFETY: the pointer and length describe `bytes`, which outlives the call.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    // Requests of up to 256 bytes are never truncated or interrupted once the pool is ready (getrandom(2)).
    assert_eq!(got, 16, "the kernel gives randomness");
    bytes
}

/// The absolute path of the program that execvp would run for `name`, with this PATH, in this directory.
pub fn resolve_program(name: &str, path: &OsStr, cwd: &Path) -> Option<PathBuf> {
    find_program(OsStr::new(name), path, cwd)
}

pub(crate) fn find_program(name: &OsStr, path: &OsStr, cwd: &Path) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    if name.as_bytes().contains(&b'/') {
        return executable(cwd.join(name));
    }
    // An empty PATH entry means the working directory, which `join` gives.
    path.as_bytes().split(|byte| *byte == b':').find_map(|dir| executable(cwd.join(OsStr::from_bytes(dir)).join(name)))
}

fn executable(candidate: PathBuf) -> Option<PathBuf> {
    let runs = candidate.is_file() && rustix::fs::access(&candidate, rustix::fs::Access::EXEC_OK).is_ok();
    if runs { std::path::absolute(candidate).ok() } else { None }
}
