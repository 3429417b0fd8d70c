//! Computes the merged view of layers at a path without the kernel, for the few cases in which the engine needs it
//! before anything is mounted. Links are never followed.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

/// The entry at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MergedEntry {
    /// A folder.
    Folder,
    /// A file, link or other entry, and its path on the host.
    Leaf(PathBuf),
    /// No entry.
    Nothing,
}

/// The entry that the layers, the first on top, show at a path.
pub(super) fn merged_entry(layers: &[PathBuf], path: &Path) -> MergedEntry {
    let parts: Vec<Component<'_>> = path.components().collect();
    let mut found = MergedEntry::Nothing;
    for layer in layers {
        let mut place = layer.clone();
        for (at, part) in parts.iter().enumerate() {
            place.push(part);
            match fs::symlink_metadata(&place) {
                // The layer has no entries below this.
                Err(_) => break,
                Ok(about) if about.is_dir() && at + 1 == parts.len() => found = MergedEntry::Folder,
                Ok(about) if about.is_dir() => {}
                // A folder of a layer above hides a file of this one, and this file hides all layers below it.
                Ok(_) if found == MergedEntry::Folder => return found,
                Ok(about) if at + 1 < parts.len() || is_mark(&about) => return MergedEntry::Nothing,
                Ok(_) => return MergedEntry::Leaf(place),
            }
        }
    }
    found
}

fn is_mark(about: &fs::Metadata) -> bool {
    about.file_type().is_char_device() && about.rdev() == 0
}

#[cfg(test)]
mod tests {
    use super::super::folder::whiteout;
    use super::*;

    #[test]
    fn upper_layers_hide_what_lies_below() {
        let temp = tempfile::tempdir().expect("a folder");
        let (top, low) = (temp.path().join("top"), temp.path().join("low"));
        for folder in ["low/d/e", "low/gone/x", "top/d", "top/over"] {
            fs::create_dir_all(temp.path().join(folder)).expect("a folder");
        }
        for file in ["low/d/f", "low/over", "low/file", "top/file"] {
            fs::write(temp.path().join(file), file).expect("a file");
        }
        fs::create_dir(low.join("under")).expect("a folder");
        fs::write(top.join("under"), "").expect("a file");
        whiteout(&top.join("gone")).expect("a mark");
        let layers = [top.clone(), low.clone()];
        let at = |path: &str| merged_entry(&layers, Path::new(path));
        assert_eq!(at("d"), MergedEntry::Folder);
        assert_eq!(at("d/e"), MergedEntry::Folder);
        assert_eq!(at("d/f"), MergedEntry::Leaf(low.join("d/f")));
        assert_eq!(at("file"), MergedEntry::Leaf(top.join("file")));
        assert_eq!(
            (at("gone"), at("gone/x"), at("none")),
            (MergedEntry::Nothing, MergedEntry::Nothing, MergedEntry::Nothing)
        );
        assert_eq!((at("over"), at("under")), (MergedEntry::Folder, MergedEntry::Leaf(top.join("under"))));
        assert_eq!(at("under/x"), MergedEntry::Nothing);
    }
}
