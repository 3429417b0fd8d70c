//! The loop files of one repository as a daemon knows them: read again only when they changed, and each with its last good
//! form, so that a file which breaks under an editor stops nothing.

use super::ground::Ground;
use super::recent::Recent;
use super::shelf::{Place, Record, Shelf};
use super::stamp::Stamp;
use crate::context::{FOLDER, Folder, in_two, read_bytes};
use crate::error::CommandError;
use loopwright::git::UserRepo;
use loopwright::triggers::WatchedLoop;
use loopwright_core::dispatch::{Entry, Facts};
use loopwright_core::spec::{CheckedSpec, LoopSpec, Triggers, read_loop_file, read_loop_file_knowing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A file that is called like its loop is among so many from where it would be.
const NEAR: usize = 8;

/// So many files are read before what they left in memory is used again.
const AT_A_TIME: usize = 64;

/// A repository with its loop files.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) repo: UserRepo,
    /// Where the repository was looked for.
    pub(super) place: PathBuf,
    /// The loops that start by themselves; all when none is named.
    pub(super) only: Vec<String>,
    /// By name of the file.
    files: Vec<Known>,
    shelf: Shelf,
    recent: Recent,
    /// Whether what an earlier process knew was asked for.
    is_recalled: bool,
    /// Why something could not be put on the shelf or taken from it; loops work all the same.
    unkept: Option<String>,
    /// What was told of names that two files have.
    twins: BTreeSet<String>,
}

#[derive(Debug)]
struct Known {
    file: Box<str>,
    /// What the file was when it was read; none when that says nothing about what it is now.
    stamp: Option<Stamp>,
    good: Option<Good>,
    problem: Option<Box<str>>,
    /// Whether its loop's name is its own.
    has_name: bool,
}

/// The last good form of a file.
#[derive(Debug)]
struct Good {
    entry: Entry,
    after: Box<[Box<str>]>,
    /// What is to be watched besides time; most loops want nothing.
    watched: Option<Box<WatchedLoop>>,
    place: Option<Place>,
}

/// What is kept of a good file on the shelf.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    file: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<Stamp>,
    facts: Facts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    approvers: Vec<String>,
}

/// A file that is to be read: where it is among those that are known, and its name.
type Stale = (usize, Box<str>);

/// A file that was read anew.
struct Fresh {
    at: usize,
    /// None when what comes later may have the same.
    stamp: Option<Stamp>,
    read: Result<(Good, io::Result<Record>), String>,
}

/// What one look at the folder brings together, besides what is known: for the threads that read.
struct Look<'l> {
    folder: &'l Folder,
    ground: &'l Ground,
    now_ms: i64,
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
    /// A repository nothing of which was read yet; what earlier processes knew of it is on a shelf in this folder.
    pub(super) fn new(repo: UserRepo, shelves: &Path) -> io::Result<Self> {
        let shelf = Shelf::open(&shelves.join(format!("{}.loops", repo.id)))?;
        let (only, files, recent, twins) = (Vec::new(), Vec::new(), Recent::default(), BTreeSet::new());
        let place = repo.work_tree.clone();
        Ok(Self { repo, place, only, files, shelf, recent, is_recalled: false, unkept: None, twins })
    }

    /// Reads what changed.
    pub(super) fn read(&mut self, ground: &Ground, now_ms: i64) -> Result<Vec<Change>, CommandError> {
        let folder = Folder::open(&self.repo.work_tree)?;
        let look = Look { folder: &folder, ground, now_ms };
        self.meet(&folder);
        let stale = if std::mem::replace(&mut self.is_recalled, true) {
            self.stale(&folder)
        } else {
            let recalled = self.recall(&look);
            self.note_failure(recalled);
            self.unread()
        };
        let mut changes = self.read_anew(&stale, &look);
        changes.extend(self.settle_names());
        let places = self.files.iter_mut().filter_map(|known| known.good.as_mut()?.place.as_mut()).collect();
        let written = self.shelf.flush().and_then(|()| self.shelf.renew(places));
        self.note_failure(written);
        Ok(changes)
    }

    fn note_failure<T>(&mut self, done: io::Result<T>) -> Option<T> {
        let failed = |error: io::Error| self.unkept = Some(format!("keep the last good loop files: {error}"));
        done.map_err(failed).ok()
    }

    /// What could not be kept since this was asked last.
    pub(super) fn unkept(&mut self) -> Option<String> {
        self.unkept.take()
    }

    /// Lets go of files that are gone, and makes room for new ones.
    fn meet(&mut self, folder: &Folder) {
        let mut before = std::mem::take(&mut self.files).into_iter().peekable();
        self.files.reserve_exact(folder.names().len());
        for file in folder.names().iter().filter_map(|name| name.to_str()) {
            while before.next_if(|known| *known.file < *file).is_some() {}
            let known = before.next_if(|known| *known.file == *file);
            let new = || Known { file: file.into(), stamp: None, good: None, problem: None, has_name: false };
            self.files.push(known.unwrap_or_else(new));
        }
    }

    /// The files that are not what they were when they were read, or of which that cannot be said.
    fn stale(&self, folder: &Folder) -> Vec<Stale> {
        let all: Vec<_> = self.files.iter().enumerate().collect();
        in_two(&all, |(at, Known { file, stamp, .. })| {
            let is_same = stamp.is_some() && *stamp == stamp_of(folder, file);
            (!is_same).then(|| (*at, file.clone()))
        })
    }

    /// The files that were not recalled.
    fn unread(&self) -> Vec<Stale> {
        let unread = self.files.iter().enumerate().filter(|(_, known)| known.stamp.is_none());
        unread.map(|(at, known)| (at, known.file.clone())).collect()
    }

    /// Takes from the shelf what is known of files that are still what they were.
    fn recall(&mut self, look: &Look<'_>) -> io::Result<()> {
        let (mut notes, mut places) = (Vec::new(), Vec::new());
        let told = self.shelf.recall(|note, place| {
            places.push((notes.len()..notes.len() + note.len(), place));
            notes.extend_from_slice(note);
        });
        let files = &self.files;
        let known = in_two(&places, |(note, place)| recalled(&notes[note.clone()], *place, files, look));
        for (at, stamp, good) in known {
            (self.files[at].stamp, self.files[at].good) = (Some(stamp), Some(good));
        }
        told
    }

    /// Reads files, on both cores when there are many.
    fn read_anew(&mut self, stale: &[Stale], look: &Look<'_>) -> Vec<Change> {
        let (parts, next) = (stale.chunks(AT_A_TIME).collect::<Vec<_>>(), AtomicUsize::new(0));
        let taken = Mutex::new((self, Vec::new()));
        let work = || {
            while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                let fresh: Vec<Fresh> = part.iter().map(|(at, file)| fresh(*at, file, look)).collect();
                let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
                let (catalogue, changes) = &mut *taken;
                changes.extend(fresh.into_iter().filter_map(|fresh| Some((fresh.at, catalogue.take(fresh)?))));
            }
        };
        std::thread::scope(|scope| {
            if parts.len() > 1 {
                scope.spawn(work);
            }
            work();
        });
        let (_, mut changes) = taken.into_inner().unwrap_or_else(PoisonError::into_inner);
        changes.sort_by_key(|(at, _)| *at);
        changes.into_iter().map(|(_, change)| change).collect()
    }

    fn take(&mut self, fresh: Fresh) -> Option<Change> {
        let read = fresh.read.map(|(good, record)| {
            let put = record.and_then(|record| self.shelf.put(&record));
            Good { place: self.note_failure(put), ..good }
        });
        let known = &mut self.files[fresh.at];
        known.stamp = fresh.stamp;
        match read {
            Ok(good) => {
                known.has_name &= known.good.as_ref().is_some_and(|before| before.name() == good.name());
                known.good = Some(good);
                known.problem.take().map(|_| Change::Mended(known.file.to_string()))
            }
            Err(problem) => {
                let fallback = if known.good.is_some() { Fallback::LastGood } else { Fallback::Nothing };
                let is_new = known.problem.as_deref() != Some(&*problem);
                known.problem = Some(problem.as_str().into());
                is_new.then_some(Change::Broken(problem, fallback))
            }
        }
    }

    /// Gives each name to one file. Two new files of one name get none; which of them is meant is for a person to say.
    fn settle_names(&mut self) -> Vec<Change> {
        let name = |at: usize| self.files[at].good.as_ref().map_or("", Good::name);
        let mut named: Vec<usize> = (0..self.files.len()).filter(|at| self.files[*at].good.is_some()).collect();
        named.sort_by(|one, other| name(*one).cmp(name(*other)));
        let (mut twins, mut changes, mut owners) = (BTreeSet::new(), Vec::new(), Vec::with_capacity(named.len()));
        for same in named.chunk_by(|one, other| name(*one) == name(*other)) {
            let before = same.iter().find(|at| self.files[**at].has_name);
            let owner = if let [only] = same { Some(only) } else { before };
            if same.len() > 1 {
                let files: Vec<&str> = same.iter().map(|at| &*self.files[*at].file).collect();
                let text = format!("{FOLDER}: the name `{}` is in {}", name(same[0]), files.join(" and "));
                let fallback = if owner.is_some() { Fallback::LastGood } else { Fallback::Nothing };
                changes.extend((!self.twins.contains(&text)).then(|| Change::Broken(text.clone(), fallback)));
                twins.insert(text);
            }
            owners.extend(owner.copied());
        }
        self.files.iter_mut().for_each(|known| known.has_name = false);
        owners.into_iter().for_each(|at| self.files[at].has_name = true);
        self.twins = twins;
        changes
    }

    /// The loops that can be used.
    fn goods(&self) -> impl Iterator<Item = &Good> {
        self.files.iter().filter_map(|known| self.good(known))
    }

    fn good<'k>(&self, known: &'k Known) -> Option<&'k Good> {
        let good = known.good.as_ref().filter(|_| known.has_name)?;
        let is_meant = self.only.is_empty() || self.only.iter().any(|only| only == good.name());
        is_meant.then_some(good)
    }

    /// What the dispatcher has to know.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.goods().map(|good| good.entry.clone())
    }

    /// Which loop follows which.
    pub(super) fn after(&self) -> impl Iterator<Item = (&Entry, &str)> {
        self.goods().flat_map(|good| good.after.iter().map(|name| (&good.entry, name.as_ref())))
    }

    /// What is to be watched besides time.
    pub(super) fn watched(&self) -> Vec<WatchedLoop> {
        self.goods().filter_map(|good| Some(good.watched.as_deref()?.clone())).collect()
    }

    /// The file of a loop, which is mostly called like it.
    fn find(&self, name: &str) -> Option<(&str, &Good)> {
        let found = |known: &'_ Known| self.good(known).is_some_and(|good| good.name() == name);
        let near = self.files.partition_point(|known| *known.file < *name);
        let likely = self.files[near..].iter().take(NEAR).find(|known| found(known));
        let known = likely.or_else(|| self.files.iter().find(|known| found(known)))?;
        Some((&*known.file, self.good(known)?))
    }

    /// A loop as its file is now, or as it was when it was good last.
    pub(super) fn spec(&mut self, name: &str, now_ms: i64) -> Result<(String, CheckedSpec), String> {
        let (file, good) = self.find(name).ok_or_else(|| format!("no loop is called `{name}`"))?;
        let (shown, place) = (format!("{FOLDER}/{file}"), good.place);
        if let Some(spec) = self.now(name, &shown, now_ms) {
            return Ok((shown, spec));
        }
        let place = place.ok_or_else(|| format!("{shown}: its last good form was not kept"))?;
        let text = self.shelf.text(place).map_err(|error| format!("{shown}: read its last good form: {error}"))?;
        let spec = read_loop_file(&shown, &text).map_err(|problems| format!("{shown}: {problems}"))?;
        Ok((shown, spec))
    }

    /// A loop as its file is now, if that is good.
    fn now(&mut self, name: &str, shown: &str, now_ms: i64) -> Option<CheckedSpec> {
        let path = self.repo.work_tree.join(shown);
        // Asked before the file is read: what is written meanwhile has another stamp.
        let stamp = Stamp::of(&path).filter(|stamp| stamp.is_settled(now_ms));
        if let Some(known) = stamp.and_then(|stamp| self.recent.get(name, stamp)) {
            return Some(known.clone());
        }
        let spec = read_loop_file(shown, &read_bytes(&path).ok()?).ok().filter(|spec| spec.name == name)?;
        if let Some(stamp) = stamp {
            self.recent.put(stamp, spec.clone());
        }
        Some(spec)
    }
}

impl Good {
    fn of(note: Note, entry: Entry, place: Option<Place>) -> Self {
        let Note { facts: Facts { name, on, .. }, base, approvers, .. } = note;
        let after = on.after.iter().map(|name| name.as_str().into()).collect();
        let watched = hears(&on).then(|| Box::new(WatchedLoop { name, on, base, approvers }));
        Self { entry, after, watched, place }
    }

    fn name(&self) -> &str {
        &self.entry.key.name
    }
}

/// Whether anything but time makes it due from outside.
fn hears(on: &Triggers) -> bool {
    !on.files.is_empty() || !on.push.is_empty() || !on.webhook.is_empty()
}

/// What a note says of a file that is still what it was. One without a stamp is there for its text alone.
fn recalled(note: &[u8], place: Place, files: &[Known], look: &Look<'_>) -> Option<(usize, Stamp, Good)> {
    let note: Note = serde_json::from_slice(note).ok()?;
    let at = files.binary_search_by(|known| known.file.cmp(&note.file)).ok()?;
    let stamp = note.stamp.filter(|stamp| stamp_of(look.folder, &note.file) == Some(*stamp))?;
    let entry = look.ground.entry(&note.facts).ok()?;
    Some((at, stamp, Good::of(note, entry, Some(place))))
}

fn stamp_of(folder: &Folder, file: &str) -> Option<Stamp> {
    folder.about(OsStr::new(file)).ok().map(|about| Stamp::from(&about))
}

fn fresh(at: usize, file: &str, look: &Look<'_>) -> Fresh {
    let shown = format!("{FOLDER}/{file}");
    let (about, bytes) = match look.folder.read(OsStr::new(file)) {
        Ok(read) => read,
        Err(error) => return Fresh { at, stamp: None, read: Err(format!("{shown}: {error}")) },
    };
    let stamp = Some(Stamp::from(&about)).filter(|stamp| stamp.is_settled(look.now_ms));
    let read = || {
        let knows = |on: &Triggers| look.ground.knows(on);
        let spec = read_loop_file_knowing(&shown, &bytes, &knows).map_err(|problems| first(&shown, &problems))?;
        let note = Note { stamp, ..Note::of(file, &spec) };
        let entry = look.ground.entry(&note.facts).map_err(|problem| format!("{shown}: {problem}"))?;
        let noted = serde_json::to_vec(&note).map_err(io::Error::from);
        let record = noted.and_then(|noted| Record::of(&noted, &bytes));
        Ok((Good::of(note, entry, None), record))
    };
    Fresh { at, stamp, read: read() }
}

impl Note {
    fn of(file: &str, spec: &LoopSpec) -> Self {
        let (base, approvers) = match hears(&spec.on) {
            true => (spec.base.clone(), spec.approvers.clone()),
            false => (None, Vec::new()),
        };
        Self { file: file.into(), stamp: None, facts: Facts::from(spec), base, approvers }
    }
}

fn first(shown: &str, problems: &loopwright_core::spec::Problems) -> String {
    match problems.iter().next() {
        Some(problem) => format!("{shown}:{}: {}", problem.line, problem.what),
        None => format!("{shown}: not usable"),
    }
}

#[cfg(test)]
mod tests;
