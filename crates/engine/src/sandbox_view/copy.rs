//! Copies a layer where overlays are not available: times and modes stay, links stay links, and existing files stay
//! unchanged.

use crate::depth::FolderDepth;
use std::fs;
use std::io;
use std::path::Path;

/// Copies the entries of a folder into another.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    let mut left = vec![(from.to_owned(), to.to_owned(), FolderDepth::default())];
    while let Some((from, to, depth)) = left.pop() {
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            let (kind, place) = (entry.file_type()?, to.join(entry.file_name()));
            if kind.is_dir() {
                let depth = depth.child()?;
                if !place.is_dir() {
                    fs::create_dir(&place)?;
                }
                left.push((entry.path(), place, depth));
            } else if fs::symlink_metadata(&place).is_err() {
                one(&entry, &place)?;
            }
        }
    }
    Ok(())
}

fn one(entry: &fs::DirEntry, place: &Path) -> io::Result<()> {
    let kind = entry.file_type()?;
    if kind.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(entry.path())?, place);
    }
    if kind.is_file() {
        fs::copy(entry.path(), place)?;
        // A build tool treats a younger file as changed. A file without write permission keeps its current time.
        if let Ok(file) = fs::File::options().write(true).open(place) {
            file.set_modified(entry.metadata()?.modified()?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depth::tests::deep;

    #[test]
    fn ordinary_tree_is_copied_and_one_that_is_too_deep_is_an_error() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("a/b/c")).expect("folders can be made");
        fs::create_dir(&to).expect("a folder can be made");
        fs::write(from.join("a/b/c/d"), "kept").expect("a file can be written");
        std::os::unix::fs::symlink("/nowhere", from.join("a/link")).expect("a link can be made");
        copy_tree(&from, &to).expect("it is copied");
        assert_eq!(fs::read_to_string(to.join("a/b/c/d")).expect("it is there"), "kept");
        assert_eq!(fs::read_link(to.join("a/link")).expect("it is a link"), Path::new("/nowhere"));
        deep(&from, 2_000);
        let error = copy_tree(&from, &to).expect_err("the tree is too deep");
        assert!(error.to_string().contains("deep"), "{error}");
        crate::workspace::remove_tree(&from).expect("it can be removed");
        crate::workspace::remove_tree(&to).expect("it can be removed");
    }
}
