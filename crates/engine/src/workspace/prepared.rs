//! Files that a set-up put into a copied workspace. They are not the maker's change as long as the maker did not change
//! them. In an overlay they are in a layer below, so this module is not needed.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::Workspace;
use super::survey::CheckoutSurvey;

/// The file that names the layer that was copied in.
const PREPARED: &str = "prepared";
/// Largest file that is compared.
const COMPARED_MAX: u64 = 64 << 20;

impl Workspace {
    /// Records that a layer was copied into this workspace.
    pub(crate) fn record_prepared_layer(&self, layer: &Path) -> io::Result<()> {
        fs::write(self.root.join(PREPARED), layer.as_os_str().as_bytes())
    }
}

/// The layer that was copied into the workspace in a folder.
pub(super) fn layer_of(root: &Path) -> Option<PathBuf> {
    let bytes = fs::read(root.join(PREPARED)).ok()?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(&bytes)))
}

/// Removes from a survey the files that are as the set-up left them.
pub(super) fn drop_prepared(root: &Path, dir: &Path, survey: &mut CheckoutSurvey) {
    let Some(layer) = layer_of(root) else { return };
    let path = |name: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(name));
    survey.changed.retain(|file| !file.is_new || !is_same(&layer.join(path(&file.path)), &dir.join(path(&file.path))));
    survey.odd.retain(|(name, _)| fs::symlink_metadata(layer.join(path(name))).is_err());
}

fn is_same(a: &Path, b: &Path) -> bool {
    let (Ok(left), Ok(right)) = (fs::symlink_metadata(a), fs::symlink_metadata(b)) else { return false };
    if left.is_symlink() || right.is_symlink() {
        return left.is_symlink() && right.is_symlink() && fs::read_link(a).ok() == fs::read_link(b).ok();
    }
    let is_plain = left.is_file() && right.is_file() && left.len() == right.len() && left.len() <= COMPARED_MAX;
    is_plain && matches!((fs::read(a), fs::read(b)), (Ok(a), Ok(b)) if a == b)
}
