//! From decisions to rows and back, and how they are written: whole, in order, and at most once.

use crate::engine::Engine;
use crate::random;
use crate::round::bounded;
use crate::store::{
    Batch, Change, InboxRow, NewEvent, ReceiptRow, RoundsQuery, ScheduleRow, SignalRow, StoreError, StoreErrorKind,
};
use loopwright_core::dispatch::{LoopKey, Paused, Receipt, Signal, Standing, Wait};
use loopwright_core::hash;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rows of one transaction; a store takes more, and none of them should be long.
const ROWS_MAX: usize = 4_000;

/// Rows to be written together, with the event that says why.
#[derive(Debug, Clone, Default)]
pub(super) struct Keeping {
    pub(super) changes: Vec<Change>,
    pub(super) event: Option<NewEvent>,
    /// What is told when they are durable.
    pub(super) receipts: Vec<Receipt>,
    /// A question to people about a loop; its round is the loop's last.
    pub(super) question: Option<InboxRow>,
    /// A question that is answered.
    pub(super) answered: Option<String>,
}

impl Keeping {
    /// Takes the rows of another along, when both are nothing but rows and no loop is in both: a transaction costs many times
    /// what its rows do. Gives the other back when they must stay two.
    pub(super) fn join(&mut self, other: Self) -> Result<(), Box<Self>> {
        let fits = self.changes.len() + other.changes.len() <= ROWS_MAX;
        let disjoint = |own: BTreeSet<_>| other.loops().is_some_and(|others| own.is_disjoint(&others));
        if !fits || !self.loops().is_some_and(disjoint) {
            return Err(Box::new(other));
        }
        self.changes.extend(other.changes);
        self.receipts.extend(other.receipts);
        self.group();
        Ok(())
    }

    /// The loops of rows that say where loops stand; nothing when it is more than such rows.
    fn loops(&self) -> Option<BTreeSet<(&str, &str)>> {
        if self.event.is_some() || self.question.is_some() || self.answered.is_some() {
            return None;
        }
        self.changes.iter().map(loop_of).collect()
    }

    /// Neighbours of one kind are written with one statement.
    fn group(&mut self) {
        self.changes.sort_by_key(|change| matches!(change, Change::Receipt(_)));
    }
}

/// The loop of a row that says where a loop stands.
fn loop_of(change: &Change) -> Option<(&str, &str)> {
    match change {
        Change::Schedule(row) => Some((&row.repo, &row.loop_name)),
        Change::Receipt(row) => Some((&row.repo, &row.loop_name)),
        Change::SignalTaken { repo, loop_name, .. } => Some((repo, loop_name)),
        _ => None,
    }
}

/// What the dispatcher wants kept, in transactions of a good size: the rows of one loop are always in one of them.
pub(super) fn keepings(receipts: Vec<Receipt>, standings: Vec<Standing>, taken: &[Signal]) -> Vec<Keeping> {
    let mut loops: BTreeMap<LoopKey, Keeping> = BTreeMap::new();
    for standing in &standings {
        loops.entry(standing.key.clone()).or_default().changes.push(Change::Schedule(schedule_row(standing)));
    }
    for signal in taken {
        loops.entry(signal.key.clone()).or_default().changes.push(taken_row(signal));
    }
    for receipt in receipts {
        let keeping = loops.entry(receipt.key.clone()).or_default();
        keeping.changes.push(Change::Receipt(receipt_row(&receipt)));
        keeping.receipts.push(receipt);
    }
    let mut all: Vec<Keeping> = Vec::new();
    for keeping in loops.into_values() {
        match all.last_mut() {
            Some(last) if last.changes.len() + keeping.changes.len() <= ROWS_MAX => {
                last.changes.extend(keeping.changes);
                last.receipts.extend(keeping.receipts);
            }
            _ => all.push(keeping),
        }
    }
    all.iter_mut().for_each(Keeping::group);
    all
}

/// Writes rows. Occurrences that have their receipt already are left out and named: they are done, and not done twice.
pub(super) async fn write(engine: Engine, mut keeping: Keeping) -> Result<Vec<ReceiptRow>, StoreError> {
    keeping.changes.extend(asked(&engine, keeping.question.take()).await?);
    keeping.changes.extend(answered(&engine, keeping.answered.take()).await?);
    match append(&engine, &keeping).await {
        Err(StoreError { kind: StoreErrorKind::Conflict(_), .. }) => {}
        written => return written.map(|()| Vec::new()),
    }
    let mut known = Vec::new();
    for change in std::mem::take(&mut keeping.changes) {
        match &change {
            Change::Receipt(row)
                if engine.store.receipt(&row.repo, &row.loop_name, &row.occurrence).await?.is_some() =>
            {
                known.push(row.clone());
            }
            Change::SignalTaken { repo, loop_name, key } if is_taken(&engine, repo, loop_name, key).await? => {}
            _ => keeping.changes.push(change),
        }
    }
    append(&engine, &keeping).await.map(|()| known)
}

/// A question hangs on a round; a loop that never had one is only told about.
async fn asked(engine: &Engine, question: Option<InboxRow>) -> Result<Option<Change>, StoreError> {
    let Some(question) = question else { return Ok(None) };
    let query = RoundsQuery {
        repo: Some(question.repo.clone()),
        loop_name: Some(question.loop_name.clone()),
        limit: 1,
        ..RoundsQuery::default()
    };
    let last = engine.store.rounds(query).await?.pop();
    Ok(last.map(|last| Change::Inbox(InboxRow { round: last.id, ..question })))
}

async fn answered(engine: &Engine, id: Option<String>) -> Result<Option<Change>, StoreError> {
    let Some(id) = id else { return Ok(None) };
    let open = engine.store.inbox_item(&id).await?.filter(|row| row.closed_ms.is_none());
    Ok(open.map(|_| Change::InboxClosed { id }))
}

async fn is_taken(engine: &Engine, repo: &str, loop_name: &str, key: &str) -> Result<bool, StoreError> {
    let row = engine.store.signal(repo, loop_name, key).await?;
    Ok(row.is_none_or(|row| row.taken_ms.is_some()))
}

async fn append(engine: &Engine, keeping: &Keeping) -> Result<(), StoreError> {
    let (now_ms, changes) = (engine.now_ms(), keeping.changes.clone());
    let batch = match &keeping.event {
        None if changes.is_empty() => return Ok(()),
        None => Batch::of_rows(now_ms, changes),
        Some(event) => Batch {
            round: format!("control-{}", nonce(event, now_ms)),
            expect_index: 0,
            at_ms: now_ms,
            events: vec![event.clone()],
            changes,
        },
    };
    engine.append(batch).await.map(drop)
}

/// A name of its own for an event that belongs to no round; without randomness, its moment and its words.
fn nonce(event: &NewEvent, now_ms: i64) -> String {
    let named = || hash::of_fields(&[b"loopwright control 1", &now_ms.to_le_bytes(), event.body.as_bytes()]);
    random::nonce().unwrap_or_else(|_| named())
}

/// An event of the journal about a loop or about everything.
pub(super) fn event(kind: &str, key: Option<&LoopKey>, by: &str, why: &str) -> NewEvent {
    let body = serde_json::json!({
        "event": kind, "actor": bounded(by), "why": bounded(why),
        "repo": key.map(|key| &*key.repo), "loop": key.map(|key| &*key.name),
    });
    NewEvent { kind: kind.to_owned(), body: body.to_string() }
}

/// The question about a loop that stopped itself: one for each loop, however often it does.
pub(super) fn question(key: &LoopKey, why: &str, now_ms: i64) -> InboxRow {
    InboxRow {
        id: question_id(key),
        round: String::new(),
        loop_name: key.name.to_string(),
        repo: key.repo.to_string(),
        kind: "loop-paused".to_owned(),
        risk: "medium".to_owned(),
        candidate: None,
        summary: bounded(why),
        created_ms: now_ms,
        expires_ms: None,
        closed_ms: None,
    }
}

pub(super) fn question_id(key: &LoopKey) -> String {
    let fields = [b"loopwright loop question 1".as_slice(), key.repo.as_bytes(), key.name.as_bytes()];
    format!("l-{}", hash::of_fields(&fields).chars().take(20).collect::<String>())
}

pub(super) fn schedule_row(standing: &Standing) -> ScheduleRow {
    let Standing { key, fingerprint, mark_ms, paused, streak, signature, wait } = standing;
    ScheduleRow {
        repo: key.repo.to_string(),
        loop_name: key.name.to_string(),
        fingerprint: fingerprint.clone(),
        mark_ms: *mark_ms,
        paused_ms: paused.as_ref().map(|paused| paused.since_ms),
        paused_by: paused.as_ref().map(|paused| paused.by.clone()),
        paused_why: paused.as_ref().map(|paused| paused.why.clone()),
        streak: i64::from(*streak),
        signature: signature.clone(),
        wait_until_ms: wait.as_ref().map(|wait| wait.until_ms),
        wait_why: wait.as_ref().map(|wait| wait.why.clone()),
    }
}

/// Where a loop stands, as its row has it.
#[must_use]
pub fn standing(row: ScheduleRow) -> Standing {
    let said = |text: Option<String>| text.unwrap_or_default();
    let paused = row.paused_ms.map(|since_ms| (since_ms, said(row.paused_by), said(row.paused_why)));
    let wait = row.wait_until_ms.map(|until_ms| (until_ms, said(row.wait_why)));
    Standing {
        key: LoopKey::new(&row.repo, &row.loop_name),
        fingerprint: row.fingerprint,
        mark_ms: row.mark_ms,
        paused: paused.map(|(since_ms, by, why)| Paused { since_ms, by, why }),
        streak: u32::try_from(row.streak).unwrap_or(0),
        signature: row.signature,
        wait: wait.map(|(until_ms, why)| Wait { until_ms, why }),
    }
}

pub(super) fn receipt_row(receipt: &Receipt) -> ReceiptRow {
    ReceiptRow {
        repo: receipt.key.repo.to_string(),
        loop_name: receipt.key.name.to_string(),
        occurrence: receipt.occurrence.clone(),
        due_ms: receipt.due_ms,
        trigger: receipt.trigger.to_string(),
        receipt: receipt.fate.word().to_owned(),
        reason: receipt.reason.clone(),
        round: receipt.round.clone(),
        count: i64::try_from(receipt.count).unwrap_or(i64::MAX),
        through_ms: receipt.through_ms,
        at_ms: receipt.at_ms,
    }
}

pub(super) fn signal(row: SignalRow) -> Signal {
    Signal {
        key: LoopKey::new(&row.repo, &row.loop_name),
        occurrence: row.key,
        trigger: row.trigger.into(),
        at_ms: row.at_ms,
        item: row.item.map(Arc::from),
    }
}

fn taken_row(signal: &Signal) -> Change {
    Change::SignalTaken {
        repo: signal.key.repo.to_string(),
        loop_name: signal.key.name.to_string(),
        key: signal.occurrence.clone(),
    }
}
