//! What may be shown inside: nothing that must not be seen, and nothing that would hide what must be there. Which folders
//! of programs there are to show is found in [`crate::toolchains`].

use crate::git::UserRepo;
use crate::proc::{Confinement, MountSource, SandboxMount};
use loopwright_sandbox::resolve_program;
use std::ffi::OsStr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// What no program of a loop may see.
#[derive(Debug, Clone, Default)]
pub struct HiddenPaths {
    /// Nothing of these is shown, and nothing around them: the state directory, the user's repository.
    pub whole: Vec<PathBuf>,
    /// Neither these nor anything around them is shown, but folders in them may be: the user's home.
    pub around: Vec<PathBuf>,
}

/// Folders that the kernel's walls always show.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Places that are made anew for each start, or hold what is no program.
const OURS: [&str; 11] =
    ["/workspace", "/home/loop", "/tmp", "/outbox", "/sink", "/items", "/heldout", "/run", "/proc", "/dev", "/etc"];

impl HiddenPaths {
    /// The state directory, a repository and the home of the person it belongs to.
    #[must_use]
    pub fn new(state: &Path, repo: &UserRepo, home: Option<&Path>) -> Self {
        let places = [state, &repo.work_tree, &repo.git_dir, &repo.common_dir];
        Self {
            whole: places.into_iter().map(Path::to_owned).collect(),
            around: home.into_iter().map(Path::to_owned).collect(),
        }
    }

    /// Why something may not be shown to a program.
    #[must_use]
    pub fn denial_reason(&self, path: &Path) -> Option<String> {
        if let Some(place) = OURS.iter().find(|place| Path::new(place).starts_with(path)) {
            return Some(format!("it would hide `{place}`"));
        }
        let found = real(path);
        let holds = |kept: &&PathBuf| real(kept).starts_with(&found);
        let within = |kept: &&PathBuf| found.starts_with(real(kept));
        if let Some(kept) = self.whole.iter().chain(&self.around).find(holds) {
            return Some(format!("it holds `{}`", kept.display()));
        }
        if let Some(kept) = self.whole.iter().find(within) {
            return Some(format!("it lies in `{}`", kept.display()));
        }
        holds_socket(&found).then(|| "it holds a socket".to_owned())
    }
}

/// A socket can be spoken to also where it can only be read.
fn holds_socket(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_type().ok()).any(|kind| kind.is_socket())
}

/// The one file of a program that nothing shows yet. A name is looked for as inside; a path in the workspace is there.
pub(super) fn program_mount(confine: &Confinement, program: &Path, path: &OsStr) -> Option<SandboxMount> {
    let found = match program.to_str() {
        Some(name) if !name.contains('/') => resolve_program(name, path, Path::new("/"))?,
        _ if program.is_absolute() => program.to_owned(),
        _ => return None,
    };
    let file = real(&found);
    if !file.is_file() {
        return None;
    }
    let at = if is_shown(confine, &found) { file.clone() } else { found };
    (!is_shown(confine, &at)).then_some(SandboxMount { at, what: MountSource::ReadOnly(file) })
}

/// Whether a path of the host is there inside, under its own name.
fn is_shown(confine: &Confinement, path: &Path) -> bool {
    let by = |mount: &SandboxMount| match &mount.what {
        MountSource::ReadOnly(host) => path.starts_with(&mount.at) && *host == real(&mount.at),
        MountSource::Writable(_)
        | MountSource::Memory(_)
        | MountSource::Layers(_)
        | MountSource::Overlay { .. }
        | MountSource::File(_) => false,
    };
    is_system(path) || confine.mounts.iter().any(by)
}

fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

pub(super) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
