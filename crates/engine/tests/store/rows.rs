//! Rows to write; a case specifies only the fields it needs.

use loopwright::store::{
    FlagRow, InboxKind, InboxRisk, InboxRow, ItemRow, LeaseNeeds, LeaseRequest, LedgerRow, LoopRow, MemoryRow,
    NewEvent, OutboxRow, OutboxState, ReceiptRow, ReservationChange, RoundRow, RowChange, ScheduleRow, SignalRow,
    SpendCeiling, SpendScope, StoreBatch, WorkItemState,
};
use loopwright_core::dispatch::{OccurrenceOutcome, RoundClaims, RoundLock};
use loopwright_core::level::LoopLevel;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::{RoundPhase, Stage};
use loopwright_core::spec::ActionKind;

pub(crate) fn event(kind: &str) -> NewEvent {
    NewEvent { kind: kind.into(), body: format!("{{\"kind\":\"{kind}\",\"text\":\"ärger\"}}") }
}

/// A batch of one event.
pub(crate) fn batch(round: &str, expect_index: i64, kind: &str) -> StoreBatch {
    StoreBatch {
        round: round.into(),
        expect_index,
        at_ms: 1_000 + expect_index,
        events: vec![event(kind)],
        changes: vec![],
    }
}

/// A lease of a round of the loop `fix`, with these locks.
pub(crate) fn lease_of(round: &str, loop_name: &str, locks: &[&str]) -> RowChange {
    let locks = locks.iter().map(|lock| RoundLock::from_text("repo-1", lock)).collect();
    RowChange::Lease(LeaseRequest {
        name: round.into(),
        repo: "repo-1".into(),
        loop_name: loop_name.into(),
        needs: LeaseNeeds::AmongProcesses(RoundClaims { locks, ..RoundClaims::default() }),
    })
}

/// A lease of a round of the loop `fix`.
pub(crate) fn lease(round: &str) -> RowChange {
    lease_of(round, "fix", &[])
}

pub(crate) fn with(mut batch: StoreBatch, changes: impl IntoIterator<Item = RowChange>) -> StoreBatch {
    batch.changes.extend(changes);
    batch
}

pub(crate) fn round(id: &str, started_ms: i64) -> RoundRow {
    RoundRow {
        id: id.into(),
        loop_name: "fix".into(),
        repo: "repo-1".into(),
        repo_path: "/src/app".into(),
        occurrence: format!("manual:{id}"),
        trigger: "manual".into(),
        item: None,
        level: LoopLevel::L2Assisted,
        phase: RoundPhase::At(Stage::Make),
        outcome: None,
        started_ms,
        ended_ms: None,
        attempts: 1,
        base: Some("b".repeat(40)),
        tree: None,
        candidate: None,
        spec_hash: "5".repeat(64),
        summary: "fix it".into(),
        report: None,
        spend_tokens: 0,
        spend_micros: 0,
        cookie: Some("4711".into()),
    }
}

pub(crate) fn outbox(id: &str, round: &str, position: i64, state: OutboxState) -> OutboxRow {
    OutboxRow {
        id: id.into(),
        round: round.into(),
        loop_name: "fix".into(),
        repo: "repo-1".into(),
        position,
        kind: ActionKind::PullRequest,
        target: None,
        state,
        candidate: "c".into(),
        body: "{}".into(),
        marker: "m".into(),
        claim: None,
        fence: 1,
        tries: 0,
        receipt: None,
        updated_ms: position,
    }
}

pub(crate) fn question(id: &str, round: &str) -> InboxRow {
    InboxRow {
        id: id.into(),
        round: round.into(),
        loop_name: "fix".into(),
        repo: "repo-1".into(),
        kind: InboxKind::Approval,
        risk: InboxRisk::Low,
        candidate: Some("c".into()),
        summary: "ship?".into(),
        created_ms: 5,
        expires_ms: None,
        closed_ms: None,
    }
}

pub(crate) fn item(key: &str, failures: i64) -> ItemRow {
    ItemRow {
        repo: "repo-1".into(),
        loop_name: "fix".into(),
        key: key.into(),
        state: WorkItemState::Failed,
        failures,
        round: "r1".into(),
        updated_ms: failures,
    }
}

pub(crate) fn stats(runs: i64, last_round: Option<&str>) -> LoopRow {
    LoopRow {
        repo: "repo-1".into(),
        loop_name: "fix".into(),
        runs,
        successes: runs,
        failures: 0,
        items: 0,
        duration_ms: 10 * runs,
        last_run_ms: last_round.map(|_| 99),
        last_outcome: last_round.map(|_| RoundOutcome::Shipped),
        last_round: last_round.map(Into::into),
    }
}

pub(crate) fn reserve(micros: i64, ceiling: i64) -> RowChange {
    let ceilings = vec![SpendCeiling { scope: SpendScope::Repo, micros: Some(ceiling), tokens: None }];
    RowChange::Reserve(ReservationChange { ceilings, ..reserved(micros) })
}

/// A reservation without a limit.
pub(crate) fn reserved(micros: i64) -> ReservationChange {
    ReservationChange {
        repo: "repo-1".into(),
        loop_name: "fix".into(),
        day: "2026-05-01".into(),
        loop_day: "2026-05-01".into(),
        round: "r1".into(),
        item: None,
        micros,
        tokens: 1,
        ceilings: Vec::new(),
    }
}

pub(crate) fn ledger(round: &str, start: i64, model: &str, micros: i64) -> LedgerRow {
    LedgerRow {
        round: round.into(),
        start,
        model: model.into(),
        day: "2026-05-01".into(),
        repo: "repo-1".into(),
        loop_name: "fix".into(),
        item: None,
        attempt: 1,
        role: "maker".into(),
        agent: "claude".into(),
        at_ms: 5,
        input: 10,
        output: 0,
        cache_read: 0,
        cache_write: 0,
        micros,
        known: 1,
    }
}

pub(crate) fn schedule(loop_name: &str, mark_ms: i64) -> ScheduleRow {
    ScheduleRow {
        repo: "repo-1".into(),
        loop_name: loop_name.into(),
        fingerprint: "f1".into(),
        mark_ms,
        paused_ms: None,
        paused_by: None,
        paused_why: None,
        streak: 0,
        signature: None,
        wait_until_ms: None,
        wait_why: None,
    }
}

pub(crate) fn receipt(occurrence: &str, due_ms: i64, word: &str) -> ReceiptRow {
    ReceiptRow {
        repo: "repo-1".into(),
        loop_name: "fix".into(),
        occurrence: occurrence.into(),
        due_ms,
        trigger: "daily 02:30".into(),
        receipt: OccurrenceOutcome::parse(word).expect("a word of receipts"),
        reason: "because".into(),
        round: None,
        count: 1,
        through_ms: None,
        at_ms: due_ms,
    }
}

pub(crate) fn signal(key: &str, at_ms: i64) -> SignalRow {
    SignalRow {
        repo: "repo-1".into(),
        loop_name: "fix".into(),
        key: key.into(),
        trigger: "webhook".into(),
        at_ms,
        item: Some("pr-7@abc".into()),
        title: None,
        data: Some("{}".into()),
        taken_ms: None,
    }
}

pub(crate) fn taken(key: &str) -> RowChange {
    RowChange::SignalTaken { repo: "repo-1".into(), loop_name: "fix".into(), key: key.into() }
}

pub(crate) fn flag(why: &str) -> FlagRow {
    FlagRow { name: "stop".into(), at_ms: 4, actor: "ada".into(), why: why.into() }
}

pub(crate) fn memory(key: &str, at_ms: i64, expires_ms: Option<i64>) -> MemoryRow {
    MemoryRow {
        repo: "repo-1".into(),
        loop_name: "fix".into(),
        key: key.into(),
        kind: "fact".into(),
        text: "the tests need a port".into(),
        round: "r1".into(),
        role: "maker".into(),
        at_ms,
        expires_ms,
    }
}
