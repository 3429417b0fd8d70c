//! Copies the files of a state directory one by one: which files, in which order, with the size and hash of each.

use super::{BackupError, BackupFile, Content, failed};
use crate::state_dir::open_plain;
use sha2::{Digest as _, Sha256};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path};

/// Files and folders that are copied whole if they exist.
const PARTS: [&str; 7] = ["STOP", super::RESTORED, "reports", "transcripts", "evidence", "baselines", "forge"];
/// The folder of workspaces. Only the engine's own repositories in it are copied: they hold the candidates.
const WORKSPACES: &str = "workspaces";
const ENGINE_REPO: &str = "engine.git";
/// Unfinished files of a local forge, which are not copied.
const DRAFTS: [&str; 2] = ["tmp", "lock"];

/// The paths within a state directory that are copied.
pub(super) fn parts(state: &Path) -> Result<Vec<String>, BackupError> {
    let mut parts: Vec<String> = PARTS.iter().map(|part| (*part).to_owned()).collect();
    for name in names(&state.join(WORKSPACES))? {
        parts.push(format!("{WORKSPACES}/{}/{ENGINE_REPO}", text(&name, state)?));
    }
    parts.retain(|part| fs::symlink_metadata(state.join(part)).is_ok());
    Ok(parts)
}

/// The names in a folder. The objects of a git repository come last, so that every object that a copied branch refers
/// to exists.
fn names(folder: &Path) -> Result<Vec<OsString>, BackupError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed("list", folder))?,
    };
    let names: io::Result<Vec<_>> = entries.map(|entry| entry.map(|entry| entry.file_name())).collect();
    let mut names = names.map_err(failed("list", folder))?;
    names.sort_by_key(|name| (name == "objects", name.clone()));
    Ok(names)
}

fn text(name: &OsString, folder: &Path) -> Result<String, BackupError> {
    let odd = || failed("copy from", folder)(io::Error::other(format!("{} is not UTF-8", name.display())));
    name.to_str().map(str::to_owned).ok_or_else(odd)
}

/// Compares the whole path: a branch deeper down may have the same name.
fn is_draft(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts.as_slice(), ["forge", _, name] if DRAFTS.contains(name))
}

/// Copies a file, or a folder with everything in it. Files that disappear meanwhile are skipped.
pub(super) fn tree(state: &Path, into: &Path, path: &str, content: &mut Content) -> Result<(), BackupError> {
    let source = state.join(path);
    let about = match fs::symlink_metadata(&source) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        about => about.map_err(failed("look at", &source))?,
    };
    if about.is_dir() {
        for name in names(&source)? {
            let inner = format!("{path}/{}", text(&name, &source)?);
            if !is_draft(&inner) {
                tree(state, into, &inner, content)?;
            }
        }
        content.folders.push(path.to_owned());
        return folder(&into.join(path));
    }
    let mut file = match open_plain(&source) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file.map_err(failed("read", &source))?,
    };
    let (bytes, sha256) = write(&into.join(path), &mut file)?;
    content.files.push(BackupFile { path: path.to_owned(), bytes, sha256 });
    Ok(())
}

/// Reads a small file completely.
pub(super) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_plain(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(io::Error::other("too large")) } else { Ok(bytes) }
}

/// The size and hash of an existing file.
pub(super) fn look_at(folder: &Path, path: &str) -> Result<BackupFile, BackupError> {
    let place = folder.join(path);
    let mut file = open_plain(&place).map_err(failed("read", &place))?;
    let (bytes, sha256) = pass(&mut file, &mut io::sink()).map_err(failed("read", &place))?;
    Ok(BackupFile { path: path.to_owned(), bytes, sha256 })
}

/// Writes a new private file, creating its parent folders; returns its size and hash.
pub(super) fn write(path: &Path, from: &mut dyn Read) -> Result<(u64, String), BackupError> {
    folder(path.parent().unwrap_or(path))?;
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed("create", path))?;
    pass(from, &mut file).map_err(failed("write", path))
}

/// Creates a private folder and its parents.
pub(super) fn folder(path: &Path) -> Result<(), BackupError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("create", path))
}

fn pass(from: &mut dyn Read, into: &mut dyn io::Write) -> io::Result<(u64, String)> {
    let (mut hasher, mut all, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
    loop {
        let count = match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        if count == 0 {
            into.flush()?;
            return Ok((all, loopwright_core::hash::hex(&hasher.finalize())));
        }
        hasher.update(&buffer[..count]);
        into.write_all(&buffer[..count])?;
        all += count as u64;
    }
}

/// Whether a path from another source stays inside the folder it is joined to.
pub(super) fn is_inside(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_out_are_detected() {
        assert!(is_inside("store.db") && is_inside("forge/a/repo.git/HEAD"));
        for path in ["", "/etc/passwd", "../a", "a/../../b", "./a/.."] {
            assert!(!is_inside(path), "{path}");
        }
    }

    #[test]
    fn objects_are_copied_after_the_branches_that_name_them() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["refs", "objects", "HEAD", "packed-refs"] {
            fs::write(folder.path().join(name), name).expect("a file");
        }
        let names = names(folder.path()).expect("a listing");
        assert_eq!(names, ["HEAD", "packed-refs", "refs", "objects"]);
    }
}
