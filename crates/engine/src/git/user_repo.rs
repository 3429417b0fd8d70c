//! The user's repository: finds, identifies and reads it. Nothing here writes into it except
//! [`UserRepo::add_take_branch`], which adds exactly one new branch on a person's request.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::engine_repo::tree_entry;
use super::{EngineRepo, Git, GitCall, GitError, GitErrorKind, Oid, TREE_MAX, TreeEntry};

/// Hex digits of the path's hash that make a repository's folder name unique (48 bits).
const ID_DIGITS: usize = 12;
/// The readable part of a repository's folder name is cut here.
const SLUG_MAX: usize = 32;
/// A packed candidate on its way into the user's repository may not be larger than this.
const TAKE_MAX: usize = 512 << 20;

/// The hash function of a repository's object names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFormat {
    /// 40 hex digits; nearly every repository uses it.
    Sha1,
    /// 64 hex digits.
    Sha256,
}

impl ObjectFormat {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }

    /// Bytes of a raw object name.
    pub(crate) fn oid_len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// A repository of the user's, found from a path inside it.
#[derive(Debug, Clone)]
pub struct UserRepo {
    /// The repository folder of this working copy (for a linked worktree, its own).
    pub git_dir: PathBuf,
    /// The folder that holds objects and branches, shared by all working copies.
    pub common_dir: PathBuf,
    /// The root of the working copy.
    pub work_tree: PathBuf,
    /// A folder name for this repository: readable slug and hash of the common folder's path.
    pub id: String,
    /// The hash function of its object names.
    pub format: ObjectFormat,
}

/// The commit that a round starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundBase {
    /// The pinned commit.
    pub commit: Oid,
    /// The branch it was read from; `None` when HEAD is detached or `base:` names a commit or tag.
    pub branch: Option<String>,
}

impl Git {
    /// Finds the repository around a path.
    ///
    /// # Errors
    /// `NotARepository`, `Bare`, `Missing`.
    pub async fn discover(&self, path: &Path) -> Result<UserRepo, GitError> {
        let start = if path.is_file() { path.parent().unwrap_or(path) } else { path };
        let start = std::path::absolute(start).unwrap_or_else(|_| start.to_owned());
        if !start.is_dir() {
            return Err(GitError::new("rev-parse", &[], GitErrorKind::NotARepository, b"no such folder"));
        }
        let call =
            GitCall::new("git.rev-parse").in_folder(&start).args(["--path-format=absolute", "--is-bare-repository"]);
        let call = call.args(["--show-object-format", "--git-common-dir", "--git-dir", "--show-toplevel"]);
        let answer = self.ask(&call).await?;
        let lines: Vec<&[u8]> = answer.stdout.split(|byte| *byte == b'\n').collect();
        match (answer.code, lines.first().copied()) {
            (_, Some(b"true")) => Err(GitError::new("rev-parse", &[], GitErrorKind::Bare, b"")),
            (Some(0), _) => UserRepo::from_lines(&lines),
            _ => Err(GitError::new("rev-parse", &[], GitErrorKind::NotARepository, &answer.stderr)),
        }
    }

    /// The commit a round starts from: `base` by name, otherwise the checked-out commit. Works on a dirty or
    /// half-rebased working copy, because it reads only refs.
    ///
    /// # Errors
    /// `NoCommits` for an empty repository, `UnknownRef` for a base that is not there.
    pub async fn head(&self, repo: &UserRepo, base: Option<&str>) -> Result<RoundBase, GitError> {
        match base {
            Some(name) => self.named_base(repo, name).await,
            None => self.checked_out(repo).await,
        }
    }

    /// The path of every file in a commit of the user's repository.
    ///
    /// # Errors
    /// `UnknownRef` when the commit is not there, `TooLarge` for an unreasonable tree.
    pub async fn paths(&self, repo: &UserRepo, commit: &Oid) -> Result<BTreeSet<String>, GitError> {
        Ok(self.tree(repo, commit).await?.into_iter().map(|entry| entry.path).collect())
    }

    /// Every entry of a commit of the user's repository.
    ///
    /// # Errors
    /// As [`Git::paths`].
    pub async fn tree(&self, repo: &UserRepo, commit: &Oid) -> Result<Vec<TreeEntry>, GitError> {
        let call = GitCall::new("git.ls-tree").git_dir(&repo.git_dir).out_max(TREE_MAX);
        let answer = self.run(call.args(["-r", "-z", "--full-tree", commit.as_str()])).await?;
        Ok(answer.stdout.split(|byte| *byte == 0).filter_map(tree_entry).collect())
    }

    async fn checked_out(&self, repo: &UserRepo) -> Result<RoundBase, GitError> {
        let call = GitCall::new("git.rev-parse").git_dir(&repo.git_dir).args([
            "HEAD^{commit}",
            "--symbolic-full-name",
            "HEAD",
        ]);
        let answer = self.run(call).await.map_err(|error| match error.kind {
            GitErrorKind::UnknownRef => error.with_kind(GitErrorKind::NoCommits),
            _ => error,
        })?;
        let text = answer.line();
        let (commit, full) = text.split_once('\n').unwrap_or((&text, "HEAD"));
        Ok(RoundBase { commit: parse_oid(commit)?, branch: full.strip_prefix("refs/heads/").map(str::to_owned) })
    }

    /// A branch takes precedence over a tag or commit of the same name: `base:` is documented as a branch.
    async fn named_base(&self, repo: &UserRepo, name: &str) -> Result<RoundBase, GitError> {
        let ask = |rev: String| {
            let call = GitCall::new("git.rev-parse").git_dir(&repo.git_dir);
            call.args(["--verify", "--quiet", "--end-of-options"]).arg(rev)
        };
        let branch = self.ask(&ask(format!("refs/heads/{name}^{{commit}}"))).await?;
        if branch.code == Some(0) {
            return Ok(RoundBase { commit: parse_oid(&branch.line())?, branch: Some(name.to_owned()) });
        }
        let other = self.ask(&ask(format!("{name}^{{commit}}"))).await?;
        if other.code == Some(0) {
            return Ok(RoundBase { commit: parse_oid(&other.line())?, branch: None });
        }
        self.checked_out(repo).await.map(drop)?;
        Err(GitError::new("rev-parse", &[name.to_owned()], GitErrorKind::UnknownRef, name.as_bytes()))
    }
}

impl UserRepo {
    fn from_lines(lines: &[&[u8]]) -> Result<Self, GitError> {
        let [_, format, common, git_dir, top, ..] = lines else {
            return Err(GitError::new("rev-parse", &[], GitErrorKind::NotARepository, b"unexpected answer"));
        };
        let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        let canonical = |bytes: &[u8]| path(bytes).canonicalize().unwrap_or_else(|_| path(bytes));
        let (common_dir, work_tree) = (canonical(common), canonical(top));
        let id = repo_id(&common_dir, &work_tree);
        let format = if *format == b"sha256" { ObjectFormat::Sha256 } else { ObjectFormat::Sha1 };
        Ok(Self { git_dir: canonical(git_dir), common_dir, work_tree, id, format })
    }

    /// Adds the branch `take/<round>` with a candidate to the user's repository and switches nothing.
    ///
    /// The objects are copied as a pack of the candidate's additions to its base, so neither the engine's
    /// shallow history nor a fetch's own files (`FETCH_HEAD`, `shallow`) can leak into the repository.
    ///
    /// # Errors
    /// `Moved` when the branch exists, `UnknownRef` when the repository no longer has the base.
    pub async fn add_take_branch(
        &self,
        git: &Git,
        engine: &EngineRepo,
        round: &str,
        commit: &Oid,
        base: &Oid,
    ) -> Result<String, GitError> {
        let branch = format!("take/{round}");
        let reference = format!("refs/heads/{branch}");
        git.run(GitCall::new("git.check-ref-format").arg(&reference)).await?;
        git.run(GitCall::new("git.cat-file").git_dir(&self.git_dir).args(["-e", &format!("{base}^{{commit}}")]))
            .await
            .map_err(|error| error.with_kind(GitErrorKind::UnknownRef))?;
        let exists = GitCall::new("git.show-ref").git_dir(&self.git_dir).args(["--verify", "--quiet", &reference]);
        if git.ask(&exists).await?.code == Some(0) {
            return Err(GitError::new("show-ref", &[reference], GitErrorKind::Moved, b"the branch exists already"));
        }
        let pack = engine.pack_between(base, commit, TAKE_MAX).await?;
        git.run(GitCall::new("git.unpack-objects").git_dir(&self.git_dir).arg("-q").stdin(pack)).await?;
        let create = GitCall::new("git.update-ref").git_dir(&self.git_dir).args(["--", &reference, commit.as_str()]);
        git.run(create.arg(commit.zero_like())).await?;
        Ok(branch)
    }
}

pub(crate) fn parse_oid(text: &str) -> Result<Oid, GitError> {
    text.trim().parse().map_err(|error: super::BadOid| {
        GitError::new("rev-parse", &[], GitErrorKind::Failed(None), error.to_string().as_bytes())
    })
}

/// Two clones of one project in folders of the same name differ in the hash; a moved clone gets a new id.
fn repo_id(common_dir: &Path, work_tree: &Path) -> String {
    let name = work_tree.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let slug: String = name.chars().map(safe).take(SLUG_MAX).collect();
    let slug = slug.trim_matches('-');
    let hash = Sha256::digest(common_dir.as_os_str().as_bytes());
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}", if slug.is_empty() { "repo" } else { slug }, &digits[..ID_DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_ids_are_readable_unique_and_safe_as_folder_names() {
        let id = repo_id(Path::new("/a/My App/.git"), Path::new("/a/My App"));
        assert!(id.starts_with("my-app-") && id.len() == "my-app-".len() + ID_DIGITS, "{id}");
        assert_ne!(id, repo_id(Path::new("/b/My App/.git"), Path::new("/b/My App")));
        for odd in ["/x/..", "/x/\u{202e}evil", "/x/-rf", "/x/a\nb", "/"] {
            let id = repo_id(Path::new("/g"), Path::new(odd));
            assert!(id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') && !id.starts_with('-'), "{id}");
        }
    }
}
