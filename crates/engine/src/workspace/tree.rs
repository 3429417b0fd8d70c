//! The sealed tree of an overlay, made of its base's tree and what changed: no index of the whole base is read or written, so
//! the cost is that of the change. Content is still read by git, which knows how attributes convert it.

use std::fs;
use std::path::{Path, PathBuf};

use super::base::ReadyBase;
use super::folder::unique;
use super::index::{self, Entry};
use super::plan::Plan;
use super::seal::moving_or;
use super::{Workspace, WorkspaceError, Workspaces, io};
use crate::git::{GitError, GitErrorKind, Oid};

impl Workspaces {
    /// Writes into a base's folder what a seal looks into instead of its index: the list of its paths, and small indexes. In one, git finds the ignore rules that a folder of changed files
    /// lacks: it reads them from the index for entries that are marked as not checked out. In the other are the attributes.
    pub(super) async fn write_rules(&self, ready: &ReadyBase, half: &Path) -> Result<(), WorkspaceError> {
        let entries = index::read(&ready.index(), self.oid_len())?;
        ready.write_catalogue(&entries)?;
        let named = |name: &[u8]| entries.iter().filter(|entry| is_named(&entry.path, name)).collect::<Vec<_>>();
        let (ignore, attributes) = (named(b".gitignore"), named(b".gitattributes"));
        let index = self.small_index(half, &ignore).await?;
        if !ignore.is_empty() {
            let paths: Vec<&[u8]> = ignore.iter().map(|entry| entry.path.as_slice()).collect();
            let call = self.engine.call("git.update-index").unflushed().index(&index).work_tree(half).inside(half);
            self.git().run(call.args(["--skip-worktree", "-z", "--stdin"]).stdin(paths.join(&0))).await?;
        }
        fs::rename(&index, ready.ignore_index()).map_err(io("rename", &index))?;
        let index = self.small_index(half, &attributes).await?;
        fs::rename(&index, ready.attributes_index()).map_err(io("rename", &index))
    }

    async fn small_index(&self, half: &Path, entries: &[&Entry]) -> Result<PathBuf, WorkspaceError> {
        let index = half.join("index-small");
        let lines = entries.iter().flat_map(|entry| {
            let head = format!("{:o} {}\t", entry.mode, entry.oid(self.oid_len()));
            [head.as_bytes(), entry.path.as_slice(), b"\0"].concat()
        });
        let call = self.engine.call("git.read-tree").unflushed().index(&index).arg("--empty");
        self.git().run(call).await?;
        if !entries.is_empty() {
            let call = self.engine.call("git.update-index").unflushed().index(&index).args(["-z", "--index-info"]);
            self.git().run(call.stdin(lines.collect::<Vec<u8>>())).await?;
        }
        Ok(index)
    }

    /// The tree of the base with what changed in an upper layer.
    pub(super) async fn grow_tree(
        &self,
        workspace: &Workspace,
        ready: &ReadyBase,
        plan: &Plan,
    ) -> Result<Oid, WorkspaceError> {
        let index = workspace.root.join("index.seal");
        fs::copy(ready.attributes_index(), &index).map_err(io("copy", &index))?;
        let update = || {
            let call = self.engine.call("git.update-index").index(&index).work_tree(&workspace.dir);
            call.inside(&workspace.dir)
        };
        let attributes: Vec<&[u8]> =
            plan.deleted.iter().map(Vec::as_slice).filter(|path| is_named(path, b".gitattributes")).collect();
        if !attributes.is_empty() {
            self.git().run(update().args(["--force-remove", "-z", "--stdin"]).stdin(attributes.join(&0))).await?;
        }
        if !plan.files.is_empty() {
            let paths = plan.files.iter().map(|file| file.path.as_slice()).collect::<Vec<_>>().join(&0);
            let add = update().args(["--add", "-z", "--stdin"]).stdin(paths);
            self.git().run(add).await.map_err(|error| moving_or(error, &workspace.dir))?;
        }
        let written = index::read(&index, self.oid_len())?;
        let mut changes: Vec<u8> = plan.deleted.iter().flat_map(|path| deletion(path)).collect();
        for file in &plan.files {
            let at = index::find(&written, &file.path);
            let entry = at.and_then(|at| written.get(at));
            let entry =
                entry.ok_or_else(|| WorkspaceError::Moving(String::from_utf8_lossy(&file.path).into_owned()))?;
            changes.extend(
                format!("M {:o} {} {}\n", entry.mode, entry.oid(self.oid_len()), quoted(&file.path)).into_bytes(),
            );
        }
        self.import_tree(&workspace.base, changes).await
    }

    /// Applies changes to a commit's tree. Git's importer loads only the folders that change; the commit it makes on the way
    /// is nobody's, and neither is its ref, which is gone again at the end.
    pub(super) async fn import_tree(&self, base: &Oid, changes: Vec<u8>) -> Result<Oid, WorkspaceError> {
        let reference = format!("refs/loopwright/growing/{}", unique("tree"));
        let head =
            format!("commit {reference}\ncommitter Loopwright <loopwright@localhost> 0 +0000\ndata 0\nfrom {base}\n");
        let tail = format!("ls \"\"\n\nreset {reference}\nfrom {}\n\n", base.zero_like());
        let input = [head.into_bytes(), changes, tail.into_bytes()].concat();
        let call = self.engine.call("git.fast-import").args(["--quiet", "--done"]);
        let answer = self.git().run(call.stdin([input, b"done\n".to_vec()].concat())).await?;
        let line = answer.line();
        let tree = line.split([' ', '\t']).nth(2).and_then(|oid| oid.parse().ok());
        tree.ok_or_else(|| GitError::new("fast-import", &[], GitErrorKind::Failed(None), line.as_bytes()).into())
    }
}

fn is_named(path: &[u8], name: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').next_back() == Some(name)
}

/// The order to git's importer to take a path out.
pub(super) fn deletion(path: &[u8]) -> Vec<u8> {
    format!("D {}\n", quoted(path)).into_bytes()
}

/// A path as git's importer reads it: in quotes, with everything unusual by its octal number.
fn quoted(path: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in path {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            other => text.push_str(&format!("\\{other:03o}")),
        }
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusual_paths_are_quoted() {
        assert_eq!(quoted(b"a b/c"), "\"a b/c\"");
        assert_eq!(quoted("ü\"\\\n".as_bytes()), "\"\\303\\274\\\"\\\\\\012\"");
    }
}
