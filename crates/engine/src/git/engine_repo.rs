//! The engine's own bare repository: base commits are copied into it, sealed candidates are built in it, and later
//! stages read from it by object name. No agent ever gets a path into it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::user_repo::parse_oid;
use super::{Git, GitCall, GitError, GitErrorKind, ObjectFormat, Oid, TREE_MAX, UserRepo};

/// How many generations of the base's history are copied. Agents read `git log` and `git blame`;
/// measured at 10,000 files, 50 commits cost 200 ms once per base, the whole history of a large
/// project would cost minutes and gigabytes.
const HISTORY_DEPTH: &str = "--depth=50";

/// The command that serves a fetch from the user's repository. A local transport does not pass `-c` settings to the
/// other side, so they are repeated here. Git reads `uploadpack.packObjectsHook` only from protected configuration, and
/// there is none here.
const UPLOAD_PACK: &str = "git -c 'safe.directory=*' -c core.fsmonitor=false -c core.hooksPath=/dev/null upload-pack";

/// The engine's repository for one repository of the user's.
#[derive(Debug, Clone)]
pub struct EngineRepo {
    git: Git,
    dir: PathBuf,
    /// The last listing, cached: a round lists its base repeatedly, and a commit's listing never changes.
    listed: Arc<Mutex<Option<Listing>>>,
}

type Listing = (Oid, Arc<BTreeSet<String>>);

/// One file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Path from the root; bytes that are not UTF-8 are shown as replacement characters.
    pub path: String,
    /// Git's mode: 0o100644, 0o100755, 0o120000 (symlink) or 0o160000 (submodule).
    pub mode: u32,
    /// The object that holds its content.
    pub oid: Oid,
}

impl TreeEntry {
    /// Whether it is a file, and not a link or a submodule.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }
}

/// A diff as text, complete or marked as truncated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnifiedDiff {
    /// The diff; if it is truncated, its last line states that.
    pub text: String,
    /// False when the diff was longer than the limit: a reader has not seen everything.
    pub whole: bool,
}

/// The message, identity and time of an engine commit. All of it comes from the caller, so that the same candidate
/// always gets the same commit hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitMetadata {
    /// Subject, body and trailers.
    pub message: String,
    /// Author and committer name.
    pub name: String,
    /// Author and committer address.
    pub email: String,
    /// Author and committer time, seconds since 1970, written as UTC.
    pub at_unix: i64,
}

impl EngineRepo {
    /// Opens the repository in `dir`, creating it if it does not exist. It is built under a temporary name and renamed,
    /// so a crash leaves no incomplete repository.
    ///
    /// # Errors
    /// When git or the file system fails.
    pub async fn open(git: Git, dir: PathBuf, format: ObjectFormat) -> Result<Self, GitError> {
        init_bare(&git, &dir, format).await?;
        Ok(Self { git, dir, listed: Arc::default() })
    }

    /// Where the repository is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The handle that runs git for this repository.
    pub fn git(&self) -> &Git {
        &self.git
    }

    pub(crate) fn call(&self, site: &'static str) -> GitCall {
        GitCall::new(site).git_dir(&self.dir)
    }

    /// Copies a base commit with some history from the user's repository, unless it is already here.
    ///
    /// Git's own transport copies the objects; they are not shared by alternates or hard links, because a maker of the
    /// same user could rewrite shared ones (seen with a default local clone). The fetch requests only what the commit
    /// reaches, so other branches, stashes and reflogs are never copied.
    ///
    /// # Errors
    /// `UnknownRef` when the commit is not in the user's repository.
    pub async fn import(&self, repo: &UserRepo, commit: &Oid) -> Result<(), GitError> {
        self.import_from(&repo.git_dir, commit, HISTORY_DEPTH).await
    }

    async fn import_from(&self, git_dir: &Path, commit: &Oid, depth: &str) -> Result<(), GitError> {
        let reference = format!("refs/loopwright/base/{commit}");
        if self.resolve(&reference).await?.as_ref() == Some(commit) {
            return Ok(());
        }
        let fetch = self.call("git.fetch").protocol("file").args(FETCH).args([depth, "--upload-pack", UPLOAD_PACK]);
        self.git.run(fetch.arg("--").arg(file_url(git_dir)).arg(format!("{commit}:{reference}"))).await.map(drop)
    }

    /// Copies one commit from any local repository, without history if the commit is new here. Its ref is one of a base
    /// that is not prepared, so the next cleanup removes it.
    ///
    /// # Errors
    /// `UnknownRef` or `Failed` when the commit is not in that repository.
    pub(crate) async fn import_files(&self, git_dir: &Path, commit: &Oid) -> Result<(), GitError> {
        // A boundary at a commit of the repository's own history would cut that history.
        let is_new = self.resolve(&format!("{commit}^{{commit}}")).await?.is_none();
        self.import_from(git_dir, commit, if is_new { "--depth=1" } else { HISTORY_DEPTH }).await
    }

    /// The contents of objects by name, in order; `None` for one that is longer than `max` bytes or not a file.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) async fn read_small_blobs(&self, oids: &[Oid], max: u64) -> Result<Vec<Option<Vec<u8>>>, GitError> {
        if oids.is_empty() {
            return Ok(Vec::new());
        }
        let names: String = oids.iter().map(|oid| format!("{oid}\n")).collect();
        let call = self.call("git.cat-file").arg("--batch-check=%(objecttype) %(objectsize)").out_max(TREE_MAX);
        let about = self.git.run(call.stdin(names)).await?.line();
        let size_of = |line: &str| line.strip_prefix("blob ")?.parse::<u64>().ok();
        let small: Vec<bool> = about.lines().map(|line| size_of(line).is_some_and(|size| size <= max)).collect();
        let wanted = oids.iter().zip(&small).filter(|(_, small)| **small);
        let names: String = wanted.map(|(oid, _)| format!("{oid}\n")).collect();
        let call = self.call("git.cat-file").arg("--batch").out_max(TREE_MAX);
        let texts = if names.is_empty() { Vec::new() } else { self.git.run(call.stdin(names)).await?.stdout };
        let mut rest = texts.as_slice();
        let lost = || GitError::new("cat-file", &[], GitErrorKind::Failed(None), b"unexpected output");
        let read = oids.iter().enumerate().map(|(at, oid)| match small.get(at) {
            Some(true) => blob(&mut rest, oid.as_str()).ok_or_else(lost),
            _ => Ok(None),
        });
        read.collect()
    }

    /// The object a ref points to, if the ref exists.
    ///
    /// # Errors
    /// When git fails.
    pub async fn resolve(&self, rev: &str) -> Result<Option<Oid>, GitError> {
        let call = self.call("git.rev-parse").args(["--verify", "--quiet", "--end-of-options", rev]);
        let answer = self.git.ask(&call).await?;
        if answer.code == Some(0) { parse_oid(&answer.line()).map(Some) } else { Ok(None) }
    }

    /// The tree of a commit.
    ///
    /// # Errors
    /// `UnknownRef` when the commit is not here.
    pub async fn tree_of(&self, commit: &Oid) -> Result<Oid, GitError> {
        let found = self.resolve(&format!("{commit}^{{tree}}")).await?;
        found.ok_or_else(|| GitError::new("rev-parse", &[commit.to_string()], GitErrorKind::UnknownRef, b""))
    }

    /// Every file of a tree or commit, in git's order.
    ///
    /// # Errors
    /// `UnknownRef` when the tree is not here, `TooLarge` for an unreasonable one.
    pub async fn list_tree(&self, tree: &Oid) -> Result<Vec<TreeEntry>, GitError> {
        let call = self.call("git.ls-tree").args(["-r", "-z", "--full-tree", tree.as_str()]).out_max(TREE_MAX);
        let answer = self.git.run(call).await?;
        let records = answer.stdout.split(|byte| *byte == 0).filter(|record| !record.is_empty());
        Ok(records.filter_map(tree_entry).collect())
    }

    /// The entries of a tree or commit at these paths; absent ones are left out.
    ///
    /// # Errors
    /// As [`EngineRepo::list_tree`].
    pub async fn entries(&self, tree: &Oid, paths: &[&str]) -> Result<Vec<TreeEntry>, GitError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let call = self.call("git.ls-tree").args(["-z", "--full-tree", tree.as_str(), "--"]).args(paths);
        let answer = self.git.run(call.out_max(TREE_MAX)).await?;
        Ok(answer.stdout.split(|byte| *byte == 0).filter_map(tree_entry).collect())
    }

    /// The path of every file of a commit.
    ///
    /// # Errors
    /// As [`EngineRepo::list_tree`].
    pub async fn paths(&self, commit: &Oid) -> Result<Arc<BTreeSet<String>>, GitError> {
        let known = self.listed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, paths)) = known.filter(|(of, _)| of == commit) {
            return Ok(paths);
        }
        let paths: Arc<BTreeSet<_>> = Arc::new(self.list_tree(commit).await?.into_iter().map(|e| e.path).collect());
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some((commit.clone(), Arc::clone(&paths)));
        Ok(paths)
    }

    /// The contents of several files by tree or commit and path, in order; `None` if there is no such file. One process
    /// reads all of them.
    ///
    /// # Errors
    /// `TooLarge` if they are longer than `max` bytes together.
    pub async fn read_blobs(&self, files: &[(&Oid, &str)], max: usize) -> Result<Vec<Option<Vec<u8>>>, GitError> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let names: String = files.iter().map(|(tree, path)| format!("{tree}:{path}\0")).collect();
        let call = self.call("git.cat-file").args(["--batch", "-z"]).stdin(names).out_max(max);
        let answer = self.git.run(call).await?;
        let lost = || GitError::new("cat-file", &[], GitErrorKind::Failed(None), b"unexpected output");
        let mut rest = answer.stdout.as_slice();
        let blobs = files.iter().map(|(tree, path)| blob(&mut rest, &format!("{tree}:{path}")));
        blobs.collect::<Option<Vec<_>>>().ok_or_else(lost)
    }

    /// The content of a file in a tree or commit; `None` when there is no such file.
    ///
    /// # Errors
    /// `TooLarge` when it is longer than `max` bytes.
    pub async fn read_blob(&self, tree: &Oid, path: &str, max: usize) -> Result<Option<Vec<u8>>, GitError> {
        let call = self.call("git.cat-file").args(["blob", &format!("{tree}:{path}")]).out_max(max);
        match self.git.run(call).await {
            Ok(answer) => Ok(Some(answer.stdout)),
            // 128 is git's "no such object"; a folder or submodule there is not a file either.
            Err(error) if matches!(error.kind, GitErrorKind::UnknownRef | GitErrorKind::Failed(Some(128))) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The difference between two trees or commits as text, at most `max` bytes of it.
    ///
    /// The repository is bare, so the trees' own `.gitattributes` are not consulted: a candidate cannot
    /// hide a file from its checker by declaring it binary.
    ///
    /// # Errors
    /// `UnknownRef` when one of them is not here.
    pub async fn unified_diff(&self, from: &Oid, to: &Oid, max: usize) -> Result<UnifiedDiff, GitError> {
        let call = self.call("git.diff-tree").args(["-r", "-p", "--no-ext-diff", "--no-textconv", "--no-color"]);
        let call = call.args(["--no-renames", "--full-index", from.as_str(), to.as_str()]).truncate_at(max);
        let answer = self.git.run(call).await?;
        let mut text = String::from_utf8_lossy(&answer.stdout).into_owned();
        if answer.cut {
            text.push_str(&format!("\n[the diff is longer than {max} bytes and is cut here]\n"));
        }
        Ok(UnifiedDiff { text, whole: !answer.cut })
    }

    /// The tree of a commit with the content of one file replaced. `index` is a file that does not exist yet.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) async fn tree_with(
        &self,
        commit: &Oid,
        file: &TreeEntry,
        content: &str,
        index: &Path,
    ) -> Result<Oid, GitError> {
        self.read_tree(commit, index).await?;
        let blob = self.git.run(self.call("git.hash-object").args(["-w", "--stdin"]).stdin(content)).await?.line();
        let entry = format!("{:o} {}\t{}\0", file.mode, blob.trim(), file.path);
        let update = self.call("git.update-index").index(index).args(["-z", "--index-info"]).stdin(entry);
        self.git.run(update).await?;
        self.write_tree(index).await
    }

    /// Creates a commit of a tree with one parent. The same input gives the same hash.
    ///
    /// # Errors
    /// When git fails.
    pub async fn commit(&self, tree: &Oid, parent: &Oid, words: &CommitMetadata) -> Result<Oid, GitError> {
        let call = self.commit_call(tree, parent, words);
        parse_oid(&self.git.run(call).await?.line())
    }

    /// Creates a commit of a tree without a parent, and names it like an imported base, so that workspaces can start
    /// from it. The same input gives the same hash.
    pub(crate) async fn root_commit(&self, tree: &Oid, words: &CommitMetadata) -> Result<Oid, GitError> {
        let call = self.call("git.commit-tree").args([tree.as_str(), "-F", "-"]);
        let commit = parse_oid(&self.git.run(with_author(call, words)).await?.line())?;
        let name = format!("refs/loopwright/base/{commit}");
        self.git.run(self.call("git.update-ref").args(["--", &name, commit.as_str()])).await?;
        Ok(commit)
    }

    /// The call that creates a commit of a tree with one parent.
    pub(super) fn commit_call(&self, tree: &Oid, parent: &Oid, words: &CommitMetadata) -> GitCall {
        let call = self.call("git.commit-tree").args([tree.as_str(), "-p", parent.as_str(), "-F", "-"]);
        with_author(call, words)
    }

    /// Names a commit `refs/loopwright/<round>/<name>`, so that later stages find it and git never prunes it.
    ///
    /// # Errors
    /// When the names do not form a valid ref, or the ref already names another commit (`Moved`).
    pub async fn set_round_ref(&self, round: &str, name: &str, commit: &Oid) -> Result<String, GitError> {
        let reference = format!("refs/loopwright/{round}/{name}");
        // Zeros as the old value: git refuses if the ref already exists. That is rare, and only then is the ref read.
        let call = self.call("git.update-ref").args(["--", &reference, commit.as_str(), &commit.zero_like()]);
        let Err(refused) = self.git.run(call).await else { return Ok(reference) };
        match self.resolve(&reference).await? {
            Some(there) if there == *commit => Ok(reference),
            Some(_) => Err(GitError::new("update-ref", &[reference], GitErrorKind::Moved, b"")),
            None => Err(refused),
        }
    }

    /// Whether one commit is the other or among its ancestors. False if this repository does not have one of them.
    pub(crate) async fn is_ancestor(&self, older: &Oid, younger: &Oid) -> Result<bool, GitError> {
        let call = self.call("git.merge-base").args(["--is-ancestor", older.as_str(), younger.as_str()]);
        Ok(self.git.ask(&call).await?.code == Some(0))
    }

    /// Writes an index of a tree or commit, without file stats.
    pub(crate) async fn read_tree(&self, tree: &Oid, index: &Path) -> Result<(), GitError> {
        self.git.run(self.call("git.read-tree").index(index).arg(tree.as_str())).await.map(drop)
    }

    /// Writes all files of an index into an empty folder and their stats into the index.
    pub(crate) async fn checkout_index(&self, index: &Path, dir: &Path) -> Result<(), GitError> {
        let call = self.call("git.checkout-index").index(index).work_tree(dir);
        self.git.run(call.args(["--all", "--index", "--quiet"])).await.map(drop)
    }

    /// Removes paths from an index, independent of the files in any folder.
    pub(crate) async fn remove_from_index(&self, index: &Path, paths: &[impl AsRef<[u8]>]) -> Result<(), GitError> {
        if paths.is_empty() {
            return Ok(());
        }
        let paths: Vec<&[u8]> = paths.iter().map(AsRef::as_ref).collect();
        let folder = index.parent().unwrap_or(&self.dir);
        let call = self.call("git.update-index").unflushed().index(index).work_tree(folder).in_folder(folder);
        let call = call.args(["--force-remove", "-z", "--stdin"]).stdin(paths.join(&0));
        self.git.run(call).await.map(drop)
    }

    /// Writes the tree of an index.
    pub(crate) async fn write_tree(&self, index: &Path) -> Result<Oid, GitError> {
        parse_oid(&self.git.run(self.call("git.write-tree").index(index)).await?.line())
    }

    /// Writes a pack of the objects that git's revision arguments name, one per line, into a folder.
    pub(crate) async fn pack_into(&self, folder: &Path, revisions: &str) -> Result<(), GitError> {
        let call = self.call("git.pack-objects").unflushed().args(["-q", "--revs", "--delta-base-offset"]);
        self.git.run(call.arg(folder.join("pack")).stdin(revisions)).await.map(drop)
    }

    /// A pack of the objects that `to` reaches and `from` does not.
    pub(crate) async fn pack_between(&self, from: &Oid, to: &Oid, max: usize) -> Result<Vec<u8>, GitError> {
        let call = self.call("git.pack-objects").args(["-q", "--revs", "--stdout", "--delta-base-offset"]);
        let answer = self.git.run(call.stdin(format!("{to}\n^{from}\n")).out_max(max)).await?;
        Ok(answer.stdout)
    }
}

/// The call with the author, date and message of a commit.
fn with_author(call: GitCall, words: &CommitMetadata) -> GitCall {
    // Without the `@` git reads small numbers as another date format; git has no dates before 1970.
    let date = format!("@{} +0000", words.at_unix.max(0));
    let call = call.env("GIT_AUTHOR_NAME", &words.name).env("GIT_AUTHOR_EMAIL", &words.email);
    let call = call.env("GIT_COMMITTER_NAME", &words.name).env("GIT_COMMITTER_EMAIL", &words.email);
    let call = call.env("GIT_AUTHOR_DATE", &date).env("GIT_COMMITTER_DATE", &date);
    call.stdin(format!("{}\n", words.message.trim_end()))
}

/// Flags of every fetch: no tags, no files of its own, no follow-up work.
pub(crate) const FETCH: [&str; 6] = [
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--no-recurse-submodules",
    "--update-shallow",
];

/// A local repository as a URL: with a plain path git would hard-link objects.
pub(crate) fn file_url(dir: &Path) -> std::ffi::OsString {
    let mut url = std::ffi::OsString::from("file://");
    url.push(dir);
    url
}

/// Creates a bare repository without a template, hence without hooks. If another creator wins a race, its repository is
/// used.
pub(crate) async fn init_bare(git: &Git, dir: &Path, format: ObjectFormat) -> Result<(), GitError> {
    if dir.join("HEAD").is_file() {
        return Ok(());
    }
    let failed =
        |error: std::io::Error| GitError::new("init", &[], GitErrorKind::Failed(None), error.to_string().as_bytes());
    let parent = dir.parent().unwrap_or(dir);
    crate::workspace::private_dir(parent).map_err(failed)?;
    // A number distinguishes two creators in one process; the process id distinguishes those of two processes.
    static CREATORS: AtomicU64 = AtomicU64::new(0);
    let (name, creator) = (dir.file_name().unwrap_or_default(), CREATORS.fetch_add(1, Ordering::Relaxed));
    let half = parent.join(format!(".half-{}-{}-{creator}", name.to_string_lossy(), std::process::id()));
    let _ = std::fs::remove_dir_all(&half);
    let init = GitCall::new("git.init").args(["--quiet", "--bare", "--template=", "--initial-branch=main"]);
    git.run(init.arg(format!("--object-format={}", format.name())).arg("--").arg(&half)).await?;
    match std::fs::rename(&half, dir) {
        Err(_) if dir.join("HEAD").is_file() => std::fs::remove_dir_all(&half).map_err(failed),
        other => other.map_err(failed),
    }
}

/// Takes one answer of `cat-file --batch` off the front: `<oid> SP <type> SP <size> LF <content> LF`, or the requested
/// name and ` missing LF`. The outer `None` means malformed output.
fn blob(rest: &mut &[u8], asked: &str) -> Option<Option<Vec<u8>>> {
    if let Some(after) = rest.strip_prefix(asked.as_bytes()).and_then(|rest| rest.strip_prefix(b" missing\n")) {
        *rest = after;
        return Some(None);
    }
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&rest[..end]).ok()?;
    let mut words = head.split(' ').skip(1);
    let kind = words.next()?;
    let size: usize = words.next()?.parse().ok()?;
    let content = rest.get(end + 1..(end + 1).checked_add(size)?)?;
    *rest = rest.get(end + 1 + size..)?.strip_prefix(b"\n")?;
    // A folder or a submodule there is not a file.
    Some((kind == "blob").then(|| content.to_vec()))
}

/// Parses `<mode> SP <type> SP <oid> TAB <path>`.
pub(super) fn tree_entry(record: &[u8]) -> Option<TreeEntry> {
    let tab = record.iter().position(|byte| *byte == b'\t')?;
    let head = std::str::from_utf8(&record[..tab]).ok()?;
    let mut words = head.split(' ');
    let mode = u32::from_str_radix(words.next()?, 8).ok()?;
    let oid = words.nth(1)?.parse().ok()?;
    Some(TreeEntry { path: String::from_utf8_lossy(&record[tab + 1..]).into_owned(), mode, oid })
}
