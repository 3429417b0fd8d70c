//! Removes a candidate's objects that may not be kept from the engine's repository and checks the removal. Sealed
//! objects are loose files, so each is deleted separately; objects that a ref reaches are kept.

use std::collections::HashSet;
use std::path::PathBuf;

use super::engine_repo::tree_entry;
use super::{EngineRepo, GitError, GitErrorKind, Oid, TREE_MAX};

impl EngineRepo {
    /// Removes the files at `paths` of a commit that no ref names, the folders around them, its tree and the commit
    /// itself. Other files of it stay, since another round may just have created identical ones.
    ///
    /// # Errors
    /// When git fails, or one of them is still there afterwards.
    pub(crate) async fn forget(&self, commit: &Oid, tree: &Oid, paths: &[&str]) -> Result<(), GitError> {
        let around: HashSet<&str> = paths.iter().flat_map(|path| with_folders(path)).collect();
        let call = self.call("git.ls-tree").args(["-r", "-t", "-z", "--full-tree", tree.as_str()]).out_max(TREE_MAX);
        let listed = self.git().run(call).await?;
        let entries = listed.stdout.split(|byte| *byte == 0).filter_map(tree_entry);
        let doomed = entries.filter(|entry| around.contains(entry.path.as_str())).map(|entry| entry.oid);
        let mut doomed: Vec<Oid> = doomed.chain([tree.clone(), commit.clone()]).collect();
        let reached = self.reached().await?;
        doomed.retain(|oid| !reached.contains(oid.as_str()));
        for oid in &doomed {
            self.remove_loose(oid)?;
        }
        self.is_gone(&doomed).await
    }

    /// Every object that some ref reaches. Objects that were already in the history must stay.
    async fn reached(&self) -> Result<HashSet<String>, GitError> {
        let call = self.call("git.rev-list").args(["--objects", "--no-object-names", "--all"]).out_max(TREE_MAX);
        let answer = self.git().run(call).await?;
        Ok(String::from_utf8_lossy(&answer.stdout).lines().map(str::to_owned).collect())
    }

    fn remove_loose(&self, oid: &Oid) -> Result<(), GitError> {
        match std::fs::remove_file(self.loose(oid)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(still_there(oid, &error.to_string())),
            _ => Ok(()),
        }
    }

    fn loose(&self, oid: &Oid) -> PathBuf {
        let (folder, file) = oid.as_str().split_at(2);
        self.dir().join("objects").join(folder).join(file)
    }

    async fn is_gone(&self, doomed: &[Oid]) -> Result<(), GitError> {
        let names: String = doomed.iter().map(|oid| format!("{oid}\n")).collect();
        let answer = self.git().run(self.call("git.cat-file").arg("--batch-check").stdin(names)).await?;
        let answers = String::from_utf8_lossy(&answer.stdout).into_owned();
        match answers.lines().find(|line| !line.ends_with(" missing")) {
            Some(line) => Err(GitError::new("forget", &[], GitErrorKind::Failed(None), line.as_bytes())),
            None => Ok(()),
        }
    }
}

fn still_there(oid: &Oid, why: &str) -> GitError {
    GitError::new("forget", &[oid.to_string()], GitErrorKind::Failed(None), why.as_bytes())
}

/// A path and every folder around it.
fn with_folders(path: &str) -> impl Iterator<Item = &str> {
    let folders = path.match_indices('/').map(|(at, _)| &path[..at]);
    folders.chain([path])
}
