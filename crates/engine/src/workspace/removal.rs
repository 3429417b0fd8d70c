//! Removal that agents cannot obstruct: not by depth, not by long names, not by permissions. Every non-empty folder is
//! moved to the top before it is emptied, so nothing recurses and three descriptors are enough for any tree.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, chmodat, renameat, unlinkat};
use rustix::io::Errno;

use super::folder::unique;
use super::survey::open_dir;

/// Removes a folder and everything in it. A missing folder is a success.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(about) if !about.is_dir() => return fs::remove_file(path),
        _ => {}
    }
    let emptied = || match empty_tree(path).and_then(|()| fs::remove_dir(path)) {
        // Another process removed it in the meantime.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    // Another process that removes the same tree under an older name may move a folder to the top after the last pass,
    // and cannot remove the top itself.
    let met = |ended: &io::Result<()>| matches!(ended, Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty);
    (1..HANDS_MET).fold(emptied(), |ended, _| if met(&ended) { emptied() } else { ended })
}

/// Attempts on a folder that is filled again before its removal is left to the next sweep.
const HANDS_MET: usize = 1_000;

/// Removes everything in a folder. An entry that cannot be removed does not prevent the removal of the others.
pub(crate) fn empty_tree(path: &Path) -> io::Result<()> {
    empty_top(&open_top(path)?)
}

fn empty_top(top: &OwnedFd) -> io::Result<()> {
    loop {
        let mut pass = Pass::default();
        pass.over(top, top)?;
        match pass.failed {
            None if pass.done == 0 => return Ok(()),
            Some(errno) if pass.done == 0 => return Err(errno.into()),
            _ => {}
        }
    }
}

/// Opens the top folder, which may have lost its permissions too.
fn open_top(path: &Path) -> io::Result<OwnedFd> {
    if fs::symlink_metadata(path)?.permissions().mode() & 0o700 != 0o700 && path.is_dir() {
        let top = open_dir(CWD, path);
        // The folder is opened first if possible, so that a link is never followed.
        match top {
            Ok(top) => rustix::fs::fchmod(&top, Mode::RWXU)?,
            Err(Errno::ACCESS) => chmodat(CWD, path, Mode::RWXU, AtFlags::empty())?,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(open_dir(CWD, path)?)
}

/// One pass over everything in the top folder.
#[derive(Default)]
struct Pass {
    /// Number of names that were removed or moved to the top.
    done: u64,
    failed: Option<Errno>,
}

impl Pass {
    /// Removes the entries of `folder`, which is the top or directly below it.
    fn over(&mut self, top: &OwnedFd, folder: &OwnedFd) -> Result<(), Errno> {
        let is_top = std::ptr::eq(top, folder);
        let mut dir = Dir::read_from(folder)?;
        while let Some(entry) = dir.read() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") || self.is_gone(folder, name, entry.file_type()) {
                continue;
            }
            let moved = if is_top { self.dissolve(top, name) } else { self.move_up(top, folder, name) };
            self.note(moved);
        }
        Ok(())
    }

    /// Whether a name was removed, or never can be; a non-empty folder is left.
    fn is_gone(&mut self, folder: &OwnedFd, name: &CStr, kind: FileType) -> bool {
        let gone = match kind {
            FileType::Directory => Err(Errno::ISDIR),
            _ => unlinkat(folder, name, AtFlags::empty()),
        };
        let gone = match gone {
            Err(Errno::ISDIR) => unlinkat(folder, name, AtFlags::REMOVEDIR),
            other => other,
        };
        if matches!(gone, Err(Errno::NOTEMPTY | Errno::EXIST)) {
            return false;
        }
        self.note(gone);
        true
    }

    /// Empties a folder directly below the top.
    fn dissolve(&mut self, top: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        chmodat(top, name, Mode::RWXU, AtFlags::empty())?;
        let folder = open_dir(std::os::fd::AsFd::as_fd(top), name)?;
        self.over(top, &folder)?;
        match unlinkat(top, name, AtFlags::REMOVEDIR) {
            // The next pass finds entries that this one missed because names were removed during it.
            Err(Errno::NOTEMPTY | Errno::EXIST) => Err(self.failed.unwrap_or(Errno::NOTEMPTY)),
            other => other,
        }
    }

    /// Moving a folder to another parent requires write permission on the folder itself.
    fn move_up(&mut self, top: &OwnedFd, folder: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        chmodat(folder, name, Mode::RWXU, AtFlags::empty())?;
        loop {
            match renameat(folder, name, top, unique(".up")) {
                // The name exists; no agent can have created all of them.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                other => return other,
            }
        }
    }

    fn note(&mut self, result: Result<(), Errno>) {
        match result {
            // Another process removed it. That does not count as progress, so that two removals of one tree both end.
            Err(Errno::NOENT) => {}
            Ok(()) => self.done += 1,
            Err(errno) => self.failed = Some(errno),
        }
    }
}

/// Runs a closure as a user who is subject to permissions, even if root runs the tests.
#[cfg(test)]
pub(crate) fn as_ordinary_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let without = || {
        use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).expect("less is allowed");
        work()
    };
    std::thread::scope(|scope| scope.spawn(without).join().expect("it does not panic"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkdirat;
    use std::os::fd::AsFd as _;

    /// A chain of folders that no path reaches, each with a file; every tenth has no permissions.
    fn deep(root: &Path, levels: usize) {
        let name = "n".repeat(200);
        let mut at = open_dir(CWD, root).expect("a folder");
        for level in 0..levels {
            mkdirat(&at, name.as_str(), Mode::RWXU).expect("a folder");
            let next = open_dir(at.as_fd(), name.as_str()).expect("a folder");
            rustix::fs::mknodat(&next, "pipe", FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
            if level % 10 == 9 {
                rustix::fs::fchmod(&at, Mode::empty()).expect("permissions");
            }
            at = next;
        }
    }

    #[test]
    fn trees_of_any_depth_are_removed_with_few_descriptors() {
        let temp = tempfile::tempdir().expect("a folder");
        let tree = temp.path().join("tree");
        fs::create_dir_all(tree.join("wide")).expect("a folder");
        (0..600).for_each(|n| fs::write(tree.join("wide").join(n.to_string()), "").expect("a file"));
        std::os::unix::fs::symlink("/etc", tree.join("link")).expect("a link");
        deep(&tree, 3_000);
        // Each test has its own process, or shares this one with tests that need few descriptors as well.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let few = rustix::process::Rlimit { current: Some(256), ..limit };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, few).expect("fewer is allowed");
        let gone = as_ordinary_user(|| remove_tree(&tree));
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("the limit it had");
        gone.expect("nothing obstructs");
        assert!(!tree.exists() && Path::new("/etc").exists());
        remove_tree(&tree).expect("a missing folder is a success");
    }

    #[test]
    fn two_removals_of_one_tree_that_is_renamed_between_them_leave_nothing() {
        let temp = tempfile::tempdir().expect("a folder");
        for nth in 0..60 {
            let (older, newer) = (temp.path().join(format!("older{nth}")), temp.path().join(format!("newer{nth}")));
            (0..8).for_each(|n| fs::create_dir_all(older.join(format!("{n}/a/b/c/d/e"))).expect("folders"));
            let (top, go) = (open_top(&older).expect("a folder"), std::sync::Barrier::new(2));
            fs::rename(&older, &newer).expect("renamed");
            std::thread::scope(|scope| {
                let first = scope.spawn(|| {
                    go.wait();
                    empty_top(&top)
                });
                go.wait();
                remove_tree(&newer).expect("the second removal removes the top");
                // The first removal may fail because the second one deletes entries under it; only the result counts.
                let _ = first.join().expect("it does not panic");
            });
            assert!(!newer.exists());
        }
    }
}
