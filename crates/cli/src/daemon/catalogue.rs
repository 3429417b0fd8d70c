//! The loop files of one repository as a daemon knows them: read again only when they changed, and each with its last good
//! form, so that a file which breaks under an editor stops nothing.

use super::ground::Ground;
use super::recent::Recent;
use super::shelf::{Place, Shelf};
use super::stamp::Stamp;
use crate::context::{FOLDER, in_two, loop_files, read_bytes};
use crate::error::CommandError;
use loopwright::git::UserRepo;
use loopwright::triggers::WatchedLoop;
use loopwright_core::dispatch::{Entry, Facts};
use loopwright_core::spec::{CheckedSpec, LoopSpec, Triggers, read_loop_file};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// A file that is called like its loop is among so many from where it would be.
const NEAR: usize = 8;

/// So many files are read before what they left in memory is used again.
const AT_A_TIME: usize = 512;

/// A repository with its loop files.
#[derive(Debug)]
pub(super) struct Catalogue {
    pub(super) repo: UserRepo,
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

/// A file in the folder, as it was seen.
struct Seen {
    file: Box<str>,
    path: PathBuf,
    stamp: Option<Stamp>,
    /// Whether what comes later will have another stamp.
    is_settled: bool,
}

/// A file that was read anew.
struct Fresh {
    at: usize,
    read: Result<(Note, Entry, Vec<u8>), String>,
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
        Ok(Self { repo, only, files, shelf, recent, is_recalled: false, unkept: None, twins })
    }

    /// Reads what changed.
    pub(super) fn read(&mut self, ground: &Ground, now_ms: i64) -> Result<Vec<Change>, CommandError> {
        let seen = self.look(now_ms)?;
        let mut stale = self.meet(&seen);
        if !std::mem::replace(&mut self.is_recalled, true) && !stale.is_empty() {
            let recalled = self.recall(&seen, ground);
            self.note_failure(recalled);
            stale.retain(|at| self.files[*at].good.is_none());
        }
        let mut changes = Vec::new();
        for some in stale.chunks(AT_A_TIME) {
            for fresh in in_two(some, |at| Some(fresh(*at, &seen[*at], ground))) {
                let seen = &seen[fresh.at];
                changes.extend(self.take(fresh, seen.stamp.filter(|_| seen.is_settled)));
            }
        }
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

    /// The files that are there, by name.
    fn look(&self, now_ms: i64) -> Result<Vec<Seen>, CommandError> {
        let paths = loop_files(&self.repo.work_tree)?;
        let look = |path: &PathBuf| {
            let file = path.file_name()?.to_str()?.into();
            let stamp = Stamp::of(path);
            let is_settled = stamp.is_some_and(|stamp| stamp.is_settled(now_ms));
            Some(Seen { file, path: path.clone(), stamp, is_settled })
        };
        Ok(in_two(&paths, look))
    }

    /// Lets go of files that are gone, makes room for new ones, and answers with those that are to be read.
    fn meet(&mut self, seen: &[Seen]) -> Vec<usize> {
        let mut before = std::mem::take(&mut self.files).into_iter().peekable();
        let (mut files, mut stale) = (Vec::with_capacity(seen.len()), Vec::new());
        for (at, Seen { file, stamp, .. }) in seen.iter().enumerate() {
            while before.next_if(|known| known.file < *file).is_some() {}
            let known = before.next_if(|known| known.file == *file);
            if known.as_ref().is_none_or(|known| stamp.is_none() || known.stamp != *stamp) {
                stale.push(at);
            }
            let new = || Known { file: file.clone(), stamp: None, good: None, problem: None, has_name: false };
            files.push(known.unwrap_or_else(new));
        }
        self.files = files;
        stale
    }

    /// Takes from the shelf what is known of files that are still what they were.
    fn recall(&mut self, seen: &[Seen], ground: &Ground) -> io::Result<()> {
        let (mut notes, mut places) = (Vec::new(), Vec::new());
        let told = self.shelf.recall(|note, place| {
            places.push((notes.len()..notes.len() + note.len(), place));
            notes.extend_from_slice(note);
        });
        for some in places.chunks(AT_A_TIME) {
            let known = in_two(some, |(note, place)| recalled(&notes[note.clone()], *place, seen, ground));
            for (at, good) in known {
                self.files[at].stamp = seen[at].stamp;
                self.files[at].good = Some(good);
            }
        }
        told
    }

    fn take(&mut self, fresh: Fresh, stamp: Option<Stamp>) -> Option<Change> {
        let read = fresh.read.map(|(mut note, entry, text)| {
            note.stamp = stamp;
            let noted = serde_json::to_vec(&note).map_err(io::Error::from);
            let put = noted.and_then(|noted| self.shelf.put(&noted, &text));
            Good::of(note, entry, self.note_failure(put))
        });
        let known = &mut self.files[fresh.at];
        known.stamp = stamp;
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
fn recalled(note: &[u8], place: Place, seen: &[Seen], ground: &Ground) -> Option<(usize, Good)> {
    let note: Note = serde_json::from_slice(note).ok()?;
    let at = seen.binary_search_by(|seen| seen.file.cmp(&note.file)).ok()?;
    let is_same = note.stamp.is_some() && note.stamp == seen[at].stamp;
    let entry = is_same.then(|| ground.entry(&note.facts).ok()).flatten()?;
    Some((at, Good::of(note, entry, Some(place))))
}

fn fresh(at: usize, seen: &Seen, ground: &Ground) -> Fresh {
    let shown = format!("{FOLDER}/{}", seen.file);
    let read = || {
        let bytes = read_bytes(&seen.path).map_err(|error| format!("{shown}: {error}"))?;
        let spec = read_loop_file(&shown, &bytes).map_err(|problems| first(&shown, &problems))?;
        let note = Note::of(&seen.file, &spec);
        let entry = ground.entry(&note.facts).map_err(|problem| format!("{shown}: {problem}"))?;
        Ok((note, entry, bytes))
    };
    Fresh { at, read: read() }
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
