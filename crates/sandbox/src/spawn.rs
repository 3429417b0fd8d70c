//! What is to be started: program, environment, limits and the cookie that marks the tree. Starts nothing.

use crate::confinement::Confinement;
use crate::stdin_feed::StdinFeed;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The variable that carries the cookie in every child's environment.
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
    /// What it reads.
    pub stdin: StdinSource,
    /// What it writes to.
    pub output: OutputChannel,
    /// When it is stopped, and how much is kept.
    pub limits: RunLimits,
    /// The mark of its tree.
    pub cookie: TreeCookie,
    /// How far its tree is looked for when it has ended.
    pub trust: ProgramTrust,
    /// What the kernel holds it to; `None` is this user's whole reach.
    pub confine: Option<Confinement>,
}

/// What a program may be expected to do with the processes it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgramTrust {
    /// Anything. At its end the whole process table is searched for members of its tree, by every mark.
    #[default]
    Foreign,
    /// Its processes stay its descendants, as those of git do. An orphan of such a tree is our child, so when it ended
    /// by itself, closed its pipes and left us no child, nobody is left and the table is not searched.
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

/// What a child reads on its standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StdinSource {
    /// `/dev/null`.
    #[default]
    Null,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// What is sent while it runs.
    Feed(StdinFeed),
}

/// What a child writes its standard output and standard error to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputChannel {
    /// Pipes. Whoever sees the child in `/proc`, and that is everything it starts, can open them again and write to them.
    #[default]
    Pipes,
    /// Sockets, which the kernel opens for nobody a second time: what comes out of them was written by the child, or by those
    /// whom it gave its own output to. For programs whose words are believed.
    Private,
}

/// The bounds of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// How long it may run at all.
    pub wall: Option<Duration>,
    /// How long it may go without a byte of output.
    pub idle: Option<Duration>,
    /// How many first bytes of each stream are kept.
    pub keep_head: usize,
    /// How many last bytes of each stream are kept.
    pub keep_tail: usize,
    /// Bytes of both streams together after which the tree is ended.
    pub output_max: u64,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// How long it may take to end by itself once its watcher says that it is done.
    pub finish: Duration,
    /// How long output is awaited after the program ended while somebody still holds its pipes.
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

    /// A cookie that was written down earlier.
    pub fn from_recorded(text: String) -> Self {
        Self(text)
    }

    /// The text to write down.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn random_bytes() -> [u8; 16] {
    let mut bytes = [0_u8; 16];
    // SAFETY: the pointer and length describe `bytes`, which outlives the call.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    // Requests of up to 256 bytes are never cut short or interrupted once the pool is ready (getrandom(2)).
    assert_eq!(got, 16, "the kernel gives randomness");
    bytes
}
