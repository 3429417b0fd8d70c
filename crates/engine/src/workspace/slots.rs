//! Checkouts that ended rounds had, kept for others to reset: given back when a round is over, taken by one rename, so a
//! slot belongs to one round or to none, in whichever process. What a crash interrupts is in the trash or in a half-made
//! round, and goes with it.
//!
//! Nobody believes such a checkout: its `.git` is never looked at, git is never started on it, and what it holds is taken
//! over by [`super::reset`] alone. Then git reads every file that was taken over and writes those whose content is not the
//! object's, because there are ways to change content that no `lstat` shows (a shared mapping on tmpfs, ext4's exchange of
//! extents, which the walls refuse). Whenever something is not as it should be, the round gets a copy as if there were no slots.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, statat};

use super::base::ReadyBase;
use super::create::COMPLETE;
use super::folder::{is_ours, marked_dir, private_dir, remove_tree, unique};
use super::manifest::{self, Manifest};
use super::{Files, Workspace, WorkspaceError, Workspaces, blocking, index, io, reset};

/// Checkouts of one repository that wait.
const SLOTS: usize = 2;
/// The records of a checkout, beside it.
const MANIFEST: &str = "manifest";
/// The checkout in a slot, as in a round.
const WORK: &str = "work";
/// How many files a round took over, as text.
const KEPT: &str = "kept";

impl Workspaces {
    fn slot(&self, slot: usize) -> PathBuf {
        self.root.join("slots").join(slot.to_string())
    }

    /// Fills a workspace that is being made from a slot, and writes its index. Answers whether it could; if not, the
    /// workspace is as empty as before.
    pub(super) async fn reset_slot(&self, workspace: &Workspace, ready: &ReadyBase) -> Result<bool, WorkspaceError> {
        let taken = workspace.root.join("taken");
        let mut slots = (0..SLOTS).map(|slot| self.slot(slot));
        if !slots.any(|slot| is_ours(&slot) && fs::rename(&slot, &taken).is_ok()) {
            return Ok(false);
        }
        // Why it cannot be done is of no interest: there is another way, and that one tells what is wrong with the host.
        let kept = self.refill(workspace, ready, &taken).await.ok().flatten();
        self.throw_away(&taken);
        match kept {
            Some(kept) => {
                let path = workspace.root.join(KEPT);
                fs::write(&path, kept.to_string()).map_err(io("write", &path))?;
            }
            None => {
                self.throw_away(&workspace.dir);
                private_dir(&workspace.dir).map_err(io("create", &workspace.dir))?;
            }
        }
        Ok(kept.is_some())
    }

    async fn refill(
        &self,
        workspace: &Workspace,
        ready: &ReadyBase,
        taken: &Path,
    ) -> Result<Option<usize>, WorkspaceError> {
        let (taken, dir, source, oid_len) = (taken.to_owned(), workspace.dir.clone(), ready.index(), self.oid_len());
        let kept = blocking(move || {
            let manifest = Manifest::read(&taken.join(MANIFEST), &taken.join(COMPLETE))?;
            let wanted = index::read(&source, oid_len)?;
            if !clock_goes_on(&manifest, &taken)? {
                return Ok(None);
            }
            let old = taken.join(WORK);
            let kept = reset::move_kept(&old, &dir, &manifest, &wanted, oid_len);
            kept.map_err(|errno| io("reset", &old)(errno.into()))
        })
        .await?;
        if kept.is_some() {
            let index = workspace.index();
            fs::copy(ready.index(), &index).map_err(io("copy", &index))?;
            self.check_and_complete(&index, &workspace.dir).await?;
            let (workspace, ready) = (workspace.clone(), ready.clone());
            // Also the proof that everything is there.
            blocking(move || record(&workspace, &ready, oid_len)).await?;
        }
        Ok(kept)
    }

    /// Brings a folder that holds some files of an index to hold all of them. The index knows no stats, so git reads every
    /// file that is there, and only those with the right content get theirs; the others are written.
    async fn check_and_complete(&self, index: &Path, dir: &Path) -> Result<(), WorkspaceError> {
        let call = self.engine.call("git.update-index").unflushed().index(index).work_tree(dir).inside(dir);
        // It says no when files are missing or other, as some are.
        self.git().run(call.args(["-q", "--ignore-missing", "--refresh"]).no_is_an_answer()).await?;
        let call = self.engine.call("git.checkout-index").index(index).work_tree(dir);
        Ok(self.git().run(call.args(["--all", "--index", "--quiet", "--force"])).await.map(drop)?)
    }

    /// Leaves the checkout of an ended round to another one. Its maker must be dead and its candidate sealed; the workspace
    /// is of no use afterwards but to be discarded. One that was not made with [`super::Reuse::Slot`] is left as it is.
    ///
    /// # Errors
    /// When the file system fails; nothing is left to anybody then.
    pub async fn give_back(&self, workspace: &Workspace) -> Result<(), WorkspaceError> {
        let Files::Folder(_) = &workspace.files else { return Ok(()) };
        if !workspace.root.join(MANIFEST).is_file() {
            return Ok(());
        }
        let given = self.root.join("trash").join(unique("slot"));
        marked_dir(&given).map_err(io("create", &given))?;
        let places = [
            (workspace.dir.clone(), given.join(WORK)),
            (workspace.root.join(MANIFEST), given.join(MANIFEST)),
            (workspace.root.join(COMPLETE), given.join(COMPLETE)),
        ];
        for (from, to) in &places {
            fs::rename(from, to).map_err(io("rename", from))?;
        }
        // One that cannot be cleared is thrown away, which costs the next round time and nothing else.
        let cleared = self.clear(workspace, &given).await.is_ok();
        // A slot that somebody has is not empty, so no rename takes its place.
        if !cleared || !(0..SLOTS).any(|slot| fs::rename(&given, self.slot(slot)).is_ok()) {
            self.throw_away(&given);
        }
        Ok(())
    }

    /// Takes out of a checkout what its maker left there: it may hold what nobody may keep, such as words of a commit.
    async fn clear(&self, workspace: &Workspace, given: &Path) -> Result<(), WorkspaceError> {
        let out = self.root.join("trash").join(unique("left"));
        marked_dir(&out).map_err(io("create", &out))?;
        let (folder, index, given, oid_len) = (out.join("left"), workspace.index(), given.to_owned(), self.oid_len());
        let moved = blocking(move || {
            private_dir(&folder).map_err(io("create", &folder))?;
            let manifest = Manifest::read(&given.join(MANIFEST), &given.join(COMPLETE))?;
            let (wanted, work) = (index::read(&index, oid_len)?, given.join(WORK));
            let moved = reset::move_others(&work, &folder, &manifest, &wanted, oid_len);
            moved.map_err(|errno| io("clear", &work)(errno.into()))
        })
        .await;
        self.throw_away(&out);
        moved
    }
}

impl Workspace {
    /// How many files were taken over from an earlier round's checkout; `None` when all were written.
    #[must_use]
    pub fn kept_files(&self) -> Option<usize> {
        fs::read_to_string(self.root.join(KEPT)).ok()?.parse().ok()
    }
}

/// Writes down what a workspace looks like before its maker has it.
pub(super) fn record(workspace: &Workspace, ready: &ReadyBase, oid_len: usize) -> Result<(), WorkspaceError> {
    let entries = index::read(&ready.index(), oid_len)?;
    manifest::write(&workspace.dir, &entries, oid_len, &workspace.root.join(MANIFEST))
}

/// Whether the file system's clock is later than when the manifest was closed. When somebody set it back, times say nothing.
fn clock_goes_on(manifest: &Manifest, folder: &Path) -> Result<bool, WorkspaceError> {
    let path = folder.join("now");
    fs::write(&path, b"").map_err(io("write", &path))?;
    let now = statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| io("look at", &path)(errno.into()))?;
    Ok(manifest.is_past(&now))
}

/// The slots of a repository in which a checkout waits.
pub(super) fn of_repository(repo: &Path) -> Vec<PathBuf> {
    let slots = (0..SLOTS).map(|slot| repo.join("slots").join(slot.to_string()));
    slots.filter(|slot| is_ours(slot)).collect()
}

/// Those of all repositories under a state folder.
pub(crate) fn left_slots(state: &Path) -> Vec<PathBuf> {
    let repos = fs::read_dir(state.join("workspaces")).into_iter().flatten().flatten();
    let mut left: Vec<_> = repos.flat_map(|repo| of_repository(&repo.path())).collect();
    left.sort();
    left
}

/// Removes one of them. It loses its name first, so that no round takes half of it; one that was taken meanwhile is gone.
pub(crate) fn remove_slot(path: &Path) -> Result<(), WorkspaceError> {
    let trash = path.ancestors().nth(2).unwrap_or(path).join("trash").join(unique("slot"));
    match fs::rename(path, &trash) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io("rename", path)(error)),
        Ok(()) => remove_tree(&trash).map_err(io("remove", &trash)),
    }
}
