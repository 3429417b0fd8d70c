//! Errors of starting and sweeping. The behaviour of a started program is never an error here: see
//! [`RunEnd`](crate::RunEnd).

use crate::spawn::SpawnRequest;
use crate::wire::LaunchStep;
use std::io;
use std::path::{Path, PathBuf};

/// A program could not be started.
#[derive(Debug, thiserror::Error)]
#[error("start `{}`: {detail}", program.display())]
pub struct SpawnError {
    /// The kind of the error.
    pub kind: SpawnErrorKind,
    /// The requested program.
    pub program: PathBuf,
    /// The reason in words, a lower-case fragment.
    pub detail: String,
    /// The system's error.
    pub source: io::Error,
}

/// The reason why a program could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnErrorKind {
    /// There is no such program (or the interpreter it names is missing).
    NotFound,
    /// The file exists but cannot be executed.
    NotExecutable,
    /// The working directory is missing or cannot be entered.
    Cwd,
    /// The host is out of processes, files or memory; a later attempt may work.
    Resources,
    /// Its sandbox could not be built, so it was not started.
    Boundary,
    /// Anything else.
    Other,
}

impl SpawnError {
    pub(crate) fn not_found(program: &Path, source: io::Error) -> Self {
        Self::new(SpawnErrorKind::NotFound, program, "no such program, or no such interpreter".to_owned(), source)
    }

    pub(crate) fn other(program: &Path, doing: &str, source: io::Error) -> Self {
        Self::new(resources_or(SpawnErrorKind::Other, &source), program, format!("{doing}: {source}"), source)
    }

    /// Classifies the error of the spawn call itself, which names neither the file nor the directory.
    pub(crate) fn from_launch(program: &Path, cwd: &Path, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR | libc::EACCES) if !can_enter(cwd) => {
                let detail = format!("working directory `{}` cannot be entered", cwd.display());
                Self::new(SpawnErrorKind::Cwd, program, detail, source)
            }
            _ => Self::from_execute(program, source),
        }
    }

    /// Classifies the helper's report of a failed step; `place` is the path of the step.
    pub(crate) fn from_helper(spawn: &SpawnRequest, step: LaunchStep, place: Option<&Path>, errno: i32) -> Self {
        let source = io::Error::from_raw_os_error(errno);
        match step {
            LaunchStep::Execute => Self::from_execute(&spawn.program, source),
            LaunchStep::Cwd => {
                let detail = format!("working directory `{}` cannot be entered", spawn.cwd.display());
                Self::new(SpawnErrorKind::Cwd, &spawn.program, detail, source)
            }
            _ => Self::boundary(&spawn.program, &named(step, place), source),
        }
    }

    pub(crate) fn boundary(program: &Path, doing: &str, source: io::Error) -> Self {
        let detail = format!("its sandbox could not be built: {doing}: {source}");
        Self::new(resources_or(SpawnErrorKind::Boundary, &source), program, detail, source)
    }

    fn from_execute(program: &Path, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP) => Self::not_found(program, source),
            Some(libc::EACCES | libc::ENOEXEC | libc::EPERM | libc::EISDIR) => {
                Self::new(SpawnErrorKind::NotExecutable, program, "not an executable program".to_owned(), source)
            }
            _ => Self::other(program, "spawn", source),
        }
    }

    fn new(kind: SpawnErrorKind, program: &Path, detail: String, source: io::Error) -> Self {
        Self { kind, program: program.to_owned(), detail, source }
    }
}

fn resources_or(kind: SpawnErrorKind, source: &io::Error) -> SpawnErrorKind {
    match source.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::EAGAIN | libc::ENOMEM) => SpawnErrorKind::Resources,
        _ => kind,
    }
}

fn named(step: LaunchStep, place: Option<&Path>) -> String {
    place.map_or_else(|| step.text().to_owned(), |place| format!("{} `{}`", step.text(), place.display()))
}

fn can_enter(dir: &Path) -> bool {
    dir.is_dir() && rustix::fs::access(dir, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Processes of an earlier engine could not be ended.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The prefix was empty, which would match every cookie of every engine on the host.
    #[error("sweep: an empty cookie prefix matches every tree on the host")]
    EmptyPrefix,
    /// `/proc` could not be read.
    #[error("sweep: read the process table")]
    Table(#[source] io::Error),
    /// These processes survived SIGKILL, or belong to another user.
    #[error("sweep: processes {0:?} could not be killed")]
    Unkillable(Vec<u32>),
}
