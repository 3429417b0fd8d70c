//! The ignore rules of a base as an index of their own. In an overlay the folder of changed files lacks them, and git
//! reads missing rule files from the index, for entries that are marked as not checked out.

use std::fs;
use std::path::Path;

use super::base::ReadyBase;
use super::index::{self, IndexEntry};
use super::{WorkspaceError, Workspaces, io};

impl Workspaces {
    /// Writes the index into a base's folder.
    pub(super) async fn write_rules(&self, ready: &ReadyBase, half: &Path) -> Result<(), WorkspaceError> {
        let entries = index::read(&ready.index(), self.oid_len())?;
        let is_rules = |entry: &&IndexEntry| entry.path.split(|byte| *byte == b'/').next_back() == Some(b".gitignore");
        let rules: Vec<&IndexEntry> = entries.iter().filter(is_rules).collect();
        let index = half.join("index-ignore");
        let update = || self.engine.call("git.update-index").unflushed().index(&index).work_tree(half).in_folder(half);
        self.git().run(self.engine.call("git.read-tree").unflushed().index(&index).arg("--empty")).await?;
        if !rules.is_empty() {
            let lines = rules.iter().flat_map(|entry| {
                let head = format!("{:o} {}\t", entry.mode, entry.oid(self.oid_len()));
                [head.as_bytes(), entry.path.as_slice(), b"\0"].concat()
            });
            self.git().run(update().args(["-z", "--index-info"]).stdin(lines.collect::<Vec<u8>>())).await?;
            let paths: Vec<&[u8]> = rules.iter().map(|entry| entry.path.as_slice()).collect();
            self.git().run(update().args(["--skip-worktree", "-z", "--stdin"]).stdin(paths.join(&0))).await?;
        }
        fs::rename(&index, ready.ignore_index()).map_err(io("rename", &index))
    }
}
