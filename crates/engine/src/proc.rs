//! The engine's one door to processes: every child of the engine is started here, with an environment built
//! from nothing. The work itself is done in `sandbox`; what is run, and why, is decided by the callers.

use crate::seam::{Seam, SeamFault};
use loopwright_sandbox as sandbox;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub use sandbox::{
    CancelToken, CapturedOutput, Confinement, FeedError, FinishedRun, MountSource, OutputChannel, OutputStream,
    OutputWatch, ProgramTrust, ResourceCeilings, RunEnd, RunLimits, SandboxMount, SandboxNetwork, SpawnError,
    SpawnErrorKind, SpawnRequest, StartedProcess, StdinFeed, StdinSource, TreeCookie, WatchFlow, make_undumpable,
    release_memory, sweep,
};

/// The seam's name for a process.
const SITE: &str = "process";

/// The door itself; cheap to clone and to pass around.
#[derive(Clone, Debug)]
pub struct ProcessRunner {
    seam: Seam,
}

impl ProcessRunner {
    /// A door to real processes, with a seam before each starts and after each ended.
    pub fn new(seam: Seam) -> Self {
        Self { seam }
    }

    /// Runs a program and returns when it and everything it started is gone; see [`sandbox::run`].
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

/// The directories that hold the system's programs; never one that a workspace can write to.
pub fn trusted_path() -> &'static str {
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

/// The environment that every child starts from: it finds the system's programs and those of `extra_path`,
/// speaks UTF-8 in UTC, asks nobody anything, and knows nothing of the person who started the engine.
pub fn base_env(home: &Path, tmp: &Path, extra_path: &[PathBuf]) -> BTreeMap<OsString, OsString> {
    let fixed = [
        ("LANG", "C.UTF-8"),
        ("TZ", "UTC"),
        ("TERM", "dumb"),
        ("NO_COLOR", "1"),
        ("CI", "true"),
        // Programs that want a person get one who always declines.
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

/// The trusted path first, so that an extra directory can add programs but never replace one of the system's.
fn path_with(extra: &[PathBuf]) -> OsString {
    let mut path = OsString::from(trusted_path());
    for dir in extra.iter().filter(|dir| is_plain(dir)) {
        path.push(OsStr::new(":"));
        path.push(dir);
    }
    path
}

/// Relative directories would mean another place in each working directory, and a colon would make two of one.
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
            "CI EDITOR GIT_CONFIG_NOSYSTEM GIT_EDITOR GIT_PAGER GIT_TERMINAL_PROMPT HOME LANG NO_COLOR PAGER PATH \
             TERM TMPDIR TZ"
        );
    }

    #[test]
    fn extra_directories_come_last_and_odd_ones_not_at_all() {
        let extra = ["/opt/a", "relative", "", "/b:c"].map(PathBuf::from);
        let env = base_env(Path::new("/h"), Path::new("/t"), &extra);
        assert_eq!(env[OsStr::new("PATH")].to_string_lossy(), format!("{}:/opt/a", trusted_path()));
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
