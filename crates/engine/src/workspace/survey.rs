//! Surveys a maker's files without trusting any of them: which tracked ones changed, which are deleted, which new ones
//! are to be sealed. It opens folders one by one without following symlinks, and reads only file status, symlink
//! targets and the mark of a replaced folder.
//!
//! The same code walks a whole checkout and the upper layer of an overlay. In the first, a missing path is deleted; in
//! the second, it is as in the base, unless a mark hides it ([`SurveyScope`]).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::CStr;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fgetxattr, openat, readlinkat, statat};
use rustix::io::Errno;

use super::WorkspaceError;
use super::catalogue::PathCatalogue;
use super::index::{self, GITLINK, IndexEntry, SYMLINK, mode_of};

/// The file in the root that becomes a staged pull request and never a part of the tree.
pub(super) const PR_BODY: &[u8] = b"PR_BODY.md";

/// A file that is to be sealed as it is.
#[derive(Debug)]
pub(super) struct SurveyedFile {
    pub(super) path: Vec<u8>,
    pub(super) mode: u32,
    pub(super) size: u64,
    /// The target of a symlink.
    pub(super) target: Option<Vec<u8>>,
    pub(super) is_new: bool,
}

/// The kinds of entries that cannot be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UnsealableKind {
    Special,
    ManyNames,
    NestedRepository,
    Submodule,
    LargeFile,
    Unreadable,
}

/// The result of a survey.
#[derive(Debug, Default)]
pub(super) struct CheckoutSurvey {
    pub(super) changed: Vec<SurveyedFile>,
    pub(super) deleted: Vec<Vec<u8>>,
    pub(super) odd: Vec<(Vec<u8>, UnsealableKind)>,
    /// There is an entry that the base does not have; git decides whether it is ignored.
    pub(super) has_untracked: bool,
    /// Files that would block git; if there are any, git must not be started on this checkout.
    pub(super) barred: Vec<(Vec<u8>, UnsealableKind)>,
}

/// The part of a checkout that a folder shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SurveyScope {
    /// All of it.
    Whole,
    /// Only the changes: the upper layer of an overlay, with its marks for deleted paths.
    Upper,
}

/// The mark of an upper layer's folder that hides the one below.
pub(super) const OPAQUE: &str = "user.overlay.opaque";

/// Compares a checkout with the base's paths and, for a whole checkout, with the stats of its files.
pub(super) fn tracked(
    root: &Path,
    catalogue: &PathCatalogue,
    stats: &[IndexEntry],
    view: SurveyScope,
) -> Result<CheckoutSurvey, WorkspaceError> {
    let fd = open_dir(CWD, root).map_err(|errno| super::io("open", root)(errno.into()))?;
    let everything = (view == SurveyScope::Whole).then_some(0..catalogue.entries().len());
    let hidden = everything.into_iter().collect();
    let mut walk = Walk { catalogue, stats, view, seen: HashSet::new(), hidden, survey: CheckoutSurvey::default() };
    walk.folder(fd, &[]).map_err(super::io("walk", root))?;
    walk.list_gone();
    Ok(walk.survey)
}

struct Walk<'a> {
    catalogue: &'a PathCatalogue,
    stats: &'a [IndexEntry],
    view: SurveyScope,
    /// Paths of the base that exist, in any version.
    seen: HashSet<usize>,
    /// Paths of the base that are deleted, unless they are in `seen`.
    hidden: Vec<Range<usize>>,
    survey: CheckoutSurvey,
}

impl Walk<'_> {
    /// Lists the paths that are hidden and were not seen as deleted.
    fn list_gone(&mut self) {
        self.hidden.sort_unstable_by_key(|range| range.start);
        let mut next = 0;
        for range in std::mem::take(&mut self.hidden) {
            let fresh = next.max(range.start)..range.end;
            next = next.max(range.end);
            for at in fresh.filter(|at| !self.seen.contains(at)) {
                let entry = &self.catalogue.entries()[at];
                match entry.mode {
                    GITLINK => self.survey.odd.push((entry.path.clone(), UnsealableKind::Submodule)),
                    _ => self.survey.deleted.push(entry.path.clone()),
                }
            }
        }
    }

    /// Only folders that the base has are entered, so the depth is limited by the base's.
    fn folder(&mut self, fd: OwnedFd, prefix: &[u8]) -> io::Result<()> {
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

    fn name(&mut self, parent: BorrowedFd<'_>, prefix: &[u8], name: &CStr) -> io::Result<()> {
        let path = [prefix, name.to_bytes()].concat();
        if path == b".git" {
            return Ok(());
        }
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let known = self.catalogue.find(&path);
        if self.view == SurveyScope::Upper && is_whiteout(&stat) {
            self.hide(known, &path);
        } else if path == PR_BODY {
            self.seen.extend(known);
        } else if name.to_bytes() == b".git" {
            self.survey.odd.push((path, UnsealableKind::NestedRepository));
        } else {
            return match known {
                Some(at) => self.known(parent, name, path, at, &stat),
                None => self.unknown(parent, name, path, &stat),
            };
        }
        Ok(())
    }

    /// The entry that is there now hides an entry of the base and everything below its path.
    fn hide(&mut self, known: Option<usize>, path: &[u8]) {
        self.hidden.extend(known.map(|at| at..at + 1));
        self.hidden.push(self.catalogue.below(path));
    }

    fn known(&mut self, parent: BorrowedFd<'_>, name: &CStr, path: Vec<u8>, at: usize, stat: &Stat) -> io::Result<()> {
        let base_mode = self.catalogue.entries()[at].mode;
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if base_mode == GITLINK {
            self.seen.insert(at);
            if !is_dir || !is_empty(parent, name, self.view)? {
                self.survey.odd.push((path, UnsealableKind::Submodule));
            }
        } else if is_dir {
            // The file is deleted; the folder's content is new.
            self.hidden.push(at..at + 1);
            self.survey.has_untracked = true;
        } else if let Some(mode) = mode_of(stat) {
            self.seen.insert(at);
            // A file in an upper layer was touched, or it would not be there; there are no stats for it.
            let entry = self.stats.get(at).filter(|entry| entry.path == path);
            // The checkout of a workspace with withheld tests has fewer files than base.
            let entry = entry.or_else(|| index::find(self.stats, &path).map(|at| &self.stats[at]));
            if has_many_names(stat, self.view) {
                self.survey.odd.push((path, UnsealableKind::ManyNames));
            } else if !entry.is_some_and(|entry| entry.is_untouched(stat)) {
                self.survey.changed.push(found(parent, name, path, mode, stat, false)?);
            }
        } else {
            self.seen.insert(at);
            self.survey.odd.push((path, UnsealableKind::Special));
        }
        Ok(())
    }

    fn unknown(&mut self, parent: BorrowedFd<'_>, name: &CStr, path: Vec<u8>, stat: &Stat) -> io::Result<()> {
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let below = self.catalogue.below(&path);
        if is_dir && !below.is_empty() {
            return self.known_folder(parent, name, path, below);
        }
        self.hidden.push(below);
        if is_dir || mode_of(stat).is_some() {
            self.survey.has_untracked = true;
        } else {
            self.survey.odd.push((path, UnsealableKind::Special));
        }
        Ok(())
    }

    fn known_folder(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CStr,
        path: Vec<u8>,
        below: Range<usize>,
    ) -> io::Result<()> {
        match open_dir(parent, name) {
            Ok(fd) => {
                if self.view == SurveyScope::Upper && is_opaque(&fd)? {
                    self.hidden.push(below);
                }
                self.folder(fd, &[path.as_slice(), b"/"].concat())
            }
            Err(Errno::ACCESS) => {
                self.survey.odd.push((path, UnsealableKind::Unreadable));
                Ok(())
            }
            Err(other) => Err(other.into()),
        }
    }
}

/// Whether a file has another name, which may be any file of the machine: the checkout itself is a private copy of every
/// file, and only an upper layer lies where a maker reaches no other files.
fn has_many_names(stat: &Stat, view: SurveyScope) -> bool {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    view == SurveyScope::Whole && is_file && stat.st_nlink > 1
}

/// Overlayfs marks deletions with a character device 0/0, and does not allow a program to create one itself.
pub(super) fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

fn is_opaque(folder: &OwnedFd) -> Result<bool, Errno> {
    let mut value = [0_u8; 8];
    match fgetxattr(folder, OPAQUE, &mut value) {
        Ok(len) => Ok(value[..len] == *b"y"),
        // There is no mark, or a longer value, which is not a mark.
        Err(Errno::NODATA | Errno::RANGE | Errno::OPNOTSUPP) => Ok(false),
        Err(other) => Err(other),
    }
}

/// Surveys the new files that git listed (a trailing slash marks a nested repository).
pub(super) fn untracked(root: &Path, listed: &[Vec<u8>], view: SurveyScope) -> Result<CheckoutSurvey, WorkspaceError> {
    let mut survey = CheckoutSurvey::default();
    let mut folders: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    for path in listed {
        match path.strip_suffix(b"/") {
            Some(nested) => survey.odd.push((nested.to_vec(), UnsealableKind::NestedRepository)),
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
        look_in(root, prefix, &names, view, &mut survey).map_err(|errno| super::io("read", root)(errno.into()))?;
    }
    Ok(survey)
}

/// All folders above the given ones (other code walks the root).
fn ancestors<'a>(folders: impl Iterator<Item = &'a [u8]>) -> BTreeSet<&'a [u8]> {
    let ends = |folder: &'a [u8]| {
        folder.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(move |(at, _)| &folder[..=at])
    };
    folders.flat_map(ends).collect()
}

fn look_in(
    root: &Path,
    prefix: &[u8],
    names: &[&[u8]],
    view: SurveyScope,
    survey: &mut CheckoutSurvey,
) -> Result<(), Errno> {
    let mut fd = open_dir(CWD, root)?;
    for part in prefix.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        fd = open_dir(fd.as_fd(), part)?;
    }
    for name in names {
        let stat = statat(&fd, *name, AtFlags::SYMLINK_NOFOLLOW)?;
        let path = [prefix, name].concat();
        match mode_of(&stat) {
            Some(_) if has_many_names(&stat, view) => survey.odd.push((path, UnsealableKind::ManyNames)),
            Some(mode) => survey.changed.push(found(fd.as_fd(), *name, path, mode, &stat, true)?),
            None => survey.odd.push((path, UnsealableKind::Special)),
        }
    }
    if !prefix.is_empty() {
        odd_names(&fd, prefix, view, survey)?;
    }
    Ok(())
}

/// Finds pipes, sockets, devices and nested repositories, which git does not list.
fn odd_names(fd: &OwnedFd, prefix: &[u8], view: SurveyScope, survey: &mut CheckoutSurvey) -> Result<(), Errno> {
    let mut dir = Dir::read_from(fd)?;
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let odd = match entry.file_type() {
            FileType::CharacterDevice if view == SurveyScope::Upper && is_deleted(fd, entry.file_name())? => continue,
            _ if name == b".git" => UnsealableKind::NestedRepository,
            FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice => {
                UnsealableKind::Special
            }
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
) -> Result<SurveyedFile, Errno> {
    let target = if mode == SYMLINK { Some(readlinkat(parent, name, Vec::new())?.into_bytes()) } else { None };
    Ok(SurveyedFile { path, mode, size: u64::try_from(stat.st_size).unwrap_or(0), target, is_new })
}

pub(super) fn open_dir(parent: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    openat(parent, name, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY, Mode::empty())
}

fn is_deleted(parent: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
    Ok(is_whiteout(&statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

fn is_empty(parent: BorrowedFd<'_>, name: &CStr, view: SurveyScope) -> Result<bool, Errno> {
    let fd = open_dir(parent, name)?;
    let mut dir = Dir::read_from(&fd)?;
    while let Some(entry) = dir.read() {
        let entry = entry?;
        let is_there = !matches!(entry.file_name().to_bytes(), b"." | b"..");
        if is_there && !(view == SurveyScope::Upper && is_deleted(&fd, entry.file_name())?) {
            return Ok(false);
        }
    }
    Ok(true)
}
