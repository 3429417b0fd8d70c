//! Large files that Git LFS stores: finds the pointers of a commit and copies the content from the local store. It
//! reads the store's files directly, so neither `git-lfs` nor a filter of the user's configuration runs.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{ExternalLayer, shown};
use crate::git::{EngineRepo, GitCall, Oid, TREE_MAX};
use crate::workspace::index::{self, EXECUTABLE, IndexEntry, PLAIN};
use crate::workspace::{WorkspaceError, blocking, io};

/// A longer file is not a pointer.
const POINTER_MAX: u64 = 1024;
/// Bytes of all large files of one base.
const CONTENT_MAX: u64 = 8 << 30;
/// The first line of a pointer.
const VERSION: &str = "version https://git-lfs.github.com/spec/v1";

/// Collects the large files of a base and its submodules.
pub(super) struct LargeFiles<'a> {
    engine: &'a EngineRepo,
    layer: &'a ExternalLayer,
    /// Bytes of an object name.
    oid_len: usize,
    total: u64,
}

/// The text that a commit has instead of a large file.
#[derive(Debug, PartialEq, Eq)]
struct LfsPointer {
    sha256: String,
    size: u64,
}

/// One large file with its place.
struct Found {
    path: PathBuf,
    is_executable: bool,
    text: Vec<u8>,
    pointer: LfsPointer,
}

impl<'a> LargeFiles<'a> {
    pub(super) fn new(engine: &'a EngineRepo, layer: &'a ExternalLayer, oid_len: usize) -> Self {
        Self { engine, layer, oid_len, total: 0 }
    }

    /// Copies the large files of an index, whose tree is at `prefix`, from the store of a repository.
    pub(super) async fn fetch(&mut self, index: &Path, git_dir: &Path, prefix: &Path) -> Result<(), WorkspaceError> {
        let found = self.find(index).await?;
        if found.is_empty() {
            return Ok(());
        }
        let store = self.store(git_dir).await?;
        for mut file in found {
            file.path = prefix.join(&file.path);
            self.total = self.total.saturating_add(file.pointer.size);
            if self.total > CONTENT_MAX {
                return Err(WorkspaceError::TooManyLargeFiles { path: shown(&file.path), max: CONTENT_MAX });
            }
            let (store, layer) = (store.clone(), self.layer.clone());
            blocking(move || file.copy(&store, &layer)).await?;
        }
        Ok(())
    }

    /// The entries that are pointers: their attributes say that LFS filters them, and their content has its form.
    async fn find(&self, index: &Path) -> Result<Vec<Found>, WorkspaceError> {
        let entries = index::read(index, self.oid_len)?;
        let filtered = filtered_paths(self.engine, index, entries.iter().map(|entry| entry.path.as_slice())).await?;
        let is_filtered = |entry: &&IndexEntry| {
            matches!(entry.mode, PLAIN | EXECUTABLE) && filtered.binary_search(&entry.path).is_ok()
        };
        let entries: Vec<&IndexEntry> = entries.iter().filter(is_filtered).collect();
        let oids: Vec<Oid> = entries.iter().map(|entry| entry.oid(self.oid_len)).collect();
        let texts = self.engine.read_small_blobs(&oids, POINTER_MAX).await?;
        let found = entries.into_iter().zip(texts).filter_map(|(entry, text)| {
            let (text, path) = (text?, PathBuf::from(OsStr::from_bytes(&entry.path)));
            Some(Found { path, is_executable: entry.mode == EXECUTABLE, pointer: parse(&text)?, text })
        });
        Ok(found.collect())
    }

    /// The folder of the repository's LFS objects; `lfs.storage` may move it.
    async fn store(&self, git_dir: &Path) -> Result<PathBuf, WorkspaceError> {
        let call = GitCall::new("git.config").git_dir(git_dir).args(["--get", "--type=path", "lfs.storage"]);
        let set = self.engine.git().run(call.allow_exit_one()).await?.line();
        let storage = if set.is_empty() { "lfs" } else { &set };
        Ok(git_dir.join(storage).join("objects"))
    }
}

/// The paths, among those given, that the attributes of an index give to LFS; sorted.
pub(super) async fn filtered_paths<'p>(
    engine: &EngineRepo,
    index: &Path,
    paths: impl Iterator<Item = &'p [u8]>,
) -> Result<Vec<Vec<u8>>, WorkspaceError> {
    let paths: Vec<&[u8]> = paths.collect();
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let call = engine.call("git.check-attr").index(index).out_max(TREE_MAX);
    let call = call.args(["-z", "--stdin", "--cached", "filter"]).stdin(paths.join(&0));
    let answer = engine.git().run(call).await?;
    let mut fields = answer.stdout.split(|byte| *byte == 0);
    let mut filtered = Vec::new();
    while let (Some(path), Some(_), Some(value)) = (fields.next(), fields.next(), fields.next()) {
        if value == b"lfs" {
            filtered.push(path.to_vec());
        }
    }
    filtered.sort_unstable();
    Ok(filtered)
}

impl Found {
    /// Writes content and pointer into the layer.
    fn copy(&self, store: &Path, layer: &ExternalLayer) -> Result<(), WorkspaceError> {
        let missing = |why: &str| WorkspaceError::LargeFileMissing { path: shown(&self.path), why: why.to_owned() };
        let sha = &self.pointer.sha256;
        let mut from = fs::File::open(store.join(&sha[..2]).join(&sha[2..4]).join(sha))
            .map_err(|error| missing(&error.to_string()))?;
        let place = new_file(&layer.files(), &self.path)?;
        let (size, found) = copy_hashed(&mut from, &place, self.pointer.size).map_err(io("copy", &place))?;
        if size != self.pointer.size || found != *sha {
            return Err(missing("the stored content is damaged"));
        }
        let mode = if self.is_executable { 0o755 } else { 0o644 };
        fs::set_permissions(&place, fs::Permissions::from_mode(mode)).map_err(io("protect", &place))?;
        let pointer = new_file(&layer.pointers(), &self.path)?;
        fs::write(&pointer, &self.text).map_err(io("write", &pointer))
    }
}

/// The place of a file in a folder. Removes what is there: in a submodule the pointer.
fn new_file(root: &Path, path: &Path) -> Result<PathBuf, WorkspaceError> {
    let place = root.join(path);
    let folder = place.parent().unwrap_or(root);
    fs::create_dir_all(folder).map_err(io("create", folder))?;
    match fs::remove_file(&place) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("remove", &place)(error)),
        _ => Ok(place),
    }
}

/// Copies at most one byte more than `max`; returns the bytes written and their hash.
fn copy_hashed(from: &mut fs::File, to: &Path, max: u64) -> std::io::Result<(u64, String)> {
    let mut to = fs::File::create_new(to)?;
    let mut from = from.take(max.saturating_add(1));
    let (mut hash, mut size, mut buffer) = (Sha256::new(), 0, vec![0; 64 << 10]);
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        to.write_all(&buffer[..read])?;
        size += read as u64;
    }
    Ok((size, hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// `None` for a text that is not a pointer.
fn parse(text: &[u8]) -> Option<LfsPointer> {
    let text = std::str::from_utf8(text).ok()?;
    let rest = text.strip_prefix(VERSION)?;
    let value = |key: &str| rest.lines().find_map(|line| line.strip_prefix(key));
    let sha256 = value("oid sha256:")?.to_owned();
    let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hash.then_some(LfsPointer { sha256, size: value("size ")?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_of_a_pointer_is_a_pointer() {
        let sha = "a".repeat(64);
        let good = format!("{VERSION}\noid sha256:{sha}\nsize 12\n");
        assert_eq!(parse(good.as_bytes()), Some(LfsPointer { sha256: sha.clone(), size: 12 }));
        for bad in [
            String::new(),
            format!("{VERSION}\noid sha256:{sha}\n"),
            format!("{VERSION}\noid sha256:../../{sha}\nsize 1\n"),
            format!("{VERSION}\noid sha256:{}\nsize 1\n", "A".repeat(64)),
            format!("{VERSION}\noid sha256:{sha}\nsize -1\n"),
            format!("x{good}"),
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
