//! Reads git's index file, version 2: the paths of a checkout with the `lstat` values from its creation. It reads only
//! index files that the engine had git write outside every agent's reach, and it still trusts no length in them.

use std::path::Path;

use rustix::fs::Stat;

use super::{WorkspaceError, io};
use crate::git::Oid;

/// The fixed part of an entry before its object name.
const STAT_LEN: usize = 40;
/// Bytes of the longest object name.
const OID_MAX: usize = 32;
const HEADER_LEN: usize = 12;

/// Git's mode of a submodule entry.
pub(super) const GITLINK: u32 = 0o160000;
/// Git's mode of a symlink.
pub(super) const SYMLINK: u32 = 0o120000;
/// Git's mode of an executable file.
pub(super) const EXECUTABLE: u32 = 0o100755;
/// Git's mode of a plain file.
pub(super) const PLAIN: u32 = 0o100644;

/// One path of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexEntry {
    pub(super) path: Vec<u8>,
    pub(super) mode: u32,
    oid: [u8; OID_MAX],
    stat: Stamp,
}

/// The part of `lstat` that changes whenever a file's content or mode may have changed. A program cannot set the change
/// time, so equal values mean an unchanged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    ctime: (u32, u32),
    mtime: (u32, u32),
    ino: u32,
    size: u32,
}

impl IndexEntry {
    /// An entry without file stats.
    #[cfg(test)]
    pub(super) fn without_stats(path: Vec<u8>, mode: u32) -> Self {
        Self { path, mode, oid: [0; OID_MAX], stat: Stamp { ctime: (0, 0), mtime: (0, 0), ino: 0, size: 0 } }
    }

    /// The object that holds its content, in a repository whose object names have this many bytes.
    pub(super) fn oid(&self, oid_len: usize) -> Oid {
        Oid::from_raw(&self.oid[..oid_len.min(OID_MAX)])
    }

    /// True if the file is unchanged since the index was written.
    pub(super) fn is_untouched(&self, stat: &Stat) -> bool {
        self.stat == Stamp::from_metadata(stat) && Some(self.mode) == mode_of(stat)
    }
}

impl Stamp {
    /// Git stores the low 32 bits of each number, and so does this type.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the index format stores low halves")]
    fn from_metadata(stat: &Stat) -> Self {
        Self {
            ctime: (stat.st_ctime as u32, stat.st_ctime_nsec as u32),
            mtime: (stat.st_mtime as u32, stat.st_mtime_nsec as u32),
            ino: stat.st_ino as u32,
            size: stat.st_size as u32,
        }
    }
}

/// The mode git would record; `None` for kinds that git does not record (folders, pipes, devices).
pub(super) fn mode_of(stat: &Stat) -> Option<u32> {
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::RegularFile if stat.st_mode & 0o100 != 0 => Some(EXECUTABLE),
        rustix::fs::FileType::RegularFile => Some(PLAIN),
        rustix::fs::FileType::Symlink => Some(SYMLINK),
        _ => None,
    }
}

/// Reads an index file; the entries are sorted by path.
pub(super) fn read(path: &Path, oid_len: usize) -> Result<Vec<IndexEntry>, WorkspaceError> {
    let bytes = std::fs::read(path).map_err(io("read", path))?;
    parse(&bytes, oid_len).map_err(|why| WorkspaceError::BadIndex { path: path.to_owned(), why })
}

/// The entries below a path, as a range.
pub(super) fn below(entries: &[IndexEntry], path: &[u8]) -> std::ops::Range<usize> {
    let inside = [path, b"/"].concat();
    let start = entries.partition_point(|entry| entry.path.as_slice() < inside.as_slice());
    let len = entries[start..].partition_point(|entry| entry.path.starts_with(&inside));
    start..start + len
}

/// The position of a path among the entries.
pub(super) fn find(entries: &[IndexEntry], path: &[u8]) -> Option<usize> {
    entries.binary_search_by(|entry| entry.path.as_slice().cmp(path)).ok()
}

fn parse(bytes: &[u8], oid_len: usize) -> Result<Vec<IndexEntry>, &'static str> {
    if bytes.get(..8) != Some(b"DIRC\0\0\0\x02") {
        return Err("not a version 2 index");
    }
    let count = be32(bytes, 8)? as usize;
    let mut at = HEADER_LEN;
    let mut entries = Vec::with_capacity(count.min(bytes.len() / STAT_LEN));
    for _ in 0..count {
        let (entry, len) = parse_entry(bytes.get(at..).ok_or("cut short")?, oid_len)?;
        entries.push(entry);
        at += len;
    }
    Ok(entries)
}

/// One entry and its padded length.
fn parse_entry(bytes: &[u8], oid_len: usize) -> Result<(IndexEntry, usize), &'static str> {
    let n = |index: usize| be32(bytes, index * 4);
    let stat = Stamp { ctime: (n(0)?, n(1)?), mtime: (n(2)?, n(3)?), ino: n(5)?, size: n(9)? };
    let flags_at = STAT_LEN + oid_len;
    let name_at = flags_at + 2;
    let mut oid = [0; OID_MAX];
    let raw = bytes.get(STAT_LEN..flags_at).ok_or("cut short")?;
    oid.get_mut(..oid_len).ok_or("an object name that is too long")?.copy_from_slice(raw);
    let rest = bytes.get(name_at..).ok_or("cut short")?;
    let name_len = rest.iter().position(|byte| *byte == 0).ok_or("path without end")?;
    let entry = IndexEntry { path: rest[..name_len].to_vec(), mode: n(6)?, oid, stat };
    // Entries are padded with one to eight NUL bytes to a multiple of eight.
    Ok((entry, (name_at + name_len + 8) & !7))
}

fn be32(bytes: &[u8], at: usize) -> Result<u32, &'static str> {
    let four = bytes.get(at..at + 4).ok_or("cut short")?;
    Ok(u32::from_be_bytes(four.try_into().map_err(|_| "cut short")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_and_foreign_index_files_are_errors() {
        let mut whole = b"DIRC\0\0\0\x02\0\0\0\x01".to_vec();
        whole.extend([0; 24]);
        whole.extend(PLAIN.to_be_bytes());
        whole.extend([0; 12]);
        whole.extend([0xab; 20]);
        whole.extend([0, 3]);
        whole.extend(b"a/b\0\0\0\0\0\0\0");
        let entries = parse(&whole, 20).expect("a whole index");
        assert_eq!((entries[0].path.as_slice(), entries[0].mode), (&b"a/b"[..], PLAIN));
        for cut in 0..whole.len() - 7 {
            assert!(parse(&whole[..cut], 20).is_err(), "{cut}");
        }
        assert!(parse(b"DIRC\0\0\0\x04\0\0\0\0", 20).is_err());
    }
}
