//! Removal that agents cannot obstruct: not by depth, not by long names, not by permissions. Every folder with something in
//! it is moved up to the top before it is emptied, so nothing recurses and three descriptors are enough for any tree.

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

/// Removes a folder and everything in it. One that is not there is removed.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(about) if !about.is_dir() => return fs::remove_file(path),
        _ => {}
    }
    let emptied = || match empty_tree(path).and_then(|()| fs::remove_dir(path)) {
        // Somebody else removed it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    // Another hand that removes the same tree under an older name of it may move something up between our look and the end,
    // and can not remove the top itself.
    let met = |ended: &io::Result<()>| matches!(ended, Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty);
    (1..HANDS_MET).fold(emptied(), |ended, _| if met(&ended) { emptied() } else { ended })
}

/// How often a folder may be found filled again before its removal is left to the next sweep.
const HANDS_MET: usize = 1_000;

/// Removes everything in a folder. What cannot be removed does not keep the rest from going.
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

/// The folder itself may have lost its permissions too.
fn open_top(path: &Path) -> io::Result<OwnedFd> {
    if fs::symlink_metadata(path)?.permissions().mode() & 0o700 != 0o700 && path.is_dir() {
        let top = open_dir(CWD, path);
        // Opened first where that can be, so that a link is never followed.
        match top {
            Ok(top) => rustix::fs::fchmod(&top, Mode::RWXU)?,
            Err(Errno::ACCESS) => chmodat(CWD, path, Mode::RWXU, AtFlags::empty())?,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(open_dir(CWD, path)?)
}

/// One look at everything in the top folder.
#[derive(Default)]
struct Pass {
    /// Names that went or moved up.
    done: u64,
    failed: Option<Errno>,
}

impl Pass {
    /// Removes what is in `folder`, which is the top or right below it.
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

    /// Whether a name could be removed as it is, or never can; a folder with something in it is left.
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

    /// Empties a folder right below the top.
    fn dissolve(&mut self, top: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        chmodat(top, name, Mode::RWXU, AtFlags::empty())?;
        let folder = open_dir(std::os::fd::AsFd::as_fd(top), name)?;
        self.over(top, &folder)?;
        match unlinkat(top, name, AtFlags::REMOVEDIR) {
            // What was overlooked because names went meanwhile is found by the next pass, if there is a reason for one.
            Err(Errno::NOTEMPTY | Errno::EXIST) => Err(self.failed.unwrap_or(Errno::NOTEMPTY)),
            other => other,
        }
    }

    /// A folder changes its parent only when it can be written itself.
    fn move_up(&mut self, top: &OwnedFd, folder: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        chmodat(folder, name, Mode::RWXU, AtFlags::empty())?;
        loop {
            match renameat(folder, name, top, unique(".up")) {
                // The name is taken; no agent can have taken all of them.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                other => return other,
            }
        }
    }

    fn note(&mut self, result: Result<(), Errno>) {
        match result {
            // Gone by another hand is gone; it counts for nothing, so that two hands come to an end.
            Err(Errno::NOENT) => {}
            Ok(()) => self.done += 1,
            Err(errno) => self.failed = Some(errno),
        }
    }
}

/// Runs something as a user whom permissions hold, whoever runs the tests.
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

    /// A chain of folders that no path reaches, each with a file; the permissions of every tenth are taken away.
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
    fn trees_of_any_depth_go_with_few_descriptors() {
        let temp = tempfile::tempdir().expect("a folder");
        let tree = temp.path().join("tree");
        fs::create_dir_all(tree.join("wide")).expect("a folder");
        (0..600).for_each(|n| fs::write(tree.join("wide").join(n.to_string()), "").expect("a file"));
        std::os::unix::fs::symlink("/etc", tree.join("link")).expect("a link");
        deep(&tree, 3_000);
        // Each test has a process of its own, or shares this with tests that need few as well.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let few = rustix::process::Rlimit { current: Some(256), ..limit };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, few).expect("fewer is allowed");
        let gone = as_ordinary_user(|| remove_tree(&tree));
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("the limit it had");
        gone.expect("nothing obstructs");
        assert!(!tree.exists() && Path::new("/etc").exists());
        remove_tree(&tree).expect("what is not there is removed");
    }

    #[test]
    fn two_hands_on_one_tree_that_is_renamed_between_them_leave_nothing() {
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
                remove_tree(&newer).expect("the second hand removes the top");
                // What the second hand took from under the first is no failure to speak of.
                let _ = first.join().expect("it does not panic");
            });
            assert!(!newer.exists());
        }
    }
}
