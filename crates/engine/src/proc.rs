//! The only place where the engine starts processes: every child starts here, with an environment built from scratch.
//! `sandbox` does the work; callers decide what runs and why.

use crate::seam::{Seam, SeamFault};
use loopwright_sandbox as sandbox;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub use sandbox::{
    CancelToken, CapturedOutput, Confinement, FeedError, FinishedRun, MountSource, OutputChannel, OutputStream,
    OutputWatch, ProgramTrust, ResourceCeilings, RunEnd, RunLimits, SandboxIdentity, SandboxMount, SandboxNetwork,
    SpawnError, SpawnErrorKind, SpawnRequest, StartedProcess, StdinFeed, StdinSource, TreeCookie, WatchFlow,
    hide_memory, make_undumpable, release_memory, resident_memory, sweep,
};

/// The seam's name for a process.
const SITE: &str = "process";

/// Starts processes; cheap to clone.
#[derive(Clone, Debug)]
pub struct ProcessRunner {
    seam: Seam,
}

impl ProcessRunner {
    /// A runner of real processes, with a seam before each start and after each end.
    pub fn new(seam: Seam) -> Self {
        Self { seam }
    }

    /// Runs a program and returns when it and everything it started has ended; see [`sandbox::run`].
    pub async fn run(
        &self,
        spawn: SpawnRequest,
        watch: &mut dyn OutputWatch,
        cancel: &CancelToken,
        started: impl FnOnce(&StartedProcess),
    ) -> Result<FinishedRun, SpawnError> {
        let program = spawn.program.clone();
        self.seam.before(SITE).map_err(|fault| injected(&program, fault))?;
        let ended = sandbox::run(spawn, watch, cancel, started).await?;
        self.seam.after(SITE).map_err(|fault| injected(&program, fault))?;
        Ok(ended)
    }
}

fn injected(program: &Path, fault: SeamFault) -> SpawnError {
    let (program, detail) = (program.to_owned(), fault.to_string());
    SpawnError { kind: SpawnErrorKind::Other, program, detail, source: std::io::Error::other(fault) }
}

/// The directories that hold the system's programs; a workspace can never write to one of them.
pub fn trusted_path() -> &'static str {
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

/// The environment that every child starts from. It does not set `NO_COLOR`: programs that can print colours test that
/// they do, and a dumb terminal is enough to keep colours out of logs. It has the programs of `extra_path` and the system's, UTF-8 and UTC,
/// answers no prompts, and holds nothing of the user who started the engine.
pub fn base_env(home: &Path, tmp: &Path, extra_path: &[PathBuf]) -> BTreeMap<OsString, OsString> {
    let fixed = [
        ("LANG", "C.UTF-8"),
        ("TZ", "UTC"),
        ("TERM", "dumb"),
        ("CI", "true"),
        // Programs that ask for input get a command that always declines.
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("EDITOR", "false"),
        ("GIT_EDITOR", "false"),
        ("GIT_TERMINAL_PROMPT", "0"),
        // The host's git configuration may name hooks and credential helpers.
        ("GIT_CONFIG_NOSYSTEM", "1"),
    ];
    let mut env: BTreeMap<_, _> = fixed.map(|(name, value)| (OsString::from(name), OsString::from(value))).into();
    env.insert("PATH".into(), path_with(extra_path));
    env.insert("HOME".into(), home.into());
    env.insert("TMPDIR".into(), tmp.into());
    env
}

/// The user's own order first, so that a program is the one that the user gets outside: shims and toolchains come before
/// the system. Directories of the trusted path that the user's lacks come last.
fn path_with(extra: &[PathBuf]) -> OsString {
    let trusted: Vec<PathBuf> = std::env::split_paths(trusted_path()).collect();
    let mut dirs: Vec<&Path> = Vec::new();
    for dir in extra.iter().filter(|dir| is_plain(dir)).chain(&trusted) {
        if !dirs.contains(&dir.as_path()) {
            dirs.push(dir);
        }
    }
    dirs.into_iter().map(Path::as_os_str).collect::<Vec<_>>().join(OsStr::new(":"))
}

/// A relative directory would depend on the working directory, and a colon would split one directory into two.
fn is_plain(dir: &Path) -> bool {
    dir.is_absolute() && !dir.as_os_str().as_encoded_bytes().contains(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_environment_holds_exactly_the_listed_names() {
        let env = base_env(Path::new("/h"), Path::new("/t"), &[]);
        let names: Vec<_> = env.keys().map(|name| name.to_string_lossy()).collect();
        assert_eq!(
            names.join(" "),
            "CI EDITOR GIT_CONFIG_NOSYSTEM GIT_EDITOR GIT_PAGER GIT_TERMINAL_PROMPT HOME LANG PAGER PATH TERM TMPDIR TZ"
        );
    }

    #[test]
    fn path_has_the_users_order_and_then_the_rest_of_the_system() {
        let path = |extra: &[&str]| {
            let extra: Vec<PathBuf> = extra.iter().map(PathBuf::from).collect();
            base_env(Path::new("/h"), Path::new("/t"), &extra)[OsStr::new("PATH")].to_string_lossy().into_owned()
        };
        assert_eq!(path(&[]), trusted_path());
        assert_eq!(path(&["/opt/a", "relative", "", "/b:c"]), format!("/opt/a:{}", trusted_path()));
        assert_eq!(
            path(&["/home/ada/.pyenv/shims", "/usr/bin", "/opt/late", "/usr/bin"]),
            "/home/ada/.pyenv/shims:/usr/bin:/opt/late:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin"
        );
    }

    #[tokio::test]
    async fn child_sees_the_built_environment_and_nothing_of_ours() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut spawn = SpawnRequest::new("env", dir.path(), TreeCookie::new("door"));
        spawn.env = base_env(dir.path(), dir.path(), &[]);
        let expected: Vec<_> = spawn.env.keys().map(|name| name.to_string_lossy().into_owned()).collect();
        let ended = ProcessRunner::new(Seam::none())
            .run(spawn, &mut (), &CancelToken::new(), |_| ())
            .await
            .expect("env starts");
        let text = ended.stdout.to_lossy_string();
        let mut names: Vec<_> = text.lines().filter_map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        names.retain(|name| *name != sandbox::COOKIE_VAR);
        assert_eq!(names, expected);
    }
}
