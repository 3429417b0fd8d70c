//! A copy of the state in a folder of its own, made beside whoever works on it, and a state made of such a copy.
//!
//! What is kept is what cannot be made again: the record, reports, transcripts, evidence, candidates, and what the local forge
//! holds. Workspaces, caches, locks and sockets are not. Both directions leave all of it or nothing.

mod copy;

use crate::state_dir::make_dir;
use crate::store::{SqlStore, Store, StoreError, StoreMode, VerifyReport};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What a copy says of itself, beside what it holds.
const MANIFEST: &str = "backup.json";
/// The manifest of more files than anybody has is not read.
const MANIFEST_MAX: u64 = 256 << 20;
/// The version of that.
const SCHEMA: u32 = 1;
/// The database, in a state folder and in a copy.
const STORE: &str = "store.db";

/// Why there is no copy, or no state.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be read or written.
    #[error("{what} `{}`: {source}", path.display())]
    File {
        /// What was being done.
        what: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is something where the new folder would be.
    #[error("`{}` is there already and not empty", .0.display())]
    Occupied(PathBuf),
    /// The folder holds no copy that this build can read.
    #[error("`{}` is no backup: {why}", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file of the copy is not what it was.
    #[error("the backup is damaged: `{path}` {why}")]
    Damaged {
        /// The file, within the copy.
        path: String,
        /// How it differs.
        why: String,
    },
}

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSummary {
    /// Where it is now.
    pub folder: PathBuf,
    /// How many files there are.
    pub files: usize,
    /// How large they are together.
    pub bytes: u64,
    /// How many events the record has, each of them checked.
    pub events: i64,
    /// When the copy was made, in milliseconds since 1970.
    pub at_ms: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    schema: u32,
    /// The version of the program that made it.
    version: String,
    at_ms: i64,
    events: i64,
    #[serde(flatten)]
    content: Content,
}

/// What a copy holds.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    files: Vec<BackupFile>,
    /// Also those that are empty: git takes a folder without some of them for none of its own.
    folders: Vec<String>,
}

/// One file of a copy.
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

/// Copies a state folder into a new one. Nobody has to stop for it: the database is copied as it is at one moment, and the rest
/// after it, so that whatever the record speaks of is there.
///
/// # Errors
/// When the new folder is not empty, the store is not SQLite's or is damaged, or a file cannot be copied. Nothing is left then.
pub async fn make(store: &dyn Store, state: &Path, into: &Path, now_ms: i64) -> Result<BackupSummary, BackupError> {
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

/// Makes a state folder of a copy. Every file is held against what the copy says of it, and the whole record is checked, before
/// the folder gets its name.
///
/// # Errors
/// When there is a state already, or the copy is not whole. Nothing is left then.
pub async fn restore(from: &Path, state: &Path) -> Result<BackupSummary, BackupError> {
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
        let why = format!("has {events} events, and {} were copied", manifest.events);
        return Err(BackupError::Damaged { path: STORE.to_owned(), why });
    }
    draft.take_place(state)?;
    Ok(manifest.copied(state))
}

fn bring_back(from: &Path, folder: &Path, kept: &BackupFile) -> Result<(), BackupError> {
    let damaged = |why: String| BackupError::Damaged { path: kept.path.clone(), why };
    is_inside(&kept.path)?;
    let mut file = copy::open(&from.join(&kept.path)).map_err(|error| damaged(format!("cannot be read: {error}")))?;
    let (bytes, sha256) = copy::write(&folder.join(&kept.path), &mut file)?;
    match bytes == kept.bytes && sha256 == kept.sha256 {
        true => Ok(()),
        false => Err(damaged("is not what was copied".to_owned())),
    }
}

/// Refuses a path that somebody wrote into the copy and that leads elsewhere.
fn is_inside(path: &str) -> Result<(), BackupError> {
    let why = || "has a name that leads out of the folder".to_owned();
    if copy::is_inside(path) { Ok(()) } else { Err(BackupError::Damaged { path: path.to_owned(), why: why() }) }
}

/// Files are many, and whoever waits for the disk waits on a thread of its own.
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
        other => Err(foreign(format!("it has the form {other}, and this build knows {SCHEMA}"))),
    }
}

/// How many events a database has, if all of it is as it should be.
async fn whole(path: &Path) -> Result<i64, BackupError> {
    let store = SqlStore::open(&path.display().to_string(), StoreMode::Read).await?;
    let report = store.verify().await;
    store.close().await?;
    // Whoever only reads leaves these behind.
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

/// A folder that becomes another one when it is whole, and goes if that never happens.
struct Draft(PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        // After it took its place there is none by this name.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Draft {
    /// Beside a folder that is not there, or is empty.
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

    /// Everything is on the disk before it has the name that says so.
    fn take_place(self, path: &Path) -> Result<(), BackupError> {
        let path = std::path::absolute(path).map_err(failed("resolve", path))?;
        let folder = File::open(&self.0).map_err(failed("open", &self.0))?;
        rustix::fs::syncfs(&folder).map_err(|errno| failed("flush", &self.0)(errno.into()))?;
        // An empty folder gives way; one that got something meanwhile does not.
        fs::rename(&self.0, &path).map_err(failed("rename to", &path))?;
        let parent = path.parent().unwrap_or(&path);
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed("flush", parent))
    }
}
