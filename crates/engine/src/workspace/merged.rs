//! What layers show at a path, without the kernel: for the few places where the engine has to know before anything is
//! mounted. Nothing is followed.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shown {
    /// A folder.
    Folder,
    /// A file, link or something else, and where it lies.
    Leaf(PathBuf),
    /// Nothing.
    Nothing,
}

/// What the layers, the first on top, show at a path.
pub(super) fn shown(layers: &[PathBuf], path: &Path) -> Shown {
    let parts: Vec<Component<'_>> = path.components().collect();
    let mut found = Shown::Nothing;
    for layer in layers {
        let mut place = layer.clone();
        for (at, part) in parts.iter().enumerate() {
            place.push(part);
            match fs::symlink_metadata(&place) {
                // Below this the layer has nothing to say.
                Err(_) => break,
                Ok(about) if about.is_dir() && at + 1 == parts.len() => found = Shown::Folder,
                Ok(about) if about.is_dir() => {}
                // A folder of a layer above hides a file of this one; all layers below are hidden by it.
                Ok(_) if found == Shown::Folder => return found,
                Ok(about) if at + 1 < parts.len() || is_mark(&about) => return Shown::Nothing,
                Ok(_) => return Shown::Leaf(place),
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
        let at = |path: &str| shown(&layers, Path::new(path));
        assert_eq!(at("d"), Shown::Folder);
        assert_eq!(at("d/e"), Shown::Folder);
        assert_eq!(at("d/f"), Shown::Leaf(low.join("d/f")));
        assert_eq!(at("file"), Shown::Leaf(top.join("file")));
        assert_eq!((at("gone"), at("gone/x"), at("none")), (Shown::Nothing, Shown::Nothing, Shown::Nothing));
        assert_eq!((at("over"), at("under")), (Shown::Folder, Shown::Leaf(top.join("under"))));
        assert_eq!(at("under/x"), Shown::Nothing);
    }
}
