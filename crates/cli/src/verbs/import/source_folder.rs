//! The folder of another tool, held open. Files are read by name, without following links: a link could lead to a file
//! that the user does not want in the repository.

use crate::context::FileProblem;
use crate::error::CommandError;
use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The most bytes read of a file; the readers' own limits are lower and make the message.
const BYTES_MAX: u64 = (4 << 20) + 1;
/// The most files of a folder.
const FILES_MAX: usize = 1000;

/// An open folder and the name that messages show.
#[derive(Debug)]
pub(super) struct SourceFolder {
    place: OwnedFd,
}

impl SourceFolder {
    /// Opens the folder that the user named; it may be a link itself.
    pub(super) fn open(path: &Path) -> Result<Self, CommandError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let place = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| {
            CommandError::invalid(format!("open the folder `{}`: {error}", path.display()))
                .hint("name the folder of the installation")
        })?;
        Ok(Self { place })
    }

    /// The bytes of a file below the folder; `None` if there is no such file.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, FileProblem> {
        let found = match name.split_once('/') {
            Some((folder, file)) => self.folder(folder).and_then(|place| plain_file(&place, file)),
            None => plain_file(&self.place, name),
        };
        let file = match found {
            Err(Errno::NOENT) => return Ok(None),
            found => found.map_err(|error| unreadable(name, error))?,
        };
        let mut bytes = Vec::new();
        match file.take(BYTES_MAX).read_to_end(&mut bytes) {
            Ok(_) => Ok(Some(bytes)),
            Err(error) => Err(FileProblem::for_file(name, format!("read it: {error}"))),
        }
    }

    /// The names of the files with one of these endings in a folder below this one, in order.
    pub(super) fn list(&self, folder: &str, endings: &[&str]) -> Result<Vec<String>, FileProblem> {
        let problem = |error| unreadable(folder, error);
        let place = match self.folder(folder) {
            Err(Errno::NOENT) => return Ok(Vec::new()),
            place => place.map_err(problem)?,
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&place).map_err(problem)? {
            let entry = entry.map_err(problem)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let ending = Path::new(&name).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if endings.contains(&ending) && !name.starts_with('.') {
                names.push(name);
            }
            if names.len() > FILES_MAX {
                return Err(FileProblem::for_file(folder, format!("more than {FILES_MAX} files")));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn folder(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.place, name, flags, Mode::empty())
    }
}

/// Opens a file without waiting for the writer of a pipe.
fn plain_file(place: &OwnedFd, name: &str) -> Result<File, Errno> {
    if name.is_empty() || name.contains('/') || name == ".." {
        return Err(Errno::INVAL);
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(place, name, flags, Mode::empty())?;
    let about = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(about.st_mode).is_file() { Ok(File::from(file)) } else { Err(Errno::INVAL) }
}

fn unreadable(name: &str, error: Errno) -> FileProblem {
    match error {
        Errno::LOOP => FileProblem::for_file(name, "it is a link, and links are not followed")
            .with_hint("put the file itself in its place"),
        Errno::NOTDIR => FileProblem::for_file(name, "a part of its path is a link or not a folder")
            .with_hint("put the folder itself in its place"),
        Errno::INVAL => FileProblem::for_file(name, "it is not a plain file"),
        error => FileProblem::for_file(name, format!("open it: {error}")),
    }
}
