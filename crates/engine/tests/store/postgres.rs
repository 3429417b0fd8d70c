//! Failures that only a server can cause: leases that expire, and answers that get lost.

use std::sync::Arc;
use std::time::Duration;

use loopwright::store::{ProcessInfo, Store, StoreError, StoreErrorKind, StoreMode};
use loopwright_testkit::{WireProxy, postgres, wait};
use sqlx::Connection as _;

use super::place::Place;
use super::rows::{batch, lease, with};

fn take(round: &str) -> loopwright::store::StoreBatch {
    loopwright::store::StoreBatch::of_rows(1, vec![lease(round)])
}

#[tokio::test]
async fn expired_lease_is_taken_over_and_the_old_holder_is_fenced() {
    let place = Place::postgres();
    let old = place.try_own(Duration::ZERO).await.expect("open");
    old.append(with(batch("r1", 0, "started"), [lease("r1")])).await.expect("no other process is there yet");
    let new = place.own().await;
    new.append(take("r1")).await.expect("the lease has expired");
    let fenced = StoreErrorKind::Fenced { name: "r1".into(), ours: 1, found: 2 };
    assert_eq!(old.append(batch("r1", 1, "made")).await.expect_err("fenced").kind, fenced);
    old.release("r1").await.expect("there is nothing to release");
    old.close().await.expect("close");
    new.append(batch("r1", 1, "made")).await.expect("the new holder writes");
    let held = place.own().await.append(take("r1")).await.expect_err("held");
    assert!(matches!(held.kind, StoreErrorKind::Held(_)), "closing the old one ended the new one's lease: {held}");
}

#[tokio::test]
async fn renewed_lease_is_not_taken_over() {
    let place = Place::postgres();
    let holder = place.own().await;
    holder.append(with(batch("r1", 0, "started"), [lease("r1")])).await.expect("append");
    place.tamper("UPDATE processes SET lease_until_ms = 1").await.expect("it has expired");
    holder.renew().await.expect("renew");
    let held = place.own().await.append(take("r1")).await.expect_err("held");
    assert!(matches!(held.kind, StoreErrorKind::Held(_)), "{held}");
    place.tamper("UPDATE processes SET start_ticks = start_ticks + 1").await.expect("its pid is another's now");
    place.own().await.append(take("r1")).await.expect("a process of this machine that is gone has no lease");
}

/// A database behind a proxy, and its address through it.
fn behind_a_proxy() -> (WireProxy, String) {
    let server = postgres::server();
    let proxy = WireProxy::to(server.port());
    let url = proxy.through(&server.database());
    (proxy, url)
}

async fn own(url: &str, info: ProcessInfo) -> Store {
    Store::open_postgres(url, StoreMode::Write(info)).await.expect("own")
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_whose_answer_was_lost_is_found() {
    let (proxy, url) = behind_a_proxy();
    let store = own(&url, ProcessInfo::current(0)).await;
    store.append(batch("r1", 0, "started")).await.expect("append");
    proxy.lose_next_commit();
    assert_eq!(store.append(batch("r1", 1, "made")).await.expect("kept, though the answer was lost"), 2);
    assert!(!proxy.is_about_to_lose_a_commit(), "no answer was swallowed");
    proxy.lose_next_commit();
    let no_events = loopwright::store::StoreBatch { events: vec![], ..batch("r1", 2, "") };
    assert_eq!(store.append(no_events).await.expect("a batch without events too"), 2);
    assert!(!proxy.is_about_to_lose_a_commit(), "no answer was swallowed");
    assert_eq!(store.append(batch("r1", 2, "more")).await.expect("append"), 3);
    assert!(store.verify().await.expect("verify").is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn round_whose_claim_had_its_answer_lost_is_found_and_continued() {
    let (proxy, url) = behind_a_proxy();
    let scheduler = own(&url, ProcessInfo::current(0)).await;
    scheduler.append(super::offers::offered("r1", "gpu", 0)).await.expect("offered");
    let worker = own(&url, ProcessInfo::current(0)).await;
    let sql = format!(
        "INSERT INTO workers VALUES ('w', '{}', 'alpha', '[]', '[]', '[]', 'kernel', 1, 'active', '1', 0, 0)",
        worker.instance_name()
    );
    let _ =
        postgres::server().sql(&url.replace(&proxy.port().to_string(), &postgres::server().port().to_string()), &sql);
    let places = worker.open_places().await.expect("places");
    proxy.lose_next_commit();
    let lost = worker.claim("w", &places).await.expect_err("the answer was lost");
    assert!(is_away(&lost), "{lost}");
    assert!(!proxy.is_about_to_lose_a_commit(), "no answer was swallowed");
    assert_eq!(worker.claim("w", &places).await.expect("a try"), None, "it has no free slot");
    let found = worker.adopt_claims("w").await.expect("a look");
    assert_eq!(found.iter().map(|claim| (claim.round.as_str(), claim.fence)).collect::<Vec<_>>(), [("r1", 2)]);
    worker.append(batch("r1", 1, "made")).await.expect("it is the worker's");
    assert_eq!(worker.adopt_claims("w").await.expect("a look"), [], "once");
}

fn is_away(error: &StoreError) -> bool {
    matches!(error.kind, StoreErrorKind::Away(_))
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_that_swallows_everything_fails_at_its_deadline_and_the_next_one_works() {
    let (proxy, url) = behind_a_proxy();
    let store = own(&url, ProcessInfo { answer: Duration::from_millis(500), ..ProcessInfo::current(0) }).await;
    store.append(batch("r1", 0, "started")).await.expect("append");
    proxy.swallow();
    let silent = async {
        let refused = store.append(batch("r1", 1, "made")).await.expect_err("no answer");
        assert!(is_away(&refused), "{refused}");
        let refused = store.events("r1").await.expect_err("no answer to a read either");
        assert!(is_away(&refused), "{refused}");
        let refused = store.renew().await.expect_err("nor to a renewal");
        assert!(is_away(&refused), "{refused}");
    };
    tokio::time::timeout(Duration::from_secs(30), silent).await.expect("nothing waits forever");
    proxy.heal();
    assert_eq!(store.append(batch("r1", 1, "made")).await.expect("a new connection"), 2);
    assert_eq!(store.events("r1").await.expect("events").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn renewal_does_not_wait_for_a_write_that_hangs() {
    let place = Place::postgres();
    let store = Arc::new(place.own().await);
    store.append(with(batch("r1", 0, "started"), [lease("r1")])).await.expect("append");
    let Place::Postgres(url) = &place else { unreachable!("it is PostgreSQL") };
    let mut other = sqlx::PgConnection::connect(url).await.expect("a connection");
    sqlx::raw_sql("BEGIN; SELECT seq FROM journal FOR UPDATE").execute(&mut other).await.expect("a lock");
    let hangs = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.append(batch("r1", 1, "made")).await }
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%journal%'";
    wait::until("the write to wait", Duration::from_secs(20), || postgres::server().sql(url, waits) == "1");
    assert_eq!(store.renew().await.expect("a renewal has its own connection"), [""; 0], "nothing is lost");
    assert!(!hangs.is_finished(), "the write still waits");
    sqlx::raw_sql("COMMIT").execute(&mut other).await.expect("the lock is free");
    assert_eq!(hangs.await.expect("no panic").expect("it was only slow"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_of_the_server_is_verified_and_the_password_is_never_sent_or_shown_in_the_clear() {
    let server = postgres::secured_server();
    let (url, certificate) = (server.database(), server.certificate().display().to_string());
    let open = async |url: &str| Store::open_postgres(url, StoreMode::Write(ProcessInfo::current(0))).await;
    let trusted = format!("{url}?sslmode=verify-full&sslrootcert={certificate}");
    let store = open(&trusted).await.expect("a known authority, the right name and SCRAM");
    store.append(batch("r1", 0, "started")).await.expect("append");
    store.close().await.expect("close");
    let cases = [
        (format!("{url}?sslmode=verify-full"), "UnknownIssuer"),
        (trusted.replace("localhost", "127.0.0.1"), "not valid for name"),
        (format!("{url}?sslmode=disable"), "pg_hba.conf"),
        (trusted.replace("only-a-test", "wrong-one"), "password authentication failed"),
    ];
    for (url, why) in cases {
        let refused = open(&url).await.err().expect(&url);
        assert!(matches!(refused.kind, StoreErrorKind::Unsuitable(_)), "nobody waits for that to pass: {refused:?}");
        assert!(refused.to_string().contains(why), "{why}: {refused}");
        assert!(
            !refused.to_string().contains("only-a-test") && !refused.to_string().contains("wrong-one"),
            "{refused}"
        );
    }
    let plain = postgres::server().database();
    let refused = open(&format!("{plain}?sslmode=verify-full")).await.err().expect("it is not encrypted");
    assert!(refused.to_string().contains("does not support TLS"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_that_expired_while_the_server_was_down_is_not_taken_at_once() {
    let server = postgres::own_server();
    let url = server.database();
    let lease_time = |seconds| ProcessInfo { lease: Duration::from_secs(seconds), ..ProcessInfo::current(0) };
    let holder = own(&url, lease_time(60)).await;
    holder.append(with(batch("r1", 0, "started"), [lease("r1")])).await.expect("append");
    let expire = "UPDATE processes SET lease_until_ms = 1";
    let _ = server.sql(&url, expire);
    server.stop();
    server.start();
    // As the holder, which could not renew its lease while the server was down, would be after a long outage.
    let other = own(&url, lease_time(60)).await;
    let held = other.append(take("r1")).await.expect_err("held");
    assert!(matches!(held.kind, StoreErrorKind::Held(_)), "{held}");
    let refused = holder.append(batch("r1", 1, "made")).await.expect_err("its old connection is gone");
    assert!(is_away(&refused), "{refused}");
    assert_eq!(holder.renew().await.expect("it is back"), [""; 0], "nothing was lost");
    assert_eq!(holder.append(batch("r1", 1, "made")).await.expect("it goes on"), 2);
    let _ = server.sql(&url, expire);
    let patient = own(&url, lease_time(0)).await;
    patient.append(take("r1")).await.expect("a lease after the start, expired leases count again");
}

#[tokio::test(flavor = "multi_thread")]
async fn database_restored_from_a_dump_verifies_and_goes_on() {
    let server = postgres::server();
    let url = server.database();
    let store = own(&url, ProcessInfo::current(0)).await;
    store.append(with(batch("r1", 0, "started"), [lease("r1")])).await.expect("append");
    store.append(batch("r1", 1, "made")).await.expect("append");
    let restored =
        own(&server.restored_dump(&url), ProcessInfo { lease: Duration::ZERO, ..ProcessInfo::current(0) }).await;
    assert!(restored.verify().await.expect("verify").is_ok());
    assert_eq!(restored.events("r1").await.expect("events"), store.events("r1").await.expect("events"));
    restored.append(batch("r2", 0, "started")).await.expect("it goes on");
    assert!(restored.verify().await.expect("verify").is_ok());
}
