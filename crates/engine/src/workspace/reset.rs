//! Takes what is still good out of a checkout that a maker had: files that are as recorded before and as the new base has
//! them are moved into a new folder. Nothing is mended in place. What is not moved, and every folder in which anything
//! changed, stays behind and is thrown away, so no permission, attribute, link or odd name needs a rule of its own.
//!
//! Looks never follow a symlink and read no content; that what was moved has the right content is git's to find out
//! afterwards. Only folders that the new base has are entered.

use std::ffi::CStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, Stat, mkdirat, renameat, statat};
use rustix::io::Errno;

use super::index::{self, Entry, mode_of};
use super::manifest::Manifest;
use super::survey::open_dir;

/// Names beyond twice those of the base that are looked at; with more, a new checkout is cheaper.
const EXTRA_MAX: usize = 10_000;

/// One step from the old folder to the new one; a folder's own step comes before those in it.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// A folder that is made anew.
    Make(Vec<u8>),
    /// A file, or a folder with everything in it, that is moved over.
    Move(Vec<u8>),
}

/// Moves what can be kept from the folder `old` into the empty folder `new`. Answers with the number of files, or with
/// nothing when a new checkout is the better way; then nothing was moved.
pub(super) fn move_kept(
    old: &Path,
    new: &Path,
    manifest: &Manifest,
    wanted: &[Entry],
    oid_len: usize,
) -> Result<Option<usize>, Errno> {
    if !has_the_same_attributes(manifest, wanted, oid_len) {
        return Ok(None);
    }
    let (old, new) = (open_dir(CWD, old)?, open_dir(CWD, new)?);
    let names_max = wanted.len().saturating_mul(2).saturating_add(EXTRA_MAX);
    let mut look = Look { manifest, wanted, oid_len, names_left: names_max, steps: Vec::new(), others: Vec::new() };
    let kept = look.folder(&old, b"", wanted)?.kept;
    if kept == 0 || kept < wanted.len() / 2 {
        return Ok(None);
    }
    look.steps.iter().try_for_each(|step| step.take(&old, &new))?;
    Ok(Some(kept))
}

/// Moves everything out of the folder `dir` that a maker added or changed, `.git` first, into the empty folder `out`. A
/// checkout waits for its next round without words of the last one.
pub(super) fn move_others(
    dir: &Path,
    out: &Path,
    manifest: &Manifest,
    wanted: &[Entry],
    oid_len: usize,
) -> Result<(), Errno> {
    let (dir, out) = (open_dir(CWD, dir)?, open_dir(CWD, out)?);
    let names_left = wanted.len().saturating_mul(2).saturating_add(EXTRA_MAX);
    let mut look = Look { manifest, wanted, oid_len, names_left, steps: Vec::new(), others: vec![b".git".to_vec()] };
    look.folder(&dir, b"", wanted)?;
    for (number, path) in look.others.iter().enumerate() {
        let (parent, name) = split(path);
        match renameat(open_below(&dir, parent)?, name, &out, number.to_string()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Attributes decide how content is written, so with others the same object makes another file.
fn has_the_same_attributes(manifest: &Manifest, wanted: &[Entry], oid_len: usize) -> bool {
    let is_rules = |path: &[u8]| path.split(|byte| *byte == b'/').next_back() == Some(b".gitattributes");
    let then = manifest.files().filter(|(path, _)| is_rules(path)).count();
    let mut now = wanted.iter().filter(|entry| is_rules(&entry.path));
    now.clone().count() == then && now.all(|entry| manifest.object(&entry.path) == Some(&entry.oid(oid_len)))
}

struct Look<'a> {
    manifest: &'a Manifest,
    wanted: &'a [Entry],
    oid_len: usize,
    names_left: usize,
    steps: Vec<Step>,
    /// What stays behind, each with everything in it.
    others: Vec<Vec<u8>>,
}

/// What a look at something found.
#[derive(Clone, Copy)]
struct Found {
    /// Files that are kept.
    kept: usize,
    /// Whether nothing in it stays behind.
    is_all: bool,
}

const NOTHING: Found = Found { kept: 0, is_all: false };

impl Look<'_> {
    /// Plans the steps for everything in a folder; `below` are the entries in it. Too many names are an error.
    fn folder(&mut self, fd: &OwnedFd, path: &[u8], below: &[Entry]) -> Result<Found, Errno> {
        let mut found = Found { kept: 0, is_all: true };
        let mut dir = Dir::read_from(fd)?;
        while let Some(entry) = dir.read() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") || (path.is_empty() && name.to_bytes() == b".git") {
                continue;
            }
            self.names_left = self.names_left.checked_sub(1).ok_or(Errno::TOOBIG)?;
            let inside =
                if path.is_empty() { name.to_bytes().to_vec() } else { [path, b"/", name.to_bytes()].concat() };
            let one = self.name(fd.as_fd(), name, &inside, below)?;
            found = Found { kept: found.kept + one.kept, is_all: found.is_all && one.is_all };
        }
        Ok(found)
    }

    fn name(&mut self, parent: BorrowedFd<'_>, name: &CStr, path: &[u8], around: &[Entry]) -> Result<Found, Errno> {
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            if !self.is_kept(path, &stat) {
                return Ok(self.other(path));
            }
            self.steps.push(Step::Move(path.to_vec()));
            return Ok(Found { kept: 1, is_all: true });
        }
        let below = &around[index::below(around, path)];
        if below.is_empty() {
            return Ok(self.other(path));
        }
        match open_dir(parent, name) {
            Ok(fd) => self.known_folder(&fd, path, below, &stat),
            // Permissions were taken away; what is in it is written anew.
            Err(Errno::ACCESS) => Ok(self.other(path)),
            Err(errno) => Err(errno),
        }
    }

    fn other(&mut self, path: &[u8]) -> Found {
        self.others.push(path.to_vec());
        NOTHING
    }

    /// A folder in which nothing changed is moved whole; of another one, what is kept.
    fn known_folder(&mut self, fd: &OwnedFd, path: &[u8], below: &[Entry], stat: &Stat) -> Result<Found, Errno> {
        let own = self.steps.len();
        self.steps.push(Step::Make(path.to_vec()));
        let found = self.folder(fd, path, below)?;
        let is_whole = found.is_all && found.kept == below.len() && self.manifest.is_untouched(path, stat);
        if is_whole || found.kept == 0 {
            self.steps.truncate(own);
        }
        if is_whole {
            self.steps.push(Step::Move(path.to_vec()));
        }
        Ok(Found { is_all: is_whole, ..found })
    }

    fn is_kept(&self, path: &[u8], stat: &Stat) -> bool {
        let Some(at) = index::find(self.wanted, path) else { return false };
        let wanted = &self.wanted[at];
        mode_of(stat) == Some(wanted.mode)
            && self.manifest.object(path) == Some(&wanted.oid(self.oid_len))
            && self.manifest.is_untouched(path, stat)
    }
}

impl Step {
    fn take(&self, old: &OwnedFd, new: &OwnedFd) -> Result<(), Errno> {
        let (Self::Make(path) | Self::Move(path)) = self;
        let (parent, name) = split(path);
        let to = open_below(new, parent)?;
        match self {
            // The permissions that git gives, less the process's own mask.
            Self::Make(_) => mkdirat(&to, name, Mode::RWXU | Mode::RWXG | Mode::RWXO),
            Self::Move(_) => renameat(open_below(old, parent)?, name, &to, name),
        }
    }
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// Opens a folder by its parts, none of which may be a symlink.
fn open_below(root: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let mut fd = open_dir(root.as_fd(), b".".as_slice())?;
    for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        fd = open_dir(fd.as_fd(), part)?;
    }
    Ok(fd)
}
