//! The effective configuration: the user's file, the repository's, the environment and the flags, laid over each other in
//! this order. The keys and their reader are in `core`.

use super::{Context, read_bytes};
use crate::error::CommandError;
use loopwright_core::config::{Config, Effective, Origin, read_config_file};
use std::io;
use std::path::Path;

/// The repository's file, from the root of the working copy.
pub(crate) const REPOSITORY_FILE: &str = ".loopwright/config.yaml";

impl Context {
    /// The effective configuration for a working copy, or for the user alone.
    pub(crate) fn config(&self, work_tree: Option<&Path>) -> Result<Effective, CommandError> {
        let mut effective = Effective::default().merge(self.user_config()?, Origin::User);
        if let Some(tree) = work_tree {
            effective = effective.merge(repository_config(tree)?, Origin::Repository);
        }
        let env = Config {
            state_dir: self.env.state_dir.as_ref().map(|dir| dir.to_string_lossy().into_owned()),
            store: self.env.store.clone(),
            ..Config::default()
        };
        let flags = Config {
            state_dir: self.state.as_ref().map(|dir| dir.to_string_lossy().into_owned()),
            ..Config::default()
        };
        Ok(effective.merge(env, Origin::Environment).merge(flags, Origin::Flag))
    }

    /// The user's own file. One that was named has to be there; the usual one may be absent.
    pub(super) fn user_config(&self) -> Result<Config, CommandError> {
        if let Some(named) = &self.env.config {
            let path = self.env.cwd.join(named);
            let read = read_file(&path, &named.to_string_lossy())?;
            return read.ok_or_else(|| {
                let text = format!("the configuration `{}` named by LOOPWRIGHT_CONFIG is not there", named.display());
                CommandError::invalid(text)
            });
        }
        let Some(path) = self.env.user_config() else { return Ok(Config::default()) };
        Ok(read_file(&path, &path.to_string_lossy())?.unwrap_or_default())
    }
}

/// A repository says nothing about where state is kept: a file that everybody with a commit can change must not move the
/// record, and commands outside the repository would look elsewhere.
fn repository_config(work_tree: &Path) -> Result<Config, CommandError> {
    let config = read_file(&work_tree.join(REPOSITORY_FILE), REPOSITORY_FILE)?.unwrap_or_default();
    let misplaced = match (&config.state_dir, &config.store) {
        (None, None) => return Ok(config),
        (Some(_), _) => "state_dir",
        (None, Some(_)) => "store",
    };
    let text = format!("`{misplaced}` in {REPOSITORY_FILE}: a repository does not decide where state is kept");
    Err(CommandError::invalid(text)
        .hint("put it into your own configuration, or set LOOPWRIGHT_STATE_DIR or LOOPWRIGHT_STORE")
        .at(REPOSITORY_FILE, 0, 0))
}

fn read_file(path: &Path, shown: &str) -> Result<Option<Config>, CommandError> {
    match read_bytes(path) {
        Ok(bytes) => read_config_file(shown, &bytes).map(Some).map_err(|problems| CommandError::problems(&problems)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(CommandError::failed(format!("read configuration `{shown}`: {error}"))),
    }
}
