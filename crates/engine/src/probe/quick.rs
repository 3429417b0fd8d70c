//! Reads the commit of a branch from git's files without a process. It handles only the plain file formats; for
//! everything else the caller runs git.

use crate::git::{Oid, RoundBase, UserRepo};
use std::io::Read as _;
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
    let read = std::fs::File::open(path).ok()?.take(most + 1).read_to_string(&mut text).ok()?;
    (read as u64 <= most).then_some(text)
}
