//! Reads the commit of a branch from git's files without a process. It handles only the plain file formats; for
//! everything else the caller runs git.

use crate::git::UserRepo;
use std::io::Read as _;
use std::path::Path;

/// The most bytes of a branch's file.
const LOOSE_MAX: u64 = 1 << 10;
/// The most bytes of the file of packed branches.
const PACKED_MAX: u64 = 4 << 20;

/// A branch and its commit; without a branch, HEAD is detached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BranchTip {
    pub(super) branch: Option<String>,
    pub(super) oid: String,
}

/// The tip of a loop's base; `None` if only git can resolve it.
pub(super) fn base(repo: &UserRepo, base: Option<&str>) -> Option<BranchTip> {
    match base {
        Some(branch) => Some(BranchTip { oid: branch_in(&repo.common_dir, branch)?, branch: Some(branch.to_owned()) }),
        None => {
            let head = read(&repo.git_dir.join("HEAD"), LOOSE_MAX)?;
            match head.trim().strip_prefix("ref: refs/heads/") {
                Some(branch) => {
                    Some(BranchTip { oid: branch_in(&repo.common_dir, branch)?, branch: Some(branch.to_owned()) })
                }
                None => Some(BranchTip { oid: oid(head.trim())?, branch: None }),
            }
        }
    }
}

/// The commit of a branch in a repository's folder.
pub(crate) fn branch_in(dir: &Path, branch: &str) -> Option<String> {
    if branch.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
        return None;
    }
    if let Some(text) = read(&dir.join("refs/heads").join(branch), LOOSE_MAX) {
        return oid(text.trim());
    }
    let packed = read(&dir.join("packed-refs"), PACKED_MAX)?;
    let line = packed.lines().find_map(|line| line.strip_suffix(branch)?.strip_suffix(" refs/heads/"))?;
    oid(line)
}

fn oid(text: &str) -> Option<String> {
    let is_oid = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_oid.then(|| text.to_owned())
}

/// Reads a small text file; `None` if it is larger or not text.
pub(crate) fn read(path: &Path, most: u64) -> Option<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path).ok()?.take(most + 1).read_to_string(&mut text).ok()?;
    (read as u64 <= most).then_some(text)
}
