//! What gates said about a base, kept in the state directory: a base is asked once, not once a round. Only what passed at the
//! first go is kept, under a name that everything it depends on is hashed into; what was damaged is made anew.
//!
//! It only saves time. A candidate is never judged from here, and whatever a maker wrote never gets here: base is run before
//! there is a candidate, and nobody sees the state directory from inside.

use super::{BaseResult, Baseline, GateEnv, Resolved, ResolvedRun};
use crate::git::Oid;
use crate::places::Places;
use crate::room::Rooms;
use loopwright_core::hash;
use loopwright_core::secrets::Scanner;
use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

/// Largest entry that is written or read: the ids of a few hundred thousand tests.
const ENTRY_BYTES_MAX: u64 = 64 << 20;
/// Most entries; the oldest go first.
const ENTRIES_MAX: usize = 200;
/// What a reader is told.
const TOLD: &str = "known from an earlier round on this base";

/// An entry that does not say what was written; it is left out, and written anew after the next run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what gate `{gate}` said about base was kept and is damaged, so it runs again")]
pub struct Damaged {
    /// The gate.
    pub gate: String,
}

/// The entries for one base in one setting.
#[derive(Debug)]
pub struct KeptBaselines<'a> {
    places: &'a Places,
    scanner: &'a Scanner,
    setting: Vec<String>,
}

impl<'a> KeptBaselines<'a> {
    /// Entries for a commit, as gates see it in these rooms with these variables. Nothing that `scanner` finds is kept.
    #[must_use]
    pub fn new(places: &'a Places, scanner: &'a Scanner, base: &Oid, rooms: &Rooms, env: &GateEnv) -> Self {
        let mut setting = vec!["loopwright baseline 1".to_owned(), base.as_str().to_owned()];
        setting.push(format!("{:?} {:?} {:?}", rooms.walls(), rooms.method(), rooms.layer()));
        setting.push(format!("{env:?}"));
        setting.extend(rooms.prints());
        Self { places, scanner, setting }
    }

    /// What is known of these gates, and which entries are damaged.
    #[must_use]
    pub fn read(&self, resolved: &Resolved) -> (Baseline, Vec<Damaged>) {
        let (mut known, mut damaged) = (Baseline::default(), Vec::new());
        for run in resolved.on_base() {
            let path = self.path(run);
            match fs::metadata(&path).map(|about| about.len()) {
                Err(_) => {}
                Ok(size) => match self.entry(&path, size, run) {
                    Some(result) => drop(known.0.insert(run.gate.name.clone(), result)),
                    None => damaged.push(Damaged { gate: run.gate.name.clone() }),
                },
            }
        }
        (known, damaged)
    }

    fn entry(&self, path: &Path, size: u64, run: &ResolvedRun) -> Option<BaseResult> {
        let bytes = (size <= ENTRY_BYTES_MAX).then(|| fs::read(path).ok()).flatten()?;
        let split = bytes.iter().position(|byte| *byte == b'\n')?;
        let (sum, body) = (&bytes[..split], &bytes[split + 1..]);
        let is_whole = sum == self.sum(path, body).as_bytes();
        let mut known: BaseResult = is_whole.then(|| serde_json::from_slice(body).ok()).flatten()?;
        known.result.evidence.push(TOLD.to_owned());
        (known.result.name == run.gate.name && is_clean(&known)).then_some(known)
    }

    /// Keeps what passed. What cannot be kept is only asked again.
    pub fn keep(&self, resolved: &Resolved, baseline: &Baseline) {
        for run in resolved.on_base() {
            let found = baseline.0.get(&run.gate.name).filter(|found| is_clean(found));
            let is_new = |found: &&BaseResult| !found.result.evidence.iter().any(|fact| fact == TOLD);
            let Some(body) = found.filter(is_new).and_then(|found| serde_json::to_vec(found).ok()) else { continue };
            let holds_secret = !matches!(self.scanner.written(&body), Cow::Borrowed(_));
            if body.len() as u64 >= ENTRY_BYTES_MAX || holds_secret {
                continue;
            }
            let path = self.path(run);
            let entry = [self.sum(&path, &body).as_bytes(), b"\n", &body].concat();
            if self.places.write(&path, &entry).is_ok() {
                forget_old(&self.places.baselines());
            }
        }
    }

    fn path(&self, run: &ResolvedRun) -> PathBuf {
        let gate = format!("{run:?}");
        let fields: Vec<&[u8]> = self.setting.iter().map(String::as_bytes).chain([gate.as_bytes()]).collect();
        self.places.baselines().join(format!("{}.json", hash::of_fields(&fields)))
    }

    /// The name is hashed too, so that one entry does not stand in for another.
    fn sum(&self, path: &Path, body: &[u8]) -> String {
        hash::of_fields(&[path.file_name().unwrap_or_default().as_encoded_bytes(), body])
    }
}

/// Whether an answer may be believed again: a pass at the first go.
fn is_clean(found: &BaseResult) -> bool {
    found.result.is_passed() && !found.result.flaky
}

fn forget_old(folder: &Path) {
    let mut entries: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    if entries.len() > ENTRIES_MAX {
        entries.sort_by_key(|path| fs::metadata(path).and_then(|about| about.modified()).ok());
        let excess = entries.len() - ENTRIES_MAX;
        entries.iter().take(excess).for_each(|path| drop(fs::remove_file(path)));
    }
}
