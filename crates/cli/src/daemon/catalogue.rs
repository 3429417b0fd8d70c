//! The loop files of one repository as a daemon knows them: read again only when they changed, and each with its last good
//! form, so that a file which breaks under an editor stops nothing.

use super::shelf::{Place, Shelf};
use crate::context::{FOLDER, in_two, loop_files, read_bytes};
use crate::error::CommandError;
use loopwright::git::UserRepo;
use loopwright::triggers::WatchedLoop;
use loopwright_core::cadence::CadenceProblem;
use loopwright_core::dispatch::Entry;
use loopwright_core::spec::{CheckedSpec, LoopSpec, read_loop_file};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What loops are joined with.
#[derive(Debug)]
pub(super) struct Ground {
    /// The repository's id.
    pub(super) repo: Arc<str>,
    /// The system's zone.
    pub(super) zone: String,
    /// The agents of loops that name none.
    pub(super) agents: Vec<Arc<str>>,
}

impl Ground {
    /// The loop as the dispatcher knows it. Names that many loops share are kept once.
    fn entry(&self, spec: &CheckedSpec) -> Result<Entry, CadenceProblem> {
        let mut entry = Entry::of(spec, &self.repo, &self.zone)?;
        entry.key.repo = Arc::clone(&self.repo);
        if entry.agents.is_empty() {
            entry.agents.clone_from(&self.agents);
        }
        Ok(entry)
    }
}

/// What tells a file from what it was: a writer that keeps all four does not exist.
type Stamp = (u64, u64, i64, i64);

/// A repository with its loop files.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) repo: UserRepo,
    /// The loops that start by themselves; all when none is named.
    pub(super) only: Vec<String>,
    files: BTreeMap<String, Known>,
    /// The file of each name, folded; a name that two files have is the one's that had it first.
    names: BTreeMap<String, String>,
    /// What was told of names that two files have.
    twins: BTreeSet<String>,
}

#[derive(Debug)]
struct Known {
    stamp: Option<Stamp>,
    good: Option<Good>,
    problem: Option<String>,
}

/// The last good form of a file.
#[derive(Debug)]
struct Good {
    entry: Entry,
    after: Vec<Box<str>>,
    /// What is to be watched besides time; most loops want nothing.
    watched: Option<Box<WatchedLoop>>,
    text: Place,
}

/// A file that was read anew.
struct Fresh {
    file: String,
    stamp: Option<Stamp>,
    read: Result<Good, String>,
}

/// What changed, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A file cannot be used; whether an older form of it is.
    Broken(String, Fallback),
    /// A file that could not be used can be again.
    Mended(String),
}

/// What is used in place of a file that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fallback {
    /// Its last good form.
    LastGood,
    /// Nothing.
    Nothing,
}

impl Catalogue {
    /// A repository nothing of which was read yet.
    pub(super) fn new(repo: UserRepo) -> Self {
        let (names, twins) = (BTreeMap::new(), BTreeSet::new());
        Self { repo, only: Vec::new(), files: BTreeMap::new(), names, twins }
    }

    /// Reads what changed.
    pub(super) fn read(&mut self, ground: &Ground, shelf: &Mutex<Shelf>) -> Result<Vec<Change>, CommandError> {
        let paths = loop_files(&self.repo.work_tree)?;
        let names: Vec<(String, PathBuf)> =
            paths.into_iter().filter_map(|path| Some((name_of(&path)?, path))).collect();
        let there: HashSet<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        self.files.retain(|name, _| there.contains(name.as_str()));
        let known = &self.files;
        let read = |(name, path): &(String, PathBuf)| {
            let stamp = stamp(path);
            let same = known.get(name).is_some_and(|known| stamp.is_some() && known.stamp == stamp);
            (!same).then(|| Fresh { file: name.clone(), stamp, read: fresh(name, path, ground, shelf) })
        };
        let fresh: Vec<Fresh> = in_two(&names, read);
        let mut changes: Vec<Change> = fresh.into_iter().filter_map(|fresh| self.take(fresh)).collect();
        changes.extend(self.settle_names());
        Ok(changes)
    }

    fn take(&mut self, fresh: Fresh) -> Option<Change> {
        let known = self.files.entry(fresh.file.clone()).or_insert(Known { stamp: None, good: None, problem: None });
        known.stamp = fresh.stamp;
        match fresh.read {
            Ok(good) => {
                known.good = Some(good);
                known.problem.take().map(|_| Change::Mended(fresh.file))
            }
            Err(problem) => {
                let fallback = if known.good.is_some() { Fallback::LastGood } else { Fallback::Nothing };
                let is_new = known.problem.as_ref() != Some(&problem);
                known.problem = Some(problem.clone());
                is_new.then_some(Change::Broken(problem, fallback))
            }
        }
    }

    /// Gives each name to one file. Two new files of one name get none; which of them is meant is for a person to say.
    fn settle_names(&mut self) -> Vec<Change> {
        let mut of_name: BTreeMap<String, Vec<&String>> = BTreeMap::new();
        for (file, known) in &self.files {
            if let Some(good) = &known.good {
                of_name.entry(good.entry.key.name.to_lowercase()).or_default().push(file);
            }
        }
        let (mut names, mut twins, mut changes) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        for (name, files) in of_name {
            let before = self.names.get(&name).filter(|before| files.contains(before));
            let chosen = if let [only] = files.as_slice() { Some(*only) } else { before };
            if files.len() > 1 {
                let files: Vec<&str> = files.iter().map(|file| file.as_str()).collect();
                let text = format!("{FOLDER}: the name `{name}` is in {}", files.join(" and "));
                let fallback = if chosen.is_some() { Fallback::LastGood } else { Fallback::Nothing };
                changes.extend((!self.twins.contains(&text)).then(|| Change::Broken(text.clone(), fallback)));
                twins.insert(text);
            }
            names.extend(chosen.map(|file| (name, file.clone())));
        }
        (self.names, self.twins) = (names, twins);
        changes
    }

    /// The loops that can be used.
    fn goods(&self) -> impl Iterator<Item = (&String, &Good)> {
        self.names.values().filter_map(|file| Some((file, self.good(file)?)))
    }

    fn good(&self, file: &String) -> Option<&Good> {
        let good = self.files.get(file)?.good.as_ref()?;
        let is_meant = self.only.is_empty() || self.only.iter().any(|only| **only == *good.entry.key.name);
        is_meant.then_some(good)
    }

    /// What the dispatcher has to know.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.goods().map(|(_, good)| good.entry.clone())
    }

    /// Which loop follows which.
    pub(super) fn after(&self) -> impl Iterator<Item = (&Entry, &str)> {
        self.goods().flat_map(|(_, good)| good.after.iter().map(|name| (&good.entry, name.as_ref())))
    }

    /// What is to be watched besides time.
    pub(super) fn watched(&self) -> Vec<WatchedLoop> {
        self.goods().filter_map(|(_, good)| Some(good.watched.as_deref()?.clone())).collect()
    }

    /// A loop as its file is now, or as it was when it was good last.
    pub(super) fn spec(&self, name: &str, shelf: &Mutex<Shelf>) -> Result<(String, CheckedSpec), String> {
        let found = self.names.get(&name.to_lowercase()).and_then(|file| Some((file, self.good(file)?)));
        let (file, good) = found.ok_or_else(|| format!("no loop is called `{name}`"))?;
        let shown = format!("{FOLDER}/{file}");
        let now = read_bytes(&self.repo.work_tree.join(&shown)).ok();
        let now = now.and_then(|bytes| read_loop_file(&shown, &bytes).ok()).filter(|spec| spec.name == name);
        if let Some(spec) = now {
            return Ok((shown, spec));
        }
        let text = shelf.lock().unwrap_or_else(PoisonError::into_inner).get(good.text);
        let text = text.map_err(|error| format!("{shown}: read its last good form: {error}"))?;
        let spec = read_loop_file(&shown, &text).map_err(|problems| format!("{shown}: {problems}"))?;
        Ok((shown, spec))
    }

    /// Puts every last good text onto another shelf.
    pub(super) fn move_to(&mut self, from: &mut Shelf, to: &mut Shelf) -> std::io::Result<()> {
        for good in self.files.values_mut().filter_map(|known| known.good.as_mut()) {
            good.text = to.put(&from.get(good.text)?)?;
        }
        Ok(())
    }
}

fn name_of(path: &Path) -> Option<String> {
    path.file_name()?.to_str().map(str::to_owned)
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    Some((
        meta.ino(),
        meta.len(),
        meta.mtime() * 1_000_000_000 + meta.mtime_nsec(),
        meta.ctime() * 1_000_000_000 + meta.ctime_nsec(),
    ))
}

fn fresh(name: &str, path: &Path, ground: &Ground, shelf: &Mutex<Shelf>) -> Result<Good, String> {
    let shown = format!("{FOLDER}/{name}");
    let bytes = read_bytes(path).map_err(|error| format!("{shown}: {error}"))?;
    let spec = read_loop_file(&shown, &bytes).map_err(|problems| first(&shown, &problems))?;
    let entry = ground.entry(&spec).map_err(|problem| format!("{shown}: {problem}"))?;
    let text = shelf.lock().unwrap_or_else(PoisonError::into_inner).put(&bytes);
    let text = text.map_err(|error| format!("{shown}: keep it: {error}"))?;
    let after = spec.on.after.iter().map(|name| name.as_str().into()).collect();
    Ok(Good { entry, after, watched: watched(&spec), text })
}

fn watched(spec: &LoopSpec) -> Option<Box<WatchedLoop>> {
    let on = &spec.on;
    let hears = !on.files.is_empty() || !on.push.is_empty() || !on.webhook.is_empty();
    hears.then(|| Box::new(WatchedLoop::from(spec)))
}

fn first(shown: &str, problems: &loopwright_core::spec::Problems) -> String {
    match problems.iter().next() {
        Some(problem) => format!("{shown}:{}: {}", problem.line, problem.what),
        None => format!("{shown}: not usable"),
    }
}
