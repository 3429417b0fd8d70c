//! Pages of closed pull requests that this process has read: an unchanged file is still closed. A daemon that counts the
//! open pull requests of a loop does not read the closed ones of the last years again for each round.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// With more files than this, all are read again.
const PAGES_MAX: usize = 100_000;

/// The inode and the time of its last change, which only the system sets.
pub(super) type FileVersion = (u64, i64, i64);

static CLOSED: Mutex<Option<HashMap<PathBuf, FileVersion>>> = Mutex::new(None);

/// Records that a version of the page at a path is closed. The version must be from before the page was read.
pub(super) fn remember(path: &Path, version: Option<FileVersion>) {
    let Some(version) = version else { return };
    let mut closed = lock();
    let closed = closed.get_or_insert_default();
    if closed.len() >= PAGES_MAX {
        closed.clear();
    }
    closed.insert(path.to_owned(), version);
}

/// Whether the page was closed when it was read, and has not changed since.
pub(super) fn has(path: &Path) -> bool {
    let known = lock().as_ref().and_then(|closed| closed.get(path).copied());
    known.is_some() && known == version(path)
}

/// The version of a file as it is now.
pub(super) fn version(path: &Path) -> Option<FileVersion> {
    let about = std::fs::symlink_metadata(path).ok()?;
    Some((about.ino(), about.ctime(), about.ctime_nsec()))
}

fn lock() -> MutexGuard<'static, Option<HashMap<PathBuf, FileVersion>>> {
    CLOSED.lock().unwrap_or_else(PoisonError::into_inner)
}
