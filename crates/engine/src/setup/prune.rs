//! Leaves of a prepared checkout only what base does not have, so that a set-up can add files but never change one: what
//! a gate judges is the candidate's tree, whatever a set-up did to base's.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// The mark of a folder that hides the one below.
const OPAQUE: &str = "user.overlay.opaque";

/// Removes `.git` and every tracked file, and with them the marks that tracked files are gone. Answers with the tracked
/// paths that had been changed, where the folder holds changes only.
pub(super) fn keep_untracked(root: &Path, tracked: &BTreeSet<String>) -> io::Result<Vec<String>> {
    let git = root.join(".git");
    match fs::symlink_metadata(&git) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(&git)?,
        Ok(_) => fs::remove_file(&git)?,
        Err(_) => {}
    }
    let mut put_back = Vec::new();
    folder(root, "", tracked, &mut put_back)?;
    Ok(put_back)
}

fn folder(dir: &Path, name: &str, tracked: &BTreeSet<String>, put_back: &mut Vec<String>) -> io::Result<()> {
    // A folder that stands in for one of base's shows base's files again.
    let _ = rustix::fs::removexattr(dir, OPAQUE);
    open_up(dir)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        // Names that git could not hold are not tracked.
        let part = entry.file_name().to_string_lossy().into_owned();
        let name = if name.is_empty() { part } else { format!("{name}/{part}") };
        if kind.is_dir() && tracked.contains(&name) {
            fs::remove_dir_all(&path)?;
            put_back.push(name);
        } else if kind.is_dir() {
            folder(&path, &name, tracked, put_back)?;
        } else if tracked.contains(&name) || is_whiteout(&entry)? || is_below(&name, tracked) {
            fs::remove_file(&path)?;
            put_back.push(name);
        }
    }
    Ok(())
}

/// Whether a file or link stands where base has a folder.
fn is_below(name: &str, tracked: &BTreeSet<String>) -> bool {
    let folder = format!("{name}/");
    tracked.range(folder.clone()..).next().is_some_and(|next| next.starts_with(&folder))
}

/// The mark that something of a lower layer is gone.
fn is_whiteout(entry: &fs::DirEntry) -> io::Result<bool> {
    Ok(entry.file_type()?.is_char_device() && entry.metadata()?.rdev() == 0)
}

/// Package managers write folders that even their owner may not change.
fn open_up(dir: &Path) -> io::Result<()> {
    let mode = fs::metadata(dir)?.permissions().mode();
    if mode & 0o700 == 0o700 { Ok(()) } else { fs::set_permissions(dir, fs::Permissions::from_mode(mode | 0o700)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_base_does_not_have_stays() {
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
        let mut put_back = keep_untracked(root, &tracked).expect("it can be looked through");
        put_back.sort();
        assert_eq!(put_back, ["lib", "link", "src/a.rs", "was-file"]);
        for (name, is_there) in
            [(".git", false), ("src/a.rs", false), ("src/new.rs", true), ("Cargo.lock", true), ("target/x/y", true)]
        {
            assert_eq!(root.join(name).exists(), is_there, "{name}");
        }
        assert!(Path::new("/etc/passwd").exists());
    }
}
