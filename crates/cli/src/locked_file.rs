//! A small JSON file in the state directory that several processes change: read whole, changed under a lock, and replaced
//! whole, so that a crash leaves one version or the other.

use crate::context::open_plain;
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The place of such a file; it need not exist.
#[derive(Debug)]
pub(crate) struct LockedFile<T> {
    path: PathBuf,
    bytes_max: u64,
    content: PhantomData<fn() -> T>,
}

impl<T> Clone for LockedFile<T> {
    fn clone(&self) -> Self {
        Self { path: self.path.clone(), bytes_max: self.bytes_max, content: PhantomData }
    }
}

impl<T: Default + Serialize + DeserializeOwned> LockedFile<T> {
    /// The file of this name in a state directory; a longer one than `bytes_max` counts as damaged.
    pub(crate) fn new(state: &Path, name: &str, bytes_max: u64) -> Self {
        Self { path: state.join(name), bytes_max, content: PhantomData }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its content; the default if there is no file.
    pub(crate) fn read(&self) -> io::Result<T> {
        let mut text = String::new();
        match open_plain(&self.path) {
            Ok(file) => file.take(self.bytes_max).read_to_string(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
            Err(error) => return Err(error),
        };
        // A damaged file is an error: an empty one in its place would drop everything in silence.
        Ok(serde_json::from_str(&text)?)
    }

    /// Changes the content while no other process does. The new file is on the disk when this returns.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> io::Result<R> {
        let lock = private_file(&self.path.with_extension("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let mut content = self.read()?;
        let result = change(&mut content);
        let text = serde_json::to_vec_pretty(&content)?;
        if text.len() as u64 > self.bytes_max {
            return Err(io::Error::other(format!("it would have more than {} bytes", self.bytes_max)));
        }
        let beside = self.path.with_extension("json.new");
        let mut new = private_file(&beside)?;
        new.set_len(0)?;
        new.write_all(&text)?;
        new.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        Ok(result)
    }
}

/// A file that only its owner may read. A pipe in its place would wait for a reader forever.
fn private_file(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_too_large_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = LockedFile::<Vec<String>>::new(folder.path(), "list.json", 100);
        file.change(|list| list.push("one".to_owned())).expect("it is small");
        assert!(file.change(|list| list.push("x".repeat(200))).is_err());
        assert_eq!(file.read().expect("it reads"), ["one"]);
        assert!(folder.path().join("list.lock").is_file());
    }
}
