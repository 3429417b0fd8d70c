//! Failures that only a server can cause: leases that expire, and answers that get lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use loopwright::store::{ProcessInfo, Store, StoreErrorKind, StoreMode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

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

/// Forwards bytes to the server until it is armed; then it drops the next answer to a commit and closes the connection.
async fn proxy(port: u16, armed: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let own = listener.local_addr().expect("address").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", port)).await.expect("the server");
            tokio::spawn(forward(client, server, Arc::clone(&armed)));
        }
    });
    own
}

async fn forward(client: TcpStream, server: TcpStream, armed: Arc<AtomicBool>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let mut bytes = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from_server.read(&mut bytes).await {
        let commit = bytes[..n].windows(7).any(|window| window == b"COMMIT\0");
        if commit && armed.swap(false, Ordering::SeqCst) {
            return;
        }
        if to_client.write_all(&bytes[..n]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_whose_answer_was_lost_is_found() {
    let place = Place::postgres();
    let Place::Postgres(url) = &place else { unreachable!("it is PostgreSQL") };
    let port = loopwright_testkit::postgres::server().port();
    let armed = Arc::new(AtomicBool::new(false));
    let through = proxy(port, Arc::clone(&armed)).await;
    let url = url.replace(&port.to_string(), &through.to_string());
    let store = Store::open_postgres(&url, StoreMode::Write(ProcessInfo::current(0))).await.expect("own");
    store.append(batch("r1", 0, "started")).await.expect("append");
    armed.store(true, Ordering::SeqCst);
    assert_eq!(store.append(batch("r1", 1, "made")).await.expect("kept, though the answer was lost"), 2);
    assert!(!armed.load(Ordering::SeqCst), "no answer was swallowed");
    armed.store(true, Ordering::SeqCst);
    let no_events = loopwright::store::StoreBatch { events: vec![], ..batch("r1", 2, "") };
    assert_eq!(store.append(no_events).await.expect("a batch without events too"), 2);
    assert!(!armed.load(Ordering::SeqCst), "no answer was swallowed");
    assert_eq!(store.append(batch("r1", 2, "more")).await.expect("append"), 3);
    assert!(store.verify().await.expect("verify").is_ok());
}
