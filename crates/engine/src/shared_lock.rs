//! A lock that one task at a time holds, across this process and other processes on the same state directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The interval between two attempts to lock a file that another process holds.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A lock identified by its file. Clones are the same lock.
#[derive(Debug, Clone)]
pub struct SharedLock {
    path: PathBuf,
    tasks: Arc<Mutex<()>>,
}

/// Held by one task of one process; the kernel releases it when the process dies.
#[derive(Debug)]
pub struct SharedGuard {
    file: File,
    _task: OwnedMutexGuard<()>,
}

impl SharedLock {
    /// The lock of a file, which is created at the first lock.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, tasks: Arc::default() }
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the lock and takes it.
    ///
    /// # Errors
    /// When its file cannot be opened or locked.
    #[expect(clippy::disallowed_methods, reason = "a lock of another process has no event to wait for")]
    pub async fn lock(&self) -> io::Result<SharedGuard> {
        let task = Arc::clone(&self.tasks).lock_owned().await;
        let file = open(&self.path)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(SharedGuard { file, _task: task }),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK_AGAIN).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

/// Opens the file of a lock; creates it, private to its owner, if it is missing.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

impl Drop for SharedGuard {
    fn drop(&mut self) {
        // Closing the file releases it as well, but a child process that is starting may still have it open.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn two_openings_of_one_lock_take_turns() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("x.lock");
        let (one, other) = (SharedLock::new(path.clone()), SharedLock::new(path));
        let held = one.lock().await.expect("free");
        let mut waits = std::pin::pin!(other.lock());
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut waits).await.is_err(), "both hold it");
        drop(held);
        waits.await.expect("free now");
    }
}
