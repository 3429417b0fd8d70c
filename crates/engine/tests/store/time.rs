//! Cases about time in which both databases must behave alike: schedules, receipts, signals, flags and memory.

use loopwright::store::{
    AgedRows, CLOCK_AHEAD, CLOCK_TAKEN, FlagRow, InboxRow, LoopFileRow, ReceiptRow, ReceiptsQuery, RetentionCutoff,
    RoundRow, RowChange, ScheduleRow, SignalRow, StoreBatch, StoreError, StoreErrorKind,
};

use super::place::Place;
use super::rows::*;

fn rows(changes: impl IntoIterator<Item = RowChange>) -> StoreBatch {
    StoreBatch::of_rows(7, changes.into_iter().collect())
}

fn is_conflict<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> bool {
    matches!(answer.expect_err("the store must refuse").kind, StoreErrorKind::Conflict(_))
}

fn of_fix(before: Option<(i64, String)>, limit: u32) -> ReceiptsQuery {
    ReceiptsQuery { repo: "repo-1".into(), loop_name: "fix".into(), before, limit }
}

pub(crate) async fn loop_file_texts_are_replaced_and_removed(place: Place) {
    let store = place.own().await;
    let row = |file: &str, text: Option<&str>| LoopFileRow {
        repo: "repo-1".into(),
        file: file.into(),
        text: text.map(Into::into),
    };
    let many: Vec<_> = (0..100).map(|n| row(&format!("{n:03}.md"), Some("first"))).collect();
    store.append(rows(many.iter().cloned().map(RowChange::LoopFile))).await.expect("append");
    assert_eq!(store.loop_files("repo-1", None).await.expect("all"), many);
    assert_eq!(store.loop_files("repo-2", None).await.expect("none"), []);
    let edits = [row("001.md", Some("second")), row("002.md", None), row("none.md", None)];
    store.append(rows(edits.map(RowChange::LoopFile))).await.expect("append");
    assert_eq!(store.loop_files("repo-1", Some("001.md")).await.expect("one"), [row("001.md", Some("second"))]);
    assert_eq!(store.loop_files("repo-1", Some("002.md")).await.expect("removed"), []);
    assert_eq!(store.loop_files("repo-1", None).await.expect("all").len(), 99);
}

pub(crate) async fn rows_of_time_are_read_again(place: Place) {
    let store = place.own().await;
    let mut paused = schedule("fix", 10);
    (paused.paused_ms, paused.paused_by, paused.paused_why) = (Some(3), Some("ada".into()), Some("flaky".into()));
    (paused.wait_until_ms, paused.wait_why, paused.signature) = (Some(99), Some("limit".into()), Some("s".into()));
    let changes = [
        RowChange::Schedule(paused.clone()),
        RowChange::Receipt(receipt("due:a", 5, "quiet")),
        RowChange::Signal(signal("webhook:gh:1", 4)),
        RowChange::Flag(flag("look")),
        RowChange::Memory(memory("port", 6, Some(60))),
    ];
    store.append(with(batch("pause-1", 0, "paused"), changes)).await.expect("append");
    assert_eq!(store.schedule("repo-1", "fix").await.expect("one"), Some(paused.clone()));
    assert_eq!(store.schedule("repo-1", "none").await.expect("none"), None);
    assert_eq!(store.schedules().await.expect("all"), [paused]);
    assert_eq!(store.receipts(of_fix(None, 9)).await.expect("receipts"), [receipt("due:a", 5, "quiet")]);
    assert_eq!(store.receipt("repo-1", "fix", "due:a").await.expect("one"), Some(receipt("due:a", 5, "quiet")));
    assert_eq!(store.receipt("repo-1", "fix", "due:b").await.expect("none"), None);
    assert_eq!(store.pending_signals(9).await.expect("signals"), [signal("webhook:gh:1", 4)]);
    assert_eq!(store.flags().await.expect("flags"), [flag("look")]);
    assert_eq!(store.memory("repo-1", "fix").await.expect("memory"), [memory("port", 6, Some(60))]);
    let later = [
        RowChange::Flag(flag("still")),
        RowChange::Memory(memory("port", 8, None)),
        RowChange::Memory(memory("later", 9, None)),
        RowChange::Schedule(schedule("fix", 11)),
    ];
    store.append(rows(later)).await.expect("append");
    assert_eq!(store.flags().await.expect("flags"), [flag("still")], "replaced");
    let memories = store.memory("repo-1", "fix").await.expect("memory");
    assert_eq!(memories, [memory("later", 9, None), memory("port", 8, None)], "latest first");
    assert_eq!(store.schedules().await.expect("all"), [schedule("fix", 11)]);
    store.append(rows([RowChange::FlagGone { name: "stop".into() }])).await.expect("append");
    store.append(rows([RowChange::FlagGone { name: "stop".into() }])).await.expect("it is gone already");
    assert_eq!(store.flags().await.expect("flags"), []);
}

pub(crate) async fn receipts_come_in_pages_newest_first(place: Place) {
    let store = place.own().await;
    let other = ReceiptRow { loop_name: "other".into(), ..receipt("due:x", 50, "missed") };
    // Two are due at one time: the key decides, by its bytes in every locale.
    let moments = [("due:a", 1), ("due:B", 2), ("due:a2", 2), ("due:d", 4)];
    let changes = moments.map(|(occurrence, due_ms)| RowChange::Receipt(receipt(occurrence, due_ms, "missed")));
    store.append(rows(changes.into_iter().chain([RowChange::Receipt(other)]))).await.expect("append");
    let mut before = None;
    let mut seen = Vec::new();
    loop {
        let page = store.receipts(of_fix(before.take(), 2)).await.expect("a page");
        let Some(last) = page.last() else { break };
        before = Some((last.due_ms, last.occurrence.clone()));
        seen.extend(page.into_iter().map(|row| row.occurrence));
    }
    assert_eq!(seen, ["due:d", "due:a2", "due:B", "due:a"]);
}

pub(crate) async fn occurrence_has_one_receipt(place: Place) {
    let store = place.own().await;
    store.append(rows([RowChange::Receipt(receipt("due:a", 5, "quiet"))])).await.expect("append");
    let again = [RowChange::Schedule(schedule("fix", 99)), RowChange::Receipt(receipt("due:a", 5, "started"))];
    assert!(is_conflict(store.append(rows(again)).await));
    let first = store.receipt("repo-1", "fix", "due:a").await.expect("one").expect("a receipt");
    assert_eq!(first.receipt.word(), "quiet", "the first receipt stays");
    assert_eq!(store.schedules().await.expect("none"), [], "and nothing of the batch was stored");
    // The same within one batch, alone and among many.
    let twice = |many: usize| {
        let fresh = (0..many).map(|n| RowChange::Receipt(receipt(&format!("due:{n}"), 6, "missed")));
        rows(fresh.chain([RowChange::Receipt(receipt("due:0", 6, "missed"))]))
    };
    for many in [1, 63, 64, 127] {
        assert!(is_conflict(store.append(twice(many)).await), "{many}");
    }
    let elsewhere = ReceiptRow { loop_name: "other".into(), ..receipt("due:a", 5, "missed") };
    store.append(rows([RowChange::Receipt(elsewhere)])).await.expect("another loop's occurrence is another one");
}

pub(crate) async fn signal_is_stored_once_and_taken_once(place: Place) {
    let store = place.own().await;
    store
        .append(rows([RowChange::NewSignal(signal("a", 4)), RowChange::NewSignal(signal("b", 3))]))
        .await
        .expect("append");
    let changed = SignalRow { title: Some("forged".into()), ..signal("a", 9) };
    store.append(rows([RowChange::Signal(changed.clone())])).await.expect("the same signal");
    assert!(is_conflict(store.append(rows([RowChange::NewSignal(changed)])).await));
    let pending = store.pending_signals(9).await.expect("pending");
    assert_eq!(pending, [signal("b", 3), signal("a", 4)], "oldest first, as they came first");
    assert_eq!(store.pending_signals(1).await.expect("pending"), [signal("b", 3)]);
    let birth = [RowChange::Round(round("r1", 1)), taken("b")];
    store.append(with(batch("r1", 0, "started"), birth)).await.expect("a round takes it");
    let again = with(batch("r2", 0, "started"), [RowChange::Round(round("r2", 1)), taken("b")]);
    assert!(is_conflict(store.append(again).await));
    assert!(is_conflict(store.append(rows([taken("unheard")])).await));
    assert_eq!(store.round("r2").await.expect("none"), None);
    assert_eq!(store.pending_signals(9).await.expect("pending"), [signal("a", 4)]);
    let kept = store.signal("repo-1", "fix", "b").await.expect("signal").expect("it is known");
    assert_eq!(kept.taken_ms, Some(1_000));
    store.append(rows([RowChange::NewSignal(signal("push:Main_1:x", 4))])).await.expect("append");
    for (prefix, is_there) in
        [("push:Main_1:", true), ("push:main_1:", false), ("push:Main%", false), ("push:MainX1:", false)]
    {
        assert_eq!(store.has_signal("repo-1", "fix", prefix).await.expect("read"), is_there, "{prefix}");
    }
    assert!(!store.has_signal("repo-1", "other", "push:").await.expect("read"));
    assert!(is_conflict(store.append(rows([RowChange::NewSignal(signal("b", 9))])).await), "taken is known too");
}

/// The schedule of the loop `fix`, paused.
fn paused(mark_ms: i64) -> ScheduleRow {
    let (paused_ms, paused_by, paused_why) = (Some(3), Some("ada".into()), Some("flaky".into()));
    ScheduleRow { paused_ms, paused_by, paused_why, streak: 2, ..schedule("fix", mark_ms) }
}

pub(crate) async fn start_raises_the_mark_and_undoes_no_pause(place: Place) {
    let store = place.own().await;
    let stands = async || store.schedule("repo-1", "fix").await.expect("read").expect("it has a schedule");
    store.append(rows([RowChange::Mark(schedule("fix", 10))])).await.expect("append");
    assert_eq!(stands().await, schedule("fix", 10), "a loop without a schedule gets the one of the start");
    // A pause that was stored after the start was decided, and then the start itself.
    store.append(rows([RowChange::Schedule(paused(10))])).await.expect("append");
    store.append(rows([RowChange::Mark(schedule("fix", 20))])).await.expect("append");
    assert_eq!(stands().await, paused(20));
    store.append(rows([RowChange::Mark(schedule("fix", 15))])).await.expect("append");
    assert_eq!(stands().await, paused(20), "a mark does not go back");
    let other = ScheduleRow { fingerprint: "f2".into(), ..schedule("fix", 30) };
    store.append(rows([RowChange::Mark(other)])).await.expect("append");
    assert_eq!(stands().await, paused(20), "the mark of another cadence is not moved");
}

pub(crate) async fn mark_goes_back_only_with_another_cadence(place: Place) {
    let store = place.own().await;
    let stands = async || store.schedule("repo-1", "fix").await.expect("read").expect("it has a schedule");
    store.append(rows([RowChange::Schedule(schedule("fix", 20))])).await.expect("append");
    // The start moved the mark, and the process that stores a pause does not know of it.
    store.append(rows([RowChange::Schedule(paused(10))])).await.expect("append");
    assert_eq!(stands().await, paused(20), "everything except the mark is replaced");
    store.append(rows([RowChange::Schedule(schedule("fix", 30))])).await.expect("append");
    assert_eq!(stands().await, schedule("fix", 30));
    let edited = ScheduleRow { fingerprint: "f2".into(), ..schedule("fix", 5) };
    store.append(rows([RowChange::Schedule(edited.clone())])).await.expect("append");
    assert_eq!(stands().await, edited, "an edited cadence starts at its own mark");
    // The same within one batch, alone and among many.
    for many in [0, 63, 200] {
        let others = (0..many).map(|n| RowChange::Schedule(schedule(&format!("l{n}"), 1)));
        let twice = [RowChange::Schedule(schedule("fix", 60)), RowChange::Schedule(paused(50))];
        store.append(rows(twice.into_iter().chain(others))).await.expect("append");
        assert_eq!(stands().await, paused(60), "{many}");
    }
}

pub(crate) async fn thousands_of_rows_are_one_batch(place: Place) {
    let store = place.own().await;
    let loops = (0..2_500).map(|n| RowChange::Schedule(schedule(&format!("l{n:05}"), n)));
    // Of two rows for one loop the later counts, even if they are far apart.
    let last = [RowChange::Schedule(schedule("l00000", 77))];
    let receipts = (0..200).map(|n| RowChange::Receipt(receipt(&format!("due:{n}"), n, "missed")));
    store.append(rows(loops.chain(last).chain(receipts))).await.expect("append");
    let all = store.schedules().await.expect("all of them, a page at a time");
    assert_eq!(all.len(), 2_500);
    assert_eq!(all[0].mark_ms, 77);
    assert!(all.windows(2).all(|two| two[0].loop_name < two[1].loop_name));
    assert_eq!(store.receipts(of_fix(None, 1_000)).await.expect("receipts").len(), 200);
}

pub(crate) async fn rows_without_a_round_need_no_event(place: Place) {
    let store = place.own().await;
    assert_eq!(store.append(rows([RowChange::Schedule(schedule("fix", 1))])).await.expect("append"), 0);
    assert_eq!(store.append(rows([RowChange::Schedule(schedule("fix", 2))])).await.expect("append"), 0);
    let stray = StoreBatch { events: vec![event("x")], ..rows([]) };
    let refused = store.append(stray).await.expect_err("an event of no round").kind;
    assert!(matches!(refused, StoreErrorKind::Invalid(_)), "{refused:?}");
    store.append(batch("r1", 0, "started")).await.expect("append");
    assert!(store.verify().await.expect("verify").is_ok());
}

pub(crate) async fn pruning_keeps_open_and_waiting_rows(place: Place) {
    let store = place.own().await;
    let of_round = |id: &str| ReceiptRow { round: Some(id.into()), ..receipt(&format!("due:{id}"), 5, "started") };
    let ended = RoundRow { ended_ms: Some(6), ..round("over", 5) };
    let changes = [
        RowChange::Round(round("open", 5)),
        RowChange::Round(ended),
        RowChange::Receipt(of_round("open")),
        RowChange::Receipt(of_round("over")),
        RowChange::Receipt(receipt("due:old", 5, "missed")),
        RowChange::Receipt(receipt("due:new", 50, "missed")),
        RowChange::Signal(signal("waits", 1)),
        RowChange::Signal(SignalRow { taken_ms: Some(2), ..signal("taken", 1) }),
        RowChange::Signal(SignalRow { taken_ms: Some(50), ..signal("taken-late", 1) }),
        RowChange::Memory(memory("expired", 1, Some(60))),
        RowChange::Memory(memory("valid", 1, Some(99))),
        RowChange::Memory(memory("kept", 1, None)),
    ];
    store.append(with(batch("open", 0, "started"), changes)).await.expect("append");
    let before = RetentionCutoff { receipts_ms: 40, signals_ms: 40 };
    let aged = store.aged(before, 70).await.expect("aged");
    assert_eq!(aged, AgedRows { receipts: 2, signals: 1, memories: 1 });
    let prune = |limit| StoreBatch::of_rows(70, vec![RowChange::Prune { before, limit }]);
    store.append(prune(1)).await.expect("a part");
    assert_eq!(store.aged(before, 70).await.expect("aged"), AgedRows { receipts: 1, ..AgedRows::default() });
    let mixed = RetentionCutoff { signals_ms: i64::MIN, ..before };
    assert_eq!(store.aged(mixed, i64::MIN).await.expect("aged"), AgedRows { receipts: 1, ..AgedRows::default() });
    store.append(prune(9)).await.expect("the rest");
    assert!(store.aged(before, 70).await.expect("aged").is_empty());
    let left: Vec<_> = store.receipts(of_fix(None, 9)).await.expect("receipts");
    assert_eq!(left.iter().map(|row| row.occurrence.as_str()).collect::<Vec<_>>(), ["due:new", "due:open"]);
    assert_eq!(store.pending_signals(9).await.expect("pending").len(), 1);
    assert!(store.signal("repo-1", "fix", "taken-late").await.expect("signal").is_some());
    assert_eq!(store.memory("repo-1", "fix").await.expect("memory").len(), 2);
}

pub(crate) async fn receipt_of_a_start_without_its_round_is_found(place: Place) {
    let store = place.own().await;
    let started = |occurrence: &str| ReceiptRow { round: Some("r1".into()), ..receipt(occurrence, 5, "started") };
    let birth = [RowChange::Round(round("r1", 5)), RowChange::Receipt(started("manual:r1"))];
    store.append(with(batch("r1", 0, "started"), birth)).await.expect("append");
    assert_eq!(store.verify().await.expect("verify").broken, None);
    store.append(rows([RowChange::Receipt(started("due:a"))])).await.expect("append");
    let broken = store.verify().await.expect("verify").broken.expect("the round is another occurrence's");
    assert!(broken.why.contains("occurrence `due:a` of loop `fix`"), "{broken:?}");
}

pub(crate) async fn forgetting_is_for_one_loop(place: Place) {
    let store = place.own().await;
    let other = |key: &str| loopwright::store::MemoryRow { loop_name: "other".into(), ..memory(key, 1, None) };
    let changes = [
        RowChange::Item(item("a", 1)),
        RowChange::Item(item("b", 3)),
        RowChange::Memory(memory("a", 1, None)),
        RowChange::Memory(memory("b", 2, None)),
        RowChange::Memory(other("a")),
    ];
    store.append(rows(changes)).await.expect("append");
    let (repo, loop_name) = ("repo-1".to_owned(), "fix".to_owned());
    let one = [
        RowChange::ItemGone { repo: repo.clone(), loop_name: loop_name.clone(), key: Some("a".into()) },
        RowChange::MemoryGone { repo: repo.clone(), loop_name: loop_name.clone(), key: Some("b".into()) },
    ];
    store.append(rows(one)).await.expect("append");
    assert_eq!(store.items("repo-1", "fix", 9).await.expect("items"), [item("b", 3)]);
    assert_eq!(store.memory("repo-1", "fix").await.expect("memory"), [memory("a", 1, None)]);
    let capped = |most| RowChange::MemoryKept { repo: "repo-1".into(), loop_name: "fix".into(), most };
    let fresh = (10..15).map(|n| RowChange::Memory(memory(&format!("k{n}"), n, None)));
    store.append(rows(fresh.chain([capped(2)]))).await.expect("append");
    let left: Vec<_> = store.memory("repo-1", "fix").await.expect("memory").into_iter().map(|row| row.key).collect();
    assert_eq!(left, ["k14", "k13"], "the latest stay");
    assert_eq!(store.memory("repo-1", "other").await.expect("memory").len(), 1, "another loop has its own limit");
    let all = [
        RowChange::ItemGone { repo: repo.clone(), loop_name: loop_name.clone(), key: None },
        RowChange::MemoryGone { repo, loop_name, key: None },
    ];
    store.append(rows(all)).await.expect("append");
    assert_eq!(store.items("repo-1", "fix", 9).await.expect("items"), []);
    assert_eq!(store.memory("repo-1", "fix").await.expect("memory"), []);
    assert_eq!(store.memory("repo-1", "other").await.expect("memory").len(), 1);
}

pub(crate) async fn latest_time_is_that_of_the_last_event_or_receipt(place: Place) {
    let store = place.own().await;
    assert_eq!(store.last_ms().await.expect("none"), None);
    store.append(batch("r1", 0, "started")).await.expect("append");
    assert_eq!(store.last_ms().await.expect("an event's"), Some(1_000));
    store.append(rows([RowChange::Receipt(receipt("due:a", 5_000, "missed"))])).await.expect("append");
    assert_eq!(store.last_ms().await.expect("a receipt's"), Some(5_000));
}

pub(crate) async fn time_that_a_person_rejected_is_no_longer_the_latest(place: Place) {
    let store = place.own().await;
    let flags = |taken_ms: i64, ahead_ms: i64| {
        let flag = |name: &str, at_ms| {
            RowChange::Flag(FlagRow { name: name.to_owned(), at_ms, actor: "ada".to_owned(), why: String::new() })
        };
        rows([flag(CLOCK_TAKEN, taken_ms), flag(CLOCK_AHEAD, ahead_ms)])
    };
    let moments = [2_000, 90_000].map(|at_ms| RowChange::Receipt(receipt(&format!("due:{at_ms}"), at_ms, "missed")));
    store.append(rows(moments)).await.expect("append");
    assert_eq!(store.last_ms().await.expect("read"), Some(90_000));
    store.append(flags(3_000, 90_000)).await.expect("append");
    assert_eq!(
        store.last_ms().await.expect("read"),
        Some(2_000),
        "a record ahead of the confirmed clock does not count"
    );
    store.append(rows([RowChange::Receipt(receipt("due:later", 90_001, "missed"))])).await.expect("append");
    assert_eq!(store.last_ms().await.expect("read"), Some(90_001), "a later record does");
}

pub(crate) async fn question_about_a_loop_needs_no_round(place: Place) {
    let store = place.own().await;
    let question = InboxRow { kind: loopwright::store::InboxKind::LoopPaused, ..question("l-1", "") };
    store.append(rows([RowChange::Inbox(question.clone())])).await.expect("append");
    assert_eq!(store.inbox_item("l-1").await.expect("read"), Some(question));
}
