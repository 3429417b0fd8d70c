//! A private repository written as plain files: one branch, one pack, no hooks, no remote. It does not start git,
//! because a process per file would cost more than the files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::folder::private_dir;
use crate::git::{ObjectFormat, Oid};

/// Sets a repository's HEAD to a branch at a commit: the part that differs between the workspaces of one base.
pub(super) fn write_head(git_dir: &Path, branch: &str, head: &Oid) -> io::Result<()> {
    let reference = git_dir.join("refs/heads").join(branch);
    private_dir(reference.parent().unwrap_or(git_dir))?;
    fs::write(reference, format!("{head}\n"))?;
    fs::write(git_dir.join("HEAD"), format!("ref: refs/heads/{branch}\n"))
}

/// Writes the rest of it, except packs and index, and returns the folder for packs.
pub(super) fn write_body(git_dir: &Path, format: ObjectFormat, shallow: &Path) -> io::Result<PathBuf> {
    let packs = git_dir.join("objects/pack");
    for folder in [&git_dir.join("refs/heads"), &git_dir.join("objects/info"), &packs] {
        private_dir(folder)?;
    }
    fs::write(git_dir.join("config"), config(format))?;
    copy_shallow(git_dir, shallow)?;
    Ok(packs)
}

/// Writes the boundary of the copied history into a repository.
pub(super) fn copy_shallow(git_dir: &Path, shallow: &Path) -> io::Result<()> {
    if shallow.is_file() {
        fs::copy(shallow, git_dir.join("shallow"))?;
    }
    Ok(())
}

/// The config sets an identity because the agent's HOME has none and `git commit` would fail; the agent's commits have
/// no effect on the candidate. In an overlay and in a user namespace a file's owner, inode and change time differ from
/// those in the index, so git compares only size and modification time; otherwise it would read every file.
fn config(format: ObjectFormat) -> String {
    let (version, extension) = match format {
        ObjectFormat::Sha1 => ("0", ""),
        ObjectFormat::Sha256 => ("1", "[extensions]\n\tobjectFormat = sha256\n"),
    };
    format!(
        "[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
         \tcheckStat = minimal\n\ttrustctime = false\n\
         {extension}[user]\n\tname = dev\n\temail = dev@localhost\n[gc]\n\tauto = 0\n"
    )
}
