//! Names under which programs store credentials. A folder that holds one is not shown to a loop.

use std::fs;
use std::path::{Path, PathBuf};

/// Files, by their whole name.
const FILES: [&str; 21] = [
    "credentials",
    "credentials.toml",
    "credentials.json",
    "application_default_credentials.json",
    "auth.json",
    ".npmrc",
    "npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".dockercfg",
    ".pgpass",
    ".my.cnf",
    ".env",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "settings-security.xml",
];

/// Folders, by their name.
const FOLDERS: [&str; 11] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config",
    ".password-store",
    ".mozilla",
    ".claude",
    ".codex",
];

/// The most entries that are read.
const ENTRIES_MAX: usize = 20_000;

/// The first file or folder of credentials in a folder, down to this many levels; `None` for a file.
#[must_use]
pub fn credential_in(dir: &Path, levels: usize) -> Option<PathBuf> {
    let mut left = ENTRIES_MAX;
    look(dir, levels, &mut left)
}

fn look(dir: &Path, levels: usize, left: &mut usize) -> Option<PathBuf> {
    if levels == 0 {
        return None;
    }
    for entry in fs::read_dir(dir).ok()?.flatten() {
        *left = left.checked_sub(1)?;
        let name = entry.file_name();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let names: &[&str] = if is_dir { &FOLDERS } else { &FILES };
        if names.iter().any(|known| name == *known) {
            return Some(entry.path());
        }
        if is_dir && let Some(found) = look(&entry.path(), levels - 1, left) {
            return Some(found);
        }
    }
    None
}
