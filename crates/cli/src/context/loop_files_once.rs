//! The loop files behind one page: all its commands see the same state of them, and a large folder is parsed once and not
//! for every part of the page. Nothing is kept after the page.

use super::{CommandError, RepoLoops};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The loops by working copy, as they were first read.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoopFilesOnce(Arc<Mutex<HashMap<PathBuf, RepoLoops>>>);

impl LoopFilesOnce {
    /// Reads the loop files of a working copy, or returns what was read before.
    pub(super) fn read(&self, work_tree: &Path) -> Result<RepoLoops, CommandError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loops) = known.get(work_tree) {
            return Ok(loops.clone());
        }
        let loops = RepoLoops::read(work_tree)?;
        known.insert(work_tree.to_owned(), loops.clone());
        Ok(loops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_page_sees_one_state_of_the_files_and_the_next_page_the_newest() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join(".loopwright/loops");
        std::fs::create_dir_all(&folder).expect("a folder");
        let write = |name: &str| std::fs::write(folder.join(format!("{name}.yaml")), "broken").expect("written");
        let count = |page: &LoopFilesOnce| page.read(dir.path()).expect("it reads").problems.len();
        let page = LoopFilesOnce::default();
        write("one");
        let first = count(&page);
        write("two");
        assert!(first > 0 && count(&page) == first && count(&page.clone()) == first);
        assert!(count(&LoopFilesOnce::default()) > first);
    }
}
