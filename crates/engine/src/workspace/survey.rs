//! Looks at a maker's files without trusting any of them: which tracked ones changed, which are gone,
//! which new ones are to be sealed. Folders are opened one by one without following symlinks; nothing
//! but file status and symlink targets is read here.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::index::{Entry, GITLINK, SYMLINK, mode_of};
use super::{WorkspaceError, io};

/// The file in the root that becomes a staged pull request and never a part of the tree.
pub(super) const PR_BODY: &[u8] = b"PR_BODY.md";

/// A file that is to be sealed as it lies there.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: Vec<u8>,
    pub(super) mode: u32,
    pub(super) size: u64,
    /// Where a symlink points.
    pub(super) target: Option<Vec<u8>>,
    pub(super) is_new: bool,
}

/// Something that cannot be sealed, by what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Odd {
    Special,
    NestedRepository,
    Submodule,
    Unreadable,
}

/// What a look at a checkout found.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) changed: Vec<Found>,
    pub(super) deleted: Vec<Vec<u8>>,
    pub(super) odd: Vec<(Vec<u8>, Odd)>,
    /// Something is there that the base does not have; whether it is ignored is git's to say.
    pub(super) has_untracked: bool,
    pub(super) has_pr_body: bool,
}

/// Compares a checkout with the entries that were checked out.
pub(super) fn tracked(root: &Path, entries: &[Entry]) -> Result<Survey, WorkspaceError> {
    let fd = open_dir(CWD, root).map_err(|errno| io("open", root)(errno.into()))?;
    let mut walk = Walk { entries, seen: vec![false; entries.len()], survey: Survey::default() };
    walk.folder(fd, &[]).map_err(|errno| io("walk", root)(errno.into()))?;
    let Walk { seen, mut survey, .. } = walk;
    for (entry, _) in entries.iter().zip(seen).filter(|(_, seen)| !seen) {
        match entry.mode {
            GITLINK => survey.odd.push((entry.path.clone(), Odd::Submodule)),
            _ => survey.deleted.push(entry.path.clone()),
        }
    }
    Ok(survey)
}

struct Walk<'a> {
    entries: &'a [Entry],
    seen: Vec<bool>,
    survey: Survey,
}

impl Walk<'_> {
    /// Only folders that the base has are entered, so the depth is the base's.
    fn folder(&mut self, fd: OwnedFd, prefix: &[u8]) -> Result<(), Errno> {
        let mut dir = Dir::read_from(&fd)?;
        while let Some(entry) = dir.read() {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                self.name(fd.as_fd(), prefix, name)?;
            }
        }
        Ok(())
    }

    fn name(&mut self, parent: BorrowedFd<'_>, prefix: &[u8], name: &CStr) -> Result<(), Errno> {
        let path = [prefix, name.to_bytes()].concat();
        if path == PR_BODY {
            self.survey.has_pr_body = true;
            self.mark_seen(&path);
            return Ok(());
        }
        if name.to_bytes() == b".git" {
            if !prefix.is_empty() {
                self.survey.odd.push((path, Odd::NestedRepository));
            }
            return Ok(());
        }
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match self.entries.binary_search_by(|entry| entry.path.cmp(&path)) {
            Ok(at) => self.known(parent, name, path, at, &stat),
            Err(_) => self.unknown(parent, name, path, &stat),
        }
    }

    fn mark_seen(&mut self, path: &[u8]) {
        if let Ok(at) = self.entries.binary_search_by(|entry| entry.path.as_slice().cmp(path)) {
            self.seen[at] = true;
        }
    }

    fn known(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CStr,
        path: Vec<u8>,
        at: usize,
        stat: &Stat,
    ) -> Result<(), Errno> {
        let entry = &self.entries[at];
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if entry.mode == GITLINK {
            self.seen[at] = true;
            if !is_dir || !is_empty(parent, name)? {
                self.survey.odd.push((path, Odd::Submodule));
            }
        } else if is_dir {
            // The file is gone; what the folder holds is new.
            self.survey.has_untracked = true;
        } else if let Some(mode) = mode_of(stat) {
            self.seen[at] = true;
            if !entry.is_untouched(stat) {
                self.survey.changed.push(found(parent, name, path, mode, stat, false)?);
            }
        } else {
            self.seen[at] = true;
            self.survey.odd.push((path, Odd::Special));
        }
        Ok(())
    }

    fn unknown(&mut self, parent: BorrowedFd<'_>, name: &CStr, path: Vec<u8>, stat: &Stat) -> Result<(), Errno> {
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let inside = [path.as_slice(), b"/"].concat();
        if is_dir && self.has_entries_under(&inside) {
            match open_dir(parent, name) {
                Ok(fd) => self.folder(fd, &inside)?,
                Err(Errno::ACCESS) => self.survey.odd.push((path, Odd::Unreadable)),
                Err(other) => return Err(other),
            }
        } else if is_dir || mode_of(stat).is_some() {
            self.survey.has_untracked = true;
        } else {
            self.survey.odd.push((path, Odd::Special));
        }
        Ok(())
    }

    fn has_entries_under(&self, inside: &[u8]) -> bool {
        let at = self.entries.partition_point(|entry| entry.path.as_slice() < inside);
        self.entries.get(at).is_some_and(|entry| entry.path.starts_with(inside))
    }
}

/// Looks at the new files that git listed (a trailing slash marks a nested repository).
pub(super) fn untracked(root: &Path, listed: &[Vec<u8>]) -> Result<Survey, WorkspaceError> {
    let mut survey = Survey::default();
    let mut folders: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    for path in listed {
        match path.strip_suffix(b"/") {
            Some(nested) => survey.odd.push((nested.to_vec(), Odd::NestedRepository)),
            None => {
                let cut = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
                folders.entry(&path[..cut]).or_default().push(&path[cut..]);
            }
        }
    }
    for folder in ancestors(folders.keys().copied()) {
        folders.entry(folder).or_default();
    }
    for (prefix, names) in folders {
        look_in(root, prefix, &names, &mut survey).map_err(|errno| io("read", root)(errno.into()))?;
    }
    Ok(survey)
}

/// All folders above the given ones (the root is walked elsewhere).
fn ancestors<'a>(folders: impl Iterator<Item = &'a [u8]>) -> BTreeSet<&'a [u8]> {
    let ends = |folder: &'a [u8]| {
        folder.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(move |(at, _)| &folder[..=at])
    };
    folders.flat_map(ends).collect()
}

fn look_in(root: &Path, prefix: &[u8], names: &[&[u8]], survey: &mut Survey) -> Result<(), Errno> {
    let mut fd = open_dir(CWD, root)?;
    for part in prefix.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        fd = open_dir(fd.as_fd(), part)?;
    }
    for name in names {
        let stat = statat(&fd, *name, AtFlags::SYMLINK_NOFOLLOW)?;
        let path = [prefix, name].concat();
        match mode_of(&stat) {
            Some(mode) => survey.changed.push(found(fd.as_fd(), *name, path, mode, &stat, true)?),
            None => survey.odd.push((path, Odd::Special)),
        }
    }
    if !prefix.is_empty() {
        odd_names(&fd, prefix, survey)?;
    }
    Ok(())
}

/// Pipes, sockets, devices and nested repositories are not listed by git; they are found here.
fn odd_names(fd: &OwnedFd, prefix: &[u8], survey: &mut Survey) -> Result<(), Errno> {
    let mut dir = Dir::read_from(fd)?;
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let odd = match entry.file_type() {
            _ if name == b".git" => Odd::NestedRepository,
            FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice => Odd::Special,
            _ => continue,
        };
        survey.odd.push(([prefix, name].concat(), odd));
    }
    Ok(())
}

fn found(
    parent: BorrowedFd<'_>,
    name: impl rustix::path::Arg + Copy,
    path: Vec<u8>,
    mode: u32,
    stat: &Stat,
    is_new: bool,
) -> Result<Found, Errno> {
    let target = if mode == SYMLINK { Some(readlinkat(parent, name, Vec::new())?.into_bytes()) } else { None };
    Ok(Found { path, mode, size: u64::try_from(stat.st_size).unwrap_or(0), target, is_new })
}

fn open_dir(parent: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    openat(parent, name, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY, Mode::empty())
}

fn is_empty(parent: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
    let fd = open_dir(parent, name)?;
    let names = Dir::read_from(&fd)?.filter_map(Result::ok);
    Ok(names.filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b"..")).count() == 0)
}
