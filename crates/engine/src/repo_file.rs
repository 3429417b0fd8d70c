//! Reads the files of a user's repository that decide about a loop or reach a brief: loop files, configuration,
//! prompts, skills and scripts. Anyone who commits can place a link there, so only a plain file inside the working
//! copy counts that belongs to this user and that no other user can write. This module parses nothing.

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

/// The reason why a file of a repository is not read.
#[derive(Debug, thiserror::Error)]
pub enum RepoFileError {
    /// There is no such file.
    #[error("no such file")]
    NotFound,
    /// The path, or a folder of it, is a symbolic link.
    #[error("`{0}` is a symbolic link")]
    Link(String),
    /// The path is absolute or leaves the working copy.
    #[error("the path leaves the repository")]
    Outside,
    /// A folder, a pipe, a socket or a device.
    #[error("not a plain file")]
    NotPlain,
    /// The file belongs to another user.
    #[error("the file belongs to the user with id {0}, not to you")]
    ForeignOwner(u32),
    /// Every user of this machine can change the file.
    #[error("every user of this machine can write to the file")]
    WorldWritable,
    /// The operating system's error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl RepoFileError {
    /// The fix, where there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Link(_) => {
                Some("replace the link with a copy of the file: Loopwright follows no links in a repository")
            }
            Self::Outside => Some("name a file inside the repository"),
            Self::NotPlain => Some("replace it with a plain file"),
            Self::ForeignOwner(_) => Some("take the file over with `chown`, or check the repository out yourself"),
            Self::WorldWritable => Some("run `chmod o-w` on the file"),
            Self::NotFound | Self::Io(_) => None,
        }
    }

    /// Whether the file does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound)
    }
}

/// The first `max` bytes of a file, found by its path from the root of a working copy.
///
/// # Errors
/// When it is missing, or is not a plain file of this user inside the working copy.
pub fn read_repo_file(work_tree: &Path, file: &Path, max: usize) -> Result<Vec<u8>, RepoFileError> {
    let name = file.file_name().ok_or(RepoFileError::NotPlain)?;
    let folder = open_repo_folder(work_tree, file.parent().unwrap_or(Path::new("")))?;
    read_in_folder(&folder, name, max)
}

/// Opens a folder of a working copy. No part of its path below the working copy may be a link.
///
/// # Errors
/// When it is missing, is no folder, or is reached through a link.
pub fn open_repo_folder(work_tree: &Path, folder: &Path) -> Result<OwnedFd, RepoFileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut open = rustix::fs::open(work_tree, flags, Mode::empty()).map_err(io::Error::from)?;
    for part in folder.components() {
        let name = match part {
            Component::Normal(name) => name,
            Component::CurDir => continue,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(RepoFileError::Outside),
        };
        open = match rustix::fs::openat(&open, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(next) => next,
            Err(error) => return Err(explain(&open, name, error)),
        };
    }
    Ok(open)
}

/// The first `max` bytes of a plain file in an open folder.
///
/// # Errors
/// See [`read_repo_file`].
pub fn read_in_folder(folder: impl AsFd, name: &OsStr, max: usize) -> Result<Vec<u8>, RepoFileError> {
    // Without NONBLOCK, a pipe would wait for a writer before its kind is known.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let open = rustix::fs::openat(&folder, name, flags, Mode::empty());
    let file = File::from(open.map_err(|error| explain(&folder, name, error))?);
    let about = rustix::fs::fstat(&file).map_err(io::Error::from)?;
    check_plain(&about)?;
    let length = usize::try_from(about.st_size).unwrap_or(0).min(max);
    let mut bytes = Vec::with_capacity(length + 1);
    file.take(max as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn check_plain(about: &Stat) -> Result<(), RepoFileError> {
    if !FileType::from_raw_mode(about.st_mode).is_file() {
        return Err(RepoFileError::NotPlain);
    }
    if about.st_uid != rustix::process::geteuid().as_raw() {
        return Err(RepoFileError::ForeignOwner(about.st_uid));
    }
    if Mode::from_raw_mode(about.st_mode).contains(Mode::WOTH) {
        return Err(RepoFileError::WorldWritable);
    }
    Ok(())
}

/// The kernel reports a link as `ELOOP`, or as `ENOTDIR` where a folder was requested, and a socket as `ENXIO`.
fn explain(folder: impl AsFd, name: &OsStr, error: Errno) -> RepoFileError {
    let about = rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    let kind = about.map(|about| FileType::from_raw_mode(about.st_mode));
    match (error, kind) {
        (Errno::NOENT, _) | (_, Err(Errno::NOENT)) => RepoFileError::NotFound,
        (_, Ok(kind)) if kind.is_symlink() => RepoFileError::Link(name.to_string_lossy().into_owned()),
        (Errno::NOTDIR, Ok(_)) => RepoFileError::NotFound,
        (Errno::NXIO, _) => RepoFileError::NotPlain,
        _ => RepoFileError::Io(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn read(root: &Path, file: &str) -> Result<String, String> {
        let bytes = read_repo_file(root, Path::new(file), 64).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(bytes).expect("a text"))
    }

    #[test]
    fn plain_file_of_the_user_is_read_up_to_the_limit() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(root.path().join("a/b")).expect("a folder");
        std::fs::write(root.path().join("a/b/c.md"), "x".repeat(100)).expect("a file");
        assert_eq!(read(root.path(), "a/b/c.md"), Ok("x".repeat(64)));
        assert_eq!(read(root.path(), "a/./b/c.md"), Ok("x".repeat(64)));
    }

    #[test]
    fn links_special_files_and_paths_outside_are_refused() {
        let root = tempfile::tempdir().expect("a folder");
        let path = |name: &str| root.path().join(name);
        let secret = tempfile::NamedTempFile::new().expect("a file outside");
        std::fs::create_dir_all(path("real")).expect("a folder");
        std::fs::write(path("real/file"), "inside").expect("a file");
        symlink(secret.path(), path("link")).expect("a link");
        symlink(path("real"), path("folder")).expect("a link");
        symlink("nowhere", path("dangling")).expect("a link");
        std::os::unix::net::UnixListener::bind(path("socket")).expect("a socket");
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
        let cases = [
            ("link", "`link` is a symbolic link"),
            ("folder/file", "`folder` is a symbolic link"),
            ("dangling", "`dangling` is a symbolic link"),
            ("pipe", "not a plain file"),
            ("socket", "not a plain file"),
            ("real", "not a plain file"),
            ("absent", "no such file"),
            ("real/absent/x", "no such file"),
            ("real/file/x", "no such file"),
            ("real/../../etc/passwd", "the path leaves the repository"),
            ("/etc/passwd", "the path leaves the repository"),
        ];
        for (file, expected) in cases {
            assert_eq!(read(root.path(), file), Err(expected.to_owned()), "{file}");
        }
    }

    #[test]
    fn file_that_another_user_can_write_is_refused() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("file");
        std::fs::write(&file, "text").expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).expect("its mode");
        assert_eq!(read(root.path(), "file"), Err("every user of this machine can write to the file".to_owned()));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o664)).expect("its mode");
        assert_eq!(read(root.path(), "file"), Ok("text".to_owned()));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(65_534), None).expect("another owner");
            let refused = "the file belongs to the user with id 65534, not to you";
            assert_eq!(read(root.path(), "file"), Err(refused.to_owned()));
        }
    }
}
