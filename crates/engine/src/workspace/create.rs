//! Makes a round's workspace: a private repository and checkout at the base, built under a temporary
//! name and renamed when complete, so that half a workspace is never used.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::base::ReadyBase;
use super::folder::{copy_files, copy_with_time, half_name, is_ours, marked_dir, private_dir};
use super::{Workspace, WorkspaceError, Workspaces, blocking, io, names};
use crate::git::{ObjectFormat, Oid};

/// The file that names a workspace's base; written last, so its presence means "complete".
const COMPLETE: &str = "base";
/// The coarsest file-system clock in use ticks every two seconds.
const TICKS_MAX: u32 = 3000;

impl Workspaces {
    /// Makes the workspace of a round at `base`, on a branch `loop/<loop>/<round>` of its own private
    /// repository. What an earlier life of the same round left is discarded first.
    ///
    /// # Errors
    /// `BadName` for names that make no folder or branch; `Foreign` when something that is not ours is
    /// in the way; else what git or the file system said.
    pub async fn create(&self, loop_name: &str, round: &str, base: &Oid) -> Result<Workspace, WorkspaceError> {
        names::check_plain(loop_name)?;
        let root = self.round_root(round)?;
        self.discard(round).await?;
        let ready = self.ready_base(base).await?;
        let half = half_name(&root);
        self.build(&half, round, &format!("loop/{loop_name}/{round}"), base, &ready).await?;
        fs::rename(&half, &root).map_err(io("rename", &half))?;
        Ok(Workspace::at(root, round, base.clone()))
    }

    /// The workspace of a round that was made before, if it is complete.
    ///
    /// # Errors
    /// When the round's name is none of ours or its folder cannot be read.
    pub fn reopen(&self, round: &str) -> Result<Option<Workspace>, WorkspaceError> {
        let root = self.round_root(round)?;
        let path = root.join(COMPLETE);
        if !is_ours(&root) || !path.is_file() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(io("read", &path))?;
        Ok(text.trim().parse().ok().map(|base| Workspace::at(root, round, base)))
    }

    async fn build(
        &self,
        half: &Path,
        round: &str,
        branch: &str,
        base: &Oid,
        ready: &ReadyBase,
    ) -> Result<(), WorkspaceError> {
        let workspace = Workspace::at(half.to_owned(), round, base.clone());
        marked_dir(half).map_err(io("create", half))?;
        for dir in [&workspace.dir, &workspace.home, &workspace.tmp, &workspace.outbox] {
            private_dir(dir).map_err(io("create", dir))?;
        }
        let index = workspace.index();
        fs::copy(ready.index(), &index).map_err(io("copy", &index))?;
        self.checkout(&index, &workspace.dir).await?;
        let skeleton = Skeleton::new(self, &workspace.dir, branch, base, ready);
        let complete = half.join(COMPLETE);
        let base = base.clone();
        blocking(move || {
            skeleton.write().map_err(io("create", &skeleton.git_dir))?;
            copy_with_time(&index, &skeleton.git_dir.join("index")).map_err(io("copy", &index))?;
            wait_for_tick(&index, &complete, base.as_str()).map_err(io("write", &complete))
        })
        .await
    }
}

/// Writes `path` again and again until the file system gives it a later time than `index`. From then
/// on no change can carry a time that the index knows, so "looks the same" means "is the same".
/// A tick is at most 4 ms on Linux.
#[expect(clippy::disallowed_methods, reason = "waits for the file system's clock, which no event announces")]
fn wait_for_tick(index: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    let written = fs::metadata(index)?.modified()?;
    for _ in 0..TICKS_MAX {
        fs::File::create(path)?.write_all(text.as_bytes())?;
        if fs::metadata(path)?.modified()? > written {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(std::io::Error::other("the file system's clock stands still"))
}

/// A private repository written as plain files: one branch, one pack, no hooks, no remote. Git is not
/// needed for it, and a process per file would cost more than the files.
pub(super) struct Skeleton {
    pub(super) git_dir: PathBuf,
    branch: String,
    head: Oid,
    packs: PathBuf,
    shallow: PathBuf,
    format: ObjectFormat,
}

impl Skeleton {
    pub(super) fn new(all: &Workspaces, dir: &Path, branch: &str, head: &Oid, ready: &ReadyBase) -> Self {
        Self {
            git_dir: dir.join(".git"),
            branch: branch.to_owned(),
            head: head.clone(),
            packs: ready.packs(),
            shallow: ready.shallow(),
            format: all.repo.format,
        }
    }

    pub(super) fn write(&self) -> std::io::Result<()> {
        let inside = |name: &str| self.git_dir.join(name);
        let reference = inside("refs/heads").join(&self.branch);
        private_dir(reference.parent().unwrap_or(&self.git_dir))?;
        private_dir(&inside("objects/pack"))?;
        private_dir(&inside("objects/info"))?;
        copy_files(&self.packs, &inside("objects/pack"))?;
        fs::write(reference, format!("{}\n", self.head))?;
        fs::write(inside("config"), self.config())?;
        if self.shallow.is_file() {
            fs::copy(&self.shallow, inside("shallow"))?;
        }
        fs::write(inside("HEAD"), format!("ref: refs/heads/{}\n", self.branch))
    }

    /// An identity is given because the agent's HOME has none and `git commit` would fail; whatever it
    /// commits has no effect on the candidate.
    fn config(&self) -> String {
        let (version, extension) = match self.format {
            ObjectFormat::Sha1 => ("0", ""),
            ObjectFormat::Sha256 => ("1", "[extensions]\n\tobjectFormat = sha256\n"),
        };
        format!(
            "[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
             {extension}[user]\n\tname = Loopwright Maker\n\temail = maker@loopwright.invalid\n[gc]\n\tauto = 0\n"
        )
    }
}
