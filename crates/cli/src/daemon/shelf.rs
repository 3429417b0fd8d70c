//! The last good text of every loop file, kept outside memory: a file without a name in the state directory. It goes with the
//! process, for what was good last week is nobody's wish today.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// From this size on what is no longer needed is left behind.
const BYTES_MAX: u64 = 64 << 20;

/// So much is gathered before it is written.
const GATHER: usize = 256 << 10;

/// Where a text lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    at: u64,
    length: u32,
}

/// The texts.
#[derive(Debug)]
pub(super) struct Shelf {
    file: File,
    written: u64,
    pending: Vec<u8>,
}

impl Shelf {
    /// An empty one.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => file.into(),
            // Not every file system has files without a name.
            Err(_) => unnamed(folder)?,
        };
        Ok(Self { file, written: 0, pending: Vec::new() })
    }

    /// Puts a text there.
    pub(super) fn put(&mut self, text: &[u8]) -> io::Result<Place> {
        let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let before = self.pending.len();
        let place = Place { at: self.written + before as u64, length };
        self.pending.extend_from_slice(text);
        if self.pending.len() >= GATHER {
            // What was put before stays where it is said to be, also when there is no room for more.
            self.flush().inspect_err(|_| self.pending.truncate(before))?;
        }
        Ok(place)
    }

    /// Takes a text from there.
    pub(super) fn get(&mut self, place: Place) -> io::Result<Vec<u8>> {
        self.flush()?;
        let mut text = vec![0; place.length as usize];
        self.file.read_exact_at(&mut text, place.at)?;
        Ok(text)
    }

    /// Writes what was gathered, and gives its memory back.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.pending, self.written)?;
        self.written += self.pending.len() as u64;
        self.pending = Vec::new();
        Ok(())
    }

    /// Whether much of it may be no longer needed.
    pub(super) fn is_full(&self) -> bool {
        self.written > BYTES_MAX
    }
}

fn unnamed(folder: &Path) -> io::Result<File> {
    let path = folder.join(format!(".loops-{}", std::process::id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_cannot_be_written_now_are_not_mixed_up_with_later_ones() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut shelf = Shelf::open(folder.path()).expect("it can be opened");
        let good = std::mem::replace(&mut shelf.file, File::open("/dev/null").expect("it is there"));
        let first = shelf.put(b"first").expect("it is gathered");
        assert!(shelf.put(&vec![b'x'; GATHER]).is_err(), "nothing can be written");
        shelf.file = good;
        let second = shelf.put(b"second").expect("there is room");
        assert_eq!(
            (shelf.get(first).expect("it is there"), shelf.get(second).expect("it is there")),
            (b"first".to_vec(), b"second".to_vec())
        );
    }

    #[test]
    fn texts_come_back_as_they_were_put_and_leave_no_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut shelf = Shelf::open(folder.path()).expect("it can be opened");
        let texts: Vec<Vec<u8>> = (0..300_u32).map(|number| vec![b'x'; number as usize * 7]).collect();
        let places: Vec<_> = texts.iter().map(|text| shelf.put(text).expect("there is room")).collect();
        for (text, place) in texts.iter().zip(places) {
            assert_eq!(&shelf.get(place).expect("it is there"), text);
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}
