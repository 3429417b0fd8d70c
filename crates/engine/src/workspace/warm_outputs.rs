//! Warm build outputs: files that a loop's makers left in ignored folders (`target`, `node_modules`). They are moved
//! out of a workspace at the end of its round and into the workspace of the next. Tracked files, sealed ones and `.git`
//! are never among them, and gates never get them.
//!
//! They are in `warm/<loop>/<slot>/`, one slot for each concurrent round of the loop. One rename takes or returns a
//! slot, so it belongs to at most one round. An interrupted move loses the outputs, and never leaves a part of them.
//!
//! Build tools compare times: a file that one maker changed, and that the next one finds as base has it, must look
//! newer than the outputs built from the change. So the touched paths are stored with the outputs, and the next round
//! gets its own copies of them with a later time. If that fails, all outputs are discarded.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::folder::{is_ours, marked_dir, private_dir, remove_tree, size, unique};
use super::merged_layers::{MergedEntry, merged_entry};
use super::{CheckoutFiles, CheckoutMethod, Workspace, WorkspaceError, Workspaces, blocking, names};
use crate::git::{Oid, TREE_MAX};

/// Rounds of one loop whose outputs are stored at a time.
const SLOTS: usize = 4;
/// Most ignored files and folders that are stored for one round.
const ROOTS_MAX: usize = 1_000;
/// Most touched paths that are stored; with more, a cold start is cheaper.
const TOUCHED_MAX: usize = 2_000;
/// Limit for the bytes of touched files that are copied.
const TOUCHED_BYTES_MAX: u64 = 64 << 20;
/// Limit for the bytes of all warm outputs of a repository.
const BYTES_MAX: u64 = 2 << 30;

/// Tracked paths and the time at which they last differed from base.
type Touched = BTreeMap<PathBuf, SystemTime>;

/// The file in which a round stores the times that it received.
const GIVEN: &str = "warm-given";

impl Workspaces {
    fn warm_folder(&self, loop_name: &str) -> PathBuf {
        self.root.join("warm").join(loop_name)
    }

    /// Moves the warm outputs of a loop into a workspace that is being created. A cold start is never an error.
    pub(super) async fn restore_warm_outputs(&self, loop_name: &str, workspace: &Workspace) {
        let taken = workspace.root.join("warm");
        let slots = (0..SLOTS).map(|slot| self.warm_folder(loop_name).join(slot.to_string()));
        if !slots.into_iter().any(|slot| is_ours(&slot) && fs::rename(&slot, &taken).is_ok()) {
            return;
        }
        if let Some(touched) = self.touched_since(&taken, &workspace.base).await {
            let (workspace, taken) = (workspace.clone(), taken.clone());
            let _ = blocking(move || Ok(move_in(&workspace, &taken, &touched))).await;
        }
        self.discard_in_background(&taken);
    }

    /// The paths that need a later time in a workspace at `base`; `None` if they cannot be determined.
    async fn touched_since(&self, taken: &Path, base: &Oid) -> Option<Touched> {
        let then: Oid = fs::read_to_string(taken.join("base")).ok()?.trim().parse().ok()?;
        let mut touched = read_times(&fs::read(taken.join("touched")).ok()?)?;
        if then != *base {
            let delta = self.delta(&then, base).await.ok()?;
            let now = now(taken).ok()?;
            touched.retain(|path, _| !delta.gone().any(|gone| gone == path));
            touched.extend(delta.present().map(|path| (path.to_owned(), now)));
        }
        (touched.len() <= TOUCHED_MAX).then_some(touched)
    }

    /// Moves the ignored files of a workspace to where the loop's next round finds them. For the end of a round whose
    /// maker exited by itself; afterwards the workspace can only be discarded.
    ///
    /// # Errors
    /// When git or the file system fails; nothing is stored then.
    pub async fn store_warm_outputs(&self, loop_name: &str, workspace: &Workspace) -> Result<(), WorkspaceError> {
        names::check_plain(loop_name)?;
        let CheckoutFiles::Overlay { lower, .. } = &workspace.files else { return Ok(()) };
        let ready = self.ready_base(&workspace.base).await?;
        let (catalogue, survey, _) = self.survey(workspace, &ready).await?;
        if !survey.has_untracked || !survey.barred.is_empty() || workspace.method() == CheckoutMethod::Copy {
            return Ok(());
        }
        let rules = self.ignore_rules(workspace, &ready, &survey, &catalogue).await?;
        let call = self.engine.call("git.ls-files").index(&rules).work_tree(&workspace.dir).in_folder(&workspace.dir);
        let call = call.args(["-z", "--others", "--ignored", "--exclude-standard", "--directory"]).out_max(TREE_MAX);
        let listed = self.git().run(call).await?.stdout;
        let is_known = |bytes: &[u8]| catalogue.has(bytes) || catalogue.has_below(bytes);
        let is_own = |path: &&Path| {
            let bytes = path.as_os_str().as_bytes();
            !bytes.is_empty() && !is_known(bytes) && merged_entry(lower, path) == MergedEntry::Nothing
        };
        let roots = listed.split(|byte| *byte == 0).map(|path| path.strip_suffix(b"/").unwrap_or(path)).map(as_path);
        let roots: Vec<PathBuf> = roots.filter(is_own).take(ROOTS_MAX).map(Path::to_owned).collect();
        let touched = survey.changed.iter().map(|file| &file.path).chain(&survey.deleted).map(|path| as_path(path));
        let touched: Vec<PathBuf> = touched.map(Path::to_owned).collect();
        if roots.is_empty() || touched.len() > TOUCHED_MAX {
            return Ok(());
        }
        let (place, kept, workspace) =
            (self.warm_folder(loop_name), self.root.join("trash").join(unique("warm")), workspace.clone());
        let half = kept.clone();
        let moved = blocking(move || Ok(move_out(&workspace, &half, &roots, touched).is_ok())).await?;
        if moved {
            self.offer(&place, &kept);
        }
        self.discard_in_background(&kept);
        Ok(())
    }

    /// Puts the outputs into a free slot, or replaces the first one; then limits the size of all slots together. The
    /// bytes are counted in the background.
    fn offer(&self, place: &Path, kept: &Path) {
        let free = (0..SLOTS).map(|slot| place.join(slot.to_string())).find(|slot| fs::symlink_metadata(slot).is_err());
        let slot = free.unwrap_or_else(|| {
            let first = place.join("0");
            self.discard_in_background(&first);
            first
        });
        if private_dir(place).and_then(|()| fs::rename(kept, &slot)).is_ok() {
            let (warm, trash) = (self.root.join("warm"), self.root.join("trash"));
            drop(tokio::task::spawn_blocking(move || shrink(&warm, &trash, BYTES_MAX)));
        }
    }

    /// Renames a folder immediately and deletes it in the background.
    pub(super) fn discard_in_background(&self, path: &Path) {
        let gone = self.root.join("trash").join(unique("gone"));
        if fs::rename(path, &gone).is_ok() {
            drop(tokio::task::spawn_blocking(move || remove_tree(&gone)));
        }
    }
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Moves stored outputs into a workspace and copies touched files. If a copy fails, no output may be moved in, so
/// copies come first.
fn move_in(workspace: &Workspace, taken: &Path, touched: &Touched) -> io::Result<()> {
    let CheckoutFiles::Overlay { lower, upper, .. } = &workspace.files else { return Ok(()) };
    copy_touched(lower, upper, touched)?;
    fs::write(workspace.root.join(GIVEN), write_times(touched))?;
    let roots = fs::read(taken.join("roots"))?;
    for (at, root) in roots.split(|byte| *byte == 0).filter(|root| !root.is_empty()).map(as_path).enumerate() {
        let parent = root.parent().unwrap_or(Path::new(""));
        let has_place = parent.as_os_str().is_empty() || merged_entry(lower, parent) == MergedEntry::Folder;
        if has_place && merged_entry(lower, root) == MergedEntry::Nothing {
            make_parents(lower, upper, parent)?;
            fs::rename(taken.join("kept").join(at.to_string()), upper.join(root))?;
        }
    }
    Ok(())
}

/// Copies the touched files of the layers into the upper one, each with its own time. Build tools do not use the times
/// of links.
fn copy_touched(lower: &[PathBuf], upper: &Path, touched: &Touched) -> io::Result<()> {
    let mut left = TOUCHED_BYTES_MAX;
    for (path, time) in touched {
        let MergedEntry::Leaf(file) = merged_entry(lower, path) else { continue };
        let about = fs::symlink_metadata(&file)?;
        if !about.is_file() {
            continue;
        }
        left = left.checked_sub(about.len()).ok_or_else(|| io::Error::other("too many bytes were touched"))?;
        make_parents(lower, upper, path.parent().unwrap_or(Path::new("")))?;
        fs::copy(&file, upper.join(path))?;
        fs::File::options().write(true).open(upper.join(path))?.set_modified(*time)?;
    }
    Ok(())
}

/// Creates the folders above a path in the upper layer, with the permissions they have below.
fn make_parents(lower: &[PathBuf], upper: &Path, parent: &Path) -> io::Result<()> {
    let mut inside = PathBuf::new();
    for part in parent.components() {
        inside.push(part);
        let place = upper.join(&inside);
        if fs::symlink_metadata(&place).is_err() {
            fs::create_dir(&place)?;
            let below = lower.iter().map(|layer| layer.join(&inside)).find(|folder| folder.is_dir());
            if let Some(about) = below.and_then(|folder| fs::metadata(folder).ok()) {
                fs::set_permissions(&place, about.permissions())?;
            }
        }
    }
    Ok(())
}

/// Moves the ignored roots of a workspace into a new folder, with the data that the next round needs.
fn move_out(workspace: &Workspace, kept: &Path, roots: &[PathBuf], touched: Vec<PathBuf>) -> io::Result<()> {
    marked_dir(kept)?;
    private_dir(&kept.join("kept"))?;
    let mut moved = Vec::new();
    for root in roots {
        let place = kept.join("kept").join(moved.len().to_string());
        // A folder whose permissions prevent the move stays behind.
        if fs::rename(workspace.dir.join(root), place).is_ok() {
            moved.push(root.as_os_str().as_bytes());
        }
    }
    let given = fs::read(workspace.root.join(GIVEN)).ok().and_then(|bytes| read_times(&bytes)).unwrap_or_default();
    let now = now(kept)?;
    let time_of = |path: &Path| {
        let is_as_given = |time: &SystemTime| {
            fs::symlink_metadata(workspace.dir.join(path))
                .and_then(|about| about.modified())
                .is_ok_and(|at| at == *time)
        };
        given.get(path).copied().filter(is_as_given).unwrap_or(now)
    };
    let mut times: Touched =
        touched.into_iter().map(|path| (time_of(&path), path)).map(|(time, path)| (path, time)).collect();
    for (path, time) in given {
        times.entry(path).or_insert(time);
    }
    fs::write(kept.join("roots"), moved.join(&0))?;
    fs::write(kept.join("touched"), write_times(&times))?;
    fs::write(kept.join("base"), workspace.base.as_str())
}

/// The time of the file system's own clock: later than everything that was written before.
fn now(folder: &Path) -> io::Result<SystemTime> {
    let path = folder.join("now");
    fs::write(&path, b"").and_then(|()| fs::metadata(&path)?.modified())
}

/// `<seconds> <nanoseconds> <path> NUL` for each path.
fn write_times(touched: &Touched) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (path, time) in touched {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        bytes.extend(format!("{} {} ", since.as_secs(), since.subsec_nanos()).into_bytes());
        bytes.extend(path.as_os_str().as_bytes());
        bytes.push(0);
    }
    bytes
}

fn read_times(bytes: &[u8]) -> Option<Touched> {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
    let records = bytes.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    let mut touched = Touched::new();
    for record in records {
        let mut words = record.splitn(3, |byte| *byte == b' ');
        let (secs, nanos, path) = (number(words.next()?)?, number(words.next()?)?, words.next()?);
        let since = Duration::new(secs, u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?);
        touched.insert(as_path(path).to_owned(), UNIX_EPOCH.checked_add(since)?);
    }
    Some(touched)
}

/// Discards the oldest slots of a repository, each as a whole, until the others take at most `max` bytes.
fn shrink(warm: &Path, trash: &Path, max: u64) {
    let inside = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let slots = inside(warm.to_owned()).flat_map(inside).filter(|slot| is_ours(slot));
    let made =
        |slot: &PathBuf| fs::metadata(slot.join("base")).and_then(|about| about.modified()).unwrap_or(UNIX_EPOCH);
    let mut slots: Vec<_> = slots.map(|slot| (made(&slot), size(&slot), slot)).collect();
    slots.sort_by_key(|(made, ..)| std::cmp::Reverse(*made));
    let mut total = 0_u64;
    for (_, bytes, slot) in slots {
        total = total.saturating_add(bytes);
        let gone = trash.join(unique("warm"));
        if total > max && fs::rename(&slot, &gone).is_ok() {
            total -= bytes;
            // The next sweep removes the rest.
            let _ = remove_tree(&gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_were_written_and_nothing_else_is() {
        let time = UNIX_EPOCH + Duration::new(7, 5);
        let touched: Touched = [(PathBuf::from("a b/c"), time), (PathBuf::from("x\ny"), UNIX_EPOCH)].into();
        assert_eq!(read_times(&write_times(&touched)), Some(touched));
        for bad in ["x", "1 2", "a 2 p", "1 1000000000 p"] {
            assert_eq!(read_times(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn oldest_outputs_are_removed_when_together_they_are_too_large() {
        let temp = tempfile::tempdir().expect("a folder");
        let trash = temp.path().join("trash");
        fs::create_dir(&trash).expect("a folder");
        for (slot, age) in [("a/0", 3_u64), ("a/1", 1), ("b/0", 2)] {
            let slot = temp.path().join("warm").join(slot);
            marked_dir(&slot).and_then(|()| fs::write(slot.join("out"), [0; 600])).expect("a slot");
            fs::write(slot.join("base"), "").expect("a file");
            let file = fs::File::options().write(true).open(slot.join("base")).expect("a file");
            file.set_modified(UNIX_EPOCH + Duration::from_secs(100 - age)).expect("a time");
        }
        shrink(&temp.path().join("warm"), &trash, 1_500);
        let is_there = |slot: &str| temp.path().join("warm").join(slot).is_dir();
        assert_eq!([is_there("a/0"), is_there("a/1"), is_there("b/0")], [false, true, true]);
    }
}
