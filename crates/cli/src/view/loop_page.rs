//! One loop as a page: its file, its state, its last rounds, and its history: the items it did and failed, its counters,
//! its receipts, and its memory. Items and counters have the names of the seed's state file.

use super::evidence::EvidenceView;
use super::repo_view::RepoView;
use super::rounds::{RoundLine, RoundListView, RoundsListed};
use super::standing::state_look;
use super::status::LoopLine;
use super::time::{Moment, time_since};
use super::{CommandError, NOTHING, SCHEMA, Serialize, Store, TextTable, safe};
use crate::context::read_repo_file;
use crate::output::CommandOutput;
use loopwright::store::{
    ItemRow, LoopRow, MemoryRow, ReceiptRow, ReceiptsQuery, RoundsFilter, RoundsQuery, WorkItemState,
};
use loopwright_core::spec::{Gate, LoopSpec};
use std::collections::BTreeMap;

/// Rounds shown.
const ROUNDS_SHOWN: u32 = 10;

/// The document of `show LOOP --json`.
#[derive(Debug, Serialize)]
pub(crate) struct LoopPage {
    schema: u32,
    #[serde(flatten)]
    line: LoopLine,
    file: Option<String>,
    /// The text of the loop file as it is now.
    text: Option<String>,
    intent: Option<String>,
    gates: Vec<String>,
    output: Vec<&'static str>,
    rounds: Vec<RoundLine>,
    /// The evidence for its level; `None` without a file or a record.
    evidence: Option<EvidenceView>,
    #[serde(flatten)]
    past: LoopHistory,
}

impl LoopPage {
    /// Reads the page.
    pub(crate) async fn read(
        store: Option<&Store>,
        here: Option<&RepoView>,
        name: &str,
        now: i64,
    ) -> Result<Self, CommandError> {
        let line = super::status::find_loop_line(store, here, name, now).await?;
        let query = RoundsQuery {
            repo: line.repo.clone(),
            loop_name: Some(name.to_owned()),
            limit: ROUNDS_SHOWN,
            ..RoundsQuery::default()
        };
        let rounds = RoundListView::read(store, query, RoundsListed::All).await?;
        let past = match (store, &line.repo) {
            (Some(store), Some(repo)) => LoopHistory::read(store, repo, name, &rounds.rounds, now).await?,
            _ => LoopHistory::default(),
        };
        let file = here.and_then(|here| here.file(name));
        let spec = file.map(|file| file.spec.spec());
        let evidence = match (store, here, spec) {
            (Some(store), Some(here), Some(spec)) => Some(EvidenceView::read(store, here, spec).await?),
            _ => None,
        };
        Ok(Self {
            evidence,
            schema: SCHEMA,
            line,
            file: file.map(|file| file.file.clone()),
            text: here.zip(file).and_then(|(here, file)| file_text(here, &file.file)),
            intent: spec.map(|spec| spec.intent.clone()),
            gates: spec.map(gate_names).unwrap_or_default(),
            output: spec.map(|spec| spec.output.iter().map(|one| one.kind.word()).collect()).unwrap_or_default(),
            past,
            rounds: rounds.rounds,
        })
    }

    /// For people.
    pub(crate) fn render(&self, now: i64, out: &CommandOutput) -> String {
        let line = &self.line;
        let or_nothing = |text: &Option<String>| text.as_deref().map_or(NOTHING.to_owned(), safe);
        let gates = if self.gates.is_empty() { "none".to_owned() } else { safe(&self.gates.join(", ")) };
        let success = line.success_rate.map_or(NOTHING.to_owned(), |rate| format!("{:.0}%", rate * 100.0));
        let rows = [
            ("intent", or_nothing(&self.intent)),
            ("file", or_nothing(&self.file)),
            ("level", line.level_text()),
            ("cadence", or_nothing(&line.cadence)),
            ("gates", gates),
            ("runs", format!("{}, success {success}, failures {}", line.runs, line.failures)),
            ("today", format!("${:.2}, {} tokens", line.spend.usd, line.spend.tokens)),
        ];
        let mut page = format!("loop {}: {}\n", safe(&line.name), line.status.word());
        for (name, value) in rows {
            page.push_str(&format!("  {name:<8} {value}\n"));
        }
        if let Some(ceiling) = &line.ceiling {
            page.push_str(&format!("  ceiling  {}\n", safe(&ceiling.text)));
        }
        if let Some(reason) = &line.paused_reason {
            page.push_str(&format!("  why      {}\n", safe(reason)));
        }
        for text in self.evidence.iter().flat_map(EvidenceView::lines) {
            page.push_str(&format!("  record   {}\n", safe(&text)));
        }
        let debts = line.debts.iter().flat_map(|debts| debts.lines().into_iter().chain(debts.pay.clone()));
        for text in debts {
            page.push_str(&format!("  debts    {}\n", safe(&text)));
        }
        if !self.rounds.is_empty() {
            page.push_str(&format!("\n{}\n", super::rounds::render_table(&self.rounds, now, out)));
        }
        page.push_str(&self.past.render(now, out));
        page + &format!("\nrun it with: loopwright run {}", safe(&line.name))
    }
}

/// The text of a loop file; `None` if it went away in the meantime.
fn file_text(here: &RepoView, file: &str) -> Option<String> {
    let bytes = read_repo_file(&here.repo.work_tree, file).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The names of all gates and held-out checks.
fn gate_names(spec: &LoopSpec) -> Vec<String> {
    let gates = spec.gates.iter().map(Gate::name);
    gates.chain(spec.heldout.iter().map(|check| check.name.as_str())).map(str::to_owned).collect()
}

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
    last_run: Option<Moment>,
    last_status: Option<String>,
    /// The time when each item was done, by its key.
    processed: BTreeMap<String, Moment>,
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
    ts: Moment,
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
    due: Moment,
    trigger: String,
    receipt: String,
    reason: Option<String>,
    round: Option<String>,
    count: i64,
    through: Option<Moment>,
}

/// One entry of the loop's memory.
#[derive(Debug, Serialize)]
pub(crate) struct MemoryLine {
    key: String,
    kind: String,
    text: String,
    role: String,
    round: String,
    at: Moment,
    expires: Option<Moment>,
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
    pub(crate) fn render(&self, now: i64, out: &CommandOutput) -> String {
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
            page.push_str(&format!("\n{}\n", self.receipts_table(now, out)));
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

    fn receipts_table(&self, now: i64, out: &CommandOutput) -> String {
        let row = |one: &ReceiptLine| {
            let times = if one.count > 1 { format!(" ×{}", one.count) } else { String::new() };
            let why = one.reason.as_deref().or(one.round.as_deref()).unwrap_or_default();
            let receipt = format!("{}{times}", one.receipt);
            [time_since(one.due.0, now), one.trigger.clone(), receipt, why.to_owned()]
        };
        let shown = self.receipts.iter().filter(|one| one.trigger != MANUAL).take(LINES);
        TextTable::new(["DUE", "TRIGGER", "RECEIPT", "REASON"], shown.map(row)).with_look(2, state_look).render_for(out)
    }
}

impl LoopState {
    async fn read(store: &Store, repo: &str, name: &str) -> Result<Self, CommandError> {
        let counters = store.loop_row(repo, name).await?;
        let mut state = Self { metrics: counters.as_ref().map(Metrics::from).unwrap_or_default(), ..Self::default() };
        if let Some(LoopRow { last_run_ms, last_outcome, .. }) = counters {
            (state.last_run, state.last_status) =
                (last_run_ms.map(Moment), last_outcome.map(|outcome| outcome.word().to_owned()));
        }
        for ItemRow { key, state: word, failures, round, updated_ms, .. } in
            store.items(repo, name, ITEMS_SHOWN).await?
        {
            if word == WorkItemState::Processed {
                state.processed.insert(key, Moment(updated_ms));
                continue;
            }
            let error = store.round(&round).await?.map(|row| row.summary).unwrap_or_default();
            let (ts, given_up) = (Moment(updated_ms), word == WorkItemState::Waiting);
            state.failures.push(Failure { item: key, error, retries: failures, ts, round, given_up });
        }
        let query = RoundsQuery {
            repo: Some(repo.to_owned()),
            loop_name: Some(name.to_owned()),
            which: RoundsFilter::Open,
            limit: OPEN_SHOWN,
            ..RoundsQuery::default()
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
            due: Moment(row.due_ms),
            trigger: row.trigger,
            receipt: row.receipt.word().to_owned(),
            reason: Some(row.reason).filter(|reason| !reason.is_empty()),
            round: row.round,
            count: row.count,
            through: row.through_ms.map(Moment),
        }
    }
}

impl From<&RoundLine> for ReceiptLine {
    /// A round that a person started was due when it started.
    fn from(line: &RoundLine) -> Self {
        Self {
            due: line.started,
            trigger: line.trigger.clone(),
            receipt: "started".to_owned(),
            reason: None,
            round: Some(line.round.clone()),
            count: 1,
            through: None,
        }
    }
}

impl From<MemoryRow> for MemoryLine {
    fn from(row: MemoryRow) -> Self {
        let MemoryRow { key, kind, text, round, role, at_ms, expires_ms, .. } = row;
        Self { key, kind, text, role, round, at: Moment(at_ms), expires: expires_ms.map(Moment) }
    }
}

/// The written receipts, and those of rounds that have none, latest first. A round whose receipt is too old for the
/// page does not get a second one.
fn receipts(written: Vec<ReceiptRow>, rounds: &[RoundLine]) -> Vec<ReceiptLine> {
    let by_hand = rounds.iter().filter(|line| line.trigger == MANUAL);
    let unwritten = by_hand.filter(|line| !written.iter().any(|row| row.round.as_ref() == Some(&line.round)));
    let mut all: Vec<_> = unwritten.map(ReceiptLine::from).collect();
    all.extend(written.into_iter().map(ReceiptLine::from));
    all.sort_by_key(|one| std::cmp::Reverse(one.due));
    all.truncate(RECEIPTS_SHOWN as usize);
    all
}
