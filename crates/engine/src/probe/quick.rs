//! Reads the commit of a branch from git's files without a process. It handles only the plain file formats; for
//! everything else the caller runs git.

use crate::git::{Oid, RoundBase, UserRepo};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The most bytes of a branch's file.
const LOOSE_MAX: u64 = 1 << 10;
/// The most bytes of the file of packed branches.
const PACKED_MAX: u64 = 4 << 20;

/// The tip of a loop's base; `None` if only git can resolve it.
pub(super) fn base(repo: &UserRepo, base: Option<&str>) -> Option<RoundBase> {
    let head = match base {
        Some(branch) => format!("ref: refs/heads/{branch}"),
        None => read(&repo.git_dir.join("HEAD"), LOOSE_MAX)?,
    };
    let branch = head.trim().strip_prefix("ref: refs/heads/");
    let commit = match branch {
        Some(branch) => branch_in(&repo.common_dir, branch)?.parse().ok()?,
        None => head.trim().parse().ok()?,
    };
    Some(RoundBase { commit, branch: branch.map(str::to_owned) })
}

/// The commit of a branch in a repository's folder.
pub(crate) fn branch_in(dir: &Path, branch: &str) -> Option<String> {
    if branch.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
        return None;
    }
    if let Some(text) = read(&dir.join("refs/heads").join(branch), LOOSE_MAX) {
        return text.trim().parse::<Oid>().ok().map(String::from);
    }
    let packed = read(&dir.join("packed-refs"), PACKED_MAX)?;
    let line = packed.lines().find_map(|line| line.strip_suffix(branch)?.strip_suffix(" refs/heads/"))?;
    line.parse::<Oid>().ok().map(String::from)
}

/// Reads a small text file; `None` if it is larger or not text.
pub(crate) fn read(path: &Path, most: u64) -> Option<String> {
    let mut text = String::new();
    // A pipe in the place of a file would wait for a writer forever.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let file = file.metadata().is_ok_and(|about| about.is_file()).then_some(file)?;
    let read = file.take(most + 1).read_to_string(&mut text).ok()?;
    (read as u64 <= most).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode};

    #[test]
    fn pipe_in_the_place_of_a_branch_is_no_commit_and_blocks_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(dir.path().join("refs/heads")).expect("folders");
        for name in ["refs/heads/main", "packed-refs"] {
            rustix::fs::mknodat(CWD, dir.path().join(name), FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
        }
        assert_eq!(branch_in(dir.path(), "main"), None);
    }
}
