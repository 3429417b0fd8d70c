//! What a private copy looked like before its maker got it: one record a file and folder, kept outside the checkout. A later
//! reset keeps only what is still as recorded. It says nothing about what may be kept; [`super::reset`] does.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Stat, statat};

use super::index::{Entry, GITLINK, mode_of};
use super::survey::open_dir;
use super::{WorkspaceError, io};
use crate::git::Oid;

/// Numbers of one `lstat`.
const FIELDS: usize = 11;
/// In the place of a folder's object name.
const NO_OBJECT: &str = "-";

/// All of `lstat` that changes when a file, its name, its permissions or its attributes do. Nobody sets the change time but
/// the kernel, as long as nobody moves its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp([i128; FIELDS]);

impl Stamp {
    /// The narrow types differ from one architecture to the next; all of them fit.
    pub(super) fn of(stat: &Stat) -> Self {
        Self([
            stat.st_dev.into(),
            stat.st_ino.into(),
            stat.st_nlink.into(),
            stat.st_mode.into(),
            stat.st_uid.into(),
            stat.st_gid.into(),
            stat.st_size.into(),
            stat.st_mtime.into(),
            stat.st_mtime_nsec.into(),
            stat.st_ctime.into(),
            stat.st_ctime_nsec.into(),
        ])
    }

    /// When it was last changed, in seconds and nanoseconds.
    fn changed(&self) -> (i128, i128) {
        (self.0[9], self.0[10])
    }
}

/// One path as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    stamp: Stamp,
    /// The object a file was written from; a folder has none.
    object: Option<Oid>,
}

/// The records of one checkout.
#[derive(Debug)]
pub(super) struct Manifest {
    records: HashMap<Vec<u8>, Record>,
    /// From when on a maker may have been at work; see [`Manifest::read`].
    closed: (i128, i128),
}

impl Manifest {
    /// Reads a manifest. `closed` is a file that was written when the clock of the file system had moved on from the last
    /// record: whatever carries its time, or a later one, may have been changed without looking so.
    pub(super) fn read(path: &Path, closed: &Path) -> Result<Self, WorkspaceError> {
        let bytes = fs::read(path).map_err(io("read", path))?;
        let about =
            statat(CWD, closed, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| io("look at", closed)(errno.into()))?;
        let bad = || WorkspaceError::BadIndex { path: path.to_owned(), why: "not a manifest" };
        let records = parse(&bytes).ok_or_else(bad)?;
        Ok(Self { records, closed: (about.st_mtime.into(), about.st_mtime_nsec.into()) })
    }

    /// Whether a path looks as it did, and cannot have been changed in the instant in which it was recorded.
    pub(super) fn is_untouched(&self, path: &[u8], stat: &Stat) -> bool {
        self.records
            .get(path)
            .is_some_and(|record| record.stamp == Stamp::of(stat) && record.stamp.changed() < self.closed)
    }

    /// The object that the file at a path was written from.
    pub(super) fn object(&self, path: &[u8]) -> Option<&Oid> {
        self.records.get(path)?.object.as_ref()
    }

    /// All files, each with its object.
    pub(super) fn files(&self) -> impl Iterator<Item = (&[u8], &Oid)> {
        self.records.iter().filter_map(|(path, record)| Some((path.as_slice(), record.object.as_ref()?)))
    }

    /// Whether the clock still goes on from where the manifest was closed.
    pub(super) fn is_past(&self, stat: &Stat) -> bool {
        (i128::from(stat.st_mtime), i128::from(stat.st_mtime_nsec)) > self.closed
    }
}

/// Records a checkout that nobody but the engine has written to. Every entry must be there as git has it.
pub(super) fn write(dir: &Path, entries: &[Entry], oid_len: usize, path: &Path) -> Result<(), WorkspaceError> {
    let top = open_dir(CWD, dir).map_err(|errno| io("open", dir)(errno.into()))?;
    let look = |name: &[u8]| {
        statat(&top, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| io("look at", &dir.join(OsStr::from_bytes(name)))(errno.into()))
    };
    let mut bytes = Vec::new();
    let mut folder: &[u8] = b"";
    for entry in entries.iter().filter(|entry| entry.mode != GITLINK) {
        let parent = &entry.path[..entry.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)];
        // Entries are sorted, so a folder is new when it leads on from none that was seen last.
        for new in new_folders(folder, parent) {
            record(&mut bytes, &look(new)?, NO_OBJECT, new);
        }
        folder = parent;
        let stat = look(&entry.path)?;
        if mode_of(&stat) != Some(entry.mode) {
            return Err(WorkspaceError::Moving(String::from_utf8_lossy(&entry.path).into_owned()));
        }
        record(&mut bytes, &stat, entry.oid(oid_len).as_str(), &entry.path);
    }
    fs::write(path, bytes).map_err(io("write", path))
}

/// The folders on the way to `to` that are not on the way to `from`.
fn new_folders<'p>(from: &[u8], to: &'p [u8]) -> Vec<&'p [u8]> {
    let is_on_the_way =
        |folder: &[u8]| from == folder || from.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"/"));
    let ends = to.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([to.len()]);
    ends.map(|end| &to[..end]).filter(|folder| !folder.is_empty() && !is_on_the_way(folder)).collect()
}

/// `<number> … <object> <path> NUL`.
fn record(bytes: &mut Vec<u8>, stat: &Stat, object: &str, path: &[u8]) {
    for number in Stamp::of(stat).0 {
        bytes.extend(format!("{number} ").into_bytes());
    }
    bytes.extend([object.as_bytes(), b" ", path, b"\0"].concat());
}

fn parse(bytes: &[u8]) -> Option<HashMap<Vec<u8>, Record>> {
    let mut records = HashMap::new();
    // Every record ends with a NUL, so one that was cut short is noticed.
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0)?;
        let (path, record) = parse_record(&rest[..end])?;
        records.insert(path, record);
        rest = &rest[end + 1..];
    }
    Some(records)
}

fn parse_record(bytes: &[u8]) -> Option<(Vec<u8>, Record)> {
    let mut words = bytes.splitn(FIELDS + 2, |byte| *byte == b' ');
    let mut numbers = [0; FIELDS];
    for number in &mut numbers {
        *number = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    }
    let object = std::str::from_utf8(words.next()?).ok()?;
    let object = if object == NO_OBJECT { None } else { Some(object.parse().ok()?) };
    let path = words.next().filter(|path| !path.is_empty())?;
    Some((path.to_vec(), Record { stamp: Stamp(numbers), object }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_read_as_they_were_written_and_nothing_else_is() {
        let stat = statat(CWD, ".", AtFlags::empty()).expect("a folder");
        let object = "1234567890123456789012345678901234567890";
        let mut bytes = Vec::new();
        record(&mut bytes, &stat, object, b"a b/c\nd");
        record(&mut bytes, &stat, NO_OBJECT, b"a b");
        let records = parse(&bytes).expect("a manifest");
        assert_eq!(records[b"a b/c\nd".as_slice()].object.as_ref().map(Oid::as_str), Some(object));
        assert_eq!(records[b"a b".as_slice()], Record { stamp: Stamp::of(&stat), object: None });
        assert!(parse(&bytes[..bytes.len() - 1]).is_none());
        assert!(parse(b"1 2 - x\0").is_none() && parse(&[b"1 ".repeat(FIELDS), b"- \0".to_vec()].concat()).is_none());
    }

    #[test]
    fn folders_are_new_where_the_way_to_them_parts() {
        assert_eq!(new_folders(b"", b"a/b"), [&b"a"[..], b"a/b"]);
        assert_eq!(new_folders(b"a/b", b"a/c"), [&b"a/c"[..]]);
        assert_eq!(new_folders(b"a/b/c", b"a/b"), Vec::<&[u8]>::new());
        assert_eq!(new_folders(b"ab", b"a"), [&b"a"[..]]);
        assert_eq!(new_folders(b"a", b""), Vec::<&[u8]>::new());
    }
}
