//! Finds files of certain names in the folders below the top of a workspace, over all its layers: some programs take
//! instructions from every folder in which they read a file, and have no option to disable that.

use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, FileType};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// The attribute of a folder that hides the folder in the layer below.
const OPAQUE: &str = "user.overlay.opaque";
/// The most entries that are read. Reading the names of a million files takes seconds.
const ENTRIES_MAX: usize = 2_000_000;
/// The most names that are found.
const FOUND_MAX: usize = 1_000;

/// A folder of the workspace: its path there, and its host folders, topmost layer first.
struct Folder {
    path: PathBuf,
    layers: Vec<PathBuf>,
}

/// The paths below the top whose name is one of these, as a program inside sees them. Entries that cannot be read are
/// skipped: the program runs with the same rights.
///
/// # Errors
/// When there are more entries to read, or to hide, than the limits allow.
pub(super) fn find(layers: &[&Path], names: &[&str]) -> Result<Vec<PathBuf>, String> {
    let top = Folder { path: PathBuf::new(), layers: layers.iter().map(|layer| (*layer).to_owned()).collect() };
    let (mut left, mut found, mut entries) = (vec![top], Vec::new(), 0_usize);
    while let Some(folder) = left.pop() {
        for (name, (kind, places)) in listed(&folder) {
            entries += 1;
            let path = folder.path.join(&name);
            if kind.is_dir() && name != ".git" {
                left.push(Folder { path, layers: places });
            } else if !folder.path.as_os_str().is_empty() && names.iter().any(|wanted| name == *wanted) {
                found.push(path);
            }
        }
        if entries > ENTRIES_MAX || found.len() > FOUND_MAX {
            return Err(format!("there are too many files to hide each `{}` from the agent", names.join("`, `")));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The entries of a folder. The topmost layer that has a name decides its kind. Folders of several layers are merged,
/// down to the first that hides the rest.
fn listed(folder: &Folder) -> BTreeMap<OsString, (FileType, Vec<PathBuf>)> {
    let mut all: BTreeMap<OsString, (FileType, Vec<PathBuf>, bool)> = BTreeMap::new();
    for layer in &folder.layers {
        for entry in fs::read_dir(layer).into_iter().flatten().flatten() {
            let (Ok(kind), path) = (entry.file_type(), entry.path()) else { continue };
            let known = all.entry(entry.file_name()).or_insert_with(|| (kind, Vec::new(), false));
            let joins = kind.is_dir() && known.0.is_dir() && !known.2;
            if joins {
                known.2 = is_opaque(&path);
                known.1.push(path);
            } else {
                known.2 = true;
            }
        }
    }
    // A character device marks a deletion.
    let there = all.into_iter().filter(|(_, (kind, ..))| !kind.is_char_device());
    there.map(|(name, (kind, places, _))| (name, (kind, places))).collect()
}

fn is_opaque(folder: &Path) -> bool {
    let mut value = [0; 8];
    match rustix::fs::lgetxattr(folder, OPAQUE, &mut value) {
        Ok(_) | Err(Errno::RANGE) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, "x").expect("a file");
        }
        folder
    }

    fn found(layers: &[&tempfile::TempDir]) -> Vec<String> {
        let layers: Vec<&Path> = layers.iter().map(|layer| layer.path()).collect();
        let found = find(&layers, &["GEMINI.md"]).expect("few files");
        found.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn names_are_found_in_every_folder_except_the_top_and_gits_own() {
        let files =
            ["GEMINI.md", "a/GEMINI.md", "a/b/c/GEMINI.md", ".git/GEMINI.md", "a/.git/x/GEMINI.md", "d/README.md"];
        assert_eq!(found(&[&world(&files)]), ["a/GEMINI.md", "a/b/c/GEMINI.md"]);
    }

    #[test]
    fn layers_are_one_tree_in_which_the_topmost_decides() {
        let lower = world(&["a/GEMINI.md", "b/GEMINI.md", "c/GEMINI.md", "d/x/GEMINI.md"]);
        let upper = world(&["a/other", "b", "new/GEMINI.md", "d/y"]);
        rustix::fs::setxattr(upper.path().join("d"), OPAQUE, b"y", rustix::fs::XattrFlags::empty())
            .expect("a file system with attributes");
        assert_eq!(found(&[&upper, &lower]), ["a/GEMINI.md", "c/GEMINI.md", "new/GEMINI.md"]);
    }

    #[test]
    fn too_many_names_are_an_error_and_a_deep_tree_is_not() {
        let many: Vec<String> = (0..=FOUND_MAX).map(|at| format!("d{at}/GEMINI.md")).collect();
        let many = world(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(find(&[many.path()], &["GEMINI.md"]).is_err());
        let deep = format!("{}GEMINI.md", "d/".repeat(1_500));
        assert_eq!(found(&[&world(&[&deep])]), [deep]);
    }
}
