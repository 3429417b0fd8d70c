//! What is known of the loop files of one repository, kept in the state directory: for each file that was good a note, from
//! which a start knows the loop without reading its file, and its text, for the time when the file is good no longer.
//!
//! It is a help and never an authority: a note counts for a file that is still what it was, and only for the program that
//! wrote it. What is torn, damaged or from elsewhere is left behind, and the files are read again. What a note says is the
//! catalogue's.

use rustix::fs::{Mode, OFlags};
use std::fs::{DirBuilder, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// From this size on, what is no longer needed is left behind.
const BYTES_MAX: u64 = 64 << 20;

/// So much is gathered before it is written, and read at a time.
const GATHER: usize = 256 << 10;

/// The largest note; a loop file is smaller than this, and a note is smaller than its file in all but odd cases.
const NOTE_MAX: u32 = 1 << 20;

/// What a shelf begins with; the number is that of the form of records.
const MAGIC: &[u8; 16] = b"loops shelf  1\n\0";
const HEAD: u64 = 24;

/// What is before a record's note: two lengths and two sums.
const RECORD_HEAD: usize = 24;

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    at: u64,
    note: u32,
    text: u32,
}

/// A note and a text as they lie on the shelf.
#[derive(Debug)]
pub(super) struct Record {
    bytes: Vec<u8>,
    note: u32,
    text: u32,
}

impl Record {
    /// Puts them together.
    pub(super) fn of(note: &[u8], text: &[u8]) -> io::Result<Self> {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::FileTooLarge);
        let bytes = Vec::with_capacity(RECORD_HEAD + note.len() + text.len());
        let mut record = Self { bytes, note: length(note)?, text: length(text)? };
        record.bytes.extend_from_slice(&record.note.to_le_bytes());
        record.bytes.extend_from_slice(&record.text.to_le_bytes());
        record.bytes.extend_from_slice(&sum(note).to_le_bytes());
        record.bytes.extend_from_slice(&sum(text).to_le_bytes());
        record.bytes.extend_from_slice(note);
        record.bytes.extend_from_slice(text);
        Ok(record)
    }
}

impl Place {
    /// Its bytes on the shelf.
    fn length(self) -> u64 {
        RECORD_HEAD as u64 + u64::from(self.note) + u64::from(self.text)
    }
}

/// Whether it is there for the next process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stays {
    Yes,
    No,
}

/// The notes and texts.
#[derive(Debug)]
pub(super) struct Shelf {
    file: File,
    path: PathBuf,
    stays: Stays,
    written: u64,
    pending: Vec<u8>,
}

impl Shelf {
    /// The one at a path, as far as it can be believed. Where another process has it, an empty one that goes with this process.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder(path))?;
        let file = at_path(path)?;
        if file.try_lock().is_err() {
            return Self::begun(nameless(folder(path))?, path, Stays::No);
        }
        let written = file.metadata()?.len();
        let mut head = [0; HEAD as usize];
        let is_ours = written >= HEAD && file.read_exact_at(&mut head, 0).is_ok() && head == own_head()?;
        match is_ours {
            true => Ok(Self { file, path: path.to_owned(), stays: Stays::Yes, written, pending: Vec::new() }),
            false => Self::begun(file, path, Stays::Yes),
        }
    }

    fn begun(file: File, path: &Path, stays: Stays) -> io::Result<Self> {
        file.set_len(0)?;
        file.write_all_at(&own_head()?, 0)?;
        Ok(Self { file, path: path.to_owned(), stays, written: HEAD, pending: Vec::new() })
    }

    /// Shows every note, oldest first. What comes after damage is left behind for good.
    pub(super) fn recall(&mut self, mut each: impl FnMut(&[u8], Place)) -> io::Result<()> {
        self.flush()?;
        let mut at = HEAD;
        let mut from = &self.file;
        from.seek(SeekFrom::Start(at))?;
        let mut reader = BufReader::with_capacity(GATHER, from);
        let (mut head, mut note) = ([0; RECORD_HEAD], Vec::new());
        while at + RECORD_HEAD as u64 <= self.written {
            reader.read_exact(&mut head)?;
            let place = Place { at, note: short(&head, 0), text: short(&head, 4) };
            if place.note > NOTE_MAX || at + place.length() > self.written {
                break;
            }
            note.resize(place.note as usize, 0);
            reader.read_exact(&mut note)?;
            if sum(&note) != long(&head, 8) {
                break;
            }
            reader.seek_relative(i64::from(place.text))?;
            each(&note, place);
            at += place.length();
        }
        self.written = at;
        self.file.set_len(at)
    }

    /// Puts a record there.
    pub(super) fn put(&mut self, record: &Record) -> io::Result<Place> {
        let before = self.pending.len();
        let place = Place { at: self.end(), note: record.note, text: record.text };
        self.pending.extend_from_slice(&record.bytes);
        if self.pending.len() >= GATHER {
            // What was put before stays where it is said to be, also when there is no room for more.
            self.flush().inspect_err(|_| self.pending.truncate(before))?;
        }
        Ok(place)
    }

    /// Takes a text from there.
    pub(super) fn text(&mut self, place: Place) -> io::Result<Vec<u8>> {
        self.record(place).map(|(_, text)| text)
    }

    fn record(&mut self, place: Place) -> io::Result<(Vec<u8>, Vec<u8>)> {
        self.flush()?;
        let mut head = [0; RECORD_HEAD];
        self.file.read_exact_at(&mut head, place.at)?;
        let mut note = vec![0; place.note as usize + place.text as usize];
        self.file.read_exact_at(&mut note, place.at + RECORD_HEAD as u64)?;
        let text = note.split_off(place.note as usize);
        match (sum(&note), sum(&text)) == (long(&head, 8), long(&head, 16)) {
            true => Ok((note, text)),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "it is damaged")),
        }
    }

    /// Writes what was gathered, and gives its memory back.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.pending, self.written)?;
        self.written += self.pending.len() as u64;
        self.pending = Vec::new();
        Ok(())
    }

    fn end(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Begins a new one with what is still needed, when this one is large and most of it is not.
    pub(super) fn renew(&mut self, mut needed: Vec<&mut Place>) -> io::Result<()> {
        let bytes: u64 = needed.iter().map(|place| place.length()).sum();
        if self.end() < BYTES_MAX.max(bytes.saturating_mul(2)) {
            return Ok(());
        }
        let mut new = self.successor()?;
        let mut moved = Vec::with_capacity(needed.len());
        for place in &needed {
            let (note, text) = self.record(**place)?;
            moved.push(new.put(&Record::of(&note, &text)?)?);
        }
        new.flush()?;
        if self.stays == Stays::Yes {
            std::fs::rename(beside(&self.path), &self.path)?;
        }
        needed.iter_mut().zip(moved).for_each(|(place, to)| **place = to);
        *self = new;
        Ok(())
    }

    /// An empty one that is to take this one's place.
    fn successor(&self) -> io::Result<Self> {
        let file = match self.stays {
            Stays::Yes => at_path(&beside(&self.path))?,
            Stays::No => nameless(folder(&self.path))?,
        };
        file.try_lock().map_err(io::Error::from)?;
        Self::begun(file, &self.path, self.stays)
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn beside(path: &Path) -> PathBuf {
    path.with_extension("new")
}

fn at_path(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// A file that nobody else finds.
fn nameless(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // Not every file system has files without a name.
        Err(_) => {
            let path = folder.join(format!(".loops-{}", std::process::id()));
            let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
    }
}

/// How a shelf of this very program begins: another build may read loop files otherwise.
fn own_head() -> io::Result<[u8; HEAD as usize]> {
    let program = std::fs::metadata("/proc/self/exe")?;
    let mut hasher = DefaultHasher::new();
    (program.dev(), program.ino(), program.len(), program.mtime(), program.mtime_nsec()).hash(&mut hasher);
    let mut head = [0; HEAD as usize];
    head[..MAGIC.len()].copy_from_slice(MAGIC);
    head[MAGIC.len()..].copy_from_slice(&hasher.finish().to_le_bytes());
    Ok(head)
}

/// Tells damage from what was written; against people there is the folder's mode.
fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn short(head: &[u8; RECORD_HEAD], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| head[at + byte]))
}

fn long(head: &[u8; RECORD_HEAD], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| head[at + byte]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(shelf: &mut Shelf, note: &[u8], text: &[u8]) -> io::Result<Place> {
        shelf.put(&Record::of(note, text)?)
    }

    fn recalled(shelf: &mut Shelf) -> Vec<(String, String)> {
        let mut all = Vec::new();
        shelf.recall(|note, place| all.push((String::from_utf8_lossy(note).into_owned(), place))).expect("it is read");
        let mut text = |place| String::from_utf8(shelf.text(place).expect("a text")).expect("as it was put");
        all.into_iter().map(|(note, place)| (note, text(place))).collect()
    }

    #[test]
    fn what_cannot_be_written_now_is_not_mixed_up_with_what_comes_later() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut shelf = Shelf::open(&folder.path().join("a")).expect("it can be opened");
        let good = std::mem::replace(&mut shelf.file, File::open("/dev/null").expect("it is there"));
        let first = put(&mut shelf, b"1", b"first").expect("it is gathered");
        assert!(put(&mut shelf, b"2", &vec![b'x'; GATHER]).is_err(), "nothing can be written");
        shelf.file = good;
        let second = put(&mut shelf, b"3", b"second").expect("there is room");
        assert_eq!(
            (shelf.text(first).expect("it is there"), shelf.text(second).expect("it is there")),
            (b"first".to_vec(), b"second".to_vec())
        );
    }

    #[test]
    fn notes_and_texts_come_back_in_the_next_process() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("shelf/a");
        let mut shelf = Shelf::open(&path).expect("it can be opened");
        let all: Vec<_> = (0..300_usize).map(|n| (format!("note {n}"), "x".repeat(n * 7))).collect();
        for (note, text) in &all {
            put(&mut shelf, note.as_bytes(), text.as_bytes()).expect("there is room");
        }
        shelf.flush().expect("it is written");
        drop(shelf);
        assert_eq!(recalled(&mut Shelf::open(&path).expect("it is there")), all);
    }

    #[test]
    fn what_is_damaged_or_torn_is_left_behind_and_the_rest_is_used() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a");
        let keep = |shelf: &mut Shelf, note: &str| {
            put(shelf, note.as_bytes(), b"text").expect("there is room");
            shelf.flush().expect("it is written");
        };
        let mut shelf = Shelf::open(&path).expect("it can be opened");
        ["one", "two", "three"].into_iter().for_each(|note| keep(&mut shelf, note));
        drop(shelf);
        let mut bytes = std::fs::read(&path).expect("it is there");
        bytes.truncate(bytes.len() - 2);
        let second = HEAD as usize + 2 * RECORD_HEAD + "onetext".len();
        bytes[second] ^= 1;
        std::fs::write(&path, &bytes).expect("it can be written");
        let mut shelf = Shelf::open(&path).expect("it is there");
        assert_eq!(recalled(&mut shelf), [("one".to_owned(), "text".to_owned())]);
        keep(&mut shelf, "four");
        assert_eq!(recalled(&mut shelf).len(), 2);
    }

    #[test]
    fn a_shelf_of_another_build_is_empty_and_one_that_is_held_stays_as_it_is() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a");
        let mut shelf = Shelf::open(&path).expect("it can be opened");
        put(&mut shelf, b"note", b"text").expect("there is room");
        shelf.flush().expect("it is written");
        assert_eq!(recalled(&mut Shelf::open(&path).expect("one of its own")), []);
        assert_eq!(recalled(&mut shelf).len(), 1);
        drop(shelf);
        let mut bytes = std::fs::read(&path).expect("it is there");
        bytes[MAGIC.len()] ^= 1;
        std::fs::write(&path, &bytes).expect("it can be written");
        assert_eq!(recalled(&mut Shelf::open(&path).expect("it is begun anew")), []);
    }
}
