//! Checks all of a maker's files, including ignored ones, before git reads any of them. Git opens certain names
//! wherever it finds them, and a pipe under such a name would block it until its deadline. Git also skips unreadable
//! folders silently. The seal applies policy to both.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, readlinkat, statat};
use rustix::io::Errno;

use super::WorkspaceError;
use super::catalogue::PathCatalogue;
use super::index::SYMLINK;
use super::names::target_is_inside;
use super::survey::{SurveyScope, UnsealableKind, is_whiteout, open_dir};

/// Most findings of one kind that are reported; further ones add no information.
const REPORTED_MAX: usize = 100;

/// Files that git must not open or silently skips.
#[derive(Debug, Default)]
pub(super) struct GitHazards {
    /// Files that would block git: it must not be started on this checkout at all.
    pub(super) barred: Vec<(Vec<u8>, UnsealableKind)>,
    /// New folders that cannot be read.
    pub(super) unreadable: Vec<Vec<u8>>,
}

/// Checks every name below a folder except the maker's own `.git`. Pending folders are stored as paths, so neither
/// depth nor width costs descriptors.
pub(super) fn find_hazards(
    root: &Path,
    catalogue: &PathCatalogue,
    view: SurveyScope,
) -> Result<GitHazards, WorkspaceError> {
    let failed = |error: io::Error| super::io("look through", root)(error);
    let top = open_dir(CWD, root).map_err(|errno| failed(errno.into()))?;
    let mut guard = GitHazards::default();
    let mut waiting = vec![Vec::new()];
    while let Some(folder) = waiting.pop() {
        match open_folder(&top, &folder) {
            Ok(fd) => guard.folder(&fd, &folder, catalogue, view, &mut waiting).map_err(failed)?,
            // Git cannot reach a folder that no path reaches.
            Err(Errno::ACCESS | Errno::NAMETOOLONG) => guard.cannot_read(folder, catalogue),
            Err(errno) => return Err(failed(errno.into())),
        }
    }
    Ok(guard)
}

/// Opens a folder that can be listed and whose entries can be examined.
fn open_folder(top: &OwnedFd, folder: &[u8]) -> Result<OwnedFd, Errno> {
    let fd = open_dir(top.as_fd(), if folder.is_empty() { b"." } else { folder })?;
    statat(&fd, c".", AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(fd)
}

impl GitHazards {
    fn folder(
        &mut self,
        fd: &OwnedFd,
        folder: &[u8],
        catalogue: &PathCatalogue,
        view: SurveyScope,
        waiting: &mut Vec<Vec<u8>>,
    ) -> io::Result<()> {
        let mut dir = Dir::read_from(fd)?;
        while let Some(entry) = dir.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || (folder.is_empty() && name == b".git") {
                continue;
            }
            let path = if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() };
            let kind = kind_of(fd, &entry)?;
            if is_read_by_git(name) && is_bad(fd, &entry, kind, &path, catalogue, view)? {
                if self.barred.len() < REPORTED_MAX {
                    self.barred.push((path, UnsealableKind::Special));
                }
            } else if kind == FileType::Directory {
                waiting.push(path);
            }
        }
        Ok(())
    }

    /// The survey checks folders of the base.
    fn cannot_read(&mut self, folder: Vec<u8>, catalogue: &PathCatalogue) {
        if self.unreadable.len() < REPORTED_MAX && !catalogue.has_below(&folder) {
            self.unreadable.push(folder);
        }
    }
}

/// Git reads rules and attributes in every folder, and the other names where it detects a repository.
fn is_read_by_git(name: &[u8]) -> bool {
    matches!(name, b".gitignore" | b".gitattributes" | b".git" | b"HEAD" | b"commondir")
}

fn is_bad(
    fd: &OwnedFd,
    entry: &DirEntry,
    kind: FileType,
    path: &[u8],
    catalogue: &PathCatalogue,
    view: SurveyScope,
) -> io::Result<bool> {
    let name = entry.file_name();
    let is_rules = name.to_bytes().starts_with(b".git") && name.to_bytes() != b".git";
    Ok(match kind {
        FileType::RegularFile => false,
        FileType::Directory => is_rules && !catalogue.has_below(path),
        // Git does not follow these links; a link that base has is checked when it changes, as any other.
        FileType::Symlink if is_rules => {
            let known = catalogue.find(path).map(|at| catalogue.entries()[at].mode);
            known != Some(SYMLINK) && !leads_inside(path, readlinkat(fd, name, Vec::new())?.as_bytes())
        }
        FileType::Symlink => false,
        FileType::CharacterDevice if view == SurveyScope::Upper => {
            !is_whiteout(&statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)?)
        }
        _ => true,
    })
}

fn leads_inside(path: &[u8], target: &[u8]) -> bool {
    match (std::str::from_utf8(path), std::str::from_utf8(target)) {
        (Ok(path), Ok(target)) => target_is_inside(path, target),
        _ => false,
    }
}

/// Not every file system reports an entry's type in a listing.
fn kind_of(fd: &OwnedFd, entry: &DirEntry) -> Result<FileType, Errno> {
    match entry.file_type() {
        FileType::Unknown => {
            Ok(FileType::from_raw_mode(statat(fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?.st_mode))
        }
        kind => Ok(kind),
    }
}
