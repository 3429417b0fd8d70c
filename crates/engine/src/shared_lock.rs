//! A lock that one task at a time holds, across this process and other processes on the same state directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The interval between two attempts to lock a file that another process holds.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How long a task waits for a named holder before the holder is reported.
const NOTICE_AFTER: Duration = Duration::from_secs(1);

/// The longest name of a holder, in bytes.
const HOLDER_MAX: u64 = 500;

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

impl SharedLock {
    /// As [`SharedLock::lock`], for work that takes long: leaves the holder's name in the file, and calls `waits` once with
    /// the name of the present holder if that does not finish soon.
    ///
    /// # Errors
    /// When its file cannot be opened, locked or written.
    pub async fn lock_as(&self, holder: &str, waits: &(dyn Fn(&str) + Sync)) -> io::Result<SharedGuard> {
        let mut taken = std::pin::pin!(self.lock());
        let guard = match tokio::time::timeout(NOTICE_AFTER, &mut taken).await {
            Ok(guard) => guard?,
            Err(_) => {
                waits(&self.holder());
                taken.await?
            }
        };
        guard.file.set_len(0)?;
        guard.file.write_all_at(holder.as_bytes(), 0)?;
        Ok(guard)
    }

    fn holder(&self) -> String {
        let mut name = String::new();
        let read = File::open(&self.path).and_then(|file| file.take(HOLDER_MAX).read_to_string(&mut name));
        if read.is_err() || name.is_empty() { "another process".to_owned() } else { name }
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

    #[tokio::test]
    async fn task_that_waits_learns_the_name_of_the_holder() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("x.lock");
        let (one, other) = (SharedLock::new(path.clone()), SharedLock::new(path));
        let held = one.lock_as("the first", &|holder| panic!("{holder} holds a free lock")).await.expect("free");
        let (report, mut reported) = tokio::sync::mpsc::unbounded_channel();
        let report = move |holder: &str| report.send(holder.to_owned()).expect("a receiver");
        let waits = other.lock_as("the second", &report);
        let releases = async {
            let holder = reported.recv().await.expect("a name");
            drop(held);
            holder
        };
        let (taken, holder) = tokio::join!(waits, releases);
        let _taken = taken.expect("free now");
        assert_eq!((holder.as_str(), other.holder().as_str()), ("the first", "the second"));
    }
}
