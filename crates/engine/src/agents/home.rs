//! Files that the engine writes into the HOME of an agent. Earlier starts of the same round used that HOME too and may
//! have left links in it, so links are never followed: files are written in the HOME and nowhere else.

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Writes a file below a HOME, readable only by its owner; an existing file is replaced.
///
/// # Errors
/// When it cannot be written, also when something that is not a folder is in the way.
pub(super) fn write_private_file(home: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (folder, name) = split(path)?;
    let at = walk(home, folder)?;
    remove_at(&at, name)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&at, name, flags, Mode::RUSR | Mode::WUSR)?;
    File::from(file).write_all(bytes)
}

fn split(path: &Path) -> io::Result<(&Path, &Path)> {
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let name = path.file_name().filter(|_| plain).ok_or(io::ErrorKind::InvalidInput)?;
    Ok((path.parent().unwrap_or(Path::new("")), Path::new(name)))
}

fn walk(home: &Path, folder: &Path) -> io::Result<OwnedFd> {
    let mut at = rustix::fs::open(home, FOLDER, Mode::empty())?;
    for part in folder.components() {
        match rustix::fs::mkdirat(&at, part.as_os_str(), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        at = rustix::fs::openat(&at, part.as_os_str(), FOLDER, Mode::empty())?;
    }
    Ok(at)
}

fn remove_at(at: &OwnedFd, name: &Path) -> io::Result<()> {
    match rustix::fs::unlinkat(at, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn written_file_is_private_and_replaces_an_existing_one() {
        let home = tempfile::tempdir().expect("a folder");
        let path = Path::new(".deep/er/auth.json");
        for text in ["one", "two"] {
            write_private_file(home.path(), path, text.as_bytes()).expect("laid");
            assert_eq!(std::fs::read_to_string(home.path().join(path)).expect("a file"), text);
        }
        let mode = std::fs::metadata(home.path().join(path)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn links_that_an_earlier_start_left_are_not_followed() {
        let (home, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let treasure = outside.path().join("auth.json");
        std::fs::write(&treasure, "mine").expect("a file");
        symlink(outside.path(), home.path().join(".codex")).expect("a link");
        symlink(&treasure, home.path().join("auth.json")).expect("a link");
        assert!(write_private_file(home.path(), Path::new(".codex/auth.json"), b"x").is_err());
        write_private_file(home.path(), Path::new("auth.json"), b"x").expect("the link itself is replaced");
        assert_eq!(std::fs::read_to_string(&treasure).expect("a file"), "mine");
        assert!(write_private_file(home.path(), Path::new("../auth.json"), b"x").is_err());
    }
}
