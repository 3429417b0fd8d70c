//! The files of an SQLite store: folder, lock, creation, identity, connections.
//!
//! The database file is never opened by anything but SQLite: closing any descriptor of it would drop
//! SQLite's own locks of this process. Everything here asks by path (`stat`), and never recreates a file.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use super::conn::{Conn, Outcome};
use super::error::StoreErrorKind;
use super::migrate;
use super::owner::{OwnerInfo, OwnerRow};

/// How long a writer waits for another one (a backup, a second tool) before it says so.
const BUSY: Duration = Duration::from_secs(5);
/// Up to this size the whole file is checked at each start; it takes about a millisecond a megabyte.
const SMALL: u64 = 4 << 20;
/// How many rows the database's thread may be ahead of ours: with few, ten thousand rows are thousands of hand-overs.
const ROWS: usize = 512;
/// Pages that a connection keeps, in KiB; the system keeps them too, and an engine mostly waits.
const CACHE: &str = "-512";
/// The smallest page that SQLite knows; a file is a whole number of them.
const PAGE_MIN: u64 = 512;
/// What a lock file may hold.
const RECORD_MAX: u64 = 4096;

/// What a connection may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// An SQLite database by its path and, once it is open, by what the file system says it is.
#[derive(Debug, Clone)]
pub(super) struct SqlitePlace {
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
}

impl SqlitePlace {
    /// The path made absolute, because SQLite reads a name that starts with `file:` as an address.
    pub(super) fn new(path: &Path) -> Outcome<Self> {
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

    /// Whether the database is there. An empty file, or a log without its database, is damage: we create
    /// the file whole under another name, so neither is ever a half-made store of ours.
    pub(super) fn present(&self) -> Outcome<bool> {
        match std::fs::metadata(&self.path) {
            Ok(meta) if !meta.is_file() => {
                Err(StoreErrorKind::Unsuitable("there is something else in its place".into()))
            }
            Ok(meta) if meta.len() == 0 => Err(StoreErrorKind::Corrupt("the database file is empty".into())),
            // While there is a log, its last page may be on the way into the file.
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

    /// Readers leave an empty log behind; only one with content belongs to a database.
    fn has_log(&self) -> bool {
        std::fs::metadata(self.beside("-wal")).is_ok_and(|log| log.len() > 0)
    }

    /// Whether a check of the whole file is cheap enough for a start.
    pub(super) fn is_small(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|meta| meta.len() <= SMALL)
    }

    fn found(&self) -> Outcome<(u64, u64)> {
        let meta = std::fs::metadata(&self.path)?;
        Ok((meta.dev(), meta.ino()))
    }

    /// Remembers which file the connections have open.
    pub(super) fn identify(&mut self) -> Outcome<()> {
        self.identity = Some(self.found()?);
        Ok(())
    }

    /// Refuses when the path no longer names the file that we have open.
    pub(super) fn unchanged(&self) -> Outcome<()> {
        if self.found().ok() == self.identity { Ok(()) } else { Err(StoreErrorKind::Replaced) }
    }

    /// Makes the folder, refusing file systems whose locks do not hold between machines.
    pub(super) fn prepare_folder(&self) -> Outcome<()> {
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

    /// Takes the system's lock beside the database; it is free the moment its process is dead.
    pub(super) async fn lock(&self, info: &OwnerInfo) -> Outcome<Lock> {
        let path = self.path.with_extension("lock");
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        if let Some(holder) = taken(&mut file).await? {
            return Err(StoreErrorKind::Held(Box::new(holder)));
        }
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(record(&OwnerRow::of(info)).as_bytes())?;
        Ok(Lock(file))
    }

    /// Makes a new database whole under another name, then gives it its own: a crash leaves none or one.
    pub(super) async fn create(&self) -> Outcome<()> {
        let draft = Self { path: self.beside(".new"), identity: None };
        for suffix in ["", "-wal", "-shm", "-journal"] {
            remove(&draft.beside(suffix))?;
        }
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft.path)?;
        let mut conn = draft.connect(Access::Write).await?;
        migrate::run(&mut conn, migrate::ALL).await?;
        conn.close().await?;
        File::open(&draft.path)?.sync_all()?;
        std::fs::rename(&draft.path, &self.path)?;
        File::open(self.folder())?.sync_all()?;
        Ok(())
    }

    /// Closes the file to other users if somebody opened it up.
    pub(super) fn close_to_others(&self) -> Outcome<()> {
        if std::fs::metadata(&self.path)?.mode() & 0o077 != 0 {
            std::fs::set_permissions(&self.path, Permissions::from_mode(0o600))?;
        }
        Ok(())
    }

    /// Copies the database beside itself before it is migrated; an older binary opens the copy.
    pub(super) async fn backup(&self, conn: &mut Conn, version: i64) -> Outcome<()> {
        let (draft, kept) = (self.beside(".bak.new"), self.beside(&format!(".bak-v{version}")));
        remove(&draft)?;
        copy(conn, &draft).await?;
        std::fs::rename(&draft, kept)?;
        File::open(self.folder())?.sync_all()?;
        Ok(())
    }

    /// Copies the database, as it is at one moment, into a new file.
    pub(super) async fn copy_into(&self, path: &Path) -> Outcome<()> {
        let mut conn = self.connect(Access::Read).await?;
        let copied = copy(&mut conn, path).await;
        copied.and(conn.close().await)
    }

    /// Opens a connection to a file that is there.
    pub(super) async fn connect(&self, access: Access) -> Outcome<Conn> {
        let options = SqliteConnectOptions::new()
            .filename(&self.path)
            .create_if_missing(false)
            .busy_timeout(BUSY)
            .foreign_keys(true)
            .row_buffer_size(ROWS)
            .pragma("cache_size", CACHE)
            .disable_statement_logging();
        let options = match access {
            Access::Read => options.read_only(true),
            Access::Write => options
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full)
                // After a burst the log shrinks again instead of keeping its largest size for ever.
                .pragma("journal_size_limit", "8388608"),
        };
        Ok(Conn::Sqlite(options.connect().await?))
    }
}

/// Copies a database into a file that is not there yet.
async fn copy(conn: &mut Conn, path: &Path) -> Outcome<()> {
    // SQLite writes into an empty file that is there, which then keeps its mode.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let target = path.to_str().ok_or_else(|| StoreErrorKind::Unsuitable("the path is no UTF-8".into()))?;
    conn.exec("VACUUM INTO $1", super::conn::args![target]).await?;
    Ok(File::open(path)?.sync_all()?)
}

fn remove(path: &Path) -> Outcome<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The lock file's text: one field a line.
fn record(owner: &OwnerRow) -> String {
    let OwnerRow { pid, host, boot_id, start_ticks, since_ms, .. } = owner;
    format!("{pid}\n{boot_id}\n{start_ticks}\n{since_ms}\n{host}\n")
}

fn parse_record(text: &str) -> Option<OwnerRow> {
    let mut lines = text.lines();
    let mut line = || lines.next();
    Some(OwnerRow {
        pid: line()?.parse().ok()?,
        boot_id: line()?.to_owned(),
        start_ticks: line()?.parse().ok()?,
        since_ms: line()?.parse().ok()?,
        host: line()?.to_owned(),
        fence: 0,
        lease_until_ms: 0,
    })
}

/// The system's lock on a store, for as long as this lives.
///
/// It is given back by name and not by closing the file alone: a process that is just being started has our open files
/// until it becomes another program, and would keep the lock for that moment.
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file, which follows, frees it as well.
        let _ = self.0.unlock();
    }
}

/// Takes the lock, or says who holds it. Between taking the lock and writing its record a holder shows none, or that of a
/// dead one, and what a dead one was just starting keeps its lock for a moment: we try again rather than name the wrong process.
#[expect(clippy::disallowed_methods, reason = "a lock file has no event to wait for; at most 50 short looks")]
async fn taken(file: &mut File) -> Outcome<Option<OwnerRow>> {
    let mut last = None;
    for _ in 0..50 {
        match file.try_lock() {
            Ok(()) => return Ok(None),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let mut text = String::new();
        let read = file.rewind().and_then(|()| file.take(RECORD_MAX).read_to_string(&mut text));
        last = read.ok().and_then(|_| parse_record(&text)).or(last);
        match last {
            Some(ref owner) if owner.lives_here() => break,
            _ => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    }
    let unknown = || OwnerRow::of(&OwnerInfo { pid: 0, host: "unknown".into(), ..OwnerInfo::current(0) });
    Ok(Some(last.unwrap_or_else(unknown)))
}
