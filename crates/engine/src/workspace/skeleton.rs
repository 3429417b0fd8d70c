//! A private repository written as plain files: one branch, one pack, no hooks, no remote. Git is not needed for it, and a
//! process per file would cost more than the files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::folder::private_dir;
use crate::git::{ObjectFormat, Oid};

/// Puts a repository's HEAD on a branch at a commit: the part that differs between the workspaces of one base.
pub(super) fn write_head(git_dir: &Path, branch: &str, head: &Oid) -> io::Result<()> {
    let reference = git_dir.join("refs/heads").join(branch);
    private_dir(reference.parent().unwrap_or(git_dir))?;
    fs::write(reference, format!("{head}\n"))?;
    fs::write(git_dir.join("HEAD"), format!("ref: refs/heads/{branch}\n"))
}

/// Writes the rest of it, packs and index left out, and answers with the folder for packs.
pub(super) fn write_body(git_dir: &Path, format: ObjectFormat, shallow: &Path) -> io::Result<PathBuf> {
    let packs = git_dir.join("objects/pack");
    for folder in [&git_dir.join("refs/heads"), &git_dir.join("objects/info"), &packs] {
        private_dir(folder)?;
    }
    fs::write(git_dir.join("config"), config(format))?;
    copy_shallow(git_dir, shallow)?;
    Ok(packs)
}

/// Tells a repository where its copy of the history ends.
pub(super) fn copy_shallow(git_dir: &Path, shallow: &Path) -> io::Result<()> {
    if shallow.is_file() {
        fs::copy(shallow, git_dir.join("shallow"))?;
    }
    Ok(())
}

/// An identity is given because the agent's HOME has none and `git commit` would fail; whatever it
/// commits has no effect on the candidate. A file's owner, inode and change time are others in an overlay and in a user
/// namespace than when the index was written, so git is told to go by size and time; else it would read every file.
fn config(format: ObjectFormat) -> String {
    let (version, extension) = match format {
        ObjectFormat::Sha1 => ("0", ""),
        ObjectFormat::Sha256 => ("1", "[extensions]\n\tobjectFormat = sha256\n"),
    };
    format!(
        "[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
         \tcheckStat = minimal\n\ttrustctime = false\n\
         {extension}[user]\n\tname = Loopwright Maker\n\temail = maker@loopwright.invalid\n[gc]\n\tauto = 0\n"
    )
}
