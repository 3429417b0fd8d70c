//! Hooks in a user's repository that poke the daemon when a branch moved. They say nothing but "look"; without a daemon they
//! do nothing that anybody notices.

use std::path::{Path, PathBuf};

/// The folder in which a hook touches a file named after its repository.
#[must_use]
pub fn poke_folder(state: &Path) -> PathBuf {
    state.join("poke")
}
