//! The store's tests: one list of cases for both databases, and what only files can suffer.
#![expect(clippy::unwrap_used, reason = "tests")]

mod store {
    pub mod cases;
    pub mod rows;
}

use loopwright::store::{Mode, OwnerInfo, SqlStore};

#[tokio::test]
async fn smoke() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("state/store.db");
    let store = SqlStore::open_sqlite(&path, Mode::Own(OwnerInfo::current(1))).await.expect("open");
    store::cases::appended_events_and_rows_read_back(store).await;
}
