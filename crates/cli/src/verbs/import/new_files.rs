//! The files of an import: all of them are written, or none. Each is written beside its place first; only then do all
//! of them get their names. A file with the same content is left alone, so an interrupted import can be repeated.

use super::FileLine;
use crate::context::{FileProblem, error_from_problems, read_bytes};
use crate::error::CommandError;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Whether files with other content may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replace {
    /// They are a problem.
    Refused,
    /// They are replaced.
    Allowed,
}

#[derive(Debug)]
struct NewFile {
    /// From the root of the working copy.
    name: String,
    path: PathBuf,
    text: String,
    /// The present content.
    before: Option<Vec<u8>>,
}

impl NewFile {
    fn is_unchanged(&self) -> bool {
        self.before.as_deref() == Some(self.text.as_bytes())
    }
}

/// The files, compared with the working copy.
#[derive(Debug)]
pub(super) struct NewFiles(Vec<NewFile>);

impl NewFiles {
    /// Compares files with the working copy, and reports all that may not be written at once.
    pub(super) fn compare(root: &Path, files: Vec<(String, String)>, replace: Replace) -> Result<Self, CommandError> {
        let (mut found, mut problems) = (Vec::new(), folder_problems(root));
        for (name, text) in files {
            let path = root.join(&name);
            let before = match present(&path) {
                Ok(before) => before,
                Err(what) => {
                    problems.push(FileProblem::for_file(&name, what));
                    continue;
                }
            };
            let file = NewFile { name, path, text, before };
            if file.before.is_some() && !file.is_unchanged() && replace == Replace::Refused {
                let problem = FileProblem::for_file(&file.name, "it exists with other content");
                problems.push(problem.with_hint("move it away, or replace it with `--force`"));
            }
            found.push(file);
        }
        if problems.is_empty() { Ok(Self(found)) } else { Err(error_from_problems(&problems)) }
    }

    /// The state of each file after the import.
    pub(super) fn states(&self) -> Vec<FileLine> {
        let state = |file: &NewFile| match &file.before {
            None => "written",
            Some(_) if file.is_unchanged() => "unchanged",
            Some(_) => "replaced",
        };
        self.0.iter().map(|file| FileLine { file: file.name.clone(), state: state(file) }).collect()
    }

    /// Writes each file beside its place. Nothing that exists changes; if a write fails, nothing stays behind.
    pub(super) fn stage(self) -> Result<StagedFiles, CommandError> {
        let mut staged = StagedFiles(Vec::new());
        for file in self.0.into_iter().filter(|file| !file.is_unchanged()) {
            let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let beside = file.path.with_file_name(format!(".{name}.import"));
            let failed = |error: io::Error| CommandError::failed(format!("write `{}`: {error}", file.name));
            write_beside(&beside, &file.text).map_err(failed)?;
            staged.0.push((beside, file));
        }
        Ok(staged)
    }
}

/// Files that are written under temporary names; dropping them removes those.
#[derive(Debug)]
pub(super) struct StagedFiles(Vec<(PathBuf, NewFile)>);

impl StagedFiles {
    /// Gives each file its name. If one fails, the earlier ones are restored.
    pub(super) fn publish(self) -> Result<(), CommandError> {
        for (at, (beside, file)) in self.0.iter().enumerate() {
            let named = match file.before {
                // A link fails if a file has appeared there since.
                None => fs::hard_link(beside, &file.path),
                Some(_) => fs::rename(beside, &file.path),
            };
            if let Err(error) = named {
                self.0[..at].iter().for_each(|(_, file)| undo(file));
                return Err(CommandError::failed(format!("write `{}`: {error}", file.name))
                    .hint("no file was changed; processed items are recorded, and the import can be repeated"));
            }
        }
        Ok(())
    }
}

impl Drop for StagedFiles {
    fn drop(&mut self) {
        for (beside, _) in &self.0 {
            // It is gone if the file was renamed.
            let _ = fs::remove_file(beside);
        }
    }
}

/// A failure here cannot be reported better than the one that led to it.
fn undo(file: &NewFile) {
    let _ = match &file.before {
        None => fs::remove_file(&file.path),
        Some(bytes) => fs::write(&file.path, bytes),
    };
}

/// Folders of the working copy that lead elsewhere.
fn folder_problems(root: &Path) -> Vec<FileProblem> {
    let folders = [".loopwright", ".loopwright/loops", ".loopwright/skills"].into_iter();
    let wrong = folders.filter(|name| root.join(name).symlink_metadata().is_ok_and(|about| !about.is_dir()));
    wrong
        .map(|name| FileProblem::for_file(name, "it is a link or not a folder").with_hint("put a folder in its place"))
        .collect()
}

/// The content of a file that may be replaced; `None` if there is none.
fn present(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("read it: {error}")),
        Ok(about) if !about.is_file() => Err("it is a link or not a plain file".to_owned()),
        Ok(_) => read_bytes(path).map(Some).map_err(|error| format!("read it: {error}")),
    }
}

fn write_beside(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // An import that was killed may have left one.
    let _ = fs::remove_file(path);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(path)))
}
