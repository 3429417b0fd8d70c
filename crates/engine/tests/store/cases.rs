//! What both databases must do alike.

#![allow(dead_code, reason = "cases are called by name")]
use loopwright::store::{Change, InboxQuery, RoundsQuery, SqlStore, Store as _};

use super::rows::*;

pub(crate) async fn appended_events_and_rows_read_back(store: SqlStore) {
    let row = round("r1", 10);
    let first = with(
        batch("r1", 0, "started"),
        [
            Change::Outbox(outbox("o1", "r1", 0, "staged")),
            Change::Inbox(question("q1", "r1")),
            Change::Round(row.clone()),
            Change::Item(item("issue-7", 2)),
            Change::Stats(stats(1, Some("r1"))),
            Change::Stats(stats(2, None)),
        ],
    );
    assert_eq!(store.append(first).await.expect("append"), 1);
    assert_eq!(store.append(batch("r1", 1, "made")).await.expect("append"), 2);
    let events = store.events("r1").await.expect("events");
    let seen: Vec<_> = events.iter().map(|e| (e.seq, e.index, e.at_ms, e.kind.as_str())).collect();
    assert_eq!(seen, [(1, 0, 1000, "started"), (2, 1, 1001, "made")]);
    assert_eq!(events[0].body, event("started").body);
    assert_eq!(store.round("r1").await.expect("round"), Some(row.clone()));
    assert_eq!(store.open_rounds().await.expect("open"), [row.clone()]);
    let query = RoundsQuery { limit: 5, ..RoundsQuery::default() };
    assert_eq!(store.rounds(query).await.expect("rounds"), [row]);
    assert_eq!(store.outbox("r1").await.expect("outbox"), [outbox("o1", "r1", 0, "staged")]);
    assert_eq!(store.outbox_pending(9).await.expect("pending").len(), 1);
    assert_eq!(store.inbox(InboxQuery::Open(9)).await.expect("inbox"), [question("q1", "r1")]);
    assert_eq!(store.inbox_item("q1").await.expect("item"), Some(question("q1", "r1")));
    assert_eq!(store.item("repo-1", "fix", "issue-7").await.expect("item"), Some(item("issue-7", 2)));
    assert_eq!(store.items("repo-1", "fix", 9).await.expect("items"), [item("issue-7", 2)]);
    let total = stats(3, Some("r1"));
    assert_eq!(store.loops().await.expect("loops"), [total.clone()]);
    assert_eq!(store.loop_row("repo-1", "fix").await.expect("loop"), Some(total));
    assert_eq!(store.tail(1, 9).await.expect("tail"), events[1..]);
    assert_eq!(store.round("none").await.expect("round"), None);
    let owner = store.owner().await.expect("owner").expect("an owner");
    assert_eq!((owner.pid, owner.fence), (i64::from(std::process::id()), 1));
}
