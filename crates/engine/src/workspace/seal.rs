//! The seal: a maker's files become a tree and a commit in the engine's repository. Only files count;
//! whatever the maker did to its own `.git` has no effect, because it is never read.
//!
//! In a copy, tracked files are compared by their status with the index written at checkout; in an overlay, those in the
//! upper layer were touched. Only touched ones are read, by git with the engine's repository and configuration, so the same attributes convert
//! content on the way out and back. Objects are not synced one by one: after a power loss the round finds its
//! sealed commit missing and ends interrupted, never with another tree.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::base::ReadyBase;
use super::names::{self, NameProblem};
use super::survey::{self, Found, Odd, PR_BODY, Survey, View};
use super::{Method, Workspace, WorkspaceError, Workspaces, blocking, guard, index, io, prepared};
use crate::git::{CommitWords, GitError, GitErrorKind, Oid, TREE_MAX};

/// A pull request's text may not be longer than this; forges cut at 64 KiB.
const PR_BODY_MAX: u64 = 256 << 10;

/// Ceilings of one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealLimits {
    /// Changed files.
    pub files_max: usize,
    /// Bytes in all changed files together.
    pub bytes_max: u64,
    /// Bytes in one changed file.
    pub file_bytes_max: u64,
}

impl Default for SealLimits {
    fn default() -> Self {
        Self { files_max: 10_000, bytes_max: 256 << 20, file_bytes_max: 100 << 20 }
    }
}

/// A candidate's files, frozen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The tree in the engine's repository.
    pub tree: Oid,
    /// The engine's commit of that tree on the base; the base itself when nothing changed.
    pub commit: Oid,
    /// What differs from the base, by path.
    pub changes: Vec<Change>,
    /// What could not be sealed. Those paths are as in the base; a candidate with any must not ship.
    pub refused: Vec<RefusedPath>,
    /// The text of `PR_BODY.md` in the root, which is never part of the tree.
    pub pr_body: Option<Vec<u8>>,
}

impl Sealed {
    /// True when the tree is the base's.
    pub fn is_unchanged(&self) -> bool {
        self.changes.is_empty()
    }
}

/// How a path changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeStatus {
    /// New in the tree.
    Added,
    /// Other content or another executable bit.
    Modified,
    /// Gone from the tree.
    Deleted,
    /// File became symlink, or the other way round.
    TypeChanged,
}

/// One changed path; a rename is a deletion and an addition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path from the root.
    pub path: String,
    /// What happened to it.
    pub status: ChangeStatus,
    /// Git's mode in the base, 0 when it was not there.
    pub mode_before: u32,
    /// Git's mode in the sealed tree, 0 when it is gone.
    pub mode_after: u32,
    /// Lines added; 0 for binary content.
    pub lines_added: u64,
    /// Lines removed; 0 for binary content.
    pub lines_removed: u64,
    /// Git takes the content for binary.
    pub binary: bool,
    /// Bytes of the file in the workspace; 0 when it is gone.
    pub size: u64,
}

/// A path that was not sealed, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedPath {
    /// The path, made printable.
    pub path: String,
    /// The reason.
    pub why: Refusal,
}

impl fmt::Display for RefusedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.why)
    }
}

/// Why a path is not sealed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A pipe, socket or device.
    #[error("not a file, symlink or folder")]
    Special,
    /// A symlink that leads, or could lead, out of the tree.
    #[error("the symlink leads outside the tree")]
    SymlinkOutside,
    /// A repository inside the checkout.
    #[error("a nested git repository")]
    NestedRepository,
    /// A submodule was filled, replaced or removed.
    #[error("a submodule was changed")]
    Submodule,
    /// The permissions do not let us read it.
    #[error("it cannot be read")]
    Unreadable,
    /// The name itself.
    #[error(transparent)]
    Name(#[from] NameProblem),
    /// More changed files than allowed.
    #[error("more than {0} changed files")]
    TooManyFiles(usize),
    /// More bytes than allowed in all changed files.
    #[error("more than {0} bytes in changed files")]
    TooManyBytes(u64),
    /// More bytes than allowed in this file.
    #[error("larger than {0} bytes")]
    FileTooLarge(u64),
}

/// What running tests leaves behind, whether the repository ignores it or not: nobody reads it, and some of it runs in the
/// place of the code beside it. Where base itself has such files they are seen like all others.
const LITTER: [&str; 12] = [
    "--exclude=__pycache__/",
    "--exclude=*.py[co]",
    "--exclude=.pytest_cache/",
    "--exclude=.mypy_cache/",
    "--exclude=.ruff_cache/",
    "--exclude=.nyc_output/",
    "--exclude=node_modules/",
    "--exclude=**/target/debug/",
    "--exclude=**/target/release/",
    "--exclude=**/target/.rustc_info.json",
    "--exclude=**/target/.rustdoc_fingerprint.json",
    "--exclude=**/target/CACHEDIR.TAG",
];

impl Workspaces {
    /// Seals the files of a workspace as they are now. The maker must be dead.
    ///
    /// # Errors
    /// `Moving` when files change meanwhile; else what git or the file system said. What policy
    /// does not allow is no error but in [`Sealed::refused`].
    pub async fn seal(
        &self,
        workspace: &Workspace,
        words: &CommitWords,
        limits: SealLimits,
    ) -> Result<Sealed, WorkspaceError> {
        let ready = self.ready_base(&workspace.base).await?;
        let (entries, mut survey, pr_body) = self.look(workspace, &ready).await?;
        if !survey.barred.is_empty() {
            let plan = Plan::of_barred(survey.barred);
            let (tree, commit) = (ready.tree()?, workspace.base.clone());
            return Ok(Sealed { tree, commit, changes: Vec::new(), refused: plan.refused, pr_body });
        }
        if survey.has_untracked || !survey.odd.is_empty() {
            let rules = self.ignore_rules(workspace, &ready, &survey, &entries).await?;
            if survey.has_untracked {
                let new = self.look_at_new(workspace, &rules, &entries, &survey).await?;
                survey.changed.extend(new.changed);
                survey.odd.extend(new.odd);
            }
            self.drop_ignored(workspace, &rules, &entries, &mut survey).await?;
            let (root, dir) = (workspace.root.clone(), workspace.dir.clone());
            survey = blocking(move || {
                prepared::drop_prepared(&root, &dir, &mut survey);
                Ok(survey)
            })
            .await?;
        }
        let plan = Plan::new(survey, &entries, limits);
        if plan.is_empty() {
            let (tree, commit) = (ready.tree()?, workspace.base.clone());
            return Ok(Sealed { tree, commit, changes: Vec::new(), refused: plan.refused, pr_body });
        }
        let tree = match workspace.method() {
            Method::Copy => self.write_tree(workspace, &ready.index(), &plan).await?,
            Method::Overlay => self.grow_tree(workspace, &ready, &plan).await?,
        };
        let changes = self.changes(&workspace.base, &tree, &plan).await?;
        if changes.is_empty() {
            // Touched, but with the same content.
            return Ok(Sealed { tree, commit: workspace.base.clone(), changes, refused: plan.refused, pr_body });
        }
        let commit = self.engine.commit(&tree, &workspace.base, words).await?;
        if workspace.method() == Method::Copy {
            let index = workspace.root.join(format!("index-{commit}"));
            fs::rename(seal_index(workspace), &index).map_err(io("rename", &index))?;
        }
        Ok(Sealed { tree, commit, changes, refused: plan.refused, pr_body })
    }

    /// A sealed commit as it was sealed, read back from the engine's repository: sizes and refusals are not kept there.
    ///
    /// # Errors
    /// What git said.
    pub async fn sealed(&self, workspace: &Workspace, commit: &Oid) -> Result<Sealed, WorkspaceError> {
        let tree = self.engine.tree_of(commit).await?;
        let nothing = Plan { files: Vec::new(), deleted: Vec::new(), refused: Vec::new() };
        let changes = self.changes(&workspace.base, &tree, &nothing).await?;
        Ok(Sealed { tree, commit: commit.clone(), changes, refused: Vec::new(), pr_body: None })
    }

    pub(super) async fn look(
        &self,
        workspace: &Workspace,
        ready: &ReadyBase,
    ) -> Result<(Vec<index::Entry>, Survey, Option<Vec<u8>>), WorkspaceError> {
        let view = view_of(workspace);
        let index = if view == View::Whole { workspace.index() } else { ready.index() };
        let (dir, oid_len) = (workspace.dir.clone(), self.oid_len());
        blocking(move || {
            let entries = index::read(&index, oid_len)?;
            let mut survey = survey::tracked(&dir, &entries, view)?;
            let guard = guard::look(&dir, &entries, view)?;
            let unreadable = guard.unreadable.into_iter().filter(|path| !is_litter(path));
            survey.odd.extend(unreadable.map(|path| (path, Odd::Unreadable)));
            survey.barred = guard.barred;
            let pr_body = if survey.has_pr_body { read_pr_body(&dir) } else { None };
            Ok((entries, survey, pr_body))
        })
        .await
    }

    /// An index that tells git which paths are not new, and in an overlay also the base's ignore rules that no file of the
    /// upper layer took the place of. Rules that were deleted, or are no file any more, must not be found there.
    pub(super) async fn ignore_rules(
        &self,
        workspace: &Workspace,
        ready: &ReadyBase,
        survey: &Survey,
        entries: &[index::Entry],
    ) -> Result<PathBuf, WorkspaceError> {
        if workspace.method() == Method::Copy {
            return Ok(ready.index());
        }
        let is_rules = |path: &[u8]| path.split(|byte| *byte == b'/').next_back() == Some(b".gitignore");
        let linked = survey.changed.iter().filter(|file| file.target.is_some()).map(|file| &file.path);
        let odd = survey.odd.iter().map(|(path, _)| path);
        let gone = survey.deleted.iter().chain(linked).chain(odd).map(Vec::as_slice);
        let gone: Vec<&[u8]> = gone.filter(|path| is_rules(path) && index::find(entries, path).is_some()).collect();
        if gone.is_empty() {
            return Ok(ready.ignore_index());
        }
        let rules = workspace.root.join("index.rules");
        fs::copy(ready.ignore_index(), &rules).map_err(io("copy", &rules))?;
        let call = self.engine.call("git.update-index").unflushed().index(&rules).work_tree(&workspace.dir);
        let call = call.inside(&workspace.dir).args(["--force-remove", "-z", "--stdin"]);
        self.git().run(call.stdin(gone.join(&0))).await?;
        Ok(rules)
    }

    /// New files that no `.gitignore` of the checkout excludes.
    async fn look_at_new(
        &self,
        workspace: &Workspace,
        rules: &Path,
        entries: &[index::Entry],
        seen: &Survey,
    ) -> Result<Survey, WorkspaceError> {
        let call = self.engine.call("git.ls-files").index(rules).work_tree(&workspace.dir).out_max(TREE_MAX);
        let answer = self
            .git()
            .run(call.inside(&workspace.dir).args(["-z", "--others", "--exclude-standard"]).args(LITTER))
            .await?;
        // In an overlay git knows none of the tracked paths, so they are taken out here, and folders of the base with them.
        let is_known = |path: &[u8]| match path.strip_suffix(b"/") {
            Some(folder) => !index::below(entries, folder).is_empty(),
            None => index::find(entries, path).is_some(),
        };
        // Of a folder that can be listed and no more, git tells names that nobody can look at.
        let shut = |path: &[u8]| {
            let folders = seen.odd.iter().filter(|(_, odd)| *odd == Odd::Unreadable);
            folders
                .into_iter()
                .any(|(folder, _)| path.strip_prefix(folder.as_slice()).is_some_and(|rest| rest.starts_with(b"/")))
        };
        let is_new = |path: &&[u8]| !path.is_empty() && *path != PR_BODY && !is_known(path) && !shut(path);
        let listed: Vec<_> = answer.stdout.split(|byte| *byte == 0).filter(is_new).map(<[u8]>::to_vec).collect();
        let (dir, view) = (workspace.dir.clone(), view_of(workspace));
        blocking(move || survey::untracked(&dir, &listed, view)).await
    }

    /// Special files and unreadable new folders that a `.gitignore` excludes (a server's socket, say) are nobody's business.
    async fn drop_ignored(
        &self,
        workspace: &Workspace,
        rules: &Path,
        entries: &[index::Entry],
        survey: &mut Survey,
    ) -> Result<(), WorkspaceError> {
        let may_go = |path: &[u8], odd: Odd| match odd {
            Odd::Special => true,
            // What base has in it would be left out with it.
            Odd::Unreadable => index::below(entries, path).is_empty(),
            Odd::NestedRepository | Odd::Submodule => false,
        };
        let special = survey.odd.iter().filter(|(path, odd)| may_go(path, *odd));
        // The prefix keeps a leading colon from being read as a pattern.
        let paths: Vec<Vec<u8>> = special.map(|(path, _)| [b"./", path.as_slice()].concat()).collect();
        if paths.is_empty() {
            return Ok(());
        }
        let call = self.engine.call("git.check-ignore").index(rules).work_tree(&workspace.dir).inside(&workspace.dir);
        // This verb knows no literal paths and says so with an error.
        let call = call.env("GIT_LITERAL_PATHSPECS", "0").args(["-z", "--stdin"]).stdin(paths.join(&0));
        let answer = self.git().run(call.out_max(TREE_MAX).no_is_an_answer()).await?;
        let ignored: HashSet<&[u8]> = answer.stdout.split(|byte| *byte == 0).filter_map(|path| path.get(2..)).collect();
        survey.odd.retain(|(path, odd)| !may_go(path, *odd) || !ignored.contains(path.as_slice()));
        Ok(())
    }

    /// Deletions go first, so that a file may take the place of a folder and the other way round.
    async fn write_tree(&self, workspace: &Workspace, base_index: &Path, plan: &Plan) -> Result<Oid, WorkspaceError> {
        let index = seal_index(workspace);
        // The base's index knows no file stats, so git reads every file it is told of.
        fs::copy(base_index, &index).map_err(io("copy", &index))?;
        let update = || {
            let call = self.engine.call("git.update-index").index(&index).work_tree(&workspace.dir);
            call.inside(&workspace.dir)
        };
        if !plan.deleted.is_empty() {
            let paths = plan.deleted.join(&0);
            self.git().run(update().args(["--force-remove", "-z", "--stdin"]).stdin(paths)).await?;
        }
        if !plan.files.is_empty() {
            let paths = plan.files.iter().map(|file| file.path.as_slice()).collect::<Vec<_>>().join(&0);
            let add = update().args(["--add", "-z", "--stdin"]).stdin(paths);
            self.git().run(add).await.map_err(|error| moving_or(error, &workspace.dir))?;
        }
        let answer = self.git().run(self.engine.call("git.write-tree").index(&index)).await?;
        Ok(crate::git::parse_oid(&answer.line())?)
    }

    async fn changes(&self, base: &Oid, tree: &Oid, plan: &Plan) -> Result<Vec<Change>, WorkspaceError> {
        let call =
            self.engine.call("git.diff-tree").args(["-r", "-z", "--raw", "--numstat", "--no-renames", "--no-abbrev"]);
        let call = call.args(["--no-ext-diff", "--no-textconv", base.as_str(), tree.as_str()]).out_max(TREE_MAX);
        let answer = self.git().run(call).await?;
        let mut changes = parse_diff(&answer.stdout);
        let found: HashMap<&[u8], &Found> = plan.files.iter().map(|file| (file.path.as_slice(), file)).collect();
        for change in &mut changes {
            let file = found.get(change.path.as_bytes());
            change.size = file.map_or(0, |file| file.size);
            // What git sealed must be what was looked at; else somebody still writes here.
            if file.is_some_and(|file| file.mode != change.mode_after) {
                return Err(WorkspaceError::Moving(change.path.clone()));
            }
        }
        Ok(changes)
    }
}

/// Whether a folder is among the [`LITTER`], or in it.
fn is_litter(folder: &[u8]) -> bool {
    let anywhere: [&[u8]; 6] =
        [b"__pycache__", b".pytest_cache", b".mypy_cache", b".ruff_cache", b".nyc_output", b"node_modules"];
    let parts: Vec<&[u8]> = folder.split(|byte| *byte == b'/').collect();
    let is_build = |pair: &[&[u8]]| pair[0] == b"target" && (pair[1] == b"debug" || pair[1] == b"release");
    parts.windows(2).any(is_build) || parts.iter().any(|part| anywhere.contains(part))
}

fn view_of(workspace: &Workspace) -> View {
    match workspace.method() {
        Method::Copy => View::Whole,
        Method::Overlay => View::Upper,
    }
}

fn seal_index(workspace: &Workspace) -> PathBuf {
    workspace.root.join("index.seal")
}

/// Every path was there a moment ago; when git cannot find one now, it was taken away.
pub(super) fn moving_or(error: GitError, dir: &Path) -> WorkspaceError {
    let gone = error.stderr.contains("does not exist") || error.stderr.contains("No such file");
    if gone && matches!(error.kind, GitErrorKind::Failed(_)) {
        return WorkspaceError::Moving(dir.display().to_string());
    }
    error.into()
}

/// What will be written, after policy.
pub(super) struct Plan {
    pub(super) files: Vec<Found>,
    pub(super) deleted: Vec<Vec<u8>>,
    refused: Vec<RefusedPath>,
}

impl Plan {
    fn new(survey: Survey, entries: &[index::Entry], limits: SealLimits) -> Self {
        let mut plan = Self { files: Vec::new(), deleted: survey.deleted, refused: Vec::new() };
        let odd: BTreeSet<(Vec<u8>, Odd)> = survey.odd.into_iter().collect();
        for (path, odd) in odd {
            plan.refuse(&path, odd.into());
        }
        let collisions = collisions(&survey.changed, entries, &plan.deleted);
        for file in survey.changed {
            match judge(&file, &collisions, limits) {
                Ok(()) => plan.files.push(file),
                Err(why) => plan.refuse(&file.path, why),
            }
        }
        plan.limit(limits);
        plan
    }

    /// Nothing is written when git must not be asked.
    fn of_barred(barred: Vec<(Vec<u8>, Odd)>) -> Self {
        let mut plan = Self { files: Vec::new(), deleted: Vec::new(), refused: Vec::new() };
        barred.into_iter().collect::<BTreeSet<_>>().into_iter().for_each(|(path, odd)| plan.refuse(&path, odd.into()));
        plan
    }

    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.deleted.is_empty()
    }

    fn refuse(&mut self, path: &[u8], why: Refusal) {
        self.refused.push(RefusedPath { path: printable(path), why });
    }

    /// Over a ceiling of the whole candidate nothing is written at all: half of a change is no change.
    fn limit(&mut self, limits: SealLimits) {
        let bytes: u64 = self.files.iter().map(|file| file.size).sum();
        let why = if self.files.len() + self.deleted.len() > limits.files_max {
            Refusal::TooManyFiles(limits.files_max)
        } else if bytes > limits.bytes_max {
            Refusal::TooManyBytes(limits.bytes_max)
        } else {
            return;
        };
        self.refuse(b".", why);
        self.files.clear();
        self.deleted.clear();
    }
}

/// A name counts only where the maker chose it; symlinks and sizes count always.
fn judge(file: &Found, collisions: &HashSet<Vec<u8>>, limits: SealLimits) -> Result<(), Refusal> {
    let text = match names::check_path(&file.path) {
        Ok(text) => text,
        Err(problem) if file.is_new || problem == NameProblem::NotUtf8 => return Err(problem.into()),
        Err(_) => std::str::from_utf8(&file.path).map_err(|_| NameProblem::NotUtf8)?,
    };
    if collisions.contains(&file.path) {
        return Err(NameProblem::CaseCollision.into());
    }
    if file.size > limits.file_bytes_max {
        return Err(Refusal::FileTooLarge(limits.file_bytes_max));
    }
    match &file.target {
        None => Ok(()),
        Some(target) => match std::str::from_utf8(target) {
            Ok(target) if names::target_is_inside(text, target) => Ok(()),
            _ => Err(Refusal::SymlinkOutside),
        },
    }
}

/// New paths that equal another path of the coming tree, or one of its folders, but for case.
fn collisions(changed: &[Found], entries: &[index::Entry], deleted: &[Vec<u8>]) -> HashSet<Vec<u8>> {
    if !changed.iter().any(|file| file.is_new) {
        return HashSet::new();
    }
    let deleted: HashSet<&[u8]> = deleted.iter().map(Vec::as_slice).collect();
    let kept = entries.iter().map(|entry| entry.path.as_slice()).filter(|path| !deleted.contains(path));
    let new = || changed.iter().filter(|file| file.is_new).map(|file| file.path.as_slice());
    let mut spellings: HashMap<String, HashSet<&[u8]>> = HashMap::new();
    for path in kept.chain(new()) {
        for part in with_folders(path) {
            spellings.entry(names::folded(&String::from_utf8_lossy(part))).or_default().insert(part);
        }
    }
    let collides = |path: &&[u8]| {
        with_folders(path)
            .any(|part| spellings.get(&names::folded(&String::from_utf8_lossy(part))).is_some_and(|set| set.len() > 1))
    };
    new().filter(collides).map(<[u8]>::to_vec).collect()
}

/// A path and every folder above it.
fn with_folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let folders = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
    folders.chain(std::iter::once(path))
}

impl From<Odd> for Refusal {
    fn from(odd: Odd) -> Self {
        match odd {
            Odd::Special => Self::Special,
            Odd::NestedRepository => Self::NestedRepository,
            Odd::Submodule => Self::Submodule,
            Odd::Unreadable => Self::Unreadable,
        }
    }
}

fn printable(path: &[u8]) -> String {
    String::from_utf8_lossy(path).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(512).collect()
}

/// Reads the pull request's text; a symlink, a pipe or an oversized file is none.
fn read_pr_body(dir: &Path) -> Option<Vec<u8>> {
    let path = dir.join("PR_BODY.md");
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(&path, flags, Mode::empty()).ok()?);
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > PR_BODY_MAX {
        return None;
    }
    let mut text = Vec::new();
    file.take(PR_BODY_MAX).read_to_end(&mut text).ok()?;
    Some(text)
}

/// Parses `diff-tree -z --raw --numstat`: first all raw records, then all line counts.
fn parse_diff(bytes: &[u8]) -> Vec<Change> {
    let mut fields = bytes.split(|byte| *byte == 0);
    let mut changes: Vec<Change> = Vec::new();
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    while let Some(field) = fields.next() {
        if field.first() == Some(&b':') {
            if let Some((path, change)) = fields.next().and_then(|path| Some((path, raw_change(field, path)?))) {
                places.insert(path.to_vec(), changes.len());
                changes.push(change);
            }
        } else {
            count_lines(field, &places, &mut changes);
        }
    }
    changes
}

fn raw_change(record: &[u8], path: &[u8]) -> Option<Change> {
    let text = std::str::from_utf8(record.get(1..)?).ok()?;
    let mut words = text.split(' ');
    let mode_before = u32::from_str_radix(words.next()?, 8).ok()?;
    let mode_after = u32::from_str_radix(words.next()?, 8).ok()?;
    let status = match words.nth(2)? {
        "A" => ChangeStatus::Added,
        "D" => ChangeStatus::Deleted,
        "T" => ChangeStatus::TypeChanged,
        _ => ChangeStatus::Modified,
    };
    let path = String::from_utf8_lossy(path).into_owned();
    Some(Change { path, status, mode_before, mode_after, lines_added: 0, lines_removed: 0, binary: false, size: 0 })
}

/// `<added> TAB <removed> TAB <path>`; two dashes mean binary.
fn count_lines(record: &[u8], places: &HashMap<Vec<u8>, usize>, changes: &mut [Change]) {
    let mut parts = record.splitn(3, |byte| *byte == b'\t');
    let (Some(added), Some(removed), Some(path)) = (parts.next(), parts.next(), parts.next()) else { return };
    let Some(change) = places.get(path).and_then(|at| changes.get_mut(*at)) else { return };
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    change.binary = added == b"-";
    change.lines_added = number(added).unwrap_or(0);
    change.lines_removed = number(removed).unwrap_or(0);
}
