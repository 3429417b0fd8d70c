//! What a base has, by path: a file that is made once for each base and then looked into by halves, so that whoever asks for
//! a few paths reads a few pages of it, however many files the base has. The names that a file system without upper and
//! lower case takes for the same are found in it too.
//!
//! Only the engine writes it, outside every agent's reach; still no length in it is trusted. All numbers are big-endian:
//!
//! ```text
//! head        mark, number of paths, number of spellings, length of the file
//! offsets     where each record starts, by path, and where the last one ends
//! spellings   hash of the folded spelling, number of a path, bytes of that path; by hash
//! records     mode and path
//! ```

mod pages;

use std::fs;
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::WorkspaceError;
use super::folder::half_name;
use super::index::Entry;
use super::names::folded;
use pages::{Pages, broken};

const MARK: &[u8; 8] = b"LWPATHS1";
const HEAD_LEN: usize = 32;
const OFFSET_LEN: usize = 8;
const SPELLING_LEN: usize = 16;
const MODE_LEN: usize = 4;

/// The paths of one base.
#[derive(Debug)]
pub(super) struct Catalogue {
    file: PathBuf,
    pages: Pages,
    paths: usize,
    spellings: usize,
}

/// Writes the catalogue of entries that are sorted by path. It is there whole or not at all, after a power loss too: what
/// it does not list would be taken for new.
pub(super) fn write(path: &Path, entries: &[Entry]) -> io::Result<()> {
    let half = half_name(path);
    let mut file = fs::File::create(&half)?;
    file.write_all(&bytes_of(entries)?)?;
    file.sync_all()?;
    fs::rename(&half, path)
}

impl Catalogue {
    /// Opens a catalogue for a few questions.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::of(path, Pages::open(path)?)
    }

    /// Opens one for questions about everything.
    pub(super) fn load(path: &Path) -> io::Result<Self> {
        Self::of(path, Pages::load(path)?)
    }

    fn of(file: &Path, pages: Pages) -> io::Result<Self> {
        let head = pages.read(0, HEAD_LEN)?;
        let number = |at: usize| be64(&head[at..at + 8]);
        let (paths, spellings, len) = (number(8)?, number(16)?, number(24)?);
        if head[..8] != *MARK || len != pages.len() {
            return Err(broken());
        }
        drop(head);
        Ok(Self { file: file.to_owned(), pages, paths, spellings })
    }

    /// An error of a question, with the file that was asked.
    pub(super) fn failed(&self, source: io::Error) -> WorkspaceError {
        super::io("look into", &self.file)(source)
    }

    /// How many paths there are.
    pub(super) fn len(&self) -> usize {
        self.paths
    }

    /// The mode and the path of a number.
    pub(super) fn record(&self, at: usize) -> io::Result<(u32, Vec<u8>)> {
        if at >= self.paths {
            return Err(broken());
        }
        let ends = self.pages.read(HEAD_LEN + at * OFFSET_LEN, 2 * OFFSET_LEN)?;
        let (start, end) = (be64(&ends[..8])?, be64(&ends[8..])?);
        let len = end.checked_sub(start).filter(|len| *len >= MODE_LEN).ok_or_else(broken)?;
        let bytes = self.pages.read(start, len)?;
        let (mode, path) = bytes.split_at(MODE_LEN);
        Ok((u32::from_be_bytes(mode.try_into().map_err(|_| broken())?), path.to_vec()))
    }

    /// The number of a path.
    pub(super) fn find(&self, path: &[u8]) -> io::Result<Option<usize>> {
        let at = self.first_from(path)?;
        Ok((at < self.paths && self.record(at)?.1 == path).then_some(at))
    }

    /// Whether there is such a path.
    pub(super) fn has(&self, path: &[u8]) -> io::Result<bool> {
        Ok(self.find(path)?.is_some())
    }

    /// The numbers of the paths in a folder and its folders.
    pub(super) fn below(&self, folder: &[u8]) -> io::Result<Range<usize>> {
        let start = self.first_from(&[folder, b"/"].concat())?;
        Ok(start..self.first_from(&[folder, AFTER_SLASH].concat())?)
    }

    /// Whether there is such a folder.
    pub(super) fn has_below(&self, folder: &[u8]) -> io::Result<bool> {
        Ok(!self.below(folder)?.is_empty())
    }

    /// Every spelling, of a path or of a folder, that folds to this.
    pub(super) fn spellings(&self, fold: &str) -> io::Result<Vec<Vec<u8>>> {
        let hash = hash(fold);
        let first = halves(self.spellings, |at| Ok(self.spelling(at)?.0 < hash))?;
        let mut found = Vec::new();
        for at in first..self.spellings {
            let (theirs, number, len) = self.spelling(at)?;
            if theirs != hash {
                break;
            }
            let (_, mut path) = self.record(number)?;
            path.truncate(len);
            if fold_of(&path) == fold {
                found.push(path);
            }
        }
        Ok(found)
    }

    fn spelling(&self, at: usize) -> io::Result<(u64, usize, usize)> {
        let start = HEAD_LEN + (self.paths + 1) * OFFSET_LEN + at * SPELLING_LEN;
        let bytes = self.pages.read(start, SPELLING_LEN)?;
        let hash = u64::from_be_bytes(bytes[..8].try_into().map_err(|_| broken())?);
        Ok((hash, be32(&bytes[8..12])?, be32(&bytes[12..])?))
    }

    fn first_from(&self, path: &[u8]) -> io::Result<usize> {
        halves(self.paths, |at| Ok(self.record(at)?.1.as_slice() < path))
    }
}

/// The byte after `/`: what sorts right behind everything in a folder.
pub(super) const AFTER_SLASH: &[u8] = b"0";

/// The form in which spellings are compared.
pub(super) fn fold_of(path: &[u8]) -> String {
    folded(&String::from_utf8_lossy(path))
}

/// A path's folders, the outermost first, and the path itself.
pub(super) fn with_folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let folders = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
    folders.chain(std::iter::once(path))
}

/// The first number for which something is no longer so.
fn halves(count: usize, is_before: impl Fn(usize) -> io::Result<bool>) -> io::Result<usize> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle)? { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}

fn bytes_of(entries: &[Entry]) -> io::Result<Vec<u8>> {
    let mut spellings = Vec::new();
    let mut before: &[u8] = b"";
    for (at, entry) in entries.iter().enumerate() {
        for part in with_folders(&entry.path) {
            // Paths of one folder follow each other, so a folder is told with its first.
            let is_told = before.get(part.len()) == Some(&b'/') && before.starts_with(part);
            if !is_told {
                spellings.push((hash(&fold_of(part)), short(at)?, short(part.len())?));
            }
        }
        before = &entry.path;
    }
    spellings.sort_unstable();
    let records_at = HEAD_LEN + (entries.len() + 1) * OFFSET_LEN + spellings.len() * SPELLING_LEN;
    let len = entries.iter().fold(records_at, |len, entry| len + MODE_LEN + entry.path.len());
    let mut bytes = Vec::with_capacity(len);
    bytes.extend(MARK);
    [entries.len(), spellings.len(), len].iter().for_each(|number| bytes.extend((*number as u64).to_be_bytes()));
    let mut start = records_at;
    for entry in entries {
        bytes.extend((start as u64).to_be_bytes());
        start += MODE_LEN + entry.path.len();
    }
    bytes.extend((start as u64).to_be_bytes());
    for (hash, number, len) in spellings {
        bytes.extend(hash.to_be_bytes());
        bytes.extend([number, len].into_iter().flat_map(u32::to_be_bytes));
    }
    for entry in entries {
        bytes.extend(entry.mode.to_be_bytes());
        bytes.extend(&entry.path);
    }
    Ok(bytes)
}

/// FNV-1a: the same in every run, which the standard library's hasher does not promise. Whatever collides is compared.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn short(number: usize) -> io::Result<u32> {
    u32::try_from(number).map_err(|_| broken())
}

fn be64(bytes: &[u8]) -> io::Result<usize> {
    let number = u64::from_be_bytes(bytes.try_into().map_err(|_| broken())?);
    // Numbers stay far from where sums would overflow.
    usize::try_from(number).ok().filter(|number| *number <= 1 << 48).ok_or_else(broken)
}

fn be32(bytes: &[u8]) -> io::Result<usize> {
    Ok(u32::from_be_bytes(bytes.try_into().map_err(|_| broken())?) as usize)
}

#[cfg(test)]
mod tests;
