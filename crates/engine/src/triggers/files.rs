//! Signals for changed files. The key identifies the changes, so that the same change reported twice is one signal.

use crate::store::SignalRow;
use loopwright_core::hash;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The most paths that a signal names; the rest is counted.
const NAMED_MAX: usize = 100;
/// The number of hex digits in a key.
const DIGITS: usize = 32;

/// The signal that files of a working copy changed; `None` when no path is left.
pub(super) fn changed_signal<'a>(
    repo: &str,
    loop_name: &str,
    root: &Path,
    paths: impl Iterator<Item = &'a str>,
    now_ms: i64,
) -> Option<SignalRow> {
    let paths: Vec<&str> = paths.collect();
    let (first, count) = (paths.first()?, paths.len());
    let facts: Vec<String> = paths.iter().map(|path| format!("{path}\n{}", revision(&root.join(path)))).collect();
    let fields: Vec<&[u8]> = facts.iter().map(String::as_bytes).collect();
    let title = if count == 1 { format!("`{first}` changed") } else { format!("{count} files changed") };
    let named: Vec<&&str> = paths.iter().take(NAMED_MAX).collect();
    let data = serde_json::json!({ "count": count, "paths": named });
    Some(row(repo, loop_name, &hash::hash_fields(&fields), title, Some(data.to_string()), now_ms))
}

/// The signal for changes whose paths are not known.
pub(super) fn overflow_signal(repo: &str, loop_name: &str, now_ms: i64) -> SignalRow {
    let digest = hash::hash_fields(&[b"lost", &now_ms.to_le_bytes()]);
    row(repo, loop_name, &digest, "too many files changed at once to list them".to_owned(), None, now_ms)
}

fn row(repo: &str, loop_name: &str, digest: &str, title: String, data: Option<String>, now_ms: i64) -> SignalRow {
    SignalRow {
        repo: repo.to_owned(),
        loop_name: loop_name.to_owned(),
        key: format!("files:{}", &digest[..DIGITS]),
        trigger: "files".to_owned(),
        at_ms: now_ms,
        item: None,
        title: Some(title),
        data,
        taken_ms: None,
    }
}

/// Identifies one state of a file. Not its content: a file that is changed and changed back has changed twice. The
/// change time counts and not the modification time, which a program can set back.
fn revision(path: &Path) -> String {
    match path.symlink_metadata() {
        Ok(meta) => format!("{}.{:09}:{}:{}", meta.ctime(), meta.ctime_nsec(), meta.size(), meta.ino()),
        Err(_) => format!("gone at {}", last_change_around(path)),
    }
}

/// When the nearest existing folder of a path changed: a file that is deleted, created and deleted again counts twice.
fn last_change_around(path: &Path) -> String {
    let folder = path.ancestors().skip(1).find_map(|folder| folder.symlink_metadata().ok());
    folder.map_or_else(String::new, |meta| format!("{}.{:09}", meta.ctime(), meta.ctime_nsec()))
}
