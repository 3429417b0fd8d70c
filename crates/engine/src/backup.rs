//! Backup and restore. A backup copies the state directory to a new folder while other processes keep working on it; a
//! restore builds a state directory from such a copy.
//!
//! A backup holds everything that cannot be regenerated: the record, reports, transcripts, evidence, candidates and the
//! local forge. It leaves out workspaces, caches, locks and sockets. Both operations complete, or leave nothing behind.

mod copy;

use crate::state_dir::{StateDir, make_dir, open_plain};
use crate::store::{Store, StoreError, StoreMode, VerifyReport};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The backup's manifest, beside the copied files.
const MANIFEST: &str = "backup.json";
/// A larger manifest is not read.
const MANIFEST_MAX: u64 = 256 << 20;
/// The version of the manifest's format.
const SCHEMA: u32 = 1;
/// The file in which a restored state remembers its restore.
const RESTORED: &str = "restored.json";
/// The database, in a state folder and in a copy.
const STORE: &str = "store.db";

/// The reason why a backup or a restore failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be read or written.
    #[error("{what} `{}`: {source}", path.display())]
    File {
        /// The step that failed.
        what: &'static str,
        /// The file concerned.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The target folder is not empty.
    #[error("`{}` already exists and is not empty", .0.display())]
    Occupied(PathBuf),
    /// The folder is not a backup that this build can read.
    #[error("`{}` is not a backup: {why}", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// The flaw.
        why: String,
    },
    /// A file of the backup differs from its manifest.
    #[error("the backup is damaged: `{path}` {why}")]
    Damaged {
        /// The file, within the copy.
        path: String,
        /// The difference.
        why: String,
    },
}

/// The result of a backup or a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSummary {
    /// The folder that was written.
    pub folder: PathBuf,
    /// The number of files.
    pub files: usize,
    /// Their total size in bytes.
    pub bytes: u64,
    /// The number of events in the record; all of them were verified.
    pub events: i64,
    /// When the backup was made, in milliseconds since 1970.
    pub at_ms: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    schema: u32,
    /// The version of the program that made the backup.
    version: String,
    at_ms: i64,
    events: i64,
    #[serde(flatten)]
    content: Content,
}

/// The files and folders of a backup.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    files: Vec<BackupFile>,
    /// Empty folders too: git does not recognise a repository that lacks some of them.
    folders: Vec<String>,
}

/// One file of a backup.
#[derive(Debug, Serialize, Deserialize)]
struct BackupFile {
    path: String,
    bytes: u64,
    sha256: String,
}

impl Manifest {
    fn copied(&self, folder: &Path) -> BackupSummary {
        let files = &self.content.files;
        let bytes = files.iter().map(|file| file.bytes).sum();
        BackupSummary { folder: folder.to_owned(), files: files.len(), bytes, events: self.events, at_ms: self.at_ms }
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError + use<> {
    let path = path.to_owned();
    move |source| BackupError::File { what, path, source }
}

/// Copies a state directory to a new folder. Other processes can keep working: the database is copied as of one moment
/// and the other files after it, so every file that the record refers to is in the backup.
///
/// # Errors
/// When the new folder is not empty, the store is not SQLite or is damaged, or a file cannot be copied. Nothing is left
/// behind then.
pub async fn make(store: &Store, state: &Path, into: &Path, now_ms: i64) -> Result<BackupSummary, BackupError> {
    let draft = Draft::beside(into)?;
    store.copy_into(&draft.0.join(STORE)).await?;
    let events = whole(&draft.0.join(STORE)).await?;
    let (state, folder) = (state.to_owned(), draft.0.clone());
    let content = blocking(move || {
        let mut content = Content { files: vec![copy::look_at(&folder, STORE)?], folders: Vec::new() };
        for part in copy::parts(&state)? {
            copy::tree(&state, &folder, &part, &mut content)?;
        }
        Ok(content)
    });
    let (content, version) = (content.await?, env!("CARGO_PKG_VERSION").to_owned());
    let manifest = Manifest { schema: SCHEMA, version, at_ms: now_ms, events, content };
    let text = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain data");
    copy::write(&draft.0.join(MANIFEST), &mut text.as_slice())?;
    draft.take_place(into)?;
    Ok(manifest.copied(into))
}

/// Restores a backup to a new state directory. Every file is compared with the manifest and the whole record is
/// verified before the folder is renamed to its final name. The restored state remembers that it was restored.
///
/// # Errors
/// When a state directory already exists, or the backup is damaged. Nothing is left behind then.
pub async fn restore(from: &Path, state: &Path, now_ms: i64) -> Result<BackupSummary, BackupError> {
    let manifest = read_manifest(from)?;
    let draft = Draft::beside(state)?;
    let (from, folder) = (from.to_owned(), draft.0.clone());
    let manifest = blocking(move || {
        manifest.content.files.iter().try_for_each(|kept| bring_back(&from, &folder, kept))?;
        for path in &manifest.content.folders {
            is_inside(path)?;
            copy::folder(&folder.join(path))?;
        }
        Ok(manifest)
    });
    let manifest = manifest.await?;
    let events = whole(&draft.0.join(STORE)).await?;
    if events != manifest.events {
        let why = format!("has {events} events, but {} were copied", manifest.events);
        return Err(BackupError::Damaged { path: STORE.to_owned(), why });
    }
    let restored = RestoredState { as_of_ms: manifest.at_ms, restored_ms: now_ms };
    let text = serde_json::to_vec(&restored).expect("two numbers are plain data");
    let place = draft.0.join(RESTORED);
    // A backup of a restored state has such a file.
    let _ = fs::remove_file(&place);
    copy::write(&place, &mut text.as_slice())?;
    draft.take_place(state)?;
    Ok(manifest.copied(state))
}

/// The moments of a restore, which the restored state remembers: it does not know what was sent between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredState {
    /// When the backup was made, in milliseconds since 1970.
    pub as_of_ms: i64,
    /// When it was restored.
    pub restored_ms: i64,
}

impl RestoredState {
    /// The last restore of a state; `None` if it was never restored. A file that cannot be read is a restore at an
    /// unknown time.
    pub(crate) fn read(state: &StateDir) -> Option<Self> {
        let path = state.root().join(RESTORED);
        if fs::symlink_metadata(&path).is_err() {
            return None;
        }
        let text = copy::read(&path, MANIFEST_MAX).unwrap_or_default();
        Some(serde_json::from_slice(&text).unwrap_or(Self { as_of_ms: 0, restored_ms: i64::MAX }))
    }
}

fn bring_back(from: &Path, folder: &Path, kept: &BackupFile) -> Result<(), BackupError> {
    let damaged = |why: String| BackupError::Damaged { path: kept.path.clone(), why };
    is_inside(&kept.path)?;
    let mut file = open_plain(&from.join(&kept.path)).map_err(|error| damaged(format!("cannot be read: {error}")))?;
    let (bytes, sha256) = copy::write(&folder.join(&kept.path), &mut file)?;
    match bytes == kept.bytes && sha256 == kept.sha256 {
        true => Ok(()),
        false => Err(damaged("differs from the file that was copied".to_owned())),
    }
}

/// Refuses a path in the manifest that leads out of the backup.
fn is_inside(path: &str) -> Result<(), BackupError> {
    let why = || "has a name that leads out of the folder".to_owned();
    if copy::is_inside(path) { Ok(()) } else { Err(BackupError::Damaged { path: path.to_owned(), why: why() }) }
}

/// Copying many files blocks, so it runs on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, BackupError> {
    tokio::task::spawn_blocking(work).await.expect("copying files does not panic")
}

fn read_manifest(from: &Path) -> Result<Manifest, BackupError> {
    let foreign = |why: String| BackupError::Foreign { path: from.to_owned(), why };
    let path = from.join(MANIFEST);
    let text = copy::read(&path, MANIFEST_MAX).map_err(|error| foreign(format!("`{MANIFEST}`: {error}")))?;
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|error| foreign(format!("`{MANIFEST}`: {error}")))?;
    match manifest.schema {
        SCHEMA => Ok(manifest),
        other => Err(foreign(format!("it has format {other}; this build reads format {SCHEMA}"))),
    }
}

/// Verifies a database and counts its events.
async fn whole(path: &Path) -> Result<i64, BackupError> {
    let store = Store::open(&path.display().to_string(), StoreMode::Read).await?;
    let report = store.verify().await;
    store.close().await?;
    // A reader leaves these files behind.
    for suffix in ["-wal", "-shm"] {
        let mut name = path.to_owned().into_os_string();
        name.push(suffix);
        let _ = fs::remove_file(name);
    }
    match report? {
        VerifyReport { events, broken: None } => Ok(events),
        VerifyReport { broken: Some(broken), .. } => {
            Err(BackupError::Damaged { path: STORE.to_owned(), why: format!("is broken: {}", broken.why) })
        }
    }
}

/// A folder under a temporary name. It is renamed when it is complete and removed otherwise.
struct Draft(PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        // After the rename there is no folder of this name.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Draft {
    /// Creates the draft beside a folder that does not exist or is empty.
    fn beside(path: &Path) -> Result<Self, BackupError> {
        let path = std::path::absolute(path).map_err(failed("resolve", path))?;
        match fs::read_dir(&path).map(|mut entries| entries.next().is_some()) {
            Ok(true) => return Err(BackupError::Occupied(path)),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(BackupError::Occupied(path)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("list", &path)(error)),
            Ok(false) | Err(_) => {}
        }
        let (parent, name) = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => (parent, name.to_string_lossy().into_owned()),
            _ => return Err(BackupError::Occupied(path)),
        };
        fs::create_dir_all(parent).map_err(failed("create", parent))?;
        let draft = Self(parent.join(format!(".{name}.{}.new", std::process::id())));
        if fs::symlink_metadata(&draft.0).is_ok() {
            fs::remove_dir_all(&draft.0).map_err(failed("remove", &draft.0))?;
        }
        make_dir(&draft.0).map_err(|error| failed("create", &draft.0)(io::Error::other(error)))?;
        Ok(draft)
    }

    /// Flushes everything to the disk before the rename makes it visible.
    fn take_place(self, path: &Path) -> Result<(), BackupError> {
        let path = std::path::absolute(path).map_err(failed("resolve", path))?;
        let folder = File::open(&self.0).map_err(failed("open", &self.0))?;
        rustix::fs::syncfs(&folder).map_err(|errno| failed("flush", &self.0)(errno.into()))?;
        // The rename replaces an empty folder and fails if another process has put something in it.
        fs::rename(&self.0, &path).map_err(failed("rename to", &path))?;
        let parent = path.parent().unwrap_or(&path);
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed("flush", parent))
    }
}
