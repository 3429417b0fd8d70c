//! Every repository that a daemon looks after: the one around us or named by a flag, and those of the user's configuration.
//! What its loops are is read by whoever asks.

use super::{Context, LoopFile, Loops};
use crate::error::{CommandError, Kind, chain};
use loopwright::git::UserRepo;
use loopwright_core::config::RepoEntry;
use loopwright_core::dispatch::Entry;

/// A repository to look after.
pub(crate) struct Wanted {
    pub(crate) repo: UserRepo,
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
    /// The repositories, and why others of the configuration cannot be had.
    pub(crate) async fn wanted(&self) -> Result<(Vec<Wanted>, Vec<String>), CommandError> {
        let (mut wanted, mut troubles) = (Vec::new(), Vec::new());
        match self.repo().await {
            Ok(repo) => wanted.push(Wanted { repo, only: Vec::new() }),
            Err(error) if error.kind == Kind::Invalid && !self.names_a_repo() => {}
            Err(error) => return Err(error),
        }
        for entry in &self.config(None)?.config().repos {
            match self.configured(entry).await {
                Ok(repo) if wanted.iter().any(|known: &Wanted| known.repo.id == repo.id) => {}
                Ok(repo) => wanted.push(Wanted { repo, only: entry.loops.clone() }),
                Err(why) => troubles.push(format!("the repository `{}` of your configuration: {why}", entry.path)),
            }
        }
        Ok((wanted, troubles))
    }

    async fn configured(&self, entry: &RepoEntry) -> Result<UserRepo, String> {
        let path = self.user_path(&entry.path)?;
        self.git().discover(&path).await.map_err(|error| chain(&error))
    }

    /// What the dispatcher would know of all their loops; files that cannot be used are left out.
    pub(crate) async fn entries(&self) -> Result<Vec<Entry>, CommandError> {
        let (wanted, _) = self.wanted().await?;
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
