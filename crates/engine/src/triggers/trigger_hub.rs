//! The watched folders and their purposes, the pending events, and the signals made from them. [`super::watch`] decides
//! when events are processed.

use super::Signals;
use super::inotify::{FolderEvent, FolderEventKind, Inotify};
use super::repo_queries;
use super::walk::{self, WATCHES_MAX, WalkScope, WatchGlobs};
use super::watched_repos::{FolderContent, WatchedFolder, WatchedRepo, is_own_branch};
use super::{files, hooks};
use crate::clock::Clock;
use crate::git::{Git, UserRepo};
use crate::round::error_chain;
use crate::state_dir;
use crate::store::SignalRow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The most changed paths that are listed; beyond that the paths count as unknown.
const PATHS_MAX: usize = 10_000;

/// Why a folder is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WatchPurpose {
    /// It is part of a working copy, at this path relative to its root.
    Tree(String),
    /// It is git's own folder, in which one file and one folder matter.
    Git,
    /// It holds branches.
    Refs,
    /// Its changes are reported directly.
    Folder(WatchedFolder),
    /// Hooks touch files in it.
    Poke,
}

#[derive(Debug)]
struct FolderWatch {
    dir: PathBuf,
    /// The repositories and purposes of the watch.
    roles: Vec<(String, WatchPurpose)>,
}

#[derive(Debug)]
struct RepoWatch {
    watched: WatchedRepo,
    scope: WalkScope,
    /// The last seen commit of each branch that loops wait for.
    heads: BTreeMap<String, String>,
}

/// The pending events of one repository.
#[derive(Debug, Default)]
struct PendingEvents {
    paths: BTreeSet<String>,
    folders: BTreeSet<String>,
    /// Folders that were created or moved in, once they are watched.
    arrived: Vec<String>,
    /// Folders that were moved away. The kernel reports no event for the files below them.
    moved_away: BTreeSet<String>,
    branches: bool,
    /// Events were lost, or there were too many to list their paths.
    lost: bool,
}

pub(super) struct TriggerHub {
    inotify: Option<Arc<Inotify>>,
    git: Git,
    state: PathBuf,
    clock: Arc<dyn Clock>,
    signals: Arc<dyn Signals>,
    folders: Vec<WatchedFolder>,
    /// The content of the watched folders that changed.
    changed: BTreeSet<FolderContent>,
    repos: BTreeMap<String, RepoWatch>,
    folder_watches: HashMap<i32, FolderWatch>,
    pending: BTreeMap<String, PendingEvents>,
}

impl TriggerHub {
    pub(super) fn new(git: Git, state: &Path, clock: Arc<dyn Clock>, signals: Arc<dyn Signals>) -> Self {
        let inotify = Inotify::open().map_err(|error| {
            signals.note(&format!("files cannot be watched here: {error}; kill -HUP reads loop files again"))
        });
        Self {
            inotify: inotify.ok().map(Arc::new),
            git,
            state: state.canonicalize().unwrap_or_else(|_| state.to_owned()),
            clock,
            signals,
            folders: Vec::new(),
            changed: BTreeSet::new(),
            repos: BTreeMap::new(),
            folder_watches: HashMap::new(),
            pending: BTreeMap::new(),
        }
    }

    pub(super) async fn next_events(&self) -> std::io::Result<Vec<FolderEvent>> {
        match &self.inotify {
            Some(inotify) => inotify.news().await,
            None => std::future::pending().await,
        }
    }

    /// Records events; returns whether there is anything to process.
    pub(super) fn record_events(&mut self, news: std::io::Result<Vec<FolderEvent>>) -> bool {
        match news {
            Ok(seen) => seen.iter().map(|seen| self.record_event(seen)).filter(|matters| *matters).count() > 0,
            Err(error) => {
                self.signals.note(&format!(
                    "files and branches are no longer watched: {error}; kill -HUP reads loop files again"
                ));
                self.inotify = None;
                false
            }
        }
    }

    fn record_event(&mut self, seen: &FolderEvent) -> bool {
        match seen.what {
            FolderEventKind::Overflow => {
                self.signals.note("more files changed than the kernel could report; everything is scanned again");
                for id in self.repos.keys() {
                    self.pending.entry(id.clone()).or_default().lost = true;
                }
                self.changed.extend(self.folders.iter().map(|folder| folder.content));
                return !self.repos.is_empty() || !self.changed.is_empty();
            }
            FolderEventKind::Ended => {
                self.folder_watches.remove(&seen.wd);
                return false;
            }
            FolderEventKind::Made | FolderEventKind::There | FolderEventKind::Gone | FolderEventKind::Left => {}
        }
        let Some(place) = self.folder_watches.get(&seen.wd) else { return false };
        let (path, roles) = (place.dir.join(&seen.name), place.roles.clone());
        let mut any = false;
        for (repo, role) in roles {
            any |= self.hear_as(&repo, &role, seen, &path);
        }
        // The watch of a removed folder ends by itself. A search through all watches for each removed folder would take
        // quadratic time for a large tree.
        if seen.is_dir && seen.is_moved {
            self.keep_watches(|place| !place.dir.starts_with(&path));
        }
        any
    }

    /// Records one event for one repository; returns whether it matters there.
    fn hear_as(&mut self, repo: &str, role: &WatchPurpose, seen: &FolderEvent, path: &Path) -> bool {
        match role {
            WatchPurpose::Folder(folder) => return self.hear_folder(folder, seen),
            _ if seen.what == FolderEventKind::Left => return false,
            WatchPurpose::Tree(folder) => {
                return self.record_file(repo, &walk::join(folder, &seen.name.to_string_lossy()), seen, path);
            }
            WatchPurpose::Git if seen.name == "packed-refs" || seen.name == "refs" => {
                self.pending_for(repo).branches = true
            }
            WatchPurpose::Git => return false,
            WatchPurpose::Refs if seen.is_dir && seen.what != FolderEventKind::Gone => {
                self.watch_refs(repo, path);
                self.pending_for(repo).branches = true;
            }
            // Git writes a lock file beside a branch and renames it: only the rename counts.
            WatchPurpose::Refs
                if seen.what == FolderEventKind::Made || seen.name.to_string_lossy().ends_with(".lock") =>
            {
                return false;
            }
            WatchPurpose::Refs => self.pending_for(repo).branches = true,
            WatchPurpose::Poke => match seen.name.to_str().filter(|id| self.repos.contains_key(*id)) {
                Some(id) => self.pending_for(id).branches = true,
                None => return false,
            },
        }
        true
    }

    /// Returns whether the change is reported when the burst is over.
    fn hear_folder(&mut self, folder: &WatchedFolder, seen: &FolderEvent) -> bool {
        let matters = seen.what == FolderEventKind::Left || folder.name.as_ref().is_none_or(|name| *name == seen.name);
        match folder.content {
            _ if !matters => return false,
            FolderContent::Loops => {
                self.changed.insert(FolderContent::Loops);
            }
            FolderContent::State => self.signals.folder_changed(FolderContent::State),
        }
        folder.content == FolderContent::Loops
    }

    fn record_file(&mut self, repo: &str, name: &str, seen: &FolderEvent, path: &Path) -> bool {
        let Some(reach) = self.repos.get(repo).map(|known| &known.scope.reach) else { return false };
        let matters = if seen.is_dir { reach.may_contain(name) } else { reach.matches(name) };
        // A new file is reported again when its writer closes it, unless it is a hard link to a finished file.
        let is_unfinished = || path.symlink_metadata().is_ok_and(|meta| meta.is_file() && meta.nlink() == 1);
        if !matters || seen.name == ".git" || (seen.what == FolderEventKind::Made && !seen.is_dir && is_unfinished()) {
            return false;
        }
        let heard = self.pending.entry(repo.to_owned()).or_default();
        if seen.is_dir && seen.what != FolderEventKind::Gone {
            heard.folders.insert(name.to_owned());
        }
        if seen.is_dir && seen.is_moved {
            heard.moved_away.insert(name.to_owned());
        }
        heard.paths.insert(name.to_owned());
        if heard.paths.len() + heard.folders.len() > PATHS_MAX {
            *heard = PendingEvents { branches: heard.branches, lost: true, ..PendingEvents::default() };
        }
        true
    }

    fn pending_for(&mut self, repo: &str) -> &mut PendingEvents {
        self.pending.entry(repo.to_owned()).or_default()
    }

    /// Ends the watches of all other folders.
    fn keep_watches(&mut self, stays: impl Fn(&FolderWatch) -> bool) {
        let gone: Vec<i32> = self.folder_watches.extract_if(|_, place| !stays(place)).map(|(wd, _)| wd).collect();
        gone.into_iter().for_each(|wd| self.forget(wd));
    }

    fn forget(&self, wd: i32) {
        if let Some(inotify) = &self.inotify {
            inotify.forget(wd);
        }
    }
}

fn is_behind_a_link(root: &Path, path: &str) -> bool {
    let folders = Path::new(path).ancestors().skip(1);
    folders.filter(|folder| !folder.as_os_str().is_empty()).any(|folder| root.join(folder).is_symlink())
}

/// The set of watches.
impl TriggerHub {
    /// Changes the watched repositories; returns whether everything that had to be recorded was recorded.
    pub(super) async fn watch_only(&mut self, watched: Vec<WatchedRepo>) -> bool {
        let mut before = std::mem::take(&mut self.folder_watches);
        let mut heads: BTreeMap<_, _> =
            std::mem::take(&mut self.repos).into_iter().map(|(id, known)| (id, known.heads)).collect();
        self.watch_pokes();
        self.watch_folders();
        for one in watched {
            let id = one.repo.id.clone();
            let patterns: Vec<&String> = one.loops.iter().flat_map(|one| &one.on.files).collect();
            let ground = self.ground(&one.repo, WatchGlobs::from_globs(&patterns)).await;
            self.repos.insert(
                id.clone(),
                RepoWatch { watched: one, scope: ground, heads: heads.remove(&id).unwrap_or_default() },
            );
            self.watch_repo(&id).await;
        }
        before.retain(|wd, _| !self.folder_watches.contains_key(wd));
        before.keys().for_each(|wd| self.forget(*wd));
        self.pending.retain(|id, _| self.repos.contains_key(id));
        for (id, known) in &self.repos {
            if known.watched.loops.iter().any(|one| !one.on.push.is_empty()) {
                self.pending.entry(id.clone()).or_default().branches = true;
            }
        }
        self.process_branches().await
    }

    async fn ground(&self, repo: &UserRepo, reach: WatchGlobs) -> WalkScope {
        let ignored = match reach.is_empty() {
            true => Ok(BTreeSet::new()),
            false => repo_queries::ignored_folders(&self.git, repo).await,
        };
        let ignored = ignored.unwrap_or_else(|error| {
            self.signals.note(&format!("`{}`: ignored folders are watched too: {}", repo.id, error_chain(&error)));
            BTreeSet::new()
        });
        WalkScope { root: repo.work_tree.clone(), state: self.state.clone(), reach, ignored }
    }

    async fn watch_repo(&mut self, id: &str) {
        let Some(RepoWatch { watched, .. }) = self.repos.get(id) else { return };
        let (repo, waits) = (watched.repo.clone(), watched.loops.iter().any(|one| !one.on.push.is_empty()));
        if waits {
            self.watch_as(&repo.common_dir, id, WatchPurpose::Git);
            self.watch_as(&repo.common_dir.join("reftable"), id, WatchPurpose::Refs);
            self.watch_refs(id, &repo.common_dir.join("refs/heads"));
        }
        self.watch_tree(id, vec![String::new()]).await;
    }

    /// Changes the additional watched folders; always returns true, because there is nothing to record.
    pub(super) fn set_folders(&mut self, folders: Vec<WatchedFolder>) -> bool {
        self.folder_watches
            .values_mut()
            .for_each(|place| place.roles.retain(|(_, role)| !matches!(role, WatchPurpose::Folder(_))));
        self.folders = folders;
        self.watch_folders();
        self.keep_watches(|place| !place.roles.is_empty());
        true
    }

    fn watch_folders(&mut self) {
        for folder in self.folders.clone() {
            // Links are followed here: people keep their configuration in other places.
            let dir = folder.dir.canonicalize().unwrap_or_else(|_| folder.dir.clone());
            self.watch_as(&dir, "", WatchPurpose::Folder(folder));
        }
    }

    fn watch_pokes(&mut self) {
        let folder = hooks::poke_folder(&self.state);
        if let Err(error) = state_dir::make_dir(&folder) {
            self.signals.note(&format!("hooks cannot reach this daemon: {}", error_chain(&error)));
        }
        self.watch_as(&folder, "", WatchPurpose::Poke);
    }

    /// Watches a folder of branches and the folders below it.
    fn watch_refs(&mut self, id: &str, folder: &Path) {
        let mut waiting = vec![folder.to_owned()];
        while let Some(folder) = waiting.pop() {
            if !self.watch_as(&folder, id, WatchPurpose::Refs) {
                continue;
            }
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            waiting.extend(entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()));
        }
    }

    /// Watches folders of a working copy and everything below them; returns the files in them.
    async fn watch_tree(&mut self, id: &str, start: Vec<String>) -> Vec<String> {
        let (Some(inotify), Some(known)) = (self.inotify.clone(), self.repos.get(id)) else { return Vec::new() };
        if known.scope.reach.is_empty() {
            return Vec::new();
        }
        let (ground, room) = (known.scope.clone(), WATCHES_MAX.saturating_sub(self.folder_watches.len()));
        let found = tokio::task::spawn_blocking(move || walk::walk(&inotify, &ground, &start, room)).await;
        let found = found.unwrap_or_default();
        for (wd, dir, folder) in found.watches {
            self.add(wd, dir, id, WatchPurpose::Tree(folder));
        }
        if found.is_full {
            self.signals.note(&format!(
                "`{id}`: not all folders are watched, there are too many; narrow `files:`, or use a cadence with `probe: files`"
            ));
        }
        found.files
    }

    fn watch_as(&mut self, dir: &Path, id: &str, role: WatchPurpose) -> bool {
        let Some(inotify) = &self.inotify else { return false };
        if self.folder_watches.len() >= WATCHES_MAX {
            return false;
        }
        match inotify.watch(dir) {
            Ok(wd) => self.add(wd, dir.to_owned(), id, role),
            Err(_) => return false,
        }
        true
    }

    fn add(&mut self, wd: i32, dir: PathBuf, id: &str, role: WatchPurpose) {
        let place =
            self.folder_watches.entry(wd).or_insert_with(|| FolderWatch { dir: dir.clone(), roles: Vec::new() });
        place.dir = dir;
        if !place.roles.iter().any(|(of, is)| of == id && *is == role) {
            place.roles.push((id.to_owned(), role));
        }
    }
}

/// The processing of events.
impl TriggerHub {
    /// Processes the pending events; returns whether all signals were recorded.
    pub(super) async fn process_pending(&mut self) -> bool {
        std::mem::take(&mut self.changed).into_iter().for_each(|content| self.signals.folder_changed(content));
        let mut whole = self.process_branches().await;
        for (id, mut heard) in std::mem::take(&mut self.pending) {
            let is_recorded = match heard.lost {
                true => self.settle_lost(&id).await,
                false => self.process_files(&id, &mut heard).await,
            };
            // Events without a recorded signal are processed again. Branches are kept separately, because they were
            // processed first.
            let left = match is_recorded {
                true => PendingEvents { branches: heard.branches, ..PendingEvents::default() },
                false => heard,
            };
            if !is_recorded || left.branches {
                self.pending.insert(id, left);
                whole = false;
            }
        }
        whole
    }

    /// After lost events: all folders are watched again, and each loop that waits for files is due once.
    async fn settle_lost(&mut self, id: &str) -> bool {
        let Some(known) = self.repos.get(id) else { return true };
        let repo = known.watched.repo.clone();
        let ground = self.ground(&repo, known.scope.reach.clone()).await;
        self.repos.entry(id.to_owned()).and_modify(|known| known.scope = ground);
        self.watch_repo(id).await;
        self.pending_for(id).branches = true;
        let mut whole = self.process_branches().await;
        self.pending.remove(id);
        let now_ms = self.clock.now_ms();
        for (name, _) in self.file_loops(id) {
            whole &= self.send(files::overflow_signal(id, &name, now_ms)).await;
        }
        whole
    }

    async fn process_files(&mut self, id: &str, heard: &mut PendingEvents) -> bool {
        let Some(known) = self.repos.get(id) else { return true };
        let (repo, reach) = (known.watched.repo.clone(), known.scope.reach.clone());
        if !heard.folders.is_empty() {
            let ground = self.ground(&repo, reach.clone()).await;
            self.repos.entry(id.to_owned()).and_modify(|known| known.scope = ground);
            let folders: Vec<String> = std::mem::take(&mut heard.folders).into_iter().collect();
            heard.paths.extend(self.watch_tree(id, folders.clone()).await);
            heard.arrived = folders;
        }
        let changed = self.not_ignored(&repo, heard.paths.iter().filter(|path| reach.matches(path)).cloned()).await;
        let moved_away = self.not_ignored(&repo, heard.moved_away.iter().cloned()).await;
        let root = repo.work_tree;
        let now_ms = self.clock.now_ms();
        let mut whole = true;
        for (name, own) in self.file_loops(id) {
            let files = changed.iter().filter(|path| own.matches(path));
            let of_loop = files
                .chain(own.roots_of(&heard.arrived, &changed))
                .chain(moved_away.iter().filter(|folder| !own.matches(folder) && own.may_contain(folder)));
            if let Some(row) = files::changed_signal(id, &name, &root, of_loop.map(String::as_str), now_ms) {
                whole &= self.send(row).await;
            }
        }
        whole
    }

    /// The given paths that git does not ignore. Git gives no answer at all if one of them is behind a link.
    async fn not_ignored(&self, repo: &UserRepo, paths: impl Iterator<Item = String>) -> Vec<String> {
        let (behind, mut asked): (Vec<_>, Vec<_>) = paths.partition(|path| is_behind_a_link(&repo.work_tree, path));
        let ignored = repo_queries::ignored_among(&self.git, repo, &asked).await.unwrap_or_else(|error| {
            self.signals.note(&format!("`{}`: ignored files count too: {}", repo.id, error_chain(&error)));
            BTreeSet::new()
        });
        asked.retain(|path| !ignored.contains(path));
        asked.extend(behind);
        asked
    }

    /// The loops of a repository that wait for files, each with its globs.
    fn file_loops(&self, id: &str) -> Vec<(String, WatchGlobs)> {
        let loops = self.repos.get(id).into_iter().flat_map(|known| &known.watched.loops);
        let waiting = loops.filter(|one| !one.on.files.is_empty());
        waiting.map(|one| (one.name.clone(), WatchGlobs::from_globs(&one.on.files))).collect()
    }

    /// Checks the branches of every repository in which one may have moved.
    async fn process_branches(&mut self) -> bool {
        let asked: Vec<String> =
            self.pending.iter().filter(|(_, heard)| heard.branches).map(|(id, _)| id.clone()).collect();
        let mut whole = true;
        for id in asked {
            let is_recorded = self.scan_branches(&id).await;
            self.pending_for(&id).branches = !is_recorded;
            whole &= is_recorded;
        }
        whole
    }

    async fn scan_branches(&mut self, id: &str) -> bool {
        let Some(known) = self.repos.get(id) else { return true };
        let watched = known.watched.clone();
        let branches = watched.loops.iter().flat_map(|one| &one.on.push).map(String::as_str);
        let branches: BTreeSet<&str> = branches.filter(|branch| !is_own_branch(branch)).collect();
        let heads = match repo_queries::branch_heads(&self.git, &watched.repo, &branches).await {
            Ok(heads) => heads,
            Err(error) => {
                self.signals.note(&format!("`{id}`: branches cannot be read: {}", error_chain(&error)));
                return false;
            }
        };
        let mut whole = true;
        for (branch, head) in heads {
            for one in watched.loops.iter().filter(|one| one.on.push.contains(&branch)) {
                whole &= self.moved(id, &one.name, &branch, &head).await;
            }
            if let Some(known) = self.repos.get_mut(id).filter(|_| whole) {
                known.heads.insert(branch, head.oid);
            }
        }
        whole
    }

    /// The first known head of a branch is only recorded; from then on, every move makes the loop due.
    async fn moved(&self, id: &str, name: &str, branch: &str, head: &repo_queries::BranchHead) -> bool {
        let prefix = format!("push:{branch}:");
        let before = self.repos.get(id).and_then(|known| known.heads.get(branch)).cloned();
        let is_begun = match self.signals.has_any(id, name, &prefix).await {
            Ok(is_begun) => is_begun,
            Err(error) => {
                self.signals.note(&format!("`{id}/{name}`: {}", error_chain(&error)));
                return false;
            }
        };
        let now_ms = self.clock.now_ms();
        let data = serde_json::json!({ "branch": branch, "from": before, "to": head.oid, "subject": head.subject });
        let short = &head.oid[..head.oid.len().min(12)];
        self.send(SignalRow {
            repo: id.to_owned(),
            loop_name: name.to_owned(),
            key: format!("{prefix}{}", head.oid),
            trigger: "push".to_owned(),
            at_ms: now_ms,
            item: None,
            title: Some(format!("`{branch}` is at {short}")),
            data: Some(data.to_string()),
            taken_ms: (!is_begun).then_some(now_ms),
        })
        .await
    }

    /// Sends a signal; returns whether it is recorded.
    async fn send(&self, row: SignalRow) -> bool {
        let place = format!("{}/{}", row.repo, row.loop_name);
        match self.signals.signal(row).await {
            Ok(_) => true,
            Err(error) => {
                self.signals.note(&format!("`{place}`: a signal could not be recorded: {}", error_chain(&error)));
                false
            }
        }
    }
}
