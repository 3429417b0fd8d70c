//! Cases about earned autonomy in which both databases must behave alike: works, levels, readings and calibrations.

use loopwright::store::{
    CalibrationRow, LevelLogKind, LevelLogRow, ReadingRow, RowChange, StoreBatch, StoreErrorKind, WorkRow,
};
use loopwright_core::autonomy::{WorkDecision, WorkFate};

use super::place::Place;
use super::rows::{ledger, round};
use loopwright::LoopLevel::{self, L1Report, L2Assisted, L3Unattended};
use loopwright::RoundOutcome;
use loopwright::store::{LedgerRow, RoundRow};

pub(crate) async fn fate_of_work_moves_once_and_only_from_where_it_was(place: Place) {
    let store = place.own().await;
    let work = |id: &str, decision, fate, lines| {
        RowChange::Work(WorkRow {
            id: id.into(),
            repo: "repo-1".into(),
            loop_name: "fix".into(),
            round: "r1".into(),
            kind: "pull-request".into(),
            level: "L2".into(),
            candidate: format!("c-{id}"),
            decision,
            actor: Some("ada".into()),
            decided_ms: 10,
            fate,
            fate_ms: 10,
            detail: None,
            lines,
        })
    };
    let rows = vec![
        work("w1", WorkDecision::Approved, WorkFate::Sent, 7),
        work("w2", WorkDecision::Denied, WorkFate::Unsent, 9),
    ];
    store.append(StoreBatch::of_rows(10, rows)).await.expect("append");
    let merged = |from| {
        let change =
            RowChange::WorkFate { id: "w1".into(), moves: (from, WorkFate::Merged), detail: "merged".to_owned() };
        StoreBatch::of_rows(20, vec![change])
    };
    store.append(merged(WorkFate::Sent)).await.expect("the first look");
    let again = store.append(merged(WorkFate::Sent)).await;
    assert!(
        matches!(again.expect_err("a conflict").kind, StoreErrorKind::Conflict(_)),
        "the same fate is never counted twice"
    );
    let works = store.works("repo-1", "fix", 0).await.expect("works");
    let fates: Vec<_> = works.iter().map(|row| (row.id.as_str(), row.fate, row.fate_ms)).collect();
    assert_eq!(fates, [("w1", WorkFate::Merged, 20), ("w2", WorkFate::Unsent, 10)]);
    assert_eq!(store.works("repo-1", "fix", 15).await.expect("works").len(), 1, "only the fate is newer");
    assert_eq!(store.followed_works(0, 10, 0).await.expect("followed").len(), 1);
    assert_eq!(store.count_followed_works(0).await.expect("a count"), 1);
    assert!(store.followed_works(0, 10, 1).await.expect("followed").is_empty());

    assert_eq!(store.unread_lines("repo-1", "fix").await.expect("lines"), (7, 1), "unsent work owes nothing");
    assert_eq!(store.unread_works("repo-1", "fix", 9).await.expect("works").len(), 1);
    assert_eq!(store.unread_by_loop().await.expect("loops"), [("repo-1".into(), "fix".into(), (7, 1))]);
    let reading = ReadingRow { candidate: "c-w1".into(), actor: "ada".into(), at_ms: 30 };
    let twice = vec![RowChange::Reading(reading.clone()), RowChange::Reading(reading)];
    store.append(StoreBatch::of_rows(30, twice)).await.expect("a person may read twice");
    assert_eq!(store.unread_lines("repo-1", "fix").await.expect("lines"), (0, 0));
    assert_eq!(store.readings("c-w1").await.expect("readings").len(), 1);
}

pub(crate) fn promoted(id: &str, at_ms: i64) -> LevelLogRow {
    LevelLogRow {
        id: id.into(),
        repo: "repo-1".into(),
        loop_name: "fix".into(),
        kind: LevelLogKind::Promoted,
        level: L2Assisted,
        spec_hash: "h".into(),
        actor: "ada".into(),
        at_ms,
        why: "why".into(),
        evidence: "{}".into(),
    }
}

pub(crate) async fn levels_and_calibrations_are_read_again_in_order(place: Place) {
    let store = place.own().await;
    let entry = |id: &str, kind, at_ms| LevelLogRow { kind, ..promoted(id, at_ms) };
    let log = [entry("p", LevelLogKind::Promoted, 5), entry("d", LevelLogKind::Demoted, 9)];
    let calibration = |round: &str, caught| CalibrationRow {
        round: round.into(),
        repo: "repo-1".into(),
        loop_name: "fix".into(),
        agent: "scripted".into(),
        model: None,
        planted: "off-by-one in a:1".into(),
        caught,
        at_ms: 7,
    };
    let mut rows: Vec<_> = log.iter().rev().cloned().map(RowChange::LevelLog).collect();
    // The same demotion by two processes is one row.
    rows.push(RowChange::LevelLog(log[1].clone()));
    rows.extend([calibration("r1", 1), calibration("r2", 0), calibration("r2", 0)].map(RowChange::Calibration));
    store.append(StoreBatch::of_rows(9, rows)).await.expect("append");
    assert_eq!(store.level_log("repo-1", "fix").await.expect("log"), log);
    assert_eq!(store.level_logs().await.expect("log"), log);
    let caught: Vec<_> =
        store.calibrations("repo-1", "fix", 6).await.expect("rows").iter().map(|row| row.caught).collect();
    assert_eq!(caught, [0, 1], "latest first");
    assert!(store.calibrations("repo-1", "fix", 7).await.expect("rows").is_empty());
    assert_eq!(store.counted_rounds("repo-1", "fix", 0).await.expect("counts"), (0, 0));
}

pub(crate) async fn only_unattended_rounds_over_their_budget_are_breaches(place: Place) {
    let store = place.own().await;
    let over = |id: &str, level: LoopLevel| {
        let outcome = Some(RoundOutcome::OverBudget);
        RowChange::Round(RoundRow { level, outcome, attempts: 1, ..round(id, 5) })
    };
    // The spend of the last one is a reservation: a process was killed before its usage was on record.
    let lost = RowChange::Ledger(LedgerRow { known: 0, ..ledger("r4", 0, "m", 5) });
    let measured = RowChange::Ledger(ledger("r2", 0, "m", 5));
    let rows = vec![
        over("r1", L2Assisted),
        over("r2", L3Unattended),
        over("r3", L1Report),
        over("r4", L3Unattended),
        lost,
        measured,
    ];
    store.append(StoreBatch::of_rows(5, rows)).await.expect("append");
    assert_eq!(store.counted_rounds("repo-1", "fix", 0).await.expect("counts"), (0, 1));
}
