//! The difference of two commits as a layer: files that are new or changed, and overlayfs's deletion marks for removed
//! ones. Mounted over a checkout of the first commit, it shows the second.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::base::BasePool;
use super::folder::whiteout;
use super::index::{self, IndexEntry};
use super::{WorkspaceError, blocking, io};
use crate::git::{EngineRepo, Oid, TREE_MAX};

/// The differences between two commits, by path.
pub(super) struct CommitDelta {
    present: Vec<Vec<u8>>,
    gone: Vec<Vec<u8>>,
}

impl CommitDelta {
    pub(super) fn len(&self) -> usize {
        self.present.len() + self.gone.len()
    }

    /// Whether unchanged files have the same bytes in both checkouts: attributes decide how content is written.
    pub(super) fn keeps_the_rest(&self) -> bool {
        let is_attributes = |path: &Vec<u8>| path.split(|byte| *byte == b'/').next_back() == Some(b".gitattributes");
        !self.present.iter().chain(&self.gone).any(is_attributes)
    }

    /// Lists the differences between two commits.
    pub(super) async fn between(engine: &EngineRepo, from: &Oid, to: &Oid) -> Result<Self, WorkspaceError> {
        let call = engine.call("git.diff-tree").args(["-r", "-z", "--raw", "--no-renames", "--no-abbrev"]);
        let call = call.args(["--no-ext-diff", from.as_str(), to.as_str()]).out_max(TREE_MAX);
        let answer = engine.git().run(call).await?;
        Ok(parse(&answer.stdout))
    }

    /// Writes it into the new folder `files`. `index` is the first commit's, with the stats of its checkout; it
    /// becomes the second's, with the stats of both layers.
    pub(super) async fn write(
        &self,
        bases: &BasePool,
        to: &Oid,
        index: &Path,
        files: &Path,
    ) -> Result<(), WorkspaceError> {
        let engine = &bases.engine;
        // Merging into an index keeps the stats of entries that did not change. The verb requires a work tree, though
        // it does not read it.
        let call = engine.call("git.read-tree").unflushed().index(index).work_tree(files);
        let call = call.in_folder(files).args(["-m", to.as_str()]);
        engine.git().run(call).await?;
        if !self.present.is_empty() {
            let call = engine.call("git.checkout-index").index(index).work_tree(files).in_folder(files);
            let call = call.args(["--index", "--quiet", "-z", "--stdin"]).stdin(self.present.join(&0));
            engine.git().run(call).await?;
        }
        if self.gone.is_empty() {
            return Ok(());
        }
        let (gone, index, files, oid_len) = (self.gone.clone(), index.to_owned(), files.to_owned(), bases.oid_len());
        blocking(move || {
            let entries = index::read(&index, oid_len)?;
            tops(&gone, &entries).into_iter().try_for_each(|path| hide(&files, path).map_err(io("hide", &files)))
        })
        .await
    }
}

fn parse(bytes: &[u8]) -> CommitDelta {
    let mut delta = CommitDelta { present: Vec::new(), gone: Vec::new() };
    let mut fields = bytes.split(|byte| *byte == 0);
    while let (Some(record), Some(path)) = (fields.next(), fields.next()) {
        let status = record.rsplit(|byte| *byte == b' ').next();
        let list = if status == Some(b"D") { &mut delta.gone } else { &mut delta.present };
        list.push(path.to_vec());
    }
    delta
}

/// The paths to hide: for each deleted path, the topmost folder that was deleted with it. If a file replaced a folder,
/// or a folder a file, the new one hides the old.
fn tops<'p>(gone: &'p [Vec<u8>], entries: &[IndexEntry]) -> BTreeSet<&'p [u8]> {
    let mut tops = BTreeSet::new();
    for path in gone {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([path.len()]);
        let mut parts = ends.map(|end| &path[..end]);
        let top = parts.find(|part| index::below(entries, part).is_empty());
        if let Some(top) = top.filter(|top| index::find(entries, top).is_none()) {
            tops.insert(top);
        }
    }
    tops
}

fn hide(files: &Path, path: &[u8]) -> std::io::Result<()> {
    let place: PathBuf = files.join(OsStr::from_bytes(path));
    // A folder in an upper layer shows its own permissions, so it gets the usual ones, as git creates them.
    fs::create_dir_all(place.parent().unwrap_or(files))?;
    whiteout(&place)
}
