//! Small file-system operations that the workspace code shares: private folders, Loopwright's mark, folders under a
//! temporary name. Removal has a file of its own.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// The file that marks a folder as Loopwright's; a folder that lacks it is never removed.
const MARK: &str = "owned-by-loopwright";

pub(crate) use super::removal::{empty_tree, remove_tree};

/// Creates a folder and its missing parents, readable only by the owner.
pub(crate) fn private_dir(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a new private folder with Loopwright's mark.
pub(super) fn marked_dir(path: &Path) -> io::Result<()> {
    private_dir(path)?;
    fs::write(path.join(MARK), b"Created and removed by loopwright.\n")
}

/// True when the folder carries Loopwright's mark. A symlink never does.
pub(super) fn is_ours(path: &Path) -> bool {
    let real = |path: &Path, dir: bool| {
        fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() == dir && !meta.is_symlink())
    };
    real(path, true) && real(&path.join(MARK), false)
}

/// A name that no other task or process of Loopwright uses.
pub(super) fn unique(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether [`unique`] made this name in this process.
pub(super) fn is_made_here(name: &str) -> bool {
    name.rsplit('-').nth(1).is_some_and(|id| id.parse() == Ok(std::process::id()))
}

/// The temporary name under which a folder is built.
pub(super) fn half_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(unique(&format!(".half-{name}")))
}

/// Visits a folder and all folders below it, parents first; symlinks are not followed.
fn each_folder(path: &Path, visit: &mut impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut waiting = vec![path.to_owned()];
    while let Some(dir) = waiting.pop() {
        visit(&dir)?;
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Removes every write permission below (and of) a folder; symlinks are not changed.
pub(super) fn make_read_only(path: &Path) -> io::Result<()> {
    each_folder(path, &mut |dir| {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let mode = entry.metadata()?.permissions().mode() & 0o555;
                fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode))?;
            }
        }
        fs::set_permissions(dir, fs::Permissions::from_mode(0o555))
    })
}

/// Copies the plain files of a folder into another, existing one. Real copies, never links: the receiver may overwrite
/// only its own bytes.
pub(super) fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Links the plain files of a folder into another, existing one, or copies them if they cannot be linked. Only for
/// folders that are never written to.
pub(super) fn link_files(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        if fs::hard_link(entry.path(), &place).is_err() {
            fs::copy(entry.path(), place)?;
        }
    }
    Ok(())
}

/// Marks a name as deleted in a layer: overlayfs reads a character device 0/0 as a deletion. Creating one needs no
/// privileges.
pub(super) fn whiteout(path: &Path) -> io::Result<()> {
    Ok(mknodat(CWD, path, FileType::CharacterDevice, Mode::empty(), 0)?)
}

/// Copies a file and its modification time: git compares the time of an index with the times of its entries.
pub(super) fn copy_with_time(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    fs::File::options().write(true).open(to)?.set_modified(fs::metadata(from)?.modified()?)
}

/// The bytes of a file or of everything below a folder; links count as themselves.
pub(crate) fn size(path: &Path) -> u64 {
    let mut total = 0;
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(about) = fs::symlink_metadata(&path) else { continue };
        if about.is_dir() {
            waiting.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else {
            total += about.len();
        }
    }
    total
}
