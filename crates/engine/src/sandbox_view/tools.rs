//! Which host paths may be shown inside: none that must stay hidden, and none that would cover a path that must exist.
//! [`crate::toolchains`] finds the folders of programs.

use crate::git::UserRepo;
use crate::path_roots::follow_links;
use crate::proc::{Confinement, MountSource, SandboxMount};
use loopwright_sandbox::resolve_program;
use std::ffi::OsStr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// The paths that no program of a loop may see.
#[derive(Debug, Clone, Default)]
pub struct HiddenPaths {
    /// Hidden with everything in them; no folder that contains them may be shown: the state directory, the user's
    /// repository.
    pub whole: Vec<PathBuf>,
    /// Hidden, and no folder that contains them may be shown, but folders in them may be: the user's home.
    pub around: Vec<PathBuf>,
}

/// System folders that every sandbox shows.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Paths that are created for each start, or hold no programs.
const OURS: [&str; 11] =
    ["/workspace", "/home/loop", "/tmp", "/outbox", "/sink", "/items", "/heldout", "/run", "/proc", "/dev", "/etc"];

impl HiddenPaths {
    /// The state directory, a repository and the user's home.
    #[must_use]
    pub fn new(state: &Path, repo: &UserRepo, home: Option<&Path>) -> Self {
        let places = [state, &repo.work_tree, &repo.git_dir, &repo.common_dir];
        Self {
            whole: places.into_iter().map(Path::to_owned).collect(),
            around: home.into_iter().map(Path::to_owned).collect(),
        }
    }

    /// The reason why a path may not be shown to a program.
    #[must_use]
    pub fn denial_reason(&self, path: &Path) -> Option<String> {
        if let Some(place) = OURS.iter().find(|place| Path::new(place).starts_with(path)) {
            return Some(format!("it would hide `{place}`"));
        }
        let found = follow_links(path);
        let holds = |kept: &&PathBuf| follow_links(kept).starts_with(&found);
        let within = |kept: &&PathBuf| found.starts_with(follow_links(kept));
        if let Some(kept) = self.whole.iter().chain(&self.around).find(holds) {
            return Some(format!("it holds `{}`", kept.display()));
        }
        if let Some(kept) = self.whole.iter().find(within) {
            return Some(format!("it lies in `{}`", kept.display()));
        }
        holds_socket(&found).then(|| "it holds a socket".to_owned())
    }
}

/// A program can connect to a socket even on a read-only mount.
fn holds_socket(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_type().ok()).any(|kind| kind.is_socket())
}

/// The mount of a program's file if nothing shows it yet. A bare name is searched as inside; a path in the workspace
/// already exists.
pub(super) fn program_mount(confine: &Confinement, program: &Path, path: &OsStr) -> Option<SandboxMount> {
    let found = match program.to_str() {
        Some(name) if !name.contains('/') => resolve_program(name, path, Path::new("/"))?,
        _ if program.is_absolute() => program.to_owned(),
        _ => return None,
    };
    let file = follow_links(&found);
    if !file.is_file() {
        return None;
    }
    let at = if is_shown(confine, &found) { file.clone() } else { found };
    (!is_shown(confine, &at)).then_some(SandboxMount { at, what: MountSource::ReadOnly(file) })
}

/// Whether a host path is visible inside under its own name.
fn is_shown(confine: &Confinement, path: &Path) -> bool {
    let by = |mount: &SandboxMount| match &mount.what {
        MountSource::ReadOnly(host) => path.starts_with(&mount.at) && *host == follow_links(&mount.at),
        MountSource::Writable(_)
        | MountSource::Memory(_)
        | MountSource::Layers(_)
        | MountSource::Overlay { .. }
        | MountSource::File(_)
        | MountSource::Pinned => false,
    };
    is_system(path) || confine.mounts.iter().any(by)
}

/// Whether every sandbox shows a path.
pub(crate) fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}
