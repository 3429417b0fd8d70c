//! The files of a checkout: one private folder, or layers that the kernel merges for the program that works in them.
//! Locates files, and hides those that a program must not find.

use super::folder::{remove_tree, whiteout};
use crate::proc::MountSource;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The files of one checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckoutFiles {
    /// One folder that holds everything: a private copy.
    Folder(PathBuf),
    /// Shared layers, the first on top, below a private one that receives the changes.
    Overlay {
        /// The layers below, which are never written to.
        lower: Vec<PathBuf>,
        /// The changed files.
        upper: PathBuf,
        /// The kernel's scratch folder.
        work: PathBuf,
    },
    /// Shared layers, the first on top, for reading.
    Layers(Vec<PathBuf>),
}

impl CheckoutFiles {
    /// As a writable mount; layers without a private one stay read-only.
    #[must_use]
    pub fn writable(&self) -> MountSource {
        match self {
            Self::Folder(path) => MountSource::Writable(path.clone()),
            Self::Overlay { lower, upper, work } => {
                MountSource::Overlay { lower: lower.clone(), upper: upper.clone(), work: work.clone() }
            }
            Self::Layers(layers) => MountSource::Layers(layers.clone()),
        }
    }

    /// As a read-only mount.
    #[must_use]
    pub fn read_only(&self) -> MountSource {
        match self {
            Self::Folder(path) => MountSource::ReadOnly(path.clone()),
            Self::Overlay { lower, upper, .. } => {
                MountSource::Layers(std::iter::once(upper).chain(lower).cloned().collect())
            }
            Self::Layers(layers) => MountSource::Layers(layers.clone()),
        }
    }

    /// One folder of the checkout as a read-only mount; `None` if it is not a folder in all layers that have it.
    #[must_use]
    pub fn folder_read_only(&self, folder: &Path) -> Option<MountSource> {
        let (top, lower): (&PathBuf, &[PathBuf]) = match self {
            Self::Folder(path) => (path, &[]),
            Self::Overlay { upper, lower, .. } => (upper, lower),
            Self::Layers(layers) => layers.split_first()?,
        };
        let here = std::iter::once(top).chain(lower).map(|layer| layer.join(folder));
        let present = here.filter_map(|place| Some((fs::symlink_metadata(&place).ok()?, place)));
        let layers = present.map(|(found, place)| found.is_dir().then_some(place)).collect::<Option<Vec<_>>>()?;
        match layers.as_slice() {
            [] => None,
            [only] => Some(MountSource::ReadOnly(only.clone())),
            _ => Some(MountSource::Layers(layers)),
        }
    }

    /// One plain file of the checkout as a read-only mount; `None` if it is a link, or behind one.
    #[must_use]
    pub fn file_read_only(&self, file: &Path) -> Option<MountSource> {
        let (top, lower): (&PathBuf, &[PathBuf]) = match self {
            Self::Folder(path) => (path, &[]),
            Self::Overlay { upper, lower, .. } => (upper, lower),
            Self::Layers(layers) => layers.split_first()?,
        };
        let mut layers = std::iter::once(top).chain(lower);
        let layer = layers.find(|layer| fs::symlink_metadata(layer.join(file)).is_ok())?;
        let place = layer.join(file);
        let is_plain = leads_to(layer, file) && fs::symlink_metadata(&place).is_ok_and(|found| found.is_file());
        is_plain.then_some(MountSource::ReadOnly(place))
    }

    /// The host's folder with everything that a program wrote.
    #[must_use]
    pub fn written_folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(path) | Self::Overlay { upper: path, .. } => Some(path),
            Self::Layers(_) => None,
        }
    }

    /// Hides a file or folder, so that a program that starts now does not find it. For files that came with a commit; a
    /// path that does not exist, or leads out, is ignored.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn hide(&self, path: &Path) -> io::Result<()> {
        if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Ok(());
        }
        match self {
            Self::Folder(root) if leads_to(root, path) => take_away(&root.join(path)),
            Self::Overlay { lower, upper, .. } => {
                let is_there = |layer: &PathBuf| leads_to(layer, path);
                if is_there(upper) {
                    take_away(&upper.join(path))?;
                }
                if lower.iter().any(is_there) { hide_below(upper, path) } else { Ok(()) }
            }
            Self::Folder(_) | Self::Layers(_) => Ok(()),
        }
    }
}

/// Whether only real folders lead to a path: links are never followed.
pub(crate) fn leads_to(root: &Path, path: &Path) -> bool {
    let mut place = root.to_owned();
    let folders = path.parent().unwrap_or(Path::new("")).components();
    folders.into_iter().all(|part| {
        place.push(part);
        fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir())
    }) && fs::symlink_metadata(root.join(path)).is_ok()
}

fn take_away(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Marks a path as deleted in an upper layer. A link or file of that layer on the way is replaced by a folder.
fn hide_below(upper: &Path, path: &Path) -> io::Result<()> {
    let mut place = upper.to_owned();
    for part in path.parent().unwrap_or(Path::new("")).components() {
        place.push(part);
        if !fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir()) {
            take_away(&place)?;
            fs::create_dir(&place)?;
        }
    }
    whiteout(&upper.join(path))
}
