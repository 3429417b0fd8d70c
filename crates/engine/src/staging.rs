//! Reads the staged items of a role: regular files of its outbox folder, never through a link, never more than the
//! limits.

use loopwright_core::outbox::{OutboxEntryKind, StagedFile};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The most files read. The parser has a lower limit and refuses a larger batch.
const FILES_MAX: usize = 256;
/// The most bytes read of one file; the parser's limit is lower.
const BYTES_MAX: u64 = 1 << 20;

/// A folder that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("read staged items in `{folder}`")]
pub struct StagingError {
    folder: String,
    #[source]
    source: std::io::Error,
}

/// All files in the outbox folder, and the workspace's `PR_BODY.md` under its outbox name, unless it is unchanged from
/// base.
///
/// # Errors
/// When the folder itself cannot be read.
pub fn read(outbox: &Path, workspace: &Path, base_body: Option<&[u8]>) -> Result<Vec<StagedFile>, StagingError> {
    let failed = |source: std::io::Error| StagingError { folder: outbox.display().to_string(), source };
    let mut files = read_folder(outbox).map_err(failed)?;
    let staged_request = files.iter().any(|file| file.name.ends_with("pull-request.md"));
    if let Some(body) = pr_body(workspace).filter(|body| !staged_request && base_body != Some(&body.bytes)) {
        files.push(body);
    }
    Ok(files)
}

fn open_dir(folder: &Path) -> std::io::Result<std::os::fd::OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// A folder that the role removed or replaced is a bad batch, not a failure of the engine.
fn read_folder(folder: &Path) -> std::io::Result<Vec<StagedFile>> {
    let dir = match open_dir(folder) {
        Err(error) if is_tampered(&error) => return Ok(vec![StagedFile::irregular("outbox", OutboxEntryKind::Other)]),
        dir => dir?,
    };
    names(&dir)?.into_iter().map(|name| read_named(&dir, &name)).collect()
}

fn is_tampered(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as Kind;
    matches!(error.kind(), Kind::NotFound | Kind::NotADirectory | Kind::PermissionDenied)
        || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// The first names in a folder, sorted, up to the limit; memory use is bounded by it.
fn names(dir: &std::os::fd::OwnedFd) -> std::io::Result<BTreeSet<CString>> {
    let mut names = BTreeSet::new();
    for entry in Dir::read_from(dir)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.as_bytes(), b"." | b"..") {
            names.insert(name);
        }
        if names.len() > FILES_MAX {
            names.pop_last();
        }
    }
    Ok(names)
}

/// A name that is not UTF-8 and a file that may not be read are not items; the parser refuses both.
fn read_named(dir: &std::os::fd::OwnedFd, name: &CStr) -> std::io::Result<StagedFile> {
    let Ok(text) = name.to_str() else {
        return Ok(StagedFile::irregular(name.to_string_lossy(), OutboxEntryKind::Other));
    };
    match read_one(dir, text.to_owned()) {
        Err(error) if is_tampered(&error) => Ok(StagedFile::irregular(text, OutboxEntryKind::Other)),
        file => file,
    }
}

fn read_one(dir: &std::os::fd::OwnedFd, name: String) -> std::io::Result<StagedFile> {
    let found = statat(dir, name.as_str(), AtFlags::SYMLINK_NOFOLLOW)?;
    let entry = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile if found.st_nlink == 1 => None,
        FileType::Symlink => Some(OutboxEntryKind::Symlink),
        _ => Some(OutboxEntryKind::Other),
    };
    if let Some(entry) = entry {
        return Ok(StagedFile::irregular(name, entry));
    }
    // Non-blocking, so that a pipe swapped in meanwhile cannot block the engine.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut bytes = Vec::new();
    File::from(openat(dir, name.as_str(), flags, Mode::empty())?).take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(StagedFile::regular(name, bytes))
}

fn pr_body(workspace: &Path) -> Option<StagedFile> {
    let dir = open_dir(workspace).ok()?;
    let file = read_one(&dir, "PR_BODY.md".to_owned()).ok()?;
    Some(StagedFile { name: "pull-request.md".to_owned(), ..file })
}

/// Empties an outbox folder before another start, whatever its size and permissions.
///
/// # Errors
/// When something in it cannot be removed.
pub fn clear(outbox: &Path) -> Result<(), StagingError> {
    let failed = |source: std::io::Error| StagingError { folder: outbox.display().to_string(), source };
    crate::workspace::empty_tree(outbox).map_err(failed)
}

/// Reads a file of at most `max` bytes that must be regular and not reached through a link at its end.
#[must_use]
pub fn read_sink(path: &Path, max: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn everything_staged_is_cleared_and_only_the_first_names_are_read() {
        let temp = tempfile::tempdir().expect("a folder");
        let shut = temp.path().join("shut/in");
        std::fs::create_dir_all(&shut).expect("folders");
        std::fs::write(shut.join("file"), "").expect("a file");
        for folder in [shut.as_path(), &temp.path().join("shut")] {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o000)).expect("permissions");
        }
        (0..2 * FILES_MAX).for_each(|n| std::fs::write(temp.path().join(format!("{n:04}")), "").expect("a file"));
        let read = read_folder(temp.path()).expect("it is read");
        assert_eq!((read.len(), read[FILES_MAX - 1].name.as_str()), (FILES_MAX, "0255"));
        crate::workspace::as_ordinary_user(|| clear(temp.path())).expect("it is cleared");
        assert_eq!(std::fs::read_dir(temp.path()).expect("it is there").count(), 0);
    }
}
