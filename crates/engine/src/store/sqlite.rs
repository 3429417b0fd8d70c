//! The files of an SQLite store: folder, locks, creation, identity, connections.
//!
//! Only SQLite opens the database file: closing any other descriptor of it would drop SQLite's own locks of this
//! process. Everything here checks by path (`stat`), and never recreates a file.

use std::fs::{DirBuilder, DirEntry, File, OpenOptions, Permissions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use super::conn::{SqlConnection, SqlResult};
use super::error::StoreErrorKind;
use super::migrate;
use crate::shared_lock::{self, SharedGuard, SharedLock};
use crate::state_dir::removable_entries;

/// How long a writer waits for another one (a backup, a migration, a second tool) before it reports `Busy`.
const BUSY: Duration = Duration::from_secs(5);
/// Up to this size the whole file is checked at each start; it takes about a millisecond a megabyte.
const SMALL: u64 = 4 << 20;
/// The most rows that SQLite's thread may read ahead: with a small number, ten thousand rows need thousands of
/// hand-overs.
const ROWS: usize = 512;
/// The page cache of a connection, in KiB. It is small: the operating system caches the pages too, and an engine mostly
/// waits.
const CACHE: &str = "-512";
/// SQLite's smallest page size; a file is a whole number of pages.
const PAGE_MIN: u64 = 512;
/// The number of checks of a lock, with a pause between them, before the result counts.
const LOOKS: u32 = 50;
/// The pause between two checks of a process's lock.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The access of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SqliteAccess {
    Read,
    Write,
}

/// An SQLite database by its path and, once it is open, by its device and inode.
#[derive(Debug, Clone)]
pub(super) struct SqliteLocation {
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
}

impl SqliteLocation {
    /// The path made absolute, because SQLite reads a name that starts with `file:` as a URI.
    pub(super) fn new(path: &Path) -> SqlResult<Self> {
        let path = std::path::absolute(path)?;
        Ok(Self { path, identity: None })
    }

    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// A file beside the database.
    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Whether the database exists. An empty file, or a log without its database, means damage: the file is created
    /// complete under another name, so neither can be an unfinished store.
    pub(super) fn exists(&self) -> SqlResult<bool> {
        match std::fs::metadata(&self.path) {
            Ok(meta) if !meta.is_file() => Err(StoreErrorKind::Unsuitable("the path is not a regular file".into())),
            Ok(meta) if meta.len() == 0 => Err(StoreErrorKind::Corrupt("the database file is empty".into())),
            // While there is a log, the last page may not be in the file yet.
            Ok(meta) if !meta.len().is_multiple_of(PAGE_MIN) && !self.has_log() => {
                Err(StoreErrorKind::Corrupt("the database file ends in the middle of a page".into()))
            }
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if self.has_log() {
                    let why = "the database file is gone, but its write-ahead log is there";
                    return Err(StoreErrorKind::Corrupt(why.into()));
                }
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Readers leave an empty log behind; only a log with content belongs to a database.
    fn has_log(&self) -> bool {
        std::fs::metadata(self.beside("-wal")).is_ok_and(|log| log.len() > 0)
    }

    /// Whether a check of the whole file is cheap enough for a start.
    pub(super) fn is_small(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|meta| meta.len() <= SMALL)
    }

    fn file_identity(&self) -> SqlResult<(u64, u64)> {
        let meta = std::fs::metadata(&self.path)?;
        Ok((meta.dev(), meta.ino()))
    }

    /// Remembers which file the connections have open.
    pub(super) fn identify(&mut self) -> SqlResult<()> {
        self.identity = Some(self.file_identity()?);
        Ok(())
    }

    /// Refuses if the path no longer names the open file.
    pub(super) fn ensure_unchanged(&self) -> SqlResult<()> {
        if self.file_identity().ok() == self.identity { Ok(()) } else { Err(StoreErrorKind::Replaced) }
    }

    /// Creates the folder; refuses file systems whose locks do not hold between machines.
    pub(super) fn prepare_folder(&self) -> SqlResult<()> {
        const NETWORKS: [(u32, &str); 5] =
            [(0x6969, "NFS"), (0x517b, "SMB"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB2"), (0x5346_414f, "AFS")];
        DirBuilder::new().recursive(true).mode(0o700).create(self.folder())?;
        let kind = rustix::fs::statfs(self.folder()).map_err(std::io::Error::from)?.f_type as u32;
        match NETWORKS.iter().find(|(magic, _)| *magic == kind) {
            Some((_, name)) => Err(StoreErrorKind::Unsuitable(format!(
                "the folder is on a network file system ({name}); use a local disk, or PostgreSQL"
            ))),
            None => Ok(()),
        }
    }

    /// Takes the lock under which the store is created or migrated, and waits while another process holds it. Builds
    /// before version 5 hold it for as long as they have the store open.
    pub(super) async fn lock(&self) -> SqlResult<SharedGuard> {
        let lock = SharedLock::new(self.path.with_extension("lock"));
        let busy = "it creates or migrates the store, or is an older loopwright that has it open";
        let locked = tokio::time::timeout(BUSY, lock.lock()).await;
        Ok(locked.map_err(|_| StoreErrorKind::Busy(busy.into()))??)
    }

    /// The folder with one lock file for each process that has the store open for writing.
    fn processes(&self) -> PathBuf {
        self.folder().join("processes")
    }

    /// Takes the lock that proves that this opening of the store is alive, under a new name.
    pub(super) fn announce(&self) -> SqlResult<(String, ProcessLock)> {
        let folder = self.processes();
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        loop {
            let instance = crate::random::nonce().map_err(|error| StoreErrorKind::Io(error.to_string()))?;
            let path = folder.join(&instance);
            let file = shared_lock::open(&path)?;
            // Another process that cleans up may have removed the file before we locked it.
            let is_ours = file.try_lock().is_ok() && std::fs::metadata(&path).is_ok_and(|meta| is_same(&meta, &file));
            if is_ours {
                return Ok((instance, ProcessLock { path, file }));
            }
        }
    }

    /// Whether the lock of an opening of the store is free: its process is gone, or has closed the store.
    pub(super) fn is_free(&self, instance: &str) -> SqlResult<bool> {
        match File::open(self.processes().join(instance)) {
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => Ok(true),
                Err(TryLockError::WouldBlock) => Ok(false),
                Err(TryLockError::Error(error)) => Err(error.into()),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the lock files of processes that are gone. If one cannot be removed, the next start tries again.
    pub(super) fn clear_processes(&self) {
        // A file that is not an empty one with a name of ours belongs to others, and a pipe would block its reader.
        let is_lock = |entry: &DirEntry| {
            let is_named = entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_hexdigit);
            is_named && entry.metadata().is_ok_and(|about| about.is_file() && about.len() == 0)
        };
        for entry in removable_entries(&self.processes()).into_iter().filter(is_lock) {
            // The lock is held until the file is removed, so that a process that starts now does not take it for its own.
            if let Ok(file) = File::open(entry.path())
                && file.try_lock().is_ok()
            {
                let _ = std::fs::remove_file(entry.path());
                drop(file);
            }
        }
    }

    /// Creates a new database under another name, then renames it: a crash leaves no database or a complete one.
    pub(super) async fn create(&self) -> SqlResult<()> {
        let draft = Self { path: self.beside(".new"), identity: None };
        for suffix in ["", "-wal", "-shm", "-journal"] {
            remove(&draft.beside(suffix))?;
        }
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft.path)?;
        let mut conn = draft.connect(SqliteAccess::Write).await?;
        migrate::run(&mut conn, migrate::ALL).await?;
        conn.close().await?;
        File::open(&draft.path)?.sync_all()?;
        std::fs::rename(&draft.path, &self.path)?;
        File::open(self.folder())?.sync_all()?;
        Ok(())
    }

    /// Removes access for other users, if the file has it.
    pub(super) fn restrict_permissions(&self) -> SqlResult<()> {
        if std::fs::metadata(&self.path)?.mode() & 0o077 != 0 {
            std::fs::set_permissions(&self.path, Permissions::from_mode(0o600))?;
        }
        Ok(())
    }

    /// Copies the database beside itself before a migration; an older binary can open the copy.
    pub(super) async fn backup(&self, conn: &mut SqlConnection, version: i64) -> SqlResult<()> {
        let (draft, kept) = (self.beside(".bak.new"), self.beside(&format!(".bak-v{version}")));
        remove(&draft)?;
        copy(conn, &draft).await?;
        std::fs::rename(&draft, kept)?;
        File::open(self.folder())?.sync_all()?;
        Ok(())
    }

    /// Copies the database, as it is at one moment, into a new file.
    pub(super) async fn copy_into(&self, path: &Path) -> SqlResult<()> {
        let mut conn = self.connect(SqliteAccess::Read).await?;
        let copied = copy(&mut conn, path).await;
        copied.and(conn.close().await)
    }

    /// Opens a connection to an existing file.
    pub(super) async fn connect(&self, access: SqliteAccess) -> SqlResult<SqlConnection> {
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            .create_if_missing(false)
            .busy_timeout(BUSY)
            .foreign_keys(true)
            .row_buffer_size(ROWS)
            .pragma("cache_size", CACHE)
            .disable_statement_logging();
        let options = match access {
            SqliteAccess::Read => options.read_only(true),
            SqliteAccess::Write => options
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full)
                // After a burst the log shrinks again instead of keeping its largest size.
                .pragma("journal_size_limit", "8388608"),
        };
        Ok(SqlConnection::Sqlite(options.connect().await?))
    }
}

/// Copies a database into a new file.
async fn copy(conn: &mut SqlConnection, path: &Path) -> SqlResult<()> {
    // SQLite writes into an existing empty file, which then keeps its mode.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let target = path.to_str().ok_or_else(|| StoreErrorKind::Unsuitable("the path is not UTF-8".into()))?;
    conn.exec("VACUUM INTO $1", super::conn::args![target]).await?;
    Ok(File::open(path)?.sync_all()?)
}

fn remove(path: &Path) -> SqlResult<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn is_same(meta: &std::fs::Metadata, file: &File) -> bool {
    file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (meta.dev(), meta.ino()))
}

/// The lock that proves that an opening of the store is alive; dropping it removes its file.
///
/// It is unlocked explicitly, not only by closing the file: a child process that is just starting has our open files
/// until it executes its program, and would keep the lock for that moment.
pub(super) struct ProcessLock {
    path: PathBuf,
    file: File,
}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        // If the file cannot be removed, the next process that opens the store removes it.
        let _ = std::fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

/// Waits briefly for a lock that may be released at any moment: a child that a dead process was starting has its files
/// until it executes its program. Returns whether the lock became free.
#[expect(clippy::disallowed_methods, reason = "a lock file has no event to wait for; at most 50 short pauses")]
pub(super) async fn soon(mut is_free: impl FnMut() -> SqlResult<bool>) -> SqlResult<bool> {
    for _ in 0..LOOKS {
        if is_free()? {
            return Ok(true);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn lock_file_of_a_starting_process_survives_the_cleanup_of_others() {
        let dir = tempfile::tempdir().expect("a folder");
        let place = SqliteLocation::new(&dir.path().join("store.db")).expect("a path");
        let (gone, _) = place.announce().expect("a lock");
        let [left, other] = ["00ff", "passwd"].map(|name| place.processes().join(name));
        std::fs::write(&left, "").expect("the file of a process that was killed");
        std::fs::write(&other, "").expect("a file of another program");
        place.clear_processes();
        assert!(place.is_free(&gone).expect("a look") && !left.exists() && other.exists());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::SeqCst) {
                        place.clear_processes();
                    }
                });
            }
            // Without the check in `announce`, the cleanup removes the file of about one start in a hundred.
            let lost = (0..2_000).filter(|_| {
                let (instance, lock) = place.announce().expect("a lock");
                let is_lost = place.is_free(&instance).expect("a look");
                drop(lock);
                is_lost
            });
            let lost = lost.count();
            is_over.store(true, Ordering::SeqCst);
            assert_eq!(lost, 0, "processes that count as gone although they live");
        });
    }
}
