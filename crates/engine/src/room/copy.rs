//! Copies a layer where none can be laid: times and modes stay, links stay links, what is there already stays as it is.

use std::fs;
use std::io;
use std::path::Path;

pub(super) fn tree(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, place) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            if !place.is_dir() {
                fs::create_dir(&place)?;
            }
            tree(&entry.path(), &place)?;
        } else if fs::symlink_metadata(&place).is_err() {
            one(&entry, &place)?;
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
        // A build tool takes a younger file for a changed one. A file that nobody may write keeps the time it has.
        if let Ok(file) = fs::File::options().write(true).open(place) {
            file.set_modified(entry.metadata()?.modified()?)?;
        }
    }
    Ok(())
}
