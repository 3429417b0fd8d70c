//! Every repository that a daemon manages: the one around the current folder or named by a flag, and those of the
//! user's configuration. Callers read the loops.

use super::{CheckedLoopFile, CommandContext, CommandError, RepoLoops};
use crate::error::{CommandErrorKind, error_chain};
use loopwright::git::UserRepo;
use loopwright_core::config::RepoEntry;
use loopwright_core::dispatch::LoopEntry;
use std::io;
use std::path::{Path, PathBuf};

/// The repositories to manage.
pub(crate) struct FleetScan {
    pub(crate) repos: Vec<FleetRepo>,
    pub(crate) missing: Vec<MissingRepo>,
}

/// A repository that is unavailable.
pub(crate) struct MissingRepo {
    /// The path where it was expected.
    pub(crate) place: PathBuf,
    /// The reason.
    pub(crate) reason: String,
    pub(crate) absence: RepoAbsence,
}

/// The kind of absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepoAbsence {
    /// It no longer exists.
    Gone,
    /// It exists but cannot be read at the moment.
    Unreadable,
}

/// A repository to manage.
pub(crate) struct FleetRepo {
    pub(crate) repo: UserRepo,
    /// The path where it was found: its working copy, or a folder inside.
    pub(crate) place: PathBuf,
    /// Only these of its loops; all if empty.
    pub(crate) only: Vec<String>,
}

impl FleetRepo {
    /// The managed loop files of the repository, and all problems of the others.
    pub(crate) fn read_loops(&self, cx: &CommandContext) -> Result<RepoLoops, CommandError> {
        let mut loops = cx.loops(&self.repo)?;
        loops.loops.retain(|file| self.only.is_empty() || self.only.contains(&file.spec.name));
        Ok(loops)
    }
}

impl FleetScan {
    /// The repositories, and those that are unavailable.
    pub(crate) async fn read(cx: &CommandContext) -> Result<Self, CommandError> {
        let (mut wanted, mut missing) = (Vec::new(), Vec::new());
        let place = cx.repo_search_path();
        match cx.repo().await {
            Ok(repo) => wanted.push(FleetRepo { repo, place, only: Vec::new() }),
            Err(error) if error.kind == CommandErrorKind::Invalid && !cx.has_explicit_repo() => {
                match classify_absence(&place) {
                    // No flag or file named this repository.
                    RepoAbsence::Gone => {}
                    how => missing.push(MissingRepo { place, reason: error.text, absence: how }),
                }
            }
            Err(error) => return Err(error),
        }
        for entry in &cx.config(None)?.config().repos {
            match discover_configured_repo(cx, entry).await {
                Ok(found) if wanted.iter().any(|known: &FleetRepo| known.repo.id == found.repo.id) => {}
                Ok(found) => wanted.push(found),
                Err(missed) => missing.push(missed),
            }
        }
        Ok(Self { repos: wanted, missing })
    }

    /// The entries of all their loops, as for the dispatcher; unusable files are left out.
    pub(crate) async fn loop_entries(cx: &CommandContext) -> Result<Vec<LoopEntry>, CommandError> {
        let mut entries = Vec::new();
        for wanted in Self::read(cx).await?.repos {
            let (files, zone) = (wanted.read_loops(cx)?.loops, cx.system_zone());
            entries.extend(files.iter().filter_map(|file| loop_entry(&zone, &wanted.repo, file).ok()));
        }
        Ok(entries)
    }
}

/// The entry of one loop, with the system's zone.
pub(crate) fn loop_entry(zone: &str, repo: &UserRepo, file: &CheckedLoopFile) -> Result<LoopEntry, CommandError> {
    LoopEntry::from_spec(&file.spec, &repo.id, zone)
        .map_err(|problem| CommandError::invalid(format!("{}: {problem}", file.file)).hint(problem.hint))
}

async fn discover_configured_repo(cx: &CommandContext, entry: &RepoEntry) -> Result<FleetRepo, MissingRepo> {
    let text = |why: String| format!("the repository `{}` of your configuration: {why}", entry.path);
    let nowhere =
        |why| MissingRepo { place: PathBuf::from(&entry.path), reason: text(why), absence: RepoAbsence::Gone };
    let place = cx.user_path(&entry.path).map_err(nowhere)?;
    match cx.git().discover(&place).await {
        Ok(repo) => Ok(FleetRepo { repo, place, only: entry.loops.clone() }),
        Err(error) => Err(MissingRepo { reason: text(error_chain(&error)), absence: classify_absence(&place), place }),
    }
}

/// Classifies a repository that git does not find at a place. It is gone only if the folder does not exist, or if no
/// folder around it has a `.git`. Every other trouble may be temporary.
fn classify_absence(place: &Path) -> RepoAbsence {
    let is_not_there = |found: io::Result<_>| {
        let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        found.is_err_and(|error: io::Error| kinds.contains(&error.kind()))
    };
    let has_no_git = || place.ancestors().all(|folder| is_not_there(folder.join(".git").symlink_metadata()));
    if is_not_there(place.metadata()) || has_no_git() { RepoAbsence::Gone } else { RepoAbsence::Unreadable }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_a_missing_folder_or_git_directory_is_gone() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let place = |name: &str| dir.path().join(name);
        assert_eq!(classify_absence(&place("nowhere")), RepoAbsence::Gone);
        std::fs::create_dir_all(place("plain/inside")).expect("a folder");
        assert_eq!(classify_absence(&place("plain/inside")), RepoAbsence::Gone, "it is no repository any more");
        std::fs::create_dir(place("plain/.git")).expect("a folder");
        assert_eq!(
            classify_absence(&place("plain/inside")),
            RepoAbsence::Unreadable,
            "git does not accept it, and something is there"
        );
        symlink("round", place("round")).expect("a link");
        assert_eq!(classify_absence(&place("round")), RepoAbsence::Unreadable, "the system cannot resolve it");
        std::fs::create_dir(place("bent")).expect("a folder");
        symlink(".git", place("bent/.git")).expect("a link");
        assert_eq!(classify_absence(&place("bent")), RepoAbsence::Unreadable);
    }
}
