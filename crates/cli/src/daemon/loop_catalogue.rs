//! The loop files of one repository as a daemon has them: parsed again only when their bytes changed, and each with its
//! last good form, so that a file that breaks during editing stops nothing. The store has the last good text of each
//! file.

use crate::context::{LOOPS_FOLDER, LoopFolder, in_parallel, read_repo_file};
use crate::error::CommandError;
use loopwright::git::UserRepo;
use loopwright::store::LoopFileRow;
use loopwright_core::cadence::{CadenceProblem, LoopSchedule};
use loopwright_core::dispatch::LoopEntry;
use loopwright_core::spec::{CheckedSpec, LoopSpec, Triggers, read_loop_file};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::PathBuf;
use std::sync::Arc;

/// A repository with its loop files.
#[derive(Debug)]
pub(super) struct LoopCatalogue {
    pub(super) repo: UserRepo,
    /// The path where the repository was found.
    pub(super) place: PathBuf,
    /// The loops that start on their own; all if empty.
    pub(super) only: Vec<String>,
    /// By name of the file.
    files: Vec<KnownFile>,
    /// The texts in the store that no reading has used yet, by name of the file.
    stored: BTreeMap<String, String>,
    /// Files that are gone and still have a text in the store.
    gone: BTreeSet<String>,
    /// The reported names that two files have.
    reported_duplicates: BTreeSet<String>,
}

#[derive(Debug)]
struct KnownFile {
    file: Box<str>,
    /// The hash of the bytes that were read last; `None` when the file could not be read.
    hash: Option<u64>,
    good: Option<GoodLoop>,
    problem: Option<Box<str>>,
    /// Whether no other file has the name of its loop.
    has_name: bool,
    /// Its last good text, while the store does not have it.
    unsaved: Option<String>,
}

/// The last good form of a file.
#[derive(Debug)]
struct GoodLoop {
    entry: LoopEntry,
    after: Box<[Box<str>]>,
    /// The loop itself, if it has triggers besides time; most loops have none.
    watched: Option<Box<LoopSpec>>,
    /// The hash of its text without the line of its name.
    shape: u64,
}

/// A file whose bytes changed.
struct FreshFile {
    at: usize,
    hash: Option<u64>,
    read: Result<(GoodLoop, String), String>,
}

/// A change of a loop file, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LoopFileChange {
    /// A file is unusable, and has a last good form that replaces it, or nothing does.
    Broken { problem: String, has_good: bool },
    /// A file that was unusable is usable again.
    Fixed(String),
    /// A loop is gone, and another one with the same text is new.
    Renamed { from: String, to: String },
}

/// The facts of a repository and its machine that turn a loop file into the dispatcher's entry.
#[derive(Debug)]
pub(super) struct LoopEntryBuilder {
    /// The repository's id.
    pub(super) repo: Arc<str>,
    /// The system's zone.
    pub(super) zone: String,
    /// The agents of loops that name none.
    pub(super) agents: Vec<Arc<str>>,
}

impl LoopEntryBuilder {
    /// The loop as the dispatcher sees it.
    fn entry(&self, spec: &CheckedSpec) -> Result<LoopEntry, CadenceProblem> {
        let schedule = LoopSchedule::of(&spec.on, &format!("{}/{}", self.repo, spec.name), &self.zone)?;
        let mut entry = LoopEntry::with_schedule(spec, &self.repo, schedule);
        if entry.agents.is_empty() {
            entry.agents.clone_from(&self.agents);
        }
        Ok(entry)
    }
}

impl LoopCatalogue {
    /// A repository that was not read yet, with the texts that the store has of it.
    pub(super) fn new(repo: UserRepo, stored: Vec<LoopFileRow>) -> Self {
        let stored = stored.into_iter().filter_map(|row| Some((row.file, row.text?))).collect();
        let place = repo.work_tree.clone();
        let (gone, reported_duplicates) = (BTreeSet::new(), BTreeSet::new());
        Self { repo, place, only: Vec::new(), files: Vec::new(), stored, gone, reported_duplicates }
    }

    /// Reads the folder, and parses the files that changed.
    pub(super) fn read(&mut self, ground: &LoopEntryBuilder) -> Result<Vec<LoopFileChange>, CommandError> {
        let folder = LoopFolder::open(&self.repo.work_tree)?;
        let mut before = self.shapes();
        self.list(&folder);
        let all: Vec<_> = self.files.iter().enumerate().collect();
        let fresh = in_parallel(&all, |(at, known)| fresh(*at, known, &folder, ground));
        let mut changes: Vec<LoopFileChange> =
            fresh.into_iter().filter_map(|fresh| self.apply(fresh, ground)).collect();
        let stored = std::mem::take(&mut self.stored);
        let past = stored.iter().filter_map(|(file, text)| good_loop(&shown(file), text.as_bytes(), ground).ok());
        before.extend(past.map(|good| (good.name().to_owned(), good.shape)));
        self.gone.extend(stored.into_keys());
        changes.extend(self.renamed(before));
        changes.extend(self.assign_names());
        Ok(changes)
    }

    /// The loops by name, each with the hash of its text without the name.
    fn shapes(&self) -> BTreeMap<String, u64> {
        let good = self.files.iter().filter_map(|known| known.good.as_ref());
        good.map(|good| (good.name().to_owned(), good.shape)).collect()
    }

    /// The loops that are gone, each with the new one that has the same text.
    fn renamed(&self, before: BTreeMap<String, u64>) -> Vec<LoopFileChange> {
        let now = self.shapes();
        let mut gone = before.iter().filter(|(name, _)| !now.contains_key(*name)).peekable();
        if gone.peek().is_none() {
            return Vec::new();
        }
        let new: BTreeMap<u64, &String> =
            now.iter().filter(|(name, _)| !before.contains_key(*name)).map(|(name, shape)| (*shape, name)).collect();
        let change = |(from, shape): (&String, &u64)| {
            new.get(shape).map(|to| LoopFileChange::Renamed { from: from.clone(), to: (*to).clone() })
        };
        gone.filter_map(change).collect()
    }

    /// Removes files that are gone, and adds new ones.
    fn list(&mut self, folder: &LoopFolder) {
        let before = std::mem::take(&mut self.files).into_iter();
        let mut before: BTreeMap<Box<str>, KnownFile> = before.map(|known| (known.file.clone(), known)).collect();
        let names = folder.names().iter().filter_map(|name| name.to_str());
        self.files = names
            .map(|file| {
                self.gone.remove(file);
                let new = || KnownFile::new(file);
                before.remove(file).unwrap_or_else(new)
            })
            .collect();
        self.gone.extend(before.into_keys().map(String::from));
    }

    fn apply(&mut self, fresh: FreshFile, ground: &LoopEntryBuilder) -> Option<LoopFileChange> {
        let known = &mut self.files[fresh.at];
        let stored = self.stored.remove(&*known.file);
        known.hash = fresh.hash;
        match fresh.read {
            Ok((good, text)) => {
                known.has_name &= known.good.as_ref().is_some_and(|before| before.name() == good.name());
                known.good = Some(good);
                known.unsaved = (stored.as_ref() != Some(&text)).then_some(text);
                known.problem.take().map(|_| LoopFileChange::Fixed(known.file.to_string()))
            }
            Err(problem) => {
                if let (None, Some(text)) = (&known.good, stored) {
                    known.good = good_loop(&shown(&known.file), text.as_bytes(), ground).ok();
                }
                let (has_good, is_new) = (known.good.is_some(), known.problem.as_deref() != Some(&*problem));
                known.problem = Some(problem.as_str().into());
                is_new.then_some(LoopFileChange::Broken { problem, has_good })
            }
        }
    }

    /// Gives each name to one file. If two new files have one name, neither gets it; the user has to decide.
    fn assign_names(&mut self) -> Vec<LoopFileChange> {
        let name = |at: usize| self.files[at].good.as_ref().map_or("", GoodLoop::name);
        let mut named: Vec<usize> = (0..self.files.len()).filter(|at| self.files[*at].good.is_some()).collect();
        named.sort_by(|one, other| name(*one).cmp(name(*other)));
        let (mut twins, mut changes, mut owners) = (BTreeSet::new(), Vec::new(), Vec::with_capacity(named.len()));
        for same in named.chunk_by(|one, other| name(*one) == name(*other)) {
            let before = same.iter().find(|at| self.files[**at].has_name);
            let owner = if let [only] = same { Some(only) } else { before };
            if same.len() > 1 {
                let files: Vec<&str> = same.iter().map(|at| &*self.files[*at].file).collect();
                let problem = format!("{LOOPS_FOLDER}: the name `{}` is in {}", name(same[0]), files.join(" and "));
                if !self.reported_duplicates.contains(&problem) {
                    let (problem, has_good) = (problem.clone(), owner.is_some());
                    changes.push(LoopFileChange::Broken { problem, has_good });
                }
                twins.insert(problem);
            }
            owners.extend(owner.copied());
        }
        self.files.iter_mut().for_each(|known| known.has_name = false);
        owners.into_iter().for_each(|at| self.files[at].has_name = true);
        self.reported_duplicates = twins;
        changes
    }

    /// The rows that the store does not have yet; call [`Self::saved`] once it has them.
    pub(super) fn unsaved(&self) -> Vec<LoopFileRow> {
        let row = |file: &str, text| LoopFileRow { repo: self.repo.id.clone(), file: file.to_owned(), text };
        let kept = self.files.iter().filter_map(|known| Some(row(&known.file, Some(known.unsaved.clone()?))));
        kept.chain(self.gone.iter().map(|file| row(file, None))).collect()
    }

    /// The store has every text.
    pub(super) fn saved(&mut self) {
        self.gone.clear();
        self.files.iter_mut().for_each(|known| known.unsaved = None);
    }

    /// The usable loops.
    fn usable_loops(&self) -> impl Iterator<Item = &GoodLoop> {
        self.files.iter().filter_map(|known| self.usable_loop(known))
    }

    fn usable_loop<'k>(&self, known: &'k KnownFile) -> Option<&'k GoodLoop> {
        let good = known.good.as_ref().filter(|_| known.has_name)?;
        let is_meant = self.only.is_empty() || self.only.iter().any(|only| only == good.name());
        is_meant.then_some(good)
    }

    /// The entries for the dispatcher.
    pub(super) fn entries(&self) -> impl Iterator<Item = LoopEntry> {
        self.usable_loops().map(|good| good.entry.clone())
    }

    /// Each loop that starts after another, with the name of the other.
    pub(super) fn followed_loops(&self) -> impl Iterator<Item = (&LoopEntry, &str)> {
        self.usable_loops().flat_map(|good| good.after.iter().map(|name| (&good.entry, name.as_ref())))
    }

    /// The loops with triggers besides time.
    pub(super) fn watched_loops(&self) -> Vec<LoopSpec> {
        self.usable_loops().filter_map(|good| Some(good.watched.as_deref()?.clone())).collect()
    }

    /// A loop's file as people see it, and the loop; the file's own name if it is broken and only the store has its last
    /// good text.
    pub(super) fn find(&self, name: &str) -> Result<(String, Result<CheckedSpec, String>), String> {
        let is_it = |known: &&KnownFile| self.usable_loop(known).is_some_and(|good| good.name() == name);
        let known = self.files.iter().find(is_it).ok_or_else(|| format!("no loop is called `{name}`"))?;
        let shown = shown(&known.file);
        let bytes = read_repo_file(&self.repo.work_tree, &shown).ok();
        let spec = bytes.and_then(|bytes| read_loop_file(&shown, &bytes).ok()).filter(|spec| spec.name == name);
        Ok((shown, spec.ok_or_else(|| known.file.to_string())))
    }
}

impl KnownFile {
    fn new(file: &str) -> Self {
        Self { file: file.into(), hash: None, good: None, problem: None, has_name: false, unsaved: None }
    }
}

impl GoodLoop {
    fn name(&self) -> &str {
        &self.entry.key.name
    }
}

/// Whether any external trigger besides time makes it due.
fn has_external_trigger(on: &Triggers) -> bool {
    !on.files.is_empty() || !on.push.is_empty() || !on.webhook.is_empty()
}

fn shown(file: &str) -> String {
    format!("{LOOPS_FOLDER}/{file}")
}

/// The file if its bytes differ from those that were read last.
fn fresh(at: usize, known: &KnownFile, folder: &LoopFolder, ground: &LoopEntryBuilder) -> Option<FreshFile> {
    let shown = shown(&known.file);
    let bytes = match folder.read(OsStr::new(&*known.file)) {
        Ok(bytes) => bytes,
        Err(error) => return Some(FreshFile { at, hash: None, read: Err(format!("{shown}: {error}")) }),
    };
    let hash = Some(hash(&bytes));
    if hash == known.hash {
        return None;
    }
    let text = |good| Ok((good, String::from_utf8_lossy(&bytes).into_owned()));
    Some(FreshFile { at, hash, read: good_loop(&shown, &bytes, ground).and_then(text) })
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn good_loop(shown: &str, bytes: &[u8], ground: &LoopEntryBuilder) -> Result<GoodLoop, String> {
    let spec = read_loop_file(shown, bytes).map_err(|problems| first(shown, &problems))?;
    let entry = ground.entry(&spec).map_err(|problem| format!("{shown}: {problem}"))?;
    let after = spec.on.after.iter().map(|name| name.as_str().into()).collect();
    let watched = has_external_trigger(&spec.on).then(|| Box::new(LoopSpec::clone(&spec)));
    Ok(GoodLoop { entry, after, watched, shape: shape(bytes) })
}

/// The hash of a loop file's text without the line of its name.
fn shape(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let is_name = |line: &&[u8]| line.trim_ascii_start().starts_with(b"name:");
    bytes.split(|byte| *byte == b'\n').filter(|line| !is_name(line)).for_each(|line| hasher.write(line));
    hasher.finish()
}

fn first(shown: &str, problems: &loopwright_core::spec::SpecProblems) -> String {
    match problems.iter().next() {
        Some(problem) => format!("{shown}:{}: {}", problem.line, problem.what),
        None => format!("{shown}: unusable"),
    }
}

#[cfg(test)]
mod tests;
