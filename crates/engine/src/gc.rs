//! Frees disk space: removes workspaces of ended rounds, and transcripts, reports, evidence, receipts and processed
//! signals past their retention. Rounds that run, wait or have an undelivered item keep everything; the journal is
//! never touched.

mod candidates;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::state_dir::StateFileError;
use crate::store::{AgedRows, RetentionCutoff, RoundRow, RowChange, Store, StoreBatch};
use crate::workspace;
use loopwright_core::worded;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of undelivered items that are read; if there are more, no evidence is removed.
const PENDING_MAX: u32 = 10_000;

/// Rows of one kind that are removed in one transaction.
const PRUNED_AT_ONCE: i64 = 5_000;
/// A signal is remembered for at least this long, so that a repeated delivery of it is recognised.
const SIGNALS_KEPT_MS: i64 = 7 * DAY_MS;
const DAY_MS: i64 = 86_400_000;
/// Evidence has its hash as its name.
const HASH_DIGITS: usize = 64;

/// Whether to remove or only to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GcMode {
    /// Remove.
    Remove,
    /// List only.
    List,
}

worded! {
    /// The kind of a removed thing.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum GcKind {
        /// The private checkout of an ended round.
        Workspace = "workspace",
        /// A commit prepared for workspaces; it is prepared again when needed.
        Base = "base",
        /// The output of a round's agents.
        Transcripts = "transcripts",
        /// A round's report; it can be rebuilt from the journal.
        Report = "report",
        /// Stored bytes that no open round refers to.
        Evidence = "evidence",
        /// The commit of a round's candidate.
        Candidate = "candidate",
    }
}

/// The retention limits, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcRetention {
    /// Reports, evidence and candidates of rounds that ended before this.
    pub rounds_before_ms: i64,
    /// Transcripts of rounds that ended before this, and receipts and processed signals from before it.
    pub logs_before_ms: i64,
}

impl GcRetention {
    /// The limits at a time, for the data of rounds and for logs.
    #[must_use]
    pub fn from_days(now_ms: i64, round_days: u32, log_days: u32) -> Self {
        let before = |days: u32| now_ms.saturating_sub(i64::from(days) * DAY_MS);
        Self { rounds_before_ms: before(round_days), logs_before_ms: before(log_days) }
    }
}

/// One thing that was removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcRemoval {
    /// Its kind.
    pub kind: GcKind,
    /// Its path.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

/// One thing that could not be removed.
#[derive(Debug)]
pub struct GcFailure {
    /// Its kind.
    pub kind: GcKind,
    /// Its path.
    pub path: PathBuf,
    /// The reason.
    pub why: EngineError,
}

/// The result of a garbage collection.
#[derive(Debug, Default)]
pub struct GcReport {
    /// Everything that was removed, or would be.
    pub removed: Vec<GcRemoval>,
    /// Everything that could not be removed; the rest was removed anyway.
    pub stuck: Vec<GcFailure>,
    /// Rows that were removed, or would be: receipts, signals and memories.
    pub rows: AgedRows,
}

/// The limits of this collection: rounds with undelivered items or in open workflows, and the age of evidence that may go.
struct Keep {
    undelivered: HashSet<String>,
    evidence_before_ms: i64,
}

impl Keep {
    async fn read(store: &Store, retention: GcRetention) -> Result<Self, EngineError> {
        let pending = store.outbox_pending(PENDING_MAX).await?;
        let mut evidence_before_ms =
            if pending.len() < PENDING_MAX as usize { retention.rounds_before_ms } else { i64::MIN };
        let mut undelivered: HashSet<_> = pending.into_iter().map(|row| row.round).collect();
        undelivered.extend(store.rounds_of_open_workflows().await?);
        let mut needed = store.open_rounds().await?;
        for round in &undelivered {
            needed.extend(store.round(round).await?);
        }
        // Rounds share evidence, so everything younger than the oldest round that may need it stays.
        for row in needed {
            evidence_before_ms = evidence_before_ms.min(row.started_ms);
        }
        Ok(Self { undelivered, evidence_before_ms })
    }

    fn is_over(&self, row: &RoundRow) -> bool {
        row.ended_ms.is_some() && !self.undelivered.contains(&row.id)
    }

    fn is_past(&self, row: &RoundRow, before_ms: i64) -> bool {
        self.is_over(row) && row.ended_ms.is_some_and(|ended| ended < before_ms)
    }
}

/// Removes what is no longer needed: workspaces of ended rounds at once, the rest when its retention is over. Files
/// that belong to no known round stay.
///
/// # Errors
/// When the store cannot be read. Things that cannot be removed are listed in the report.
pub async fn collect(engine: &Engine, retention: GcRetention, mode: GcMode) -> Result<GcReport, EngineError> {
    let keep = Keep::read(engine.store.as_ref(), retention).await?;
    let mut found = Vec::new();
    for (round, path) in workspace::left_rounds(engine.state_dir.root()) {
        if engine.store.round(&round).await?.is_some_and(|row| keep.is_over(&row)) {
            found.push((GcKind::Workspace, path));
        }
    }
    // No round may request a base while it is removed.
    let _none_is_made = engine.lock_bases().await?;
    found.extend(workspace::unused_bases(engine.state_dir.root()).into_iter().map(|path| (GcKind::Base, path)));
    let kinds = [
        (GcKind::Transcripts, "transcripts", retention.logs_before_ms),
        (GcKind::Report, "reports", retention.rounds_before_ms),
    ];
    for (kind, folder, before) in kinds {
        for (round, path) in entries(&engine.state_dir.root().join(folder)) {
            if engine.store.round(&round).await?.is_some_and(|row| keep.is_past(&row, before)) {
                found.push((kind, path));
            }
        }
    }
    let old = |path: &Path| modified_ms(path).is_some_and(|at| at < keep.evidence_before_ms);
    // The folder may be a link to another disk, where other files are.
    let is_evidence = |name: &str| name.len() == HASH_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let evidence = entries(&engine.state_dir.evidence()).into_iter();
    let evidence = evidence.filter(|(name, path)| is_evidence(name) && old(path));
    found.extend(evidence.map(|(_, path)| (GcKind::Evidence, path)));
    if mode == GcMode::Remove && engine.store.others().await?.is_empty() {
        // Folders that dead engines left half removed; one that cannot be removed does not stop the others.
        let root = engine.state_dir.root().to_owned();
        let gone = tokio::task::spawn_blocking(move || workspace::sweep(&root, workspace::LeftoverScope::OfOthers));
        let _ = gone.await;
    }
    let rows = prune(engine, retention, mode).await?;
    // Large folders take long, and the rounds of a daemon must not wait for them.
    let removal = tokio::task::spawn_blocking(move || remove_all(found, mode)).await;
    let mut swept =
        GcReport { rows, ..removal.map_err(|error| EngineError::Daemon(format!("remove old data: {error}")))? };
    let candidates = candidates::collect(engine, &keep, retention.rounds_before_ms, mode).await?;
    swept.removed.extend(candidates.removed);
    swept.stuck.extend(candidates.stuck);
    Ok(swept)
}

/// Removes rows that are no longer used, a few at a time, so that other writers do not wait long.
async fn prune(engine: &Engine, retention: GcRetention, mode: GcMode) -> Result<AgedRows, EngineError> {
    let now_ms = engine.now_ms();
    let before = RetentionCutoff {
        receipts_ms: retention.logs_before_ms,
        signals_ms: retention.logs_before_ms.min(now_ms.saturating_sub(SIGNALS_KEPT_MS)),
    };
    let aged = engine.store.aged(before, now_ms).await?;
    if mode == GcMode::List {
        return Ok(aged);
    }
    let most = aged.receipts.max(aged.signals).max(aged.memories);
    for _ in 0..most.div_euclid(PRUNED_AT_ONCE) + i64::from(most % PRUNED_AT_ONCE > 0) {
        let prune = RowChange::Prune { before, limit: u32::try_from(PRUNED_AT_ONCE).unwrap_or(u32::MAX) };
        engine.append(StoreBatch::of_rows(now_ms, vec![prune])).await?;
    }
    Ok(aged)
}

fn remove_all(found: Vec<(GcKind, PathBuf)>, mode: GcMode) -> GcReport {
    let mut swept = GcReport::default();
    for (kind, path) in found {
        let bytes = workspace::size(&path);
        let gone = if mode == GcMode::Remove { remove(kind, &path) } else { Ok(()) };
        match gone {
            Ok(()) => swept.removed.push(GcRemoval { kind, path, bytes }),
            Err(why) => swept.stuck.push(GcFailure { kind, path, why }),
        }
    }
    swept
}

fn remove(kind: GcKind, path: &Path) -> Result<(), EngineError> {
    let gone = match kind {
        GcKind::Workspace => return Ok(workspace::remove_left(path)?),
        GcKind::Base => return Ok(workspace::remove_base(path)?),
        GcKind::Transcripts => workspace::remove_tree(path),
        GcKind::Report | GcKind::Evidence => fs::remove_file(path),
        // Its refs are removed by git.
        GcKind::Candidate => Ok(()),
    };
    match gone {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StateFileError::new("remove", path, error).into())
        }
        _ => Ok(()),
    }
}

/// The entries of one of our folders, with their names without the extension; empty if the folder does not exist.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let listed = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut named: Vec<_> = listed
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path)))
        // A leading dot marks a file that is being written.
        .filter(|(name, _)| !name.starts_with('.'))
        .collect();
    named.sort();
    named
}

fn modified_ms(path: &Path) -> Option<i64> {
    let since = fs::symlink_metadata(path).ok()?.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_that_cannot_be_removed_does_not_stop_the_others() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let [first, stuck, last] = ["a", "b", "c"].map(|name| dir.path().join(name));
        fs::write(&first, "").expect("a file can be written");
        // A report is a file; a folder in its place cannot be removed as one.
        fs::create_dir_all(stuck.join("x")).expect("a folder can be made");
        fs::write(&last, "").expect("a file can be written");
        let found = [&first, &stuck, &last].map(|path| (GcKind::Report, path.clone())).to_vec();
        let swept = remove_all(found.clone(), GcMode::List);
        assert_eq!((swept.removed.len(), swept.stuck.len()), (3, 0));
        let swept = remove_all(found, GcMode::Remove);
        let paths: Vec<_> = swept.removed.iter().map(|one| &one.path).collect();
        assert_eq!(paths, [&first, &last]);
        assert_eq!(swept.stuck.iter().map(|one| &one.path).collect::<Vec<_>>(), [&stuck]);
        assert!(!first.exists() && stuck.exists() && !last.exists());
    }
}
