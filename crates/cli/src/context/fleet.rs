//! Every repository that a daemon looks after: the one around us or named by a flag, and those of the user's configuration.
//! What its loops are is read by whoever asks.

use super::{Context, LoopFile, Loops};
use crate::error::{CommandError, Kind, chain};
use loopwright::git::UserRepo;
use loopwright_core::config::RepoEntry;
use loopwright_core::dispatch::Entry;
use std::io;
use std::path::{Path, PathBuf};

/// What there is to look after.
pub(crate) struct Looked {
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) missing: Vec<Missing>,
}

/// A repository that cannot be had.
pub(crate) struct Missing {
    /// Where it was looked for.
    pub(crate) place: PathBuf,
    /// Why.
    pub(crate) text: String,
    pub(crate) how: Absence,
}

/// How a repository is not to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absence {
    /// It is not there any more.
    Gone,
    /// Something is there that cannot be read, for now.
    Unreadable,
}

/// A repository to look after.
pub(crate) struct Wanted {
    pub(crate) repo: UserRepo,
    /// Where it was looked for: its working copy, or a folder inside.
    pub(crate) place: PathBuf,
    /// Only these of its loops; all, when there is none.
    pub(crate) only: Vec<String>,
}

impl Wanted {
    /// The loop files of the repository that are looked after, and everything that is wrong with the others.
    pub(crate) fn loops(&self, cx: &Context) -> Result<Loops, CommandError> {
        let mut loops = cx.loops(&self.repo)?;
        loops.loops.retain(|file| self.only.is_empty() || self.only.contains(&file.spec.name));
        Ok(loops)
    }
}

impl Context {
    /// The repositories, and why others cannot be had.
    pub(crate) async fn wanted(&self) -> Result<Looked, CommandError> {
        let (mut wanted, mut missing) = (Vec::new(), Vec::new());
        let place = self.repo_place();
        match self.repo().await {
            Ok(repo) => wanted.push(Wanted { repo, place, only: Vec::new() }),
            Err(error) if error.kind == Kind::Invalid && !self.names_a_repo() => match absence(&place) {
                // Nobody said that there is one.
                Absence::Gone => {}
                how => missing.push(Missing { place, text: error.text, how }),
            },
            Err(error) => return Err(error),
        }
        for entry in &self.config(None)?.config().repos {
            match self.configured(entry).await {
                Ok(found) if wanted.iter().any(|known: &Wanted| known.repo.id == found.repo.id) => {}
                Ok(found) => wanted.push(found),
                Err(missed) => missing.push(missed),
            }
        }
        Ok(Looked { wanted, missing })
    }

    async fn configured(&self, entry: &RepoEntry) -> Result<Wanted, Missing> {
        let text = |why: String| format!("the repository `{}` of your configuration: {why}", entry.path);
        let nowhere = |why| Missing { place: PathBuf::from(&entry.path), text: text(why), how: Absence::Gone };
        let place = self.user_path(&entry.path).map_err(nowhere)?;
        match self.git().discover(&place).await {
            Ok(repo) => Ok(Wanted { repo, place, only: entry.loops.clone() }),
            Err(error) => Err(Missing { text: text(chain(&error)), how: absence(&place), place }),
        }
    }

    /// What the dispatcher would know of all their loops; files that cannot be used are left out.
    pub(crate) async fn entries(&self) -> Result<Vec<Entry>, CommandError> {
        let Looked { wanted, .. } = self.wanted().await?;
        let mut entries = Vec::new();
        for wanted in &wanted {
            entries.extend(wanted.loops(self)?.loops.iter().filter_map(|file| self.entry(&wanted.repo, file).ok()));
        }
        Ok(entries)
    }

    /// The same of one loop.
    pub(crate) fn entry(&self, repo: &UserRepo, file: &LoopFile) -> Result<Entry, CommandError> {
        Entry::of(&file.spec, &repo.id, &self.system_zone())
            .map_err(|problem| CommandError::new(Kind::Invalid, format!("{}: {problem}", file.file)).hint(problem.hint))
    }
}

/// How a repository is absent that git does not find at a place: only a folder that is not there, or a `.git` that is nowhere
/// around it, is gone. Everything else may be better soon.
fn absence(place: &Path) -> Absence {
    let is_not_there = |found: io::Result<_>| {
        let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        found.is_err_and(|error: io::Error| kinds.contains(&error.kind()))
    };
    let has_no_git = || place.ancestors().all(|folder| is_not_there(folder.join(".git").symlink_metadata()));
    if is_not_there(place.metadata()) || has_no_git() { Absence::Gone } else { Absence::Unreadable }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_what_is_not_there_is_gone() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let place = |name: &str| dir.path().join(name);
        assert_eq!(absence(&place("nowhere")), Absence::Gone);
        std::fs::create_dir_all(place("plain/inside")).expect("a folder");
        assert_eq!(absence(&place("plain/inside")), Absence::Gone, "it is no repository any more");
        std::fs::create_dir(place("plain/.git")).expect("a folder");
        assert_eq!(absence(&place("plain/inside")), Absence::Unreadable, "git says no, and something is there");
        symlink("round", place("round")).expect("a link");
        assert_eq!(absence(&place("round")), Absence::Unreadable, "the system says neither yes nor no");
        std::fs::create_dir(place("bent")).expect("a folder");
        symlink(".git", place("bent/.git")).expect("a link");
        assert_eq!(absence(&place("bent")), Absence::Unreadable);
    }
}
