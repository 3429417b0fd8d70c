//! The bare repository of the local forge: branches are pushed into it from the engine's repository, under a lease, and
//! never over another author's commits.

use std::path::{Path, PathBuf};

use super::engine_repo::{FETCH, file_url, init_bare};
use super::user_repo::parse_oid;
use super::{EngineRepo, Git, GitCall, GitError, GitErrorKind, ObjectFormat, Oid};

/// The bytes of a candidate's pack that are copied through memory; a larger candidate is fetched.
const PACK_MAX: usize = 64 << 20;

/// A bare repository in the place of a forge.
#[derive(Debug, Clone)]
pub struct ForgeRepo {
    git: Git,
    dir: PathBuf,
}

/// The result of a push, read back from the forge's repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushedBranch {
    /// The branch that was written.
    pub branch: String,
    /// The commit it points to now.
    pub commit: Oid,
    /// That commit's tree: the caller compares it with the tree that passed.
    pub tree: Oid,
}

impl ForgeRepo {
    /// Opens the bare repository at `dir`, creating it when it is not there.
    ///
    /// # Errors
    /// When git or the file system fails.
    pub async fn open(git: Git, dir: PathBuf, format: ObjectFormat) -> Result<Self, GitError> {
        init_bare(&git, &dir, format).await?;
        Ok(Self { git, dir })
    }

    /// Where the repository is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The commit a branch points to, if it exists.
    ///
    /// # Errors
    /// When git fails.
    pub async fn branch(&self, name: &str) -> Result<Option<Oid>, GitError> {
        let rev = format!("refs/heads/{name}^{{commit}}");
        let call = self.call("git.rev-parse").args(["--verify", "--quiet", "--end-of-options", &rev]);
        let answer = self.git.ask(&call).await?;
        if answer.code == Some(0) { parse_oid(&answer.line()).map(Some) } else { Ok(None) }
    }

    /// Points `branch` at `commit`, if it is still where the caller last saw it (`None`: it must not exist).
    /// `expect_tree` is the tree that passed; a commit with another tree is refused before the branch moves.
    ///
    /// # Errors
    /// `Moved` when the branch is elsewhere or the tree differs; nothing is overwritten then.
    pub async fn push(
        &self,
        engine: &EngineRepo,
        commit: &Oid,
        expect_tree: &Oid,
        branch: &str,
        expected_old: Option<&Oid>,
    ) -> Result<PushedBranch, GitError> {
        let reference = format!("refs/heads/{branch}");
        self.git.run(GitCall::new("git.check-ref-format").arg(&reference)).await?;
        let incoming = self.bring(engine, commit).await?;
        let tree = self.tree_of(commit).await?;
        if tree != *expect_tree {
            let text = format!("the commit's tree is {tree}, the tree that passed is {expect_tree}");
            return Err(GitError::new("push", &[reference], GitErrorKind::Moved, text.as_bytes()));
        }
        let old = expected_old.map_or_else(|| commit.zero_like(), |oid| oid.to_string());
        let moves = format!("start\nupdate {reference} {commit} {old}\ndelete {incoming}\ncommit\n");
        self.update_refs(moves).await?;
        Ok(PushedBranch { branch: branch.to_owned(), commit: commit.clone(), tree })
    }

    /// Moves a base branch forward to `commit`; a branch that is not an ancestor of it is left alone.
    /// A branch that does not exist yet is created.
    ///
    /// # Errors
    /// `Moved` when the branch has commits that `commit` does not contain.
    pub async fn fast_forward(
        &self,
        engine: &EngineRepo,
        commit: &Oid,
        expect_tree: &Oid,
        branch: &str,
    ) -> Result<PushedBranch, GitError> {
        let old = self.branch(branch).await?;
        if let Some(old) = &old {
            self.bring(engine, commit).await?;
            let call = self.call("git.merge-base").args(["--is-ancestor", old.as_str(), commit.as_str()]);
            if self.git.ask(&call).await?.code != Some(0) {
                let text = format!("{branch} is at {old}, which {commit} does not contain");
                return Err(GitError::new("push", &[branch.to_owned()], GitErrorKind::Moved, text.as_bytes()));
            }
        }
        self.push(engine, commit, expect_tree, branch, old.as_ref()).await
    }

    fn call(&self, site: &'static str) -> GitCall {
        GitCall::new(site).git_dir(&self.dir)
    }

    /// Copies a commit into this repository under a ref of its own, so that the branch itself moves in one step.
    ///
    /// A fetch compares all refs of both sides, one for each round and each branch, so it copies only a base that is not
    /// here yet. The candidate follows as a pack of the objects that its base does not have.
    async fn bring(&self, engine: &EngineRepo, commit: &Oid) -> Result<String, GitError> {
        let incoming = format!("refs/loopwright/incoming/{commit}");
        match engine.resolve(&format!("{commit}^")).await? {
            Some(base) if self.unpack_after(engine, &base, commit).await? => {
                let call = self.call("git.update-ref").args(["--", &incoming, commit.as_str()]);
                self.git.run(call).await?;
            }
            _ => self.fetch(engine, commit, &incoming).await?,
        }
        Ok(incoming)
    }

    /// Copies the objects of a commit that its base does not have. Returns false if they are too large for one pack.
    async fn unpack_after(&self, engine: &EngineRepo, base: &Oid, commit: &Oid) -> Result<bool, GitError> {
        // The ref proves that the base is here with everything it reaches; an object alone may be left by a crash.
        let reference = format!("refs/loopwright/base/{base}");
        let call = self.call("git.rev-parse").args(["--verify", "--quiet", "--end-of-options", &reference]);
        if self.git.ask(&call).await?.code != Some(0) {
            self.fetch(engine, base, &reference).await?;
        }
        let pack = match engine.pack_between(base, commit, PACK_MAX).await {
            Err(error) if error.kind == GitErrorKind::TooLarge => return Ok(false),
            pack => pack?,
        };
        self.git.run(self.call("git.unpack-objects").arg("-q").stdin(pack)).await?;
        Ok(true)
    }

    async fn fetch(&self, engine: &EngineRepo, commit: &Oid, reference: &str) -> Result<(), GitError> {
        let call = self.call("git.fetch").protocol("file").args(FETCH).arg("--").arg(file_url(engine.dir()));
        self.git.run(call.arg(format!("{commit}:{reference}"))).await.map(drop)
    }

    async fn tree_of(&self, commit: &Oid) -> Result<Oid, GitError> {
        let call = self.call("git.rev-parse").args(["--verify", "--end-of-options", &format!("{commit}^{{tree}}")]);
        parse_oid(&self.git.run(call).await?.line())
    }

    async fn update_refs(&self, moves: String) -> Result<(), GitError> {
        self.git.run(self.call("git.update-ref").arg("--stdin").stdin(moves)).await.map(drop)
    }
}
