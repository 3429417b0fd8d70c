//! The folder of a working copy's loop files, held open: each file is found by its name alone, and the file that is
//! read is the one that was listed. This module does not parse the files.

use super::CommandError;
use super::repo_loops::LOOPS_FOLDER;
use loopwright::repo_file::{self, RepoFileError};
use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// The file extensions of loop files.
const ENDINGS: [&str; 4] = ["md", "yaml", "yml", "json"];

/// The most bytes read of a loop file; the parser's own limit is lower and makes the message.
const BYTES_MAX: usize = 4 << 20;

/// More files than this are a mistake, and would make every command slow.
const FILES_MAX: usize = 20_000;

/// The folder, and the names of its loop files in order.
#[derive(Debug)]
pub(crate) struct LoopFolder {
    /// `None` if there is no folder, and so no files.
    place: Option<OwnedFd>,
    names: Vec<OsString>,
}

impl LoopFolder {
    /// Opens the folder of a working copy. A repository without the folder has no loops.
    pub(crate) fn open(work_tree: &Path) -> Result<Self, CommandError> {
        let path = work_tree.join(LOOPS_FOLDER);
        let failed = |error: Errno| CommandError::failed(format!("list `{}`: {error}", path.display()));
        let place = match repo_file::open_repo_folder(work_tree, Path::new(LOOPS_FOLDER)) {
            Ok(place) => place,
            Err(RepoFileError::NotFound) => return Ok(Self { place: None, names: Vec::new() }),
            Err(error) => return Err(refused_folder(&path, &error)),
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&place).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if is_loop_file(name) {
                names.push(name.to_owned());
            }
            if names.len() > FILES_MAX {
                return Err(CommandError::invalid(format!("more than {FILES_MAX} loop files in {LOOPS_FOLDER}/")));
            }
        }
        names.sort_unstable();
        Ok(Self { place: Some(place), names })
    }

    /// The names of the loop files, in order.
    pub(crate) fn names(&self) -> &[OsString] {
        &self.names
    }

    /// The bytes of a file.
    pub(crate) fn read(&self, name: &OsStr) -> Result<Vec<u8>, RepoFileError> {
        let place = self.place.as_ref().ok_or(RepoFileError::NotFound)?;
        repo_file::read_in_folder(place, name, BYTES_MAX + 1)
    }
}

fn refused_folder(path: &Path, error: &RepoFileError) -> CommandError {
    let text = format!("list `{}`: {error}", path.display());
    match error.hint() {
        Some(hint) => CommandError::invalid(text).hint(hint),
        None => CommandError::failed(text),
    }
}

/// Reads a file of a working copy that decides about a loop or reaches a brief.
pub(crate) fn read_repo_file(work_tree: &Path, file: impl AsRef<Path>) -> Result<Vec<u8>, RepoFileError> {
    repo_file::read_repo_file(work_tree, file.as_ref(), BYTES_MAX + 1)
}

/// The names of the entries of a folder of a working copy, in order; none if there is no such folder.
pub(crate) fn list_repo_folder(work_tree: &Path, folder: &Path, max: usize) -> Result<Vec<String>, RepoFileError> {
    let place = match repo_file::open_repo_folder(work_tree, folder) {
        Err(RepoFileError::NotFound) => return Ok(Vec::new()),
        place => place?,
    };
    let mut names = Vec::new();
    for entry in Dir::read_from(&place).map_err(io::Error::from)? {
        let name = entry.map_err(io::Error::from)?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
        if names.len() > max {
            return Err(io::Error::other(format!("more than {max} entries")).into());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Reads a file that the user named. Inside a working copy, where anyone who commits can place a link, it must be a
/// plain file of this user.
pub(crate) fn read_named_file(path: &Path) -> Result<Vec<u8>, RepoFileError> {
    let path = without_dots(path);
    let has_git = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
    match path.parent().and_then(|folder| folder.ancestors().find(has_git)) {
        Some(root) => read_repo_file(root, path.strip_prefix(root).unwrap_or(&path)),
        None => Ok(read_bytes(&path)?),
    }
}

/// The path without `.` and `..`, by its text alone: a folder that is a link is refused where it is opened.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

fn is_loop_file(name: &OsStr) -> bool {
    let is_hidden = name.as_encoded_bytes().starts_with(b".");
    !is_hidden && Path::new(name).extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known))
}

/// Does not wait for a writer; a pipe is detected right after.
fn plain() -> OFlags {
    OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC
}

/// Reads a plain file of the user's own, links included; a pipe or a device would block forever.
pub(crate) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    read(File::from(rustix::fs::open(path, plain(), Mode::empty())?))
}

/// Opens a plain file for reading; a pipe or a device is an error, because it would block forever.
pub(crate) fn open_plain(path: &Path) -> io::Result<File> {
    let file = File::from(rustix::fs::open(path, plain(), Mode::empty())?);
    length_of_plain(&file).map(|_| file)
}

fn length_of_plain(file: &File) -> io::Result<u64> {
    let about = rustix::fs::fstat(file)?;
    if !FileType::from_raw_mode(about.st_mode).is_file() {
        return Err(io::Error::other("not a plain file"));
    }
    Ok(u64::try_from(about.st_size).unwrap_or(0))
}

fn read(file: File) -> io::Result<Vec<u8>> {
    let length = usize::try_from(length_of_plain(&file)?).unwrap_or(BYTES_MAX).min(BYTES_MAX);
    let mut bytes = Vec::with_capacity(length + 1);
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_whole_whatever_size_is_reported() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("a");
        for length in [0, 1, 300, 70_000, BYTES_MAX, BYTES_MAX + 1] {
            let text: Vec<u8> = (0..length).map(|at| b'a' + (at % 26) as u8).collect();
            std::fs::write(&path, &text).expect("it can be written");
            assert_eq!(read_bytes(&path).expect("it is there"), text);
        }
        std::fs::write(&path, vec![b'x'; BYTES_MAX + 9]).expect("it can be written");
        assert_eq!(read_bytes(&path).expect("it is there").len(), BYTES_MAX + 1, "no further than the limit");
        // The kernel reports a length of zero for these.
        assert!(!read_bytes(Path::new("/proc/self/status")).expect("it is there").is_empty());
        assert!(read_bytes(Path::new("/dev/zero")).is_err() && read_bytes(dir.path()).is_err());
    }

    #[test]
    fn loop_files_are_listed_in_order_and_nothing_else_is() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(LoopFolder::open(dir.path()).expect("no folder, no files").names(), &[] as &[OsString]);
        let folder = dir.path().join(LOOPS_FOLDER);
        std::fs::create_dir_all(&folder).expect("a folder");
        for name in ["b.md", "a.yaml", "c.json", ".hidden.md", "notes.txt", "d.yml", "md"] {
            std::fs::write(folder.join(name), name).expect("a file");
        }
        let folder = LoopFolder::open(dir.path()).expect("a folder");
        assert_eq!(folder.names(), ["a.yaml", "b.md", "c.json", "d.yml"]);
        assert_eq!(folder.read(OsStr::new("b.md")).expect("it is there"), b"b.md");
    }
}
