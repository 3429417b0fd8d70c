//! What costs a process to find out and stays true while the files it was read from stay: where a repository is, what is
//! checked out, that a loop's gate scripts are in a commit. A round that is due has no time to ask git for what was known a
//! minute ago. Whatever is in doubt is asked again; nothing here is kept over a restart.

use crate::engine::Engine;
use crate::git::{Base, GitError, ObjectFormat, Oid, UserRepo};
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Entries of each kind; past it all are forgotten, which costs a process each.
const KNOWN_MAX: usize = 10_000;
/// The most that is read of a file with a reference in it.
const REF_MAX: u64 = 1024;

/// What is known.
#[derive(Clone, Default)]
pub(crate) struct Known(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    repos: HashMap<PathBuf, (Stamp, UserRepo)>,
    /// Loops, in the form of a hash, whose gate scripts are in a commit of a repository.
    gated: HashSet<(String, Oid, String)>,
}

/// Device, number, and moment of the last change of each file that an answer was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp(Vec<(u64, u64, i64, i64)>);

impl Stamp {
    /// The repository's folders and its configuration, from which git reads where everything is.
    fn of(repo: &UserRepo) -> Option<Self> {
        let config = repo.common_dir.join("config");
        let fixed = [&repo.work_tree.join(".git"), &repo.git_dir, &repo.common_dir];
        let mut stamps = Vec::with_capacity(fixed.len() + 1);
        for path in fixed {
            let seen = path.symlink_metadata().ok()?;
            stamps.push((seen.dev(), seen.ino(), 0, 0));
        }
        let seen = config.symlink_metadata().ok()?;
        stamps.push((seen.dev(), seen.ino(), seen.mtime(), seen.mtime_nsec()));
        Some(Self(stamps))
    }
}

impl Known {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change under the lock is whole in itself.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the gate scripts of a loop are known to be in a commit.
    pub(crate) fn is_gated(&self, repo: &str, commit: &Oid, spec_hash: &str) -> bool {
        self.lock().gated.contains(&(repo.to_owned(), commit.clone(), spec_hash.to_owned()))
    }

    pub(crate) fn note_gated(&self, repo: &str, commit: &Oid, spec_hash: &str) {
        let mut inner = self.lock();
        if inner.gated.len() >= KNOWN_MAX {
            inner.gated.clear();
        }
        inner.gated.insert((repo.to_owned(), commit.clone(), spec_hash.to_owned()));
    }

    fn repo(&self, path: &Path) -> Option<UserRepo> {
        let (stamp, repo) = self.lock().repos.get(path).cloned()?;
        (Stamp::of(&repo)? == stamp).then_some(repo)
    }

    fn note_repo(&self, path: &Path, repo: &UserRepo) {
        // Inside a repository, another one may come to be between the path and the root.
        let Some(stamp) = Stamp::of(repo).filter(|_| path == repo.work_tree) else { return };
        let mut inner = self.lock();
        if inner.repos.len() >= KNOWN_MAX {
            inner.repos.clear();
        }
        inner.repos.insert(path.to_owned(), (stamp, repo.clone()));
    }
}

impl Engine {
    /// The repository at a path; asked of git only when it may have changed.
    pub(crate) async fn repo_at(&self, path: &Path) -> Result<UserRepo, GitError> {
        if let Some(repo) = self.known.repo(path) {
            return Ok(repo);
        }
        let repo = self.git.discover(path).await?;
        self.known.note_repo(path, &repo);
        Ok(repo)
    }

    /// Where a round starts: read from the reference itself where it is a plain file, else asked of git.
    pub(crate) async fn base_of(&self, repo: &UserRepo, base: Option<&str>) -> Result<Base, GitError> {
        match plain_base(repo, base) {
            Some(base) => Ok(base),
            None => self.git.head(repo, base).await,
        }
    }
}

/// The commit of a branch, or of what is checked out, where files say it plainly.
fn plain_base(repo: &UserRepo, base: Option<&str>) -> Option<Base> {
    let name = match base {
        Some(name) => name.to_owned(),
        None => {
            let head = line(&repo.git_dir.join("HEAD"))?;
            match head.strip_prefix("ref: refs/heads/") {
                Some(name) => name.to_owned(),
                None => return Some(Base { commit: oid(repo, &head)?, branch: None }),
            }
        }
    };
    let is_plain = Path::new(&name).components().all(|part| matches!(part, Component::Normal(_)));
    let path = repo.common_dir.join("refs/heads").join(&name);
    let commit = oid(repo, &line(&path).filter(|_| is_plain)?)?;
    Some(Base { commit, branch: Some(name) })
}

fn line(path: &Path) -> Option<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(REF_MAX).read_to_string(&mut text).ok()?;
    Some(text.strip_suffix('\n')?.to_owned())
}

fn oid(repo: &UserRepo, text: &str) -> Option<Oid> {
    let length = match repo.format {
        ObjectFormat::Sha1 => 40,
        ObjectFormat::Sha256 => 64,
    };
    text.parse::<Oid>().ok().filter(|_| text.len() == length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Git;
    use crate::seam::Seam;
    use loopwright_testkit::TestRepo;

    async fn both(repo: &UserRepo, base: Option<&str>) -> (Option<Base>, Option<Base>) {
        (plain_base(repo, base), Git::new(Seam::none()).head(repo, base).await.ok())
    }

    #[tokio::test]
    async fn what_files_say_plainly_is_what_git_says() {
        let test = TestRepo::new();
        test.write("a", "1").commit("first");
        let repo = Git::new(Seam::none()).discover(test.path()).await.expect("a repository");
        let (plain, asked) = both(&repo, None).await;
        assert!(plain.is_some() && plain == asked, "{plain:?} {asked:?}");
        let branch = plain.and_then(|base| base.branch).expect("a branch is checked out");
        let (plain, asked) = both(&repo, Some(&branch)).await;
        assert!(plain.is_some() && plain == asked, "{plain:?} {asked:?}");
        let head = test.path().join(".git/HEAD");
        std::fs::write(&head, format!("{}\n", asked.expect("a base").commit)).expect("HEAD can be written");
        let (plain, asked) = both(&repo, None).await;
        assert!(plain.is_some() && plain == asked, "detached: {plain:?} {asked:?}");
    }

    #[tokio::test]
    async fn whatever_is_not_plain_is_left_to_git() {
        let test = TestRepo::new();
        test.write("a", "1").commit("first");
        let repo = Git::new(Seam::none()).discover(test.path()).await.expect("a repository");
        for odd in ["../../HEAD", "/etc/passwd", "no-such-branch", "", "."] {
            assert_eq!(plain_base(&repo, Some(odd)), None, "{odd}");
        }
        std::fs::write(test.path().join(".git/HEAD"), "ref: refs/heads/.invalid\n").expect("HEAD can be written");
        assert_eq!(plain_base(&repo, None), None);
    }

    #[tokio::test]
    async fn a_repository_is_known_until_its_files_change() {
        let test = TestRepo::new();
        test.write("a", "1").commit("first");
        let repo = Git::new(Seam::none()).discover(test.path()).await.expect("a repository");
        let known = Known::default();
        known.note_repo(&repo.work_tree, &repo);
        assert!(known.repo(&repo.work_tree).is_some());
        let config = repo.common_dir.join("config");
        let text = std::fs::read_to_string(&config).expect("a configuration");
        std::fs::remove_file(&config).expect("it can be removed");
        assert!(known.repo(&repo.work_tree).is_none());
        std::fs::write(&config, text + "[core]\n\tbare = false\n").expect("it can be written");
        assert!(known.repo(&repo.work_tree).is_none(), "another file is another answer");
    }
}
