//! Conversion between decisions and rows, and their writes: complete, in order, and at most once.

use crate::engine::Engine;
use crate::random;
use crate::round::bounded;
use crate::store::{
    CLOCK_AHEAD, CLOCK_TAKEN, FlagRow, InboxKind, InboxRisk, InboxRow, NewEvent, ReceiptRow, RoundsQuery, RowChange,
    ScheduleRow, SignalRow, StoreBatch, StoreError, StoreErrorKind,
};
use loopwright_core::dispatch::{LoopDelay, LoopKey, LoopPause, LoopStanding, OccurrenceReceipt, TriggerSignal};
use loopwright_core::hash;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most rows of one transaction. A store accepts more, but no transaction should take long.
const ROWS_MAX: usize = 4_000;

/// Rows to be written together, with the event that gives the reason.
#[derive(Debug, Clone, Default)]
pub(super) struct PendingRows {
    pub(super) changes: Vec<RowChange>,
    pub(super) event: Option<NewEvent>,
    /// Receipts to publish once the rows are durable.
    pub(super) receipts: Vec<OccurrenceReceipt>,
    /// A question to people about a loop; it belongs to the loop's last round.
    pub(super) question: Option<InboxRow>,
    /// A question that is answered.
    pub(super) answered: Option<String>,
    /// A person confirmed the clock, although this later time is on record: the time, and the person.
    pub(super) clock: Option<(i64, String)>,
    /// The loops of these rows, if the rows hold nothing except standings of loops.
    pub(super) loops: Option<BTreeSet<LoopKey>>,
}

impl PendingRows {
    /// Adds the rows of another, if both hold nothing except rows and no loop is in both: a transaction costs many
    /// times as much as its rows. Returns the other if they must stay separate.
    pub(super) fn join(&mut self, other: Self) -> Result<(), Box<Self>> {
        let fits = self.changes.len() + other.changes.len() <= ROWS_MAX;
        let are_apart = match (&self.loops, &other.loops) {
            (Some(own), Some(others)) => others.iter().all(|key| !own.contains(key)),
            _ => false,
        };
        if !fits || !are_apart {
            return Err(Box::new(other));
        }
        self.changes.extend(other.changes);
        self.receipts.extend(other.receipts);
        self.loops.iter_mut().zip(other.loops).for_each(|(own, others)| own.extend(others));
        Ok(())
    }

    /// Whether a loop may start before these rows are written: they are about the standing of other loops, and about
    /// nothing else.
    pub(super) fn allows_start_of(&self, key: &LoopKey) -> bool {
        self.loops.as_ref().is_some_and(|loops| !loops.contains(key))
    }
}

/// The dispatcher's changes as rows, in transactions of moderate size: all rows of one loop are in the same
/// transaction.
pub(super) fn batch_rows(
    receipts: Vec<OccurrenceReceipt>,
    standings: Vec<LoopStanding>,
    taken: &[TriggerSignal],
) -> Vec<PendingRows> {
    let mut loops: BTreeMap<LoopKey, PendingRows> = BTreeMap::new();
    for standing in standings {
        let row = RowChange::Schedule(schedule_row(&standing));
        loops.entry(standing.key).or_default().changes.push(row);
    }
    for signal in taken {
        loops.entry(signal.key.clone()).or_default().changes.push(taken_row(signal));
    }
    for receipt in receipts {
        let rows = loops.entry(receipt.key.clone()).or_default();
        rows.changes.push(RowChange::Receipt(receipt_row(&receipt)));
        rows.receipts.push(receipt);
    }
    let mut all: Vec<PendingRows> = Vec::new();
    for (key, rows) in loops {
        let rows = PendingRows { loops: Some(BTreeSet::from([key])), ..rows };
        let apart = match all.last_mut() {
            Some(last) => last.join(rows).err(),
            None => Some(Box::new(rows)),
        };
        all.extend(apart.map(|rows| *rows));
    }
    all
}

/// Writes rows. Occurrences that have a receipt already are left out and returned: they are done, and are not done
/// again.
pub(super) async fn write_rows(engine: Engine, mut keeping: PendingRows) -> Result<Vec<ReceiptRow>, StoreError> {
    // Neighbours of one kind are written with one statement.
    keeping.changes.sort_by_key(|change| matches!(change, RowChange::Receipt(_)));
    keeping.changes.extend(question_change(&engine, keeping.question.take()).await?);
    keeping.changes.extend(answered(&engine, keeping.answered.take()).await?);
    keeping.changes.extend(believed(&engine, keeping.clock.take()).await?);
    match append(&engine, &keeping).await {
        Err(StoreError { kind: StoreErrorKind::Conflict(_), .. }) => {}
        written => return written.map(|()| Vec::new()),
    }
    let mut known = Vec::new();
    for change in std::mem::take(&mut keeping.changes) {
        match &change {
            RowChange::Receipt(row)
                if engine.store.receipt(&row.repo, &row.loop_name, &row.occurrence).await?.is_some() =>
            {
                known.push(row.clone());
            }
            RowChange::SignalTaken { repo, loop_name, key } if is_taken(&engine, repo, loop_name, key).await? => {}
            _ => keeping.changes.push(change),
        }
    }
    append(&engine, &keeping).await.map(|()| known)
}

/// A question belongs to the loop's last round. A loop that never had a round gets its question anyway.
async fn question_change(engine: &Engine, question: Option<InboxRow>) -> Result<Option<RowChange>, StoreError> {
    let Some(question) = question else { return Ok(None) };
    let query = RoundsQuery {
        repo: Some(question.repo.clone()),
        loop_name: Some(question.loop_name.clone()),
        limit: 1,
        ..RoundsQuery::default()
    };
    let last = engine.store.rounds(query).await?.pop();
    let round = last.map(|last| last.id).unwrap_or_default();
    Ok(Some(RowChange::Inbox(InboxRow { round, ..question })))
}

async fn answered(engine: &Engine, id: Option<String>) -> Result<Option<RowChange>, StoreError> {
    let Some(id) = id else { return Ok(None) };
    let open = engine.store.inbox_item(&id).await?.filter(|row| row.closed_ms.is_none());
    Ok(open.map(|_| RowChange::InboxClosed { id }))
}

/// Marks a recorded time as wrong, so that no start compares the clock with it any more. Earlier marks of this kind may
/// be later still.
async fn believed(engine: &Engine, clock: Option<(i64, String)>) -> Result<Vec<RowChange>, StoreError> {
    let Some((ahead_ms, by)) = clock else { return Ok(Vec::new()) };
    let known = engine.store.flags().await?.into_iter().find(|flag| flag.name == CLOCK_AHEAD);
    let ahead_ms = known.map_or(ahead_ms, |flag| flag.at_ms.max(ahead_ms));
    let flag = |name: &str, at_ms| {
        let why = "a person confirmed that the clock is right".to_owned();
        RowChange::Flag(FlagRow { name: name.to_owned(), at_ms, actor: by.clone(), why })
    };
    Ok(vec![flag(CLOCK_TAKEN, engine.now_ms()), flag(CLOCK_AHEAD, ahead_ms)])
}

async fn is_taken(engine: &Engine, repo: &str, loop_name: &str, key: &str) -> Result<bool, StoreError> {
    let row = engine.store.signal(repo, loop_name, key).await?;
    Ok(row.is_none_or(|row| row.taken_ms.is_some()))
}

async fn append(engine: &Engine, keeping: &PendingRows) -> Result<(), StoreError> {
    let (now_ms, changes) = (engine.now_ms(), keeping.changes.clone());
    let batch = match &keeping.event {
        None if changes.is_empty() => return Ok(()),
        None => StoreBatch::of_rows(now_ms, changes),
        Some(event) => StoreBatch {
            round: format!("control-{}", nonce(event, now_ms)),
            expect_index: 0,
            at_ms: now_ms,
            events: vec![event.clone()],
            changes,
        },
    };
    engine.append(batch).await.map(drop)
}

/// A unique name for an event that belongs to no round, derived without randomness from its time and its text.
fn nonce(event: &NewEvent, now_ms: i64) -> String {
    let named = || hash::hash_fields(&[b"loopwright control 1", &now_ms.to_le_bytes(), event.body.as_bytes()]);
    random::nonce().unwrap_or_else(|_| named())
}

/// A journal event about one loop or about all loops.
pub(super) fn loop_event(kind: &str, key: Option<&LoopKey>, by: &str, why: &str) -> NewEvent {
    let body = serde_json::json!({
        "event": kind, "actor": bounded(by), "why": bounded(why),
        "repo": key.map(|key| &*key.repo), "loop": key.map(|key| &*key.name),
    });
    NewEvent { kind: kind.to_owned(), body: body.to_string() }
}

/// The question about a loop that paused itself: one for each loop, however often it does.
pub(super) fn pause_question(key: &LoopKey, why: &str, now_ms: i64) -> InboxRow {
    InboxRow {
        id: pause_question_id(key),
        round: String::new(),
        loop_name: key.name.to_string(),
        repo: key.repo.to_string(),
        kind: InboxKind::LoopPaused,
        risk: InboxRisk::Medium,
        candidate: None,
        summary: bounded(why),
        created_ms: now_ms,
        expires_ms: None,
        closed_ms: None,
    }
}

pub(crate) fn pause_question_id(key: &LoopKey) -> String {
    let fields = [b"loopwright loop question 1".as_slice(), key.repo.as_bytes(), key.name.as_bytes()];
    format!("l-{}", hash::hash_fields(&fields).chars().take(20).collect::<String>())
}

pub(super) fn schedule_row(standing: &LoopStanding) -> ScheduleRow {
    let LoopStanding { key, fingerprint, mark_ms, paused, streak, signature, wait } = standing;
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

/// The row of a loop's standing.
#[must_use]
pub fn standing_from_row(row: ScheduleRow) -> LoopStanding {
    let said = |text: Option<String>| text.unwrap_or_default();
    let paused = row.paused_ms.map(|since_ms| (since_ms, said(row.paused_by), said(row.paused_why)));
    let wait = row.wait_until_ms.map(|until_ms| (until_ms, said(row.wait_why)));
    LoopStanding {
        key: LoopKey::new(&row.repo, &row.loop_name),
        fingerprint: row.fingerprint,
        mark_ms: row.mark_ms,
        paused: paused.map(|(since_ms, by, why)| LoopPause { since_ms, by, why }),
        streak: u32::try_from(row.streak).unwrap_or(0),
        signature: row.signature,
        wait: wait.map(|(until_ms, why)| LoopDelay { until_ms, why }),
    }
}

pub(super) fn receipt_row(receipt: &OccurrenceReceipt) -> ReceiptRow {
    ReceiptRow {
        repo: receipt.key.repo.to_string(),
        loop_name: receipt.key.name.to_string(),
        occurrence: receipt.occurrence.clone(),
        due_ms: receipt.due_ms,
        trigger: receipt.trigger.to_string(),
        receipt: receipt.fate,
        reason: receipt.reason.clone(),
        round: receipt.round.clone(),
        count: i64::try_from(receipt.count).unwrap_or(i64::MAX),
        through_ms: receipt.through_ms,
        at_ms: receipt.at_ms,
    }
}

pub(super) fn signal_from_row(row: SignalRow) -> TriggerSignal {
    TriggerSignal {
        key: LoopKey::new(&row.repo, &row.loop_name),
        occurrence: row.key,
        trigger: row.trigger.into(),
        at_ms: row.at_ms,
        item: row.item.map(Arc::from),
    }
}

fn taken_row(signal: &TriggerSignal) -> RowChange {
    RowChange::SignalTaken {
        repo: signal.key.repo.to_string(),
        loop_name: signal.key.name.to_string(),
        key: signal.occurrence.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loopwright_core::dispatch::OccurrenceOutcome;

    fn standing_of(names: &[&str]) -> PendingRows {
        let standings = names.iter().map(|name| LoopStanding::new(LoopKey::new("r", name), "f", 0)).collect();
        let mut all = batch_rows(Vec::new(), standings, &[]);
        assert_eq!(all.len(), 1, "few rows are one transaction");
        all.pop().expect("one")
    }

    #[test]
    fn rows_of_different_loops_go_together_and_those_of_one_loop_stay_in_order() {
        let mut first = standing_of(&["a", "b"]);
        assert!(first.join(standing_of(&["c"])).is_ok());
        assert_eq!(first.changes.len(), 3);
        assert!(first.join(standing_of(&["d", "a"])).is_err(), "later decisions are written later");
        assert!(first.join(standing_of(&["d"])).is_ok());
        assert!(first.join(standing_of(&["c"])).is_err(), "also for a loop that joined");
    }

    #[test]
    fn only_the_standing_of_other_loops_is_passed_by_a_start() {
        let rows = standing_of(&["a", "b"]);
        assert!(rows.allows_start_of(&LoopKey::new("r", "c")));
        assert!(rows.allows_start_of(&LoopKey::new("other", "a")));
        assert!(!rows.allows_start_of(&LoopKey::new("r", "b")), "its own mark goes first");
        let said = PendingRows { event: Some(loop_event("frozen", None, "ada", "")), ..PendingRows::default() };
        assert!(!said.allows_start_of(&LoopKey::new("r", "c")), "people's commands go first");
    }

    fn receipt(key: &LoopKey, due_ms: i64) -> OccurrenceReceipt {
        OccurrenceReceipt {
            key: key.clone(),
            occurrence: format!("due:{due_ms}"),
            due_ms,
            trigger: "every 1s".into(),
            fate: OccurrenceOutcome::Missed,
            reason: String::new(),
            round: None,
            count: 1,
            through_ms: None,
            at_ms: due_ms,
        }
    }

    #[test]
    fn rows_of_one_loop_are_in_one_transaction_and_in_order() {
        let keys: Vec<LoopKey> = (0..ROWS_MAX + 10).map(|number| LoopKey::new("r", &format!("l{number:05}"))).collect();
        let standings: Vec<LoopStanding> =
            keys.iter().rev().map(|key| LoopStanding::new(key.clone(), "f", 1)).collect();
        let busy = &keys[ROWS_MAX - 2];
        let receipts = [3, 1, 2].map(|due_ms| receipt(busy, due_ms));
        let (occurrence, trigger) = ("push:main:1".to_owned(), "push".into());
        let taken = [TriggerSignal { key: keys[3].clone(), occurrence, trigger, at_ms: 1, item: None }];
        let all = batch_rows(receipts.into(), standings, &taken);
        assert_eq!(all.iter().map(|keeping| keeping.changes.len()).collect::<Vec<_>>(), [ROWS_MAX - 1, 15]);
        let loops: Vec<&LoopKey> = all.iter().flat_map(|keeping| keeping.loops.iter().flatten()).collect();
        assert_eq!(loops, keys.iter().collect::<Vec<_>>());
        let words = |change: &RowChange| match change {
            RowChange::Schedule(row) => format!("stands {}", row.loop_name),
            RowChange::SignalTaken { key, .. } => format!("taken {key}"),
            RowChange::Receipt(row) => format!("receipt {}", row.occurrence),
            other => format!("{other:?}"),
        };
        let said = |keeping: &PendingRows| keeping.changes.iter().map(words).collect::<Vec<_>>();
        assert_eq!(said(&all[0])[3..6], ["stands l00003", "taken push:main:1", "stands l00004"]);
        assert_eq!(
            said(&all[1])[..4],
            [format!("stands {}", busy.name).as_str(), "receipt due:3", "receipt due:1", "receipt due:2"]
        );
        assert_eq!(all[1].receipts.len(), 3);
        assert!(batch_rows(Vec::new(), Vec::new(), &[]).is_empty());
    }
}
