//! The folders of one state directory, private to their owner. No other module builds these paths.

use crate::seam::{Seam, SeamFault};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The state directory.
#[derive(Debug, Clone)]
pub struct StateDir {
    root: PathBuf,
    seam: Seam,
}

/// A file of the state directory could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{what} `{}`", path.display())]
pub struct StateFileError {
    what: &'static str,
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

impl StateFileError {
    pub(crate) fn new(what: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self { what, path: path.to_owned(), source }
    }
}

/// The entries of a folder in which the engine removes whatever it does not need. A link leads to files of others, so it
/// has none.
pub(crate) fn removable_entries(folder: &Path) -> Vec<fs::DirEntry> {
    let is_folder = fs::symlink_metadata(folder).is_ok_and(|about| about.is_dir());
    let listed = is_folder.then(|| fs::read_dir(folder).ok()).flatten();
    listed.into_iter().flatten().flatten().collect()
}

impl StateDir {
    /// Opens a state directory; creates it, with mode 0700, if it does not exist.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn open(root: &Path, seam: Seam) -> Result<Self, StateFileError> {
        make_dir(root)?;
        let root =
            root.canonicalize().map_err(|source| StateFileError { what: "resolve", path: root.to_owned(), source })?;
        Ok(Self { root, seam })
    }

    /// The folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The database.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.root.join("store.db")
    }

    /// A repository's local forge.
    #[must_use]
    pub fn forge(&self, repo: &str) -> PathBuf {
        self.root.join("forge").join(repo)
    }

    /// A round's report.
    #[must_use]
    pub fn report(&self, round: &str) -> PathBuf {
        self.root.join("reports").join(format!("{round}.md"))
    }

    /// The folder of the sockets through which rounds reach the network. No socket outlives its engine.
    #[must_use]
    pub fn sockets(&self) -> PathBuf {
        self.root.join("doors")
    }

    /// The folder of a round's transcripts.
    #[must_use]
    pub fn transcripts(&self, round: &str) -> PathBuf {
        self.root.join("transcripts").join(round)
    }

    /// The folder of gate results on bases.
    #[must_use]
    pub fn baselines(&self) -> PathBuf {
        self.root.join("baselines")
    }

    /// The folder of evidence, by content hash.
    #[must_use]
    pub fn evidence(&self) -> PathBuf {
        self.root.join("evidence")
    }

    /// Writes a file whole or not at all: temporary name, flush, rename, flush of the folder.
    ///
    /// # Errors
    /// When a step fails; the old file, if any, is unchanged then.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), StateFileError> {
        let at = |what, source| StateFileError { what, path: path.to_owned(), source };
        self.seam.before("fs.write").map_err(|fault| at("write", injected(fault)))?;
        let folder = path.parent().unwrap_or(&self.root);
        make_dir(folder)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let draft = folder.join(format!(".{name}.{}.new", std::process::id()));
        write_synced(&draft, bytes).map_err(|source| at("write", source))?;
        fs::rename(&draft, path).map_err(|source| at("rename into", source))?;
        sync_dir(folder).map_err(|source| at("flush folder of", source))?;
        self.seam.after("fs.write").map_err(|fault| at("write", injected(fault)))
    }

    /// Writes a file that lives no longer than its round's workspace. It is not flushed: no reader needs it after a
    /// power loss.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_ephemeral(&self, path: &Path, bytes: &[u8]) -> Result<(), StateFileError> {
        let at = |source| StateFileError { what: "write", path: path.to_owned(), source };
        self.seam.before("fs.write").map_err(|fault| at(injected(fault)))?;
        make_dir(path.parent().unwrap_or(&self.root))?;
        private_file(path).and_then(|mut file| file.write_all(bytes)).map_err(at)?;
        self.seam.after("fs.write").map_err(|fault| at(injected(fault)))
    }
}

fn injected(fault: SeamFault) -> std::io::Error {
    std::io::Error::other(fault)
}

/// Creates a folder and its parents, private to their owner.
///
/// # Errors
/// When it cannot be created.
pub fn make_dir(path: &Path) -> Result<(), StateFileError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| StateFileError { what: "make folder", path: path.to_owned(), source })
}

/// Opens a plain file for reading. A link, a pipe or a device is an error: people and backups can leave anything in the
/// state directory, and a pipe would wait for a writer forever.
pub(crate) fn open_plain(path: &Path) -> std::io::Result<fs::File> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(std::io::Error::other("not a plain file")) }
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = private_file(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn private_file(path: &Path) -> std::io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

fn sync_dir(path: &Path) -> std::io::Result<()> {
    fs::File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn files_and_folders_are_private() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let places = StateDir::open(&dir.path().join("state"), Seam::none()).expect("opens");
        let path = places.report("r1");
        places.write(&path, b"story").expect("writes");
        let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(places.root()), mode(path.parent().expect("has one"))), (0o600, 0o700, 0o700));
    }
}
