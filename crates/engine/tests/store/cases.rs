//! Cases in which both databases must behave alike.

use std::sync::Arc;
use std::time::Duration;

use loopwright::store::{
    CostsBy, CostsQuery, DISPATCHER, LoopSpend, NewEvent, OutboxState, RaiseRow, ReceiptsQuery, ReservationChange,
    RoundRow, RoundsFilter, RoundsQuery, RowChange, SpendCeiling, SpendChange, SpendScope, Store, StoreBatch,
    StoreError, StoreErrorKind, StoreMode,
};

use loopwright_core::outcome::RoundOutcome;
use loopwright_core::round::RoundPhase;

use super::place::Place;
use super::rows::*;

fn kind<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> StoreErrorKind {
    answer.expect_err("the store must refuse").kind
}

pub(crate) async fn appended_events_and_rows_are_read_again(place: Place) {
    let store = place.own().await;
    let row = round("r1", 10);
    let changes = [
        RowChange::Outbox(outbox("o1", "r1", 0, OutboxState::Staged)),
        RowChange::Inbox(question("q1", "r1")),
        RowChange::Round(row.clone()),
        RowChange::Item(item("issue-7", 2)),
    ];
    assert_eq!(store.append(with(batch("r1", 0, "started"), changes)).await.expect("append"), 1);
    assert_eq!(store.append(batch("r1", 1, "made")).await.expect("append"), 2);
    let events = store.events("r1").await.expect("events");
    let seen: Vec<_> = events.iter().map(|e| (e.seq, e.index, e.at_ms, e.kind.as_str())).collect();
    assert_eq!(seen, [(1, 0, 1000, "started"), (2, 1, 1001, "made")]);
    assert_eq!(events[0].body, event("started").body);
    assert_eq!(store.round("r1").await.expect("round"), Some(row.clone()));
    assert_eq!(store.round("none").await.expect("round"), None);
    assert_eq!(store.open_rounds().await.expect("open"), [row]);
    assert_eq!(store.outbox("r1").await.expect("outbox"), [outbox("o1", "r1", 0, OutboxState::Staged)]);
    assert_eq!(store.inbox(9).await.expect("inbox"), [question("q1", "r1")]);
    assert_eq!(store.inbox_item("q1").await.expect("item"), Some(question("q1", "r1")));
    assert_eq!(store.item("repo-1", "fix", "issue-7").await.expect("item"), Some(item("issue-7", 2)));
    assert_eq!(store.items("repo-1", "fix", 9).await.expect("items"), [item("issue-7", 2)]);
    assert_eq!(store.tail(1, 9).await.expect("tail"), events[1..]);
    let asked = ["r1", "none"].map(str::to_owned);
    assert_eq!(store.first_events(&asked).await.expect("first events"), events[..1]);
    assert_eq!(store.first_events(&[]).await.expect("nothing"), []);
    assert!((10_000..100_000_000).contains(&store.size_bytes().await.expect("a size")), "a small database");
}

pub(crate) async fn rows_are_replaced_and_counters_added(place: Place) {
    let store = place.own().await;
    let mut row = round("r1", 10);
    let first = [
        RowChange::Round(row.clone()),
        RowChange::Stats(stats(1, Some("r1"))),
        RowChange::Outbox(outbox("o1", "r1", 0, OutboxState::Staged)),
    ];
    store.append(with(batch("r1", 0, "started"), first)).await.expect("append");
    (row.phase, row.ended_ms, row.outcome) = (RoundPhase::Ended, Some(20), Some(RoundOutcome::Shipped));
    let second = [
        RowChange::Round(row.clone()),
        RowChange::Stats(stats(2, None)),
        RowChange::Outbox(outbox("o1", "r1", 0, OutboxState::Sent)),
    ];
    store.append(with(batch("r1", 1, "ended"), second)).await.expect("append");
    assert_eq!(store.round("r1").await.expect("round"), Some(row));
    assert_eq!(store.open_rounds().await.expect("open"), []);
    assert_eq!(store.outbox_pending(9).await.expect("pending"), []);
    let total = stats(3, Some("r1"));
    assert_eq!(store.loop_row("repo-1", "fix").await.expect("loop").as_ref(), Some(&total));
    assert_eq!(store.loops().await.expect("loops"), [total]);
}

pub(crate) async fn writer_that_has_not_seen_the_latest_event_conflicts(place: Place) {
    let store = place.own().await;
    store.append(batch("r1", 0, "started")).await.expect("append");
    for seen in [0, 2] {
        let refused = kind(store.append(batch("r1", seen, "made")).await);
        assert!(matches!(refused, StoreErrorKind::Conflict(_)), "{refused:?}");
    }
    assert_eq!(store.append(batch("r2", 0, "started")).await.expect("another round"), 1);
}

pub(crate) async fn failed_batch_leaves_nothing_behind(place: Place) {
    let store = place.own().await;
    let closes_nothing = RowChange::InboxClosed { id: "none".into() };
    let doomed = with(batch("r1", 0, "started"), [RowChange::Round(round("r1", 1)), closes_nothing]);
    assert!(matches!(kind(store.append(doomed).await), StoreErrorKind::Conflict(_)));
    assert_eq!(store.events("r1").await.expect("events"), []);
    assert_eq!(store.round("r1").await.expect("round"), None);
    store.append(batch("r1", 0, "started")).await.expect("append after a failed one");
    assert!(store.verify().await.expect("verify").is_ok());
}

pub(crate) async fn writer_with_a_stale_fence_is_refused(place: Place) {
    let store = place.own().await;
    store.append(with(batch("r1", 0, "started"), [lease("r1")])).await.expect("append");
    place.tamper("UPDATE leases SET fence = fence + 1").await.expect("another process");
    let fenced = StoreErrorKind::Fenced { name: "r1".into(), ours: 1, found: 2 };
    assert_eq!(kind(store.append(batch("r1", 1, "made")).await), fenced);
    let rows = loopwright::store::StoreBatch { events: vec![], ..batch("r1", 1, "") };
    let rows = with(rows, [RowChange::Item(item("issue-7", 1))]);
    assert_eq!(kind(store.append(rows).await), fenced, "rows of a round are guarded as well");
    assert_eq!(store.renew().await.expect("a renewal does not fail"), ["r1"], "it names what was lost");
    assert_eq!(store.events("r1").await.expect("events").len(), 1);
    assert_eq!(store.item("repo-1", "fix", "issue-7").await.expect("item"), None);
}

pub(crate) async fn round_of_a_living_process_is_refused_to_others_by_name(place: Place) {
    let (one, other) = (place.own().await, place.own().await);
    one.append(with(batch("r1", 0, "started"), [lease("r1")])).await.expect("append");
    let take = || loopwright::store::StoreBatch::of_rows(5, vec![lease("r1")]);
    let StoreErrorKind::Held(found) = kind(other.append(take()).await) else { panic!("two processes hold one round") };
    let process = found.process.as_ref().expect("a process");
    assert_eq!((found.name.as_str(), process.pid), ("r1", i64::from(std::process::id())));
    let wanted =
        format!("round r1 of `fix` is under way in process {} on {} since 2023-11-14", process.pid, process.host);
    assert!(found.to_string().starts_with(&wanted), "{found}");
    let fenced = StoreErrorKind::Fenced { name: "r1".into(), ours: 0, found: 1 };
    assert_eq!(kind(other.append(batch("r1", 1, "made")).await), fenced, "without a lease nothing is written");
    one.append(batch("r1", 1, "made")).await.expect("the first one still writes");
    one.close().await.expect("close");
    other.append(take()).await.expect("a closed process holds nothing");
    assert_eq!(other.leases().await.expect("leases")[0].fence, 2);
    other.append(batch("r1", 2, "more")).await.expect("append");
}

pub(crate) async fn several_processes_write_side_by_side(place: Place) {
    let (one, other) = (place.own().await, place.own().await);
    for index in 0..5 {
        for (store, round) in [(&one, "r1"), (&other, "r2")] {
            let changes = (index == 0).then(|| lease_of(round, round, &[]));
            store.append(with(batch(round, index, "step"), changes)).await.expect("append");
        }
    }
    let tail: Vec<_> = one.tail(0, 99).await.expect("tail").into_iter().map(|event| (event.seq, event.round)).collect();
    let wanted: Vec<_> = (1..=10).map(|seq| (seq, if seq % 2 == 1 { "r1" } else { "r2" }.to_owned())).collect();
    assert_eq!(tail, wanted, "one order over all of them");
    assert!(other.verify().await.expect("verify").is_ok());
    assert_eq!(one.others().await.expect("others").len(), 1);
}

pub(crate) async fn second_round_of_a_loop_or_lock_is_refused_between_processes(place: Place) {
    let (one, other) = (place.own().await, place.own().await);
    one.append(with(batch("r1", 0, "started"), [lease_of("r1", "fix", &["path:src/"])])).await.expect("append");
    let birth =
        |round: &str, name: &str, lock: &str| with(batch(round, 0, "started"), [lease_of(round, name, &[lock])]);
    let StoreErrorKind::Occupied(why) = kind(other.append(birth("r2", "fix", "issue:1")).await) else {
        panic!("twice")
    };
    let pid = std::process::id();
    assert!(why.starts_with(&format!("round r1 of it is under way in process {pid} on ")), "{why}");
    let StoreErrorKind::Occupied(why) = kind(other.append(birth("r2", "docs", "path:src/a.rs")).await) else {
        panic!("both have the lock")
    };
    assert!(why.contains("`path:src/`, which is held by round r1 of `fix`") && why.contains("in process"), "{why}");
    assert_eq!(other.events("r2").await.expect("events"), [], "nothing of it was stored");
    other.append(birth("r2", "docs", "path:docs/")).await.expect("nothing conflicts with it");
    let mut row = round("r1", 1);
    (row.phase, row.outcome) = (RoundPhase::Waiting, Some(RoundOutcome::Escalated));
    one.append(with(batch("r1", 1, "asked"), [RowChange::Round(row), RowChange::LeaseEnd]))
        .await
        .expect("it comes to rest");
    assert_eq!(one.leases().await.expect("leases").len(), 1, "a round at rest has no lease");
    other.append(birth("r3", "fix", "path:src/a.rs")).await.expect("the slot and the lock are free");
    let fenced = StoreErrorKind::Fenced { name: "r1".into(), ours: 0, found: 1 };
    assert_eq!(kind(one.append(batch("r1", 2, "approved")).await), fenced, "it must be taken again first");
}

pub(crate) async fn one_process_schedules_and_is_fenced_when_another_does(place: Place) {
    let (one, other) = (place.own().await, place.own().await);
    let dispatcher = || {
        let (repo, loop_name) = (String::new(), String::new());
        let needs = loopwright::store::LeaseNeeds::Nothing;
        let request = loopwright::store::LeaseRequest { name: DISPATCHER.into(), repo, loop_name, needs };
        loopwright::store::StoreBatch::of_rows(1, vec![RowChange::Lease(request)])
    };
    let mark = || loopwright::store::StoreBatch::of_rows(1, vec![RowChange::Schedule(schedule("fix", 9))]);
    other.append(mark()).await.expect("nobody schedules");
    one.append(dispatcher()).await.expect("the first");
    let refused = kind(other.append(dispatcher()).await);
    assert!(refused.to_string().starts_with("loops are scheduled by process"), "{refused}");
    assert!(matches!(kind(other.append(mark()).await), StoreErrorKind::Held(_)), "only that process may write");
    one.append(mark()).await.expect("it schedules");
    place.tamper("UPDATE leases SET fence = fence + 1 WHERE name = 'dispatcher'").await.expect("another one schedules");
    let fenced = StoreErrorKind::Fenced { name: DISPATCHER.into(), ours: 1, found: 2 };
    assert_eq!(kind(one.append(mark()).await), fenced);
    one.append(batch("r1", 0, "started")).await.expect("a round is not the schedule");
}

pub(crate) async fn loop_is_renamed_only_while_nothing_writes_about_it(place: Place) {
    use loopwright::store::{LeaseNeeds, LeaseRequest, StoreBatch};
    let (one, other) = (place.own().await, place.own().await);
    let rename = |from: &str, to: &str| {
        let (repo, from, to) = ("repo-1".to_owned(), from.to_owned(), to.to_owned());
        StoreBatch::of_rows(1, vec![RowChange::LoopRenamed { repo, from, to }])
    };
    let dispatcher = |name: &str| LeaseRequest {
        name: name.into(),
        repo: String::new(),
        loop_name: String::new(),
        needs: LeaseNeeds::Nothing,
    };
    // A round is under way, then open, then over; its loop is the one before or the one after.
    one.append(with(batch("r1", 0, "started"), [lease("r1"), RowChange::Round(round("r1", 1))]))
        .await
        .expect("a start");
    for (from, to) in [("fix", "mend"), ("mend", "fix")] {
        let refused = kind(other.append(rename(from, to)).await);
        assert!(refused.to_string().contains("round r1 of `fix`"), "{refused}");
    }
    one.append(with(batch("r1", 1, "left"), [RowChange::LeaseEnd])).await.expect("no process runs it");
    let refused = kind(other.append(rename("fix", "mend")).await);
    assert!(refused.to_string().contains("round r1 of `fix` is not over"), "{refused}");
    let mut over = round("r1", 1);
    (over.phase, over.outcome, over.ended_ms) = (RoundPhase::Ended, Some(RoundOutcome::Reported), Some(2));
    one.append(StoreBatch::of_rows(1, vec![RowChange::Round(over)])).await.expect("it is over");
    one.append(StoreBatch::of_rows(1, vec![RowChange::Lease(dispatcher(DISPATCHER))])).await.expect("a daemon");
    let refused = kind(other.append(rename("fix", "mend")).await);
    assert!(refused.to_string().contains("loops are scheduled by process"), "{refused}");
    one.close().await.expect("the daemon ends");
    other.append(rename("fix", "mend")).await.expect("nothing writes about it");
    assert_eq!(other.round("r1").await.expect("a query").expect("the round").loop_name, "mend");
}

pub(crate) async fn unknown_word_in_a_column_is_damage(place: Place) {
    let store = place.own().await;
    store.append(with(batch("r1", 0, "started"), [RowChange::Round(round("r1", 1))])).await.expect("append");
    place.tamper("UPDATE rounds SET phase = 'dreaming'").await.expect("a word");
    let refused = kind(store.round("r1").await);
    assert!(matches!(&refused, StoreErrorKind::Corrupt(why) if why.contains("phase `dreaming`")), "{refused}");
}

pub(crate) async fn unknown_word_of_any_typed_column_is_damage_and_never_read_as_another_one(place: Place) {
    let store = place.own().await;
    let of_round = [RowChange::Round(round("r1", 1)), RowChange::Outbox(outbox("o1", "r1", 0, OutboxState::Staged))];
    store.append(with(batch("r1", 0, "started"), of_round)).await.expect("append");
    let others =
        vec![RowChange::Receipt(receipt("due:a", 5, "missed")), RowChange::LevelLog(super::autonomy::promoted("p", 5))];
    store.append(StoreBatch::of_rows(5, others)).await.expect("rows");
    place.tamper("UPDATE outbox SET kind = 'telegram'").await.expect("a word");
    place.tamper("UPDATE receipts SET receipt = 'dreamt'").await.expect("a word");
    place.tamper("UPDATE level_log SET level = 'L9'").await.expect("a word");
    place.tamper("UPDATE rounds SET level = 'L8'").await.expect("a word");
    let query = ReceiptsQuery { repo: "repo-1".into(), loop_name: "fix".into(), before: None, limit: 9 };
    let refused = [
        ("kind of an item `telegram`", store.outbox("r1").await.err()),
        ("receipt of an occurrence `dreamt`", store.receipts(query).await.err()),
        ("level `L9`", store.level_log("repo-1", "fix").await.err()),
        ("level `L8`", store.round("r1").await.err()),
    ];
    for (words, refused) in refused {
        let refused = refused.unwrap_or_else(|| panic!("{words} was read")).kind;
        assert!(matches!(&refused, StoreErrorKind::Corrupt(why) if why.contains(words)), "{words}: {refused}");
    }
}

pub(crate) async fn closed_store_can_be_opened_again(place: Place) {
    let store = place.own().await;
    store.append(with(batch("r1", 0, "started"), [lease("r1")])).await.expect("append");
    store.close().await.expect("close");
    assert_eq!(kind(store.append(batch("r1", 1, "made")).await), StoreErrorKind::Closed);
    let next = place.own().await;
    assert_eq!(next.leases().await.expect("leases").len(), 0, "all leases were released");
    assert_eq!(next.append(with(batch("r1", 1, "made"), [lease("r1")])).await.expect("append"), 2);
}

pub(crate) async fn occurrence_starts_at_most_one_round(place: Place) {
    let store = place.own().await;
    let due = |id| {
        let mut row = round(id, 1);
        row.occurrence = "schedule:2026-05-01T00:00:00Z".into();
        with(batch(id, 0, "started"), [RowChange::Round(row)])
    };
    store.append(due("r1")).await.expect("append");
    assert_eq!(kind(store.append(due("r2")).await), StoreErrorKind::Occurrence { round: "r1".into() });
    assert_eq!(store.events("r2").await.expect("events"), []);
}

pub(crate) async fn reservation_over_the_ceiling_rolls_the_whole_batch_back(place: Place) {
    let store = place.own().await;
    store.append(with(batch("r1", 0, "started"), [reserve(60, 100)])).await.expect("append");
    let refused = kind(store.append(with(batch("r1", 1, "made"), [reserve(41, 100)])).await);
    assert!(matches!(refused, StoreErrorKind::OverCeiling { wanted: 101, ceiling: 100, .. }), "{refused:?}");
    assert_eq!(store.events("r1").await.expect("events").len(), 1);
    store.append(with(batch("r1", 1, "made"), [reserve(40, 100)])).await.expect("just under");
    let spend = store.spend(SpendScope::Fleet, "", "", "2026-05-01").await.expect("spend");
    assert_eq!((spend.reserved_micros, spend.reserved_tokens), (100, 2));
    let other_day = store.spend(SpendScope::Loop, "repo-1", "fix", "2026-05-02").await.expect("spend");
    assert_eq!(other_day.reserved_micros, 0);
}

pub(crate) async fn twenty_reservations_at_once_never_exceed_the_ceiling(place: Place) {
    let store = Arc::new(place.own().await);
    let tries: Vec<_> = (0..20)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(
                async move { store.append(with(batch(&format!("r{n}"), 0, "started"), [reserve(10, 75)])).await },
            )
        })
        .collect();
    let mut won = 0;
    for one in tries {
        won += i64::from(one.await.expect("no panic").is_ok());
    }
    let spend = store.spend(SpendScope::Loop, "repo-1", "fix", "2026-05-01").await.expect("spend");
    assert_eq!((won, spend.reserved_micros), (7, 70));
}

pub(crate) async fn question_is_answered_once(place: Place) {
    let store = place.own().await;
    let asked = [RowChange::Round(round("r1", 1)), RowChange::Inbox(question("q1", "r1"))];
    store.append(with(batch("r1", 0, "asked"), asked)).await.expect("append");
    let answer = |index| with(batch("r1", index, "approved"), [RowChange::InboxClosed { id: "q1".into() }]);
    store.append(answer(1)).await.expect("append");
    assert!(matches!(kind(store.append(answer(2)).await), StoreErrorKind::Conflict(_)));
    assert_eq!(store.inbox(9).await.expect("inbox"), []);
    let closed = store.inbox_item("q1").await.expect("inbox").expect("it is on record");
    assert_eq!(closed.closed_ms, Some(1001));
}

pub(crate) async fn rounds_come_in_pages_newest_first(place: Place) {
    let store = place.own().await;
    for n in 0..7 {
        let mut row = round(&format!("r{n}"), n / 2);
        row.loop_name = if n == 6 { "other".into() } else { "fix".into() };
        row.ended_ms = (n != 3).then_some(9);
        store.append(with(batch(&row.id.clone(), 0, "started"), [RowChange::Round(row)])).await.expect("append");
    }
    let query = |query| ids(&store, query);
    let base = || RoundsQuery { limit: 4, ..RoundsQuery::default() };
    assert_eq!(query(base()).await, ["r6", "r5", "r4", "r3"]);
    assert_eq!(query(RoundsQuery { before: Some((1, "r3".into())), ..base() }).await, ["r2", "r1", "r0"]);
    assert_eq!(query(RoundsQuery { loop_name: Some("other".into()), ..base() }).await, ["r6"]);
    let of_repo = RoundsQuery { repo: Some("repo-1".into()), before: Some((0, "r1".into())), ..base() };
    assert_eq!(query(of_repo).await, ["r0"]);
    assert_eq!(query(RoundsQuery { which: RoundsFilter::Open, ..base() }).await, ["r3"]);
    assert_eq!(query(RoundsQuery { repo: Some("repo-2".into()), ..base() }).await, [""; 0]);
    assert_eq!(query(RoundsQuery { offset: 5, ..base() }).await, ["r1", "r0"]);
    assert_eq!(query(RoundsQuery { offset: 7, ..base() }).await, [""; 0], "beyond the last page");
    assert_eq!(store.count_rounds(&RoundsQuery { offset: 5, ..base() }).await.expect("a count"), 7, "of all pages");
    let fix = RoundsQuery { loop_name: Some("fix".into()), ..base() };
    assert_eq!(store.count_rounds(&fix).await.expect("a count"), 6);
}

async fn ids(store: &Store, query: RoundsQuery) -> Vec<String> {
    store.rounds(query).await.expect("rounds").into_iter().map(|row| row.id).collect()
}

pub(crate) async fn round_ids_are_found_by_prefix(place: Place) {
    let store = place.own().await;
    for id in ["Ab1", "ab1", "ab2", "ac1", "b"] {
        store.append(with(batch(id, 0, "started"), [RowChange::Round(round(id, 1))])).await.expect("append");
    }
    for n in 0..12 {
        let id = format!("z{n:02}");
        store.append(with(batch(&id, 0, "started"), [RowChange::Round(round(&id, 1))])).await.expect("append");
    }
    assert_eq!(store.rounds_like("ab").await.expect("ids"), ["ab1", "ab2"]);
    assert_eq!(store.rounds_like("a%").await.expect("ids"), [""; 0]);
    assert_eq!(store.rounds_like("z").await.expect("ids").len(), 10);
    assert_eq!(store.rounds_like("").await.expect("ids").len(), 10);
}

pub(crate) async fn fresh_chain_verifies_while_the_owner_writes(place: Place) {
    let store = place.own().await;
    assert!(store.verify().await.expect("verify an empty journal").is_ok());
    let many = (0..300).map(|_| event("step")).collect();
    store.append(loopwright::store::StoreBatch { events: many, ..batch("r1", 0, "") }).await.expect("append");
    let reader = place.read().await;
    let (report, appended) = tokio::join!(reader.verify(), store.append(batch("r1", 300, "more")));
    appended.expect("append");
    let report = report.expect("verify");
    assert!(report.is_ok() && report.events >= 300, "{report:?}");
    assert_eq!(reader.events("r1").await.expect("events").len(), 301);
    store.close().await.expect("close");
    // Opening checks the last 64 links, which here do not reach the beginning.
    place.own().await;
}

pub(crate) async fn events_can_not_be_changed_or_deleted(place: Place) {
    let store = place.own().await;
    store.append(batch("r1", 0, "started")).await.expect("append");
    for sql in ["UPDATE events SET body = '{}'", "DELETE FROM events"] {
        let refused = place.tamper(sql).await.expect_err("the journal only grows");
        assert!(refused.to_string().contains("append-only"), "{refused}");
    }
}

/// Three rounds with two events each.
async fn six_events(place: &Place) {
    let store = place.own().await;
    for (round, index) in [("r1", 0), ("r2", 0), ("r3", 0), ("r1", 1), ("r2", 1), ("r3", 1)] {
        store.append(batch(round, index, "step")).await.expect("append");
    }
    store.close().await.expect("close");
}

pub(crate) async fn manually_edited_event_is_found_with_its_round(place: Place) {
    six_events(&place).await;
    place.tamper_with_events("UPDATE events SET body = '{\"forged\":1}' WHERE seq = 5").await;
    let report = place.read().await.verify().await.expect("verify");
    let broken = report.broken.expect("a flaw");
    assert_eq!((broken.seq, broken.round.as_deref(), report.events), (Some(5), Some("r2"), 4));
    let Err(refused) = place.try_own(Duration::ZERO).await else { panic!("a forged journal was accepted") };
    assert!(matches!(refused.kind, StoreErrorKind::Corrupt(_)) && refused.to_string().contains("`r2`"), "{refused}");
}

pub(crate) async fn manually_deleted_event_is_found(place: Place) {
    six_events(&place).await;
    place.tamper_with_events("DELETE FROM events WHERE seq = 2").await;
    let broken = place.read().await.verify().await.expect("verify").broken.expect("a flaw");
    assert_eq!(broken.why, "event 2 is missing");
}

/// Removes a whole round without a trace, and renumbers the others.
pub(crate) async fn manually_removed_round_is_found(place: Place) {
    six_events(&place).await;
    place.tamper_with_events("DELETE FROM events WHERE round = 'r3'").await;
    place.tamper_with_events("UPDATE events SET seq = seq - 1 WHERE seq > 3").await;
    place.tamper("UPDATE journal SET seq = 4").await.expect("a shorter journal");
    assert!(place.read().await.verify().await.expect("verify").broken.is_some());
}

pub(crate) async fn manually_cut_tail_of_a_round_is_found_by_its_checkpoint(place: Place) {
    let store = place.own().await;
    store.append(batch("r1", 0, "started")).await.expect("append");
    let mut row = round("r1", 1);
    (row.phase, row.ended_ms, row.outcome) = (RoundPhase::Ended, Some(2), Some(RoundOutcome::Shipped));
    store.append(with(batch("r1", 1, "ended"), [RowChange::Round(row), RowChange::LeaseEnd])).await.expect("append");
    store.close().await.expect("close");
    place.tamper_with_events("DELETE FROM events WHERE seq = 2").await;
    place.tamper("UPDATE journal SET seq = 1").await.expect("a shorter journal");
    let broken = place.read().await.verify().await.expect("verify").broken.expect("a flaw");
    assert_eq!(broken.why, "the round had 2 events at checkpoint 2, and has fewer");
    assert_eq!(broken.round.as_deref(), Some("r1"));
    let Err(refused) = place.try_own(Duration::ZERO).await else { panic!("a cut journal was accepted") };
    assert!(matches!(refused.kind, StoreErrorKind::Corrupt(_)), "{refused}");
}

pub(crate) async fn manually_changed_or_cut_checkpoint_is_found(place: Place) {
    six_events(&place).await;
    let why = async || place.read().await.verify().await.expect("verify").broken.expect("a flaw").why;
    place.tamper_with_checkpoints("UPDATE checkpoints SET events = 2 WHERE number = 2").await;
    assert_eq!(why().await, "checkpoint 2 does not match its hash");
    place.tamper_with_checkpoints("UPDATE checkpoints SET events = 1 WHERE number = 2").await;
    assert!(place.read().await.verify().await.expect("verify").is_ok(), "it is as it was");
    place.tamper_with_checkpoints("DELETE FROM checkpoints WHERE number = 3").await;
    assert!(why().await.starts_with("the checkpoints end at 2"), "{}", why().await);
}

pub(crate) async fn manually_added_event_is_found(place: Place) {
    six_events(&place).await;
    let forged = "INSERT INTO events VALUES (7, 'r1', 2, 1, 'approved', '{}', 'abc')";
    place.tamper(forged).await.expect("an event that bypasses the store");
    assert!(place.read().await.verify().await.expect("verify").broken.is_some());
    let Err(refused) = place.try_own(Duration::ZERO).await else { panic!("a forged journal was accepted") };
    assert!(matches!(refused.kind, StoreErrorKind::Corrupt(_)), "{refused}");
}

pub(crate) async fn event_removed_from_the_end_is_found(place: Place) {
    six_events(&place).await;
    place.tamper_with_events("DELETE FROM events WHERE seq = 6").await;
    assert!(place.read().await.verify().await.expect("verify").broken.is_some());
    let Err(refused) = place.try_own(Duration::ZERO).await else { panic!("a cut journal was accepted") };
    assert!(matches!(refused.kind, StoreErrorKind::Corrupt(_)), "{refused}");
}

pub(crate) async fn newer_schema_is_refused(place: Place) {
    six_events(&place).await;
    place.tamper("UPDATE meta SET schema_version = 99").await.expect("a newer loopwright");
    for answer in [place.try_own(Duration::ZERO).await, place.open(StoreMode::Read).await] {
        let Err(refused) = answer else { panic!("a newer store was opened") };
        assert_eq!(refused.kind, StoreErrorKind::Newer { found: 99, known: 15 });
    }
}

pub(crate) async fn reader_of_a_missing_store_gets_an_error(place: Place) {
    let Err(refused) = place.open(StoreMode::Read).await else { panic!("there is nothing to read") };
    assert_eq!(refused.kind, StoreErrorKind::Missing);
    place.own().await;
    place.read().await;
}

pub(crate) async fn reader_can_not_write(place: Place) {
    let owner = place.own().await;
    let reader = place.read().await;
    assert_eq!(kind(reader.append(batch("r1", 0, "started")).await), StoreErrorKind::ReadOnly);
    assert_eq!(kind(reader.renew().await), StoreErrorKind::ReadOnly);
    reader.close().await.expect("close");
    owner.append(batch("r1", 0, "started")).await.expect("closing a reader releases nothing of the owner");
}

pub(crate) async fn text_that_one_database_can_not_hold_is_refused_by_both(place: Place) {
    let store = place.own().await;
    let mut zero = batch("r1", 0, "started");
    zero.events[0].body = "a\0b".into();
    assert!(matches!(kind(store.append(zero).await), StoreErrorKind::Invalid(_)));
    store.append(batch("r1", 0, "started")).await.expect("append");
}

pub(crate) async fn batch_over_a_limit_is_refused(place: Place) {
    let store = place.own().await;
    let large = NewEvent { kind: "x".into(), body: "x".repeat((1 << 20) + 1) };
    let body = loopwright::store::StoreBatch { events: vec![large], ..batch("r1", 0, "") };
    let many = loopwright::store::StoreBatch { events: vec![event("x"); 10_001], ..batch("r1", 0, "") };
    let long = batch("r1", 100_000, "x");
    let dear = with(batch("r1", 0, "x"), [reserve(i64::MAX, i64::MAX)]);
    for batch in [body, many, long, dear] {
        assert!(matches!(kind(store.append(batch).await), StoreErrorKind::Invalid(_)));
    }
}

pub(crate) async fn item_without_its_round_is_refused(place: Place) {
    let store = place.own().await;
    let stray = with(batch("r1", 0, "started"), [RowChange::Outbox(outbox("o1", "none", 0, OutboxState::Staged))]);
    assert!(matches!(kind(store.append(stray).await), StoreErrorKind::Invalid(_)));
    assert_eq!(store.append(batch("r1", 0, "started")).await.expect("the store is usable"), 1);
}

pub(crate) async fn dropped_append_leaves_the_store_usable(place: Place) {
    let store = place.own().await;
    for n in 0..10 {
        let mut append = Box::pin(store.append(batch(&format!("r{n}"), 0, "started")));
        for _ in 0..n {
            // Polls the future a few times and drops it at that point.
            let once = std::future::poll_fn(|cx| std::task::Poll::Ready(append.as_mut().poll(cx).is_ready()));
            if once.await {
                append = Box::pin(store.append(batch(&format!("again{n}"), 0, "started")));
            }
            tokio::task::yield_now().await;
        }
        drop(append);
    }
    store.append(batch("last", 0, "started")).await.expect("append");
    assert!(store.verify().await.expect("verify").is_ok());
}

pub(crate) async fn every_scope_has_its_own_ceiling_and_names_it(place: Place) {
    let store = place.own().await;
    let wanted = |loop_name: &str, day: &str, scope: SpendScope, most: i64| {
        RowChange::Reserve(ReservationChange {
            loop_name: loop_name.into(),
            day: day.into(),
            loop_day: day.into(),
            ceilings: vec![SpendCeiling { scope, micros: Some(most), tokens: None }],
            item: Some("issue-7".into()),
            ..reserved(40)
        })
    };
    let days = [("fix", "2026-05-01"), ("fix", "2026-05-31"), ("other", "2026-05-31"), ("fix", "2026-06-01")];
    for (n, (loop_name, day)) in days.into_iter().enumerate() {
        let change = wanted(loop_name, day, SpendScope::Fleet, 1_000);
        store.append(with(batch(&format!("r{n}"), 0, "started"), [change])).await.expect("append");
    }
    // The sums of the day, the repository, the day of all, the month and the item with 40 more.
    let table = [
        (SpendScope::Loop, "fix", "2026-05-31", 80),
        (SpendScope::Repo, "fix", "2026-05-31", 120),
        (SpendScope::Fleet, "fix", "2026-05-31", 120),
        (SpendScope::Month, "fix", "2026-05-31", 160),
        (SpendScope::Month, "fix", "2026-06-30", 80),
        (SpendScope::Item, "fix", "2026-07-01", 160),
        (SpendScope::Item, "other", "2026-07-01", 80),
    ];
    for (scope, loop_name, day, sum) in table {
        let over = with(batch("r9", 0, "started"), [wanted(loop_name, day, scope, sum - 1)]);
        let refused = kind(store.append(over).await);
        let StoreErrorKind::OverCeiling { wanted, full, spend, .. } = refused else { panic!("{scope:?}: {refused:?}") };
        assert_eq!((wanted, full.scope, spend.reserved_micros), (sum, scope, sum - 40), "{scope:?} on {day}");
    }
    let month = store.spend(SpendScope::Month, "", "", "2026-05-09").await.expect("spend");
    assert_eq!(month.reserved_micros, 120);
    assert_eq!(store.item_spend("repo-1", "fix", "issue-7").await.expect("spend").reserved_micros, 120);
}

pub(crate) async fn raise_counts_for_its_day_or_its_round_only(place: Place) {
    let store = place.own().await;
    let raise = |id: &str, round: Option<&str>| {
        RowChange::Raise(RaiseRow {
            id: id.into(),
            at_ms: 1,
            actor: "ada".into(),
            repo: "repo-1".into(),
            loop_name: "fix".into(),
            day: "2026-05-01".into(),
            round: round.map(Into::into),
            micros: 25,
            tokens: 5,
        })
    };
    let wanted = |day: &str, round: &str, micros: i64| {
        let ceilings = vec![SpendCeiling { scope: SpendScope::Loop, micros: Some(100), tokens: Some(1_000) }];
        RowChange::Reserve(ReservationChange {
            loop_day: day.into(),
            round: round.into(),
            ceilings,
            ..reserved(micros)
        })
    };
    let fits = async |n: i64, day: &str, round: &str, micros: i64| {
        let tried = with(batch("try", n, "started"), [wanted(day, round, micros)]);
        let tried = store.append(tried).await;
        tried.is_ok()
    };
    assert!(!fits(0, "2026-05-01", "r1", 101).await);
    store.append(with(batch("raise-1", 0, "raised"), [raise("a", None)])).await.expect("raise the day");
    assert!(!fits(0, "2026-05-02", "r1", 101).await, "another day is as it was");
    assert!(fits(0, "2026-05-01", "r1", 125).await);
    store.append(with(batch("raise-2", 0, "raised"), [raise("b", Some("r1"))])).await.expect("raise the round");
    assert!(!fits(1, "2026-05-01", "r2", 1).await, "another round is as it was");
    assert!(fits(1, "2026-05-01", "r1", 25).await);
    assert_eq!(store.raised("repo-1", "fix", "2026-05-01", "r1").await.expect("raised"), (50, 10));
    assert_eq!(store.raised("repo-1", "fix", "2026-05-01", "r2").await.expect("raised"), (25, 5));
    assert_eq!(store.raises("2026-05-01").await.expect("raises").len(), 2);
    let twice = kind(store.append(with(batch("raise-3", 0, "raised"), [raise("a", None)])).await);
    assert!(matches!(twice, StoreErrorKind::Invalid(_)), "{twice:?}");
}

/// A line of the ledger with its related rows.
fn spent(round_id: &str, start: i64, model: &str, micros: i64) -> Vec<RowChange> {
    let line = ledger(round_id, start, model, micros);
    let day = SpendChange {
        day: line.day.clone(),
        repo: line.repo.clone(),
        loop_name: line.loop_name.clone(),
        reserved_micros: 0,
        settled_micros: micros,
        reserved_tokens: 0,
        settled_tokens: line.input,
    };
    let own = LoopSpend {
        day: line.day.clone(),
        repo: line.repo.clone(),
        loop_name: line.loop_name.clone(),
        settled_micros: micros,
        settled_tokens: line.input,
        ..LoopSpend::default()
    };
    vec![RowChange::Ledger(line), RowChange::Spend(day), RowChange::LoopSpend(own)]
}

pub(crate) async fn costs_are_summed_by_group_with_accepted_rounds(place: Place) {
    let store = place.own().await;
    for (n, (outcome, models)) in
        [("shipped", vec![("opus", 70), ("haiku", 5)]), ("rejected", vec![("opus", 20)])].into_iter().enumerate()
    {
        let id = format!("r{n}");
        let micros = models.iter().map(|(_, micros)| micros).sum();
        let tokens = 10 * models.len() as i64;
        let row = RoundRow {
            outcome: RoundOutcome::parse(outcome),
            spend_micros: micros,
            spend_tokens: tokens,
            ..round(&id, 1)
        };
        let mut changes = vec![RowChange::Round(row)];
        models.iter().for_each(|(model, micros)| changes.extend(spent(&id, 0, model, *micros)));
        store.append(with(batch(&id, 0, "made"), changes)).await.expect("append");
    }
    let query = |by| CostsQuery {
        by,
        since: None,
        repo: None,
        loop_name: Some("fix".into()),
        accepted: vec!["shipped".into(), "reported".into()],
        limit: 9,
    };
    let rows = async |query| {
        let rows = store.costs(query).await.expect("costs");
        rows.into_iter()
            .map(|row| (row.key, row.rounds, row.accepted, row.micros, row.unknown_micros))
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(query(CostsBy::Model)).await, [("opus".into(), 2, 1, 90, 0), ("haiku".into(), 1, 1, 5, 0)]);
    assert_eq!(rows(query(CostsBy::Loop)).await, [("fix".to_owned(), 2, 1, 95, 0)]);
    assert_eq!(rows(query(CostsBy::All)).await, [(String::new(), 2, 1, 95, 0)]);
    let later = CostsQuery { since: Some("2026-05-02".into()), ..query(CostsBy::All) };
    assert_eq!(rows(later).await, []);
    assert_eq!(store.ledger("r0").await.expect("ledger").len(), 2);
    assert!(store.verify().await.expect("verify").is_ok());
    // The same line twice is a mistake of the writer, not more money.
    let again = kind(store.append(with(batch("r0", 1, "made"), spent("r0", 0, "opus", 70))).await);
    assert!(matches!(again, StoreErrorKind::Invalid(_)), "{again:?}");
}

pub(crate) async fn money_that_does_not_add_up_is_found(place: Place) {
    let store = place.own().await;
    let row = RoundRow { spend_micros: 70, spend_tokens: 10, ..round("r1", 1) };
    let mut changes = vec![RowChange::Round(row)];
    changes.extend(spent("r1", 0, "opus", 70));
    store.append(with(batch("r1", 0, "made"), changes)).await.expect("append");
    store.close().await.expect("close");
    let flaw = async || place.read().await.verify().await.expect("verify").broken;
    assert_eq!(flaw().await, None);
    place.tamper("UPDATE ledger SET micros = micros - 1").await.expect("a cheaper line");
    assert_eq!(flaw().await.expect("a flaw").round.as_deref(), Some("r1"));
    place.tamper("UPDATE rounds SET spend_micros = spend_micros - 1").await.expect("a cheaper round");
    let why = flaw().await.expect("a flaw").why;
    assert!(why.contains("the days to 70 and 10"), "{why}");
    place.tamper("UPDATE spend SET settled_micros = settled_micros - 1").await.expect("a cheaper day");
    let why = flaw().await.expect("a flaw").why;
    assert!(why.contains("the days of loops to 70 and 10"), "{why}");
    place.tamper("UPDATE loop_spend SET settled_micros = settled_micros - 1").await.expect("a cheaper day of the loop");
    assert_eq!(flaw().await, None, "a ledger that was forged everywhere adds up; the journal still has the truth");
}
