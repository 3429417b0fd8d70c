//! Which folders of programs are shown inside, and what has to come with them. A folder that would show what must not be
//! seen, or would hide what must be there, is left out, and that is said.

use crate::proc::{Confine, Mount, What};
use loopwright_sandbox::resolve_program;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// What no program of a loop may see.
#[derive(Debug, Clone, Default)]
pub struct KeepOut {
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

/// Folders of programs as they are shown.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) path: Vec<PathBuf>,
    pub(super) vars: BTreeMap<OsString, OsString>,
    pub(super) mounts: Vec<Mount>,
    pub(super) left_out: Vec<String>,
}

pub(super) fn shown(extra_path: &[PathBuf], keep_out: &KeepOut) -> Shown {
    let mut shown = Shown::default();
    for dir in extra_path {
        if is_system(dir) {
            shown.path.push(dir.clone());
        } else if let Some(why) = objection(dir, keep_out) {
            shown.left_out.push(format!("`{}` is not shown to programs: {why}", dir.display()));
        } else {
            shown.path.push(dir.clone());
            shown.mounts.push(Mount { at: dir.clone(), what: What::ReadOnly(real(dir)) });
            rust_home(dir, &mut shown);
        }
    }
    shown
}

/// The programs in `~/.cargo/bin` are signposts to toolchains that lie in `~/.rustup`.
fn rust_home(dir: &Path, shown: &mut Shown) {
    let rustup = dir.join("../../.rustup");
    if dir.ends_with(".cargo/bin") && rustup.is_dir() {
        let at = real(&rustup);
        shown.mounts.push(Mount { at: at.clone(), what: What::ReadOnly(at.clone()) });
        shown.vars.insert("RUSTUP_HOME".into(), at.into());
    }
}

/// Why a folder may not be shown.
fn objection(dir: &Path, keep_out: &KeepOut) -> Option<String> {
    if !dir.is_dir() {
        return Some("it is no folder".to_owned());
    }
    if let Some(place) = OURS.iter().find(|place| Path::new(place).starts_with(dir)) {
        return Some(format!("it would hide `{place}`"));
    }
    let found = real(dir);
    let holds = |kept: &&PathBuf| real(kept).starts_with(&found);
    let within = |kept: &&PathBuf| found.starts_with(real(kept));
    if let Some(kept) = keep_out.whole.iter().chain(&keep_out.around).find(holds) {
        return Some(format!("it holds `{}`", kept.display()));
    }
    if let Some(kept) = keep_out.whole.iter().find(within) {
        return Some(format!("it lies in `{}`", kept.display()));
    }
    holds_socket(&found).then(|| "it holds a socket".to_owned())
}

/// A socket can be spoken to also where it can only be read.
fn holds_socket(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_type().ok()).any(|kind| kind.is_socket())
}

/// The one file of a program that nothing shows yet. A name is looked for as inside; a path in the workspace is there.
pub(super) fn program_shown(confine: &Confine, program: &Path, path: &OsStr) -> Option<Mount> {
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
    (!is_shown(confine, &at)).then_some(Mount { at, what: What::ReadOnly(file) })
}

/// Whether a path of the host is there inside, under its own name.
fn is_shown(confine: &Confine, path: &Path) -> bool {
    let by = |mount: &Mount| match &mount.what {
        What::ReadOnly(host) => path.starts_with(&mount.at) && *host == real(&mount.at),
        What::Writable(_) | What::Memory(_) | What::Layers(_) | What::Overlay { .. } | What::File(_) => false,
    };
    is_system(path) || confine.mounts.iter().any(by)
}

fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

pub(super) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
