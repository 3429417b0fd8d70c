//! Makes room: workspaces of ended rounds, and transcripts, reports, evidence, receipts and taken signals past their retention.
//! Rounds that run, wait or have something undelivered keep everything; the journal is never touched.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::state_dir::StateFileError;
use crate::store::{AgedRows, RetentionCutoff, RoundRow, RowChange, Store, StoreBatch};
use crate::workspace;
use loopwright_core::worded;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// How many undelivered items are looked at; more than this and evidence is left alone altogether.
const PENDING_MAX: u32 = 10_000;

/// How many rows of a kind go in one transaction.
const PRUNED_AT_ONCE: i64 = 5_000;
/// A signal that came is known for so long at least, so that the same one sent again is not taken for another.
const SIGNALS_KEPT_MS: i64 = 7 * 86_400_000;

/// Whether anything is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GcMode {
    /// It is.
    Remove,
    /// It is only listed.
    List,
}

worded! {
    /// What kind of thing was removed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum GcKind {
        /// The private checkout of an ended round.
        Workspace = "workspace",
        /// A commit made ready for workspaces; it is made again when it is needed.
        Base = "base",
        /// What a round's agents wrote.
        Transcripts = "transcripts",
        /// A round's report; it can be made again from the journal.
        Report = "report",
        /// Kept bytes that no open round can refer to.
        Evidence = "evidence",
    }
}

/// What may go: the ends before which nothing is kept, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcRetention {
    /// Reports and evidence of rounds that ended before this.
    pub rounds_before_ms: i64,
    /// Transcripts of rounds that ended before this, and receipts and taken signals from before it.
    pub logs_before_ms: i64,
}

/// One thing that went, or would go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GcRemoval {
    /// What it was.
    pub kind: GcKind,
    /// Where it was.
    pub path: PathBuf,
    /// How much room it took.
    pub bytes: u64,
}

/// One thing that should have gone and is still there.
#[derive(Debug)]
pub struct GcFailure {
    /// What it is.
    pub kind: GcKind,
    /// Where it is.
    pub path: PathBuf,
    /// Why it could not be removed.
    pub why: EngineError,
}

/// What became of everything that may go.
#[derive(Debug, Default)]
pub struct GcReport {
    /// What went, or would go.
    pub removed: Vec<GcRemoval>,
    /// What could not be removed; it kept nothing else from going.
    pub stuck: Vec<GcFailure>,
    /// Rows that went, or would go: receipts, signals and memories.
    pub rows: AgedRows,
}

/// What may not be touched, and from when on.
struct Keep {
    undelivered: HashSet<String>,
    evidence_before_ms: i64,
}

impl Keep {
    async fn read(store: &dyn Store, retention: GcRetention) -> Result<Self, EngineError> {
        let pending = store.outbox_pending(PENDING_MAX).await?;
        let mut evidence_before_ms =
            if pending.len() < PENDING_MAX as usize { retention.rounds_before_ms } else { i64::MIN };
        let undelivered: HashSet<_> = pending.into_iter().map(|row| row.round).collect();
        let mut needed = store.open_rounds().await?;
        for round in &undelivered {
            needed.extend(store.round(round).await?);
        }
        // Evidence is shared between rounds, so nothing younger than the oldest round that may need it goes.
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

impl Engine {
    /// Removes what is no longer needed: workspaces of ended rounds at once, the rest when its retention
    /// is over. What belongs to no known round is left alone.
    ///
    /// # Errors
    /// When the store cannot be read. What cannot be removed is told with the rest.
    pub async fn gc(&self, retention: GcRetention, mode: GcMode) -> Result<GcReport, EngineError> {
        let keep = Keep::read(self.store.as_ref(), retention).await?;
        let mut found = Vec::new();
        for (round, path) in workspace::left_rounds(self.state_dir.root()) {
            if self.store.round(&round).await?.is_some_and(|row| keep.is_over(&row)) {
                found.push((GcKind::Workspace, path));
            }
        }
        // Nobody may ask for a base while it goes.
        let _none_is_made = self.lock_bases().await?;
        found.extend(workspace::unused_bases(self.state_dir.root()).into_iter().map(|path| (GcKind::Base, path)));
        let kinds = [
            (GcKind::Transcripts, "transcripts", retention.logs_before_ms),
            (GcKind::Report, "reports", retention.rounds_before_ms),
        ];
        for (kind, folder, before) in kinds {
            for (round, path) in entries(&self.state_dir.root().join(folder)) {
                if self.store.round(&round).await?.is_some_and(|row| keep.is_past(&row, before)) {
                    found.push((kind, path));
                }
            }
        }
        let old = |path: &Path| modified_ms(path).is_some_and(|at| at < keep.evidence_before_ms);
        let evidence = entries(&self.state_dir.evidence()).into_iter().filter(|(_, path)| old(path));
        found.extend(evidence.map(|(_, path)| (GcKind::Evidence, path)));
        if mode == GcMode::Remove && self.store.others().await?.is_empty() {
            // What dead engines left half removed; one folder that cannot go keeps nothing else from going.
            let left = workspace::take_leftovers(self.state_dir.root(), workspace::LeftoverScope::OfOthers);
            let gone =
                tokio::task::spawn_blocking(move || left.iter().for_each(|path| drop(workspace::remove_tree(path))));
            let _ = gone.await;
        }
        let rows = self.prune(retention, mode).await?;
        Ok(GcReport { rows, ..remove_all(found, mode) })
    }

    /// Removes rows that nobody asks for any more, a few at a time, so that nobody waits for long.
    async fn prune(&self, retention: GcRetention, mode: GcMode) -> Result<AgedRows, EngineError> {
        let now_ms = self.now_ms();
        let before = RetentionCutoff {
            receipts_ms: retention.logs_before_ms,
            signals_ms: retention.logs_before_ms.min(now_ms.saturating_sub(SIGNALS_KEPT_MS)),
        };
        let aged = self.store.aged(before, now_ms).await?;
        if mode == GcMode::List {
            return Ok(aged);
        }
        let most = aged.receipts.max(aged.signals).max(aged.memories);
        for _ in 0..most.div_euclid(PRUNED_AT_ONCE) + i64::from(most % PRUNED_AT_ONCE > 0) {
            let prune = RowChange::Prune { before, limit: u32::try_from(PRUNED_AT_ONCE).unwrap_or(u32::MAX) };
            self.append(StoreBatch::of_rows(now_ms, vec![prune])).await?;
        }
        Ok(aged)
    }
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
    };
    match gone {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StateFileError::new("remove", path, error).into())
        }
        _ => Ok(()),
    }
}

/// What is in a folder of ours, with the name before its ending; nothing when there is no such folder.
fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let listed = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut named: Vec<_> = listed
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path)))
        // A leading dot marks a file that is just being written.
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
    fn what_cannot_be_removed_keeps_nothing_else_from_going() {
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
