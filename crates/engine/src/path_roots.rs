//! The roots of paths that people write in a loop file: `~` is the user's home, and relative paths start at the
//! repository's root. This module resolves and classifies paths; it reads and mounts nothing.

use std::io;
use std::path::{Path, PathBuf};

/// The two folders that written paths are relative to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRoots {
    /// The root of the repository's working copy.
    pub repo: PathBuf,
    /// The user's home folder, if known.
    pub home: Option<PathBuf>,
}

impl PathRoots {
    /// The absolute path of a written path, whether or not it exists.
    #[must_use]
    pub fn resolve(&self, text: &str) -> PathBuf {
        match (text.strip_prefix('~'), &self.home) {
            (Some(""), Some(home)) => home.clone(),
            (Some(rest), Some(home)) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
            // Joining an absolute path returns that path.
            _ => self.repo.join(text),
        }
    }

    /// The absolute path with all links resolved.
    ///
    /// # Errors
    /// When it does not exist or cannot be read.
    pub fn resolve_real(&self, text: &str) -> io::Result<PathBuf> {
        self.resolve(text).canonicalize()
    }

    /// Whether a real path lies in the repository's working copy.
    #[must_use]
    pub fn is_in_repo(&self, real: &Path) -> bool {
        real.starts_with(follow_links(&self.repo))
    }

    /// A real path relative to the user's home, if it lies below it.
    #[must_use]
    pub fn below_home(&self, real: &Path) -> Option<PathBuf> {
        let home = follow_links(self.home.as_ref()?);
        real.strip_prefix(home).ok().filter(|rest| !rest.as_os_str().is_empty()).map(Path::to_owned)
    }
}

/// A path with its links resolved, or unchanged if that fails.
#[must_use]
pub(crate) fn follow_links(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_paths_start_at_home_or_at_the_repository() {
        let ground = PathRoots { repo: "/r".into(), home: Some("/h".into()) };
        let place = |text: &str| ground.resolve(text).to_string_lossy().into_owned();
        assert_eq!(place("~"), "/h");
        assert_eq!(place("~//x/y"), "/h/x/y");
        assert_eq!(place("/abs"), "/abs");
        assert_eq!(place("../x"), "/r/../x");
        assert_eq!(place("~other/x"), "/r/~other/x");
        let homeless = PathRoots { home: None, ..ground };
        assert_eq!(homeless.resolve("~/x"), Path::new("/r/~/x"));
    }
}
