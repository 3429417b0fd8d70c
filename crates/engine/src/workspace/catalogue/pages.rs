//! A file that is read by pages, each once and when it is asked for, or whole. What the bytes mean is not its business.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The size in which the kernel keeps files; of a larger one most would be read for nothing.
const PAGE: usize = 4 << 10;

/// The bytes of a file.
#[derive(Debug)]
pub(super) enum Pages {
    /// All of them.
    Whole(Vec<u8>),
    /// Those that were asked for.
    Asked { file: File, len: usize, pages: Mutex<HashMap<usize, Vec<u8>>> },
}

/// What is read here was written by the engine; when it is not as it was written, nothing can be said.
pub(super) fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the list of the base's paths is damaged")
}

impl Pages {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = usize::try_from(file.metadata()?.len()).map_err(|_| broken())?;
        Ok(Self::Asked { file, len, pages: Mutex::default() })
    }

    pub(super) fn load(path: &Path) -> io::Result<Self> {
        std::fs::read(path).map(Self::Whole)
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Asked { len, .. } => *len,
        }
    }

    /// Bytes from a place on; fewer are an error.
    pub(super) fn read(&self, start: usize, len: usize) -> io::Result<Cow<'_, [u8]>> {
        let end = start.checked_add(len).filter(|end| *end <= self.len()).ok_or_else(broken)?;
        match self {
            Self::Whole(bytes) => Ok(Cow::Borrowed(&bytes[start..end])),
            Self::Asked { file, pages, .. } => {
                let mut pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
                let mut bytes = Vec::with_capacity(len);
                while bytes.len() < len {
                    let at = start + bytes.len();
                    let page = match pages.entry(at / PAGE) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(free) => free.insert(read_page(file, at / PAGE)?),
                    };
                    let rest = page.get(at % PAGE..).filter(|rest| !rest.is_empty()).ok_or_else(broken)?;
                    bytes.extend(&rest[..rest.len().min(len - bytes.len())]);
                }
                Ok(Cow::Owned(bytes))
            }
        }
    }
}

/// A page; the last one is shorter.
fn read_page(file: &File, page: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; PAGE];
    let mut filled = 0;
    while filled < PAGE {
        match file.read_at(&mut bytes[filled..], (page * PAGE + filled) as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
