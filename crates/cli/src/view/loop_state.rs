//! The history of one loop: the items it did and failed, its counters, its receipts, and its memory. The first three
//! have the names of the seed's state file.

use super::rounds::RoundLine;
use super::time::{time_since, timestamp};
use crate::error::CommandError;
use crate::output::{TextTable, safe};
use loopwright::store::{
    ItemRow, LoopRow, MemoryRow, ReceiptRow, ReceiptsQuery, RoundsFilter, RoundsQuery, Store, WorkItemState,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The most items, receipts and running rounds that are shown.
const ITEMS_SHOWN: u32 = 1_000;
const RECEIPTS_SHOWN: u32 = 20;
const OPEN_SHOWN: u32 = 100;
/// The trigger of a round that a person started: the list of rounds has it already.
const MANUAL: &str = "manual";
/// The most lines of each list on a page.
const LINES: usize = 10;

/// The seed's state file, as one object.
#[derive(Debug, Default, Serialize)]
pub(crate) struct LoopState {
    last_run: Option<String>,
    last_status: Option<String>,
    /// The time when each item was done, by its key.
    processed: BTreeMap<String, String>,
    /// The round that works on each item, or waits with it.
    in_progress: BTreeMap<String, String>,
    failures: Vec<Failure>,
    metrics: Metrics,
}

/// An item that failed.
#[derive(Debug, Serialize)]
struct Failure {
    item: String,
    error: String,
    retries: i64,
    ts: String,
    round: String,
    /// Whether it waits for a person now.
    given_up: bool,
}

/// A loop's counters.
#[derive(Debug, Default, Serialize)]
struct Metrics {
    runs: i64,
    successes: i64,
    failures: i64,
    items_processed: i64,
    total_duration_s: f64,
}

/// The outcome of one occurrence, or of several in a row.
#[derive(Debug, Serialize)]
pub(crate) struct ReceiptLine {
    due: String,
    trigger: String,
    receipt: String,
    reason: Option<String>,
    round: Option<String>,
    count: i64,
    through: Option<String>,
    #[serde(skip)]
    due_ms: i64,
}

/// One entry of the loop's memory.
#[derive(Debug, Serialize)]
pub(crate) struct MemoryLine {
    key: String,
    kind: String,
    text: String,
    role: String,
    round: String,
    at: String,
    expires: Option<String>,
}

/// The whole history.
#[derive(Debug, Default, Serialize)]
pub(crate) struct LoopHistory {
    state: LoopState,
    receipts: Vec<ReceiptLine>,
    memory: Vec<MemoryLine>,
}

impl LoopHistory {
    /// Reads it, in time that does not grow with history. `rounds` are the loop's latest.
    pub(crate) async fn read(
        store: &Store,
        repo: &str,
        name: &str,
        rounds: &[RoundLine],
        now: i64,
    ) -> Result<Self, CommandError> {
        let query =
            ReceiptsQuery { repo: repo.to_owned(), loop_name: name.to_owned(), before: None, limit: RECEIPTS_SHOWN };
        let written = store.receipts(query).await?;
        let memory = store.memory(repo, name).await?;
        let valid = memory.into_iter().filter(|row| row.expires_ms.is_none_or(|at| at > now));
        Ok(Self {
            state: LoopState::read(store, repo, name).await?,
            receipts: receipts(written, rounds),
            memory: valid.map(MemoryLine::from).collect(),
        })
    }

    /// For people: failed items, occurrences that did not start, the memory.
    pub(crate) fn render(&self, now: i64, width: usize) -> String {
        let mut page = String::new();
        let state = &self.state;
        if !state.processed.is_empty() || !state.failures.is_empty() {
            let (done, failed) = (state.processed.len(), state.failures.len());
            page.push_str(&format!("\n  items    {done} processed, {failed} failed\n"));
        }
        for one in state.failures.iter().take(LINES) {
            let what = if one.given_up { "given up after" } else { "failed" };
            let times = if one.retries == 1 { "once".to_owned() } else { format!("{} times", one.retries) };
            page.push_str(&format!("    {} {what} {times}: {}\n", safe(&one.item), safe(&one.error)));
        }
        if self.receipts.iter().any(|one| one.trigger != MANUAL) {
            page.push_str(&format!("\n{}\n", self.receipts_table(now, width)));
        }
        if !self.memory.is_empty() {
            page.push_str("\nmemory\n");
        }
        for one in self.memory.iter().take(LINES) {
            let of = format!("{} {} ({}, round {})", one.kind, one.key, one.role, one.round);
            page.push_str(&format!("  {}: {}\n", safe(&of), safe(&one.text)));
        }
        page
    }

    fn receipts_table(&self, now: i64, width: usize) -> String {
        let mut table = TextTable::new(["DUE", "TRIGGER", "RECEIPT", "REASON"]);
        for one in self.receipts.iter().filter(|one| one.trigger != MANUAL).take(LINES) {
            let times = if one.count > 1 { format!(" ×{}", one.count) } else { String::new() };
            let why = one.reason.as_deref().or(one.round.as_deref()).unwrap_or_default();
            table.row([
                time_since(one.due_ms, now),
                one.trigger.clone(),
                format!("{}{times}", one.receipt),
                why.to_owned(),
            ]);
        }
        table.render_within(width)
    }
}

impl LoopState {
    async fn read(store: &Store, repo: &str, name: &str) -> Result<Self, CommandError> {
        let counters = store.loop_row(repo, name).await?;
        let mut state = Self { metrics: counters.as_ref().map(Metrics::from).unwrap_or_default(), ..Self::default() };
        if let Some(LoopRow { last_run_ms, last_outcome, .. }) = counters {
            (state.last_run, state.last_status) =
                (last_run_ms.map(timestamp), last_outcome.map(|outcome| outcome.word().to_owned()));
        }
        for ItemRow { key, state: word, failures, round, updated_ms, .. } in
            store.items(repo, name, ITEMS_SHOWN).await?
        {
            if word == WorkItemState::Processed {
                state.processed.insert(key, timestamp(updated_ms));
                continue;
            }
            let error = store.round(&round).await?.map(|row| row.summary).unwrap_or_default();
            let (ts, given_up) = (timestamp(updated_ms), word == WorkItemState::Waiting);
            state.failures.push(Failure { item: key, error, retries: failures, ts, round, given_up });
        }
        let query = RoundsQuery {
            repo: Some(repo.to_owned()),
            loop_name: Some(name.to_owned()),
            which: RoundsFilter::Open,
            limit: OPEN_SHOWN,
            before: None,
        };
        let open = store.rounds(query).await?.into_iter();
        state.in_progress = open.filter_map(|row| Some((row.item?, row.id))).collect();
        Ok(state)
    }
}

impl From<&LoopRow> for Metrics {
    fn from(row: &LoopRow) -> Self {
        Self {
            runs: row.runs,
            successes: row.successes,
            failures: row.failures,
            items_processed: row.items,
            total_duration_s: row.duration_ms as f64 / 1_000.0,
        }
    }
}

impl From<ReceiptRow> for ReceiptLine {
    fn from(row: ReceiptRow) -> Self {
        Self {
            due: timestamp(row.due_ms),
            trigger: row.trigger,
            receipt: row.receipt,
            reason: Some(row.reason).filter(|reason| !reason.is_empty()),
            round: row.round,
            count: row.count,
            through: row.through_ms.map(timestamp),
            due_ms: row.due_ms,
        }
    }
}

impl From<&RoundLine> for ReceiptLine {
    /// A round that a person started was due when it started.
    fn from(line: &RoundLine) -> Self {
        Self {
            due: line.started.clone(),
            trigger: line.trigger.clone(),
            receipt: "started".to_owned(),
            reason: None,
            round: Some(line.round.clone()),
            count: 1,
            through: None,
            due_ms: line.started_ms,
        }
    }
}

impl From<MemoryRow> for MemoryLine {
    fn from(row: MemoryRow) -> Self {
        let MemoryRow { key, kind, text, round, role, at_ms, expires_ms, .. } = row;
        Self { key, kind, text, role, round, at: timestamp(at_ms), expires: expires_ms.map(timestamp) }
    }
}

/// The written receipts, and those of rounds that have none, latest first. A round whose receipt is too old for the
/// page does not get a second one.
fn receipts(written: Vec<ReceiptRow>, rounds: &[RoundLine]) -> Vec<ReceiptLine> {
    let by_hand = rounds.iter().filter(|line| line.trigger == MANUAL);
    let unwritten = by_hand.filter(|line| !written.iter().any(|row| row.round.as_ref() == Some(&line.round)));
    let mut all: Vec<_> = unwritten.map(ReceiptLine::from).collect();
    all.extend(written.into_iter().map(ReceiptLine::from));
    all.sort_by_key(|one| std::cmp::Reverse(one.due_ms));
    all.truncate(RECEIPTS_SHOWN as usize);
    all
}
