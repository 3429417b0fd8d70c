//! One git call: its arguments, its environment, its limits, and the single function that starts the process. It does
//! not interpret the calls.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use super::error::{GitError, GitErrorKind, classify};
use crate::proc::{
    CancelToken, ProcessRunner, ProgramTrust, RunEnd, SpawnErrorKind, SpawnRequest, StdinSource, TreeCookie,
    trusted_path,
};
use crate::seam::{Seam, SeamFault};

/// The oldest git that is supported: 2.38 is the first with the ownership check in its final form and
/// the one the design was tried on; `--no-write-fetch-head` (2.29) and `--end-of-options` in
/// `rev-parse` (2.30) are older.
const OLDEST: (u32, u32) = (2, 38);

/// A git call that takes longer than this is stuck; the largest import measured took seconds.
const DEADLINE: Duration = Duration::from_secs(120);

/// Enough for every output that is not file content.
const OUT_MAX: usize = 1 << 20;

/// Enough for the listing of a tree with half a million entries.
pub(crate) const TREE_MAX: usize = 128 << 20;

const STDERR_MAX: usize = 64 << 10;

/// Configuration of every call, whatever the repository. `-c` overrides every configuration file.
const SETTINGS: &[&str] = &[
    // Programs that git would start by itself, named in a repository's config or hooks folder.
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "credential.helper=",
    "commit.gpgSign=false",
    // No transport unless the call asks for the local one (see `GitCall::protocol`).
    "protocol.allow=never",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    // Attributes and ignore rules come from the tree alone, never from the machine.
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    // Checkout and seal convert content the same way on every machine.
    "core.autocrlf=false",
    "core.eol=lf",
    "core.safecrlf=false",
    "core.symlinks=true",
    "core.fileMode=true",
    "core.ignoreCase=false",
    "core.precomposeUnicode=false",
    // Git also refuses names that are `.git` on another file system, in addition to the engine's own check.
    "core.protectHFS=true",
    "core.protectNTFS=true",
    // No branch reaches sealed objects, so automatic pruning must be off.
    "gc.auto=0",
    "maintenance.auto=false",
    // The engine's parser of index files reads only complete files of version 2.
    "index.version=2",
    "core.splitIndex=false",
    "core.untrackedCache=false",
    "index.sparse=false",
    // A repository may belong to another user (containers, shared folders). Git's ownership check guards against
    // programs named in its config; the settings above disable these, so reading it is safe.
    "safe.directory=*",
    "core.quotePath=false",
    "advice.detachedHead=false",
];

/// The environment of every git process. Nothing is inherited, and `PATH` has only the system's folders.
const ENVIRONMENT: &[(&str, &str)] = &[
    // Neither the machine's nor the user's configuration is read.
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("HOME", "/nonexistent"),
    // Git must not prompt.
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "/bin/false"),
    ("SSH_ASKPASS", "/bin/false"),
    ("GIT_EDITOR", "/bin/false"),
    ("GIT_PAGER", "cat"),
    // Reading must not refresh an index as a side effect.
    ("GIT_OPTIONAL_LOCKS", "0"),
    // A partial clone must not contact its remote during a read.
    ("GIT_NO_LAZY_FETCH", "1"),
    // Refs under refs/replace would substitute another object for the named one.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_ADVICE", "0"),
    // `classify` matches error messages by their English text.
    ("LC_ALL", "C"),
];

/// The handling of output beyond the limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Fail,
    Cut,
}

/// A git call before it starts.
pub(crate) struct GitCall {
    site: &'static str,
    before: Vec<OsString>,
    args: Vec<OsString>,
    env: Vec<(&'static str, OsString)>,
    stdin: Vec<u8>,
    out_max: usize,
    overflow: Overflow,
    /// The one protocol that the call may use; the environment variable overrides every configuration.
    protocol: &'static str,
    deadline: Duration,
    highest_good_code: i32,
}

/// The result of a git process.
pub(crate) struct GitOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// Standard output was longer than the limit and is truncated there.
    pub(crate) cut: bool,
}

impl GitOutput {
    /// Standard output as text without its last line break.
    pub(crate) fn line(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end_matches('\n').to_owned()
    }
}

impl GitCall {
    /// `site` is the name of the seam: `git.` and the verb.
    pub(crate) fn new(site: &'static str) -> Self {
        Self {
            site,
            before: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: Vec::new(),
            out_max: OUT_MAX,
            overflow: Overflow::Fail,
            protocol: "none",
            deadline: DEADLINE,
            highest_good_code: 0,
        }
    }

    /// Names the repository; without it git would search from the current folder upwards.
    pub(crate) fn git_dir(self, dir: &Path) -> Self {
        self.env("GIT_DIR", dir)
    }

    /// Whether the call names a repository, which its caller has opened before.
    fn names_repository(&self) -> bool {
        self.env.iter().any(|(name, _)| *name == "GIT_DIR")
    }

    pub(crate) fn work_tree(self, dir: &Path) -> Self {
        self.env("GIT_WORK_TREE", dir)
    }

    pub(crate) fn index(self, file: &Path) -> Self {
        self.env("GIT_INDEX_FILE", file)
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name, value.as_ref().to_owned()));
        self
    }

    /// Starts git in a folder (for discovery only).
    pub(crate) fn in_folder(mut self, dir: &Path) -> Self {
        self.before.extend(["-C".into(), dir.as_os_str().to_owned()]);
        self
    }

    /// A further setting, `name=value`, for this call.
    pub(crate) fn setting(mut self, setting: impl Into<OsString>) -> Self {
        self.before.extend(["-c".into(), setting.into()]);
        self
    }

    /// For files that are deleted with their round: git does not flush them to the disk.
    pub(crate) fn unflushed(mut self) -> Self {
        self.before.extend(["-c".into(), "core.fsync=none".into()]);
        self
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(crate) fn args<I: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = I>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Output beyond this limit is an error.
    pub(crate) fn out_max(mut self, bytes: usize) -> Self {
        self.out_max = bytes;
        self
    }

    /// Output beyond this limit is truncated, and the result reports it.
    pub(crate) fn truncate_at(mut self, bytes: usize) -> Self {
        self.overflow = Overflow::Cut;
        self.out_max(bytes)
    }

    /// Allows one protocol; `file` fetches from a folder on this machine.
    pub(crate) fn protocol(mut self, protocol: &'static str) -> Self {
        self.protocol = protocol;
        self
    }

    /// Allows the call more time than the usual deadline.
    pub(crate) fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Exit code 1 means "no" for this verb and is not a failure.
    pub(crate) fn allow_exit_one(mut self) -> Self {
        self.highest_good_code = 1;
        self
    }

    fn verb(&self) -> &'static str {
        self.site.trim_start_matches("git.")
    }

    fn environment(&self) -> BTreeMap<OsString, OsString> {
        let allowed = ("GIT_ALLOW_PROTOCOL", self.protocol);
        let fixed = ENVIRONMENT.iter().copied().chain([("PATH", trusted_path()), allowed]);
        let fixed = fixed.map(|(name, value)| (name.into(), value.into()));
        fixed.chain(self.env.iter().map(|(name, value)| (name.into(), value.clone()))).collect()
    }

    fn to_spawn(&self) -> SpawnRequest {
        let mut spawn = SpawnRequest::new("git", "/", TreeCookie::new("git"));
        spawn.env = self.environment();
        // Git waits for the helpers it starts; hooks, monitors and maintenance, which would outlive it, are off.
        spawn.trust = ProgramTrust::Ours;
        spawn.args.extend(SETTINGS.iter().flat_map(|setting| ["-c".into(), setting.into()]));
        spawn.args.extend(self.before.iter().cloned().chain([self.verb().into()]).chain(self.args.iter().cloned()));
        if !self.stdin.is_empty() {
            spawn.stdin = StdinSource::Bytes(self.stdin.clone());
        }
        spawn.limits.wall = Some(self.deadline);
        spawn.limits.keep_head = self.out_max.max(STDERR_MAX);
        spawn.limits.keep_tail = 0;
        spawn.limits.output_max = (self.out_max + STDERR_MAX) as u64;
        spawn
    }

    /// The arguments and the environment that the process gets.
    #[cfg(test)]
    pub(super) fn started_with(&self) -> (Vec<OsString>, BTreeMap<OsString, OsString>) {
        let spawn = self.to_spawn();
        (spawn.args, spawn.env)
    }

    fn error(&self, kind: GitErrorKind, stderr: &[u8]) -> GitError {
        let args: Vec<String> = self.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        GitError::new(self.verb(), &args, kind, stderr)
    }
}

/// Runs git. A cheap handle; every call starts its own process.
#[derive(Debug, Clone, Default)]
pub struct Git {
    seam: Seam,
}

impl Git {
    /// Every call passes the seam before it starts and after it took effect.
    pub fn new(seam: Seam) -> Self {
        Self { seam }
    }

    /// Checks that git is installed and not older than 2.38, and returns its version.
    pub async fn version(&self) -> Result<String, GitError> {
        let call = GitCall::new("git.version");
        let line = self.run(GitCall::new("git.version")).await?.line();
        let version = line.trim_start_matches("git version ").to_owned();
        let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if found < OLDEST {
            return Err(call.error(GitErrorKind::TooOld(version), b""));
        }
        Ok(version)
    }

    /// Runs a call that is expected to succeed.
    pub(crate) async fn run(&self, call: GitCall) -> Result<GitOutput, GitError> {
        let answer = self.ask(&call).await?;
        if answer.cut || answer.code.is_some_and(|code| (0..=call.highest_good_code).contains(&code)) {
            return Ok(answer);
        }
        let kind = match classify(answer.code, &answer.stderr) {
            GitErrorKind::NotARepository if call.names_repository() => GitErrorKind::Damaged,
            kind => kind,
        };
        Err(call.error(kind, &answer.stderr))
    }

    /// Runs a call whose exit code is part of the result; fails only when the process could not do its work.
    pub(crate) async fn ask(&self, call: &GitCall) -> Result<GitOutput, GitError> {
        let fault = |fault: SeamFault| call.error(GitErrorKind::Failed(None), fault.to_string().as_bytes());
        self.seam.before(call.site).map_err(fault)?;
        let answer = spawn(call).await?;
        if answer.cut && call.overflow == Overflow::Fail {
            return Err(call.error(GitErrorKind::TooLarge, &answer.stderr));
        }
        self.seam.after(call.site).map_err(fault)?;
        Ok(answer)
    }
}

/// The only function that starts git. The process and its helpers end with the future and at the deadline.
async fn spawn(call: &GitCall) -> Result<GitOutput, GitError> {
    // Git calls have their own seams, named by verb.
    let proc = ProcessRunner::new(Seam::none());
    let ended = proc.run(call.to_spawn(), &mut (), &CancelToken::new(), |_| ()).await.map_err(|error| {
        let missing = error.kind == SpawnErrorKind::NotFound;
        let kind = if missing { GitErrorKind::Missing } else { GitErrorKind::Failed(None) };
        call.error(kind, error.to_string().as_bytes())
    })?;
    if ended.how == RunEnd::Wall {
        return Err(call.error(GitErrorKind::Timeout, &ended.stderr.head));
    }
    let cut = ended.how == RunEnd::Flood || ended.stdout.total > call.out_max as u64;
    let mut stdout = ended.stdout.head;
    stdout.truncate(call.out_max);
    Ok(GitOutput { code: ended.code, stdout, stderr: ended.stderr.head, cut })
}
