//! Caches gate results for a base in the state directory, so that gates run once per base and not once per round. It
//! stores only results that passed on the first try. The entry's file name is a hash of everything the result depends
//! on. A damaged entry is ignored and rewritten after the next run.
//!
//! The cache only saves time. It never decides a candidate's result. Nothing a maker wrote reaches it: gates run on
//! base before a candidate exists, and no sandboxed program sees the state directory.

use super::{BaseResult, CanaryPool, GateBaseline, GateEnv, ResolvedGates, ResolvedRun};
use crate::git::Oid;
use crate::sandbox_view::SandboxViews;
use crate::state_dir::StateDir;
use loopwright_core::hash;
use loopwright_core::secrets::SecretScanner;
use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

/// Largest entry that is written or read: the ids of a few hundred thousand tests.
const ENTRY_BYTES_MAX: u64 = 64 << 20;
/// Most entries; the oldest are deleted first.
const ENTRIES_MAX: usize = 200;
/// The note that a report shows for a cached result.
const CACHED_NOTE: &str = "known from an earlier round on this base";

/// A cache entry that cannot be read or whose checksum does not match. It is ignored and rewritten after the next run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the cached base result of gate `{gate}` is damaged, so the gate runs again")]
pub struct DamagedBaseline {
    /// The gate.
    pub gate: String,
}

/// The entries for one base in one setting.
#[derive(Debug)]
pub struct BaselineCache<'a> {
    state_dir: &'a StateDir,
    scanner: &'a SecretScanner,
    setting: Vec<String>,
}

impl<'a> BaselineCache<'a> {
    /// Entries for a commit, as gates see it in these sandbox views with these variables. An entry with a secret that
    /// `scanner` finds is not stored.
    #[must_use]
    pub fn new(
        state_dir: &'a StateDir,
        scanner: &'a SecretScanner,
        base: &Oid,
        rooms: &SandboxViews,
        env: &GateEnv,
    ) -> Self {
        let mut setting = vec!["loopwright baseline 1".to_owned(), base.as_str().to_owned()];
        setting.push(format!("{:?} {:?} {:?}", rooms.isolation(), rooms.method(), rooms.layer()));
        setting.push(format!("{env:?}"));
        setting.extend(rooms.fingerprint_lines());
        Self { state_dir, scanner, setting }
    }

    /// The cached results of these gates, and the damaged entries.
    #[must_use]
    pub fn load(&self, resolved: &ResolvedGates) -> (GateBaseline, Vec<DamagedBaseline>) {
        let (mut known, mut damaged) = (GateBaseline::default(), Vec::new());
        for run in resolved.on_base() {
            let path = self.path(run);
            match fs::metadata(&path).map(|about| about.len()) {
                Err(_) => {}
                Ok(size) => match self.entry(&path, size, run) {
                    Some(result) => drop(known.0.insert(run.gate.name.clone(), result)),
                    None => damaged.push(DamagedBaseline { gate: run.gate.name.clone() }),
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
        known.result.evidence.push(CACHED_NOTE.to_owned());
        (known.result.name == run.gate.name && is_clean(&known)).then_some(known)
    }

    /// Stores the results that passed. A result that cannot be stored only costs a later run.
    pub fn save(&self, resolved: &ResolvedGates, baseline: &GateBaseline) {
        for run in resolved.on_base() {
            let found = baseline.0.get(&run.gate.name).filter(|found| is_clean(found));
            let is_new = |found: &&BaseResult| !found.result.evidence.iter().any(|fact| fact == CACHED_NOTE);
            let Some(body) = found.filter(is_new).and_then(|found| serde_json::to_vec(found).ok()) else { continue };
            let holds_secret = !matches!(self.scanner.clean_bytes(&body), Cow::Borrowed(_));
            if body.len() as u64 >= ENTRY_BYTES_MAX || holds_secret {
                continue;
            }
            let path = self.path(run);
            let entry = [self.sum(&path, &body).as_bytes(), b"\n", &body].concat();
            if self.state_dir.write(&path, &entry).is_ok() {
                forget_old(&self.state_dir.baselines());
            }
        }
    }

    /// The cached canaries of a gate. A damaged entry counts as absent.
    #[must_use]
    pub fn load_pool(&self, run: &ResolvedRun) -> Option<CanaryPool> {
        let path = self.pool_path(run);
        let size = fs::metadata(&path).ok()?.len();
        let bytes = (size <= ENTRY_BYTES_MAX).then(|| fs::read(&path).ok()).flatten()?;
        let split = bytes.iter().position(|byte| *byte == b'\n')?;
        let (sum, body) = (&bytes[..split], &bytes[split + 1..]);
        (sum == self.sum(&path, body).as_bytes()).then(|| serde_json::from_slice(body).ok()).flatten()
    }

    /// Caches the canaries of a gate. A pool that cannot be stored only costs a later run.
    pub fn save_pool(&self, run: &ResolvedRun, pool: &CanaryPool) {
        let Ok(body) = serde_json::to_vec(pool) else { return };
        let holds_secret = !matches!(self.scanner.clean_bytes(&body), Cow::Borrowed(_));
        if body.len() as u64 >= ENTRY_BYTES_MAX || holds_secret {
            return;
        }
        let path = self.pool_path(run);
        let entry = [self.sum(&path, &body).as_bytes(), b"\n", &body].concat();
        if self.state_dir.write(&path, &entry).is_ok() {
            forget_old(&self.state_dir.baselines());
        }
    }

    fn pool_path(&self, run: &ResolvedRun) -> PathBuf {
        let path = self.path(run);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        path.with_file_name(format!("canaries-{name}"))
    }

    fn path(&self, run: &ResolvedRun) -> PathBuf {
        let gate = format!("{run:?}");
        let fields: Vec<&[u8]> = self.setting.iter().map(String::as_bytes).chain([gate.as_bytes()]).collect();
        self.state_dir.baselines().join(format!("{}.json", hash::hash_fields(&fields)))
    }

    /// The name is hashed too, so that one entry cannot replace another.
    fn sum(&self, path: &Path, body: &[u8]) -> String {
        hash::hash_fields(&[path.file_name().unwrap_or_default().as_encoded_bytes(), body])
    }
}

/// Whether a result may be reused: it passed on the first try.
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
