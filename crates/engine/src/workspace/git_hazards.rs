//! Looks through all of a maker's files, ignored ones too, before git is asked about any of them. Git opens some names
//! wherever it comes across them, and a pipe under such a name would hold it until its time is up; and it passes folders
//! that it may not read without a word. What policy makes of either is the seal's to say.

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

/// Findings of one kind that are told; more say nothing new.
const REPORTED_MAX: usize = 100;

/// What the look found.
#[derive(Debug, Default)]
pub(super) struct GitHazards {
    /// What git would trip over: it must not be started on these files at all.
    pub(super) barred: Vec<(Vec<u8>, UnsealableKind)>,
    /// New folders that cannot be read.
    pub(super) unreadable: Vec<Vec<u8>>,
}

/// Looks at every name below a folder but for the maker's own `.git`. Folders wait as paths, so neither depth nor width
/// takes descriptors.
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
            // What no path reaches, git does not reach either.
            Err(Errno::ACCESS | Errno::NAMETOOLONG) => guard.cannot_read(folder, catalogue),
            Err(errno) => return Err(failed(errno.into())),
        }
    }
    Ok(guard)
}

/// A folder that can be listed and whose names can be looked at.
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

    /// Folders of the base are judged by the survey.
    fn cannot_read(&mut self, folder: Vec<u8>, catalogue: &PathCatalogue) {
        if self.unreadable.len() < REPORTED_MAX && !catalogue.has_below(&folder) {
            self.unreadable.push(folder);
        }
    }
}

/// Rules and attributes are read in every folder; the others where a repository seems to be.
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
        // Git does not follow these; a link that base has is judged when it changes, as any other.
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

/// Not every file system says in a listing what a name is.
fn kind_of(fd: &OwnedFd, entry: &DirEntry) -> Result<FileType, Errno> {
    match entry.file_type() {
        FileType::Unknown => {
            Ok(FileType::from_raw_mode(statat(fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?.st_mode))
        }
        kind => Ok(kind),
    }
}
