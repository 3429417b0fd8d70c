//! Keeps of a prepared checkout only the files that base does not have, so that a set-up can add files but never change
//! one: a gate judges the candidate's tree, even if a set-up changed base's files.

use crate::depth::FolderDepth;
use crate::workspace::remove_tree;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The attribute of a folder that hides the folder in the layer below.
const OPAQUE: &str = "user.overlay.opaque";

/// Removes `.git`, every tracked file, and the whiteouts of deleted ones. Returns the removed paths; in the upper
/// folder of an overlay these are the tracked paths that the set-up changed.
pub(super) fn keep_untracked(root: &Path, tracked: &BTreeSet<String>) -> io::Result<Vec<String>> {
    remove_tree(&root.join(".git"))?;
    let mut put_back = Vec::new();
    let mut left = vec![Place { dir: root.to_owned(), name: String::new(), depth: FolderDepth::default() }];
    while let Some(place) = left.pop() {
        folder(&place, tracked, &mut put_back, &mut left)?;
    }
    Ok(put_back)
}

/// Prunes one folder; its sub-folders, which are still to be pruned, are added to `left`.
fn folder(at: &Place, tracked: &BTreeSet<String>, put_back: &mut Vec<String>, left: &mut Vec<Place>) -> io::Result<()> {
    // A folder that replaced one of base's shows base's files again.
    let _ = rustix::fs::removexattr(&at.dir, OPAQUE);
    open_up(&at.dir)?;
    for entry in fs::read_dir(&at.dir)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        // Names that git cannot store are not tracked.
        let part = entry.file_name().to_string_lossy().into_owned();
        let name = if at.name.is_empty() { part } else { format!("{}/{part}", at.name) };
        if kind.is_dir() && tracked.contains(&name) {
            remove_tree(&path)?;
            put_back.push(name);
        } else if kind.is_dir() {
            left.push(Place { dir: path, name, depth: at.depth.child()? });
        } else if tracked.contains(&name) || is_whiteout(&entry)? || is_below(&name, tracked) {
            fs::remove_file(&path)?;
            put_back.push(name);
        }
    }
    Ok(())
}

/// A folder to prune, with its path in the checkout.
struct Place {
    dir: PathBuf,
    name: String,
    depth: FolderDepth,
}

/// Whether base has a folder where a file or link is.
fn is_below(name: &str, tracked: &BTreeSet<String>) -> bool {
    let folder = format!("{name}/");
    tracked.range(folder.clone()..).next().is_some_and(|next| next.starts_with(&folder))
}

/// The mark of a deleted entry of a lower layer.
fn is_whiteout(entry: &fs::DirEntry) -> io::Result<bool> {
    Ok(entry.file_type()?.is_char_device() && entry.metadata()?.rdev() == 0)
}

/// Package managers create folders that even their owner may not change.
fn open_up(dir: &Path) -> io::Result<()> {
    let mode = fs::metadata(dir)?.permissions().mode();
    if mode & 0o700 == 0o700 { Ok(()) } else { fs::set_permissions(dir, fs::Permissions::from_mode(mode | 0o700)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_base_does_not_have_stay() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path();
        let files = [".git/HEAD", "src/a.rs", "src/new.rs", "Cargo.lock", "target/x/y", "lib", "was-file/inside"];
        for name in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder can be made");
            fs::write(path, "").expect("a file can be written");
        }
        std::os::unix::fs::symlink("/etc", root.join("link")).expect("a link can be made");
        fs::set_permissions(root.join("target/x"), fs::Permissions::from_mode(0o500)).expect("a mode can be set");
        let tracked = ["src/a.rs", "lib/b.rs", "was-file", "link/passwd"].map(str::to_owned).into();
        let mut put_back = keep_untracked(root, &tracked).expect("it can be pruned");
        put_back.sort();
        assert_eq!(put_back, ["lib", "link", "src/a.rs", "was-file"]);
        for (name, is_there) in
            [(".git", false), ("src/a.rs", false), ("src/new.rs", true), ("Cargo.lock", true), ("target/x/y", true)]
        {
            assert_eq!(root.join(name).exists(), is_there, "{name}");
        }
        assert!(Path::new("/etc/passwd").exists());
    }

    #[test]
    fn set_up_that_nests_folders_too_deep_is_an_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        crate::depth::tests::deep(folder.path(), 2_000);
        let error = keep_untracked(folder.path(), &BTreeSet::new()).expect_err("the tree is too deep");
        assert!(error.to_string().contains("deep"), "{error}");
        // The tree is removed nevertheless where base tracks a file.
        keep_untracked(folder.path(), &BTreeSet::from(["d".to_owned()])).expect("base's file is put back");
        assert!(!folder.path().join("d").exists());
    }
}
