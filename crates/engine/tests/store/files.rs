//! Failures that files can have: crashes, damage, deletion, a full disk, wrong permissions.
#![allow(clippy::disallowed_methods, reason = "a test may start processes")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use loopwright::store::{
    OutboxState, ProcessInfo, RowChange, Store, StoreBatch, StoreError, StoreErrorKind, StoreMode, StoredEvent,
};
use loopwright_testkit::skip;

use super::child::{self, Speaker};
use super::place::Place;
use super::rows::*;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("metadata").permissions().mode() & 0o777
}

#[tokio::test]
async fn files_and_folder_belong_to_the_user_alone() {
    let place = Place::sqlite();
    let store = place.own().await;
    store.append(batch("r1", 0, "started")).await.expect("append");
    let folder = place.file().parent().expect("a folder").to_owned();
    assert_eq!(mode(&folder), 0o700);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let entry = entry.expect("an entry");
        let wanted = if entry.path().is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&entry.path()), wanted, "{entry:?}");
        names.push(entry.file_name().into_string().expect("a name"));
    }
    names.sort();
    assert_eq!(names, ["processes", "store.db", "store.db-shm", "store.db-wal", "store.lock"]);
}

/// A process that is starting shares our open files until it executes another program.
fn shared_like_with_a_new_process(file: &Path) -> Vec<std::os::fd::OwnedFd> {
    let ours =
        rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty()).expect("a pidfd");
    let open = std::fs::read_dir("/proc/self/fd").expect("our files").filter_map(Result::ok);
    let same = open.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|path| path == file));
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let copy = |fd| rustix::process::pidfd_getfd(&ours, fd, rustix::process::PidfdGetfdFlags::empty()).expect("a copy");
    same.filter_map(number).map(copy).collect()
}

#[tokio::test]
async fn closed_store_is_free_even_while_a_process_is_starting() {
    let place = Place::sqlite();
    let store = place.own().await;
    let folder = place.file().with_file_name("processes");
    let own = std::fs::read_dir(folder).expect("the folder").next().expect("a lock").expect("an entry").path();
    let copies = shared_like_with_a_new_process(&own);
    assert_eq!(copies.len(), 1, "the lock is one open file");
    let other = place.own().await;
    assert_eq!(other.others().await.expect("others").len(), 1);
    store.close().await.expect("close");
    assert_eq!(other.others().await.expect("others"), [], "it was free");
}

#[tokio::test]
async fn acknowledged_events_survive_a_kill_and_the_round_is_free_at_once() {
    let place = Place::sqlite();
    let mut kept = 0;
    for turn in 1..=8 {
        let mut child = Speaker::appending(&place.file());
        let mut said = 0;
        for _ in 0..turn * 3 {
            said = child.acknowledged();
        }
        let pid = i64::from(child.pid());
        let store = place.own().await;
        let take = || StoreBatch::of_rows(1, vec![lease("r1")]);
        let held = store.append(take()).await.expect_err("the child holds it");
        let StoreErrorKind::Held(found) = &held.kind else { panic!("{held}") };
        assert_eq!(found.process.as_ref().map(|process| process.pid), Some(pid), "{held}");
        said = said.max(child.kill());
        store.append(take()).await.expect("its process is gone, so it is free at once");
        let events = store.events("r1").await.expect("events").len() as i64;
        assert!(events >= said && events > kept, "turn {turn}: {said} acknowledged, {events} there");
        kept = events;
        assert!(store.verify().await.expect("verify").is_ok());
        store.close().await.expect("close");
    }
}

#[tokio::test]
async fn reader_reads_while_another_process_writes() {
    let place = Place::sqlite();
    let mut child = Speaker::appending(&place.file());
    let said = child.acknowledged();
    let reader = place.read().await;
    assert!(reader.events("r1").await.expect("events").len() as i64 >= said);
    let others = reader.others().await.expect("others");
    assert_eq!(others.iter().map(|process| process.pid).collect::<Vec<_>>(), [i64::from(child.pid())]);
    child.kill();
}

#[tokio::test]
async fn frozen_process_is_named_as_such_and_its_round_is_never_taken_over() {
    let place = Place::sqlite();
    let mut child = Speaker::appending(&place.file());
    child.acknowledged();
    let pid = rustix::process::Pid::from_raw(child.pid().cast_signed()).expect("a pid");
    let store = place.own().await;
    // It may be stopped in the middle of a write, which then blocks all other writers: it is continued and stopped
    // again.
    let frozen = loop {
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("freeze it");
        match store.append(StoreBatch::of_rows(1, vec![lease("r1")])).await.expect_err("it is not free").kind {
            StoreErrorKind::Held(found) => break found,
            StoreErrorKind::Busy(_) => rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("go"),
            other => panic!("{other}"),
        }
    };
    assert!(frozen.to_string().contains("frozen"), "{frozen}");
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).expect("continue the process");
    let said = child.acknowledged();
    assert!(said > 0, "it continues as before");
    child.kill();
}

#[tokio::test]
async fn deleted_database_is_noticed_before_the_next_write() {
    let place = Place::sqlite();
    let store = place.own().await;
    store.append(batch("r1", 0, "started")).await.expect("append");
    std::fs::remove_file(place.file()).expect("delete it");
    let refused = store.append(batch("r1", 1, "made")).await.expect_err("the file is gone");
    assert_eq!(refused.kind, StoreErrorKind::Replaced);
    assert!(!place.file().exists(), "an empty database was made in its place");
}

#[tokio::test]
async fn replaced_database_is_noticed_before_the_next_write() {
    let place = Place::sqlite();
    let store = place.own().await;
    store.append(batch("r1", 0, "started")).await.expect("append");
    let copy = place.file().with_file_name("copy");
    std::fs::copy(place.file(), &copy).expect("copy it");
    std::fs::rename(copy, place.file()).expect("replace it");
    let refused = store.append(batch("r1", 1, "made")).await.expect_err("it is another file");
    assert_eq!(refused.kind, StoreErrorKind::Replaced);
}

#[tokio::test]
async fn log_without_its_database_is_damage_and_not_a_new_store() {
    let place = Place::sqlite();
    std::mem::forget(place.own().await);
    std::fs::remove_file(place.file()).expect("delete it");
    for mode in [StoreMode::Write(ProcessInfo::current(1)), StoreMode::Read] {
        let Err(refused) = place.open(mode).await else { panic!("it was recreated") };
        assert!(matches!(refused.kind, StoreErrorKind::Corrupt(_)), "{refused}");
    }
}

#[tokio::test]
async fn crash_while_the_store_is_made_leaves_no_half_store() {
    let place = Place::sqlite();
    let folder = place.file().parent().expect("a folder").to_owned();
    std::fs::create_dir_all(&folder).expect("the folder");
    for name in ["store.db.new", "store.db.new-wal", "store.db.new-shm"] {
        std::fs::write(folder.join(name), b"half").expect("what a crash leaves");
    }
    let store = place.own().await;
    store.append(batch("r1", 0, "started")).await.expect("append");
    assert!(!folder.join("store.db.new").exists());
}

/// Rounds in it: more events than opening checks.
const ROUNDS: i64 = 24;

/// A closed store with some history, and its file's bytes.
async fn history(place: &Place) -> (Vec<u8>, Vec<StoredEvent>) {
    let store = place.own().await;
    for n in 0..ROUNDS {
        let id = format!("r{n}");
        let changes =
            [RowChange::Round(round(&id, n)), RowChange::Outbox(outbox(&format!("o{n}"), &id, 0, OutboxState::Staged))];
        store.append(with(batch(&id, 0, "started"), changes)).await.expect("append");
        for index in 1..6 {
            store.append(batch(&id, index, "step")).await.expect("append");
        }
    }
    let events = store.tail(0, 1000).await.expect("events");
    store.close().await.expect("close");
    assert!(!place.file().with_file_name("store.db-wal").exists(), "everything is in the one file");
    (std::fs::read(place.file()).expect("the file"), events)
}

/// The possible results of opening a damaged store.
#[derive(Debug, PartialEq)]
enum Found {
    AtTheDoor,
    ByVerify,
    Harmless,
}

/// Opens a store with these bytes; panics if the damage was not detected.
async fn look(bytes: &[u8], events: &[StoredEvent]) -> Found {
    let place = Place::sqlite();
    std::fs::create_dir_all(place.file().parent().expect("a folder")).expect("the folder");
    std::fs::write(place.file(), bytes).expect("the damaged file");
    let store = match place.open(StoreMode::Write(ProcessInfo::current(1))).await {
        Ok(store) => store,
        Err(StoreError { kind: StoreErrorKind::Corrupt(_) | StoreErrorKind::Newer { .. }, .. }) => {
            assert!(std::fs::read(place.file()).expect("the file") == bytes, "a refused file was written to");
            return Found::AtTheDoor;
        }
        Err(error) => panic!("not reported as damage: {error}"),
    };
    if !store.verify().await.expect("verify").is_ok() {
        return Found::ByVerify;
    }
    assert_eq!(store.tail(0, 1000).await.expect("events"), events, "damage went unseen");
    for n in 0..ROUNDS {
        let id = format!("r{n}");
        assert_eq!(store.events(&id).await.expect("events").len(), 6, "damage went unseen");
    }
    Found::Harmless
}

/// Counts panics of any thread, including the database's own.
fn count_panics() -> &'static AtomicU32 {
    static PANICS: AtomicU32 = AtomicU32::new(0);
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        print(info);
    }));
    &PANICS
}

#[tokio::test]
async fn two_hundred_flipped_bytes_never_pass_as_an_empty_store() {
    let panics = count_panics();
    let (bytes, events) = history(&Place::sqlite()).await;
    let mut random: u64 = 0x5eed;
    let mut tally = [0; 3];
    for turn in 0..200 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut damaged = bytes.clone();
        // Every fourth flip is in the header and the first page, where most failures are possible.
        let size = if turn % 4 == 0 { 4096 } else { bytes.len() as u64 };
        damaged[((random >> 20) % size) as usize] ^= 1 << ((random >> 10) % 8);
        tally[look(&damaged, &events).await as usize] += 1;
    }
    assert_eq!(panics.load(Ordering::SeqCst), 0);
    assert!(tally[0] > 0 && tally[1] > 0 && tally[2] > 0, "door, verify, harmless: {tally:?}");
}

#[tokio::test]
async fn truncated_empty_or_foreign_file_is_refused_and_kept() {
    let (bytes, events) = history(&Place::sqlite()).await;
    for part in [0, 1, 50, 99, 100, 512, 4095, 4096, 8192, bytes.len() / 2, bytes.len() - 4096, bytes.len() - 1] {
        let found = look(&bytes[..part], &events).await;
        assert_eq!(found, Found::AtTheDoor, "cut to {part} bytes of {}", bytes.len());
    }
    assert_eq!(look(b"dear diary", &events).await, Found::AtTheDoor);
    assert_eq!(look(&vec![0; 65536], &events).await, Found::AtTheDoor);
    assert_eq!(look(&bytes, &events).await, Found::Harmless);
}

#[tokio::test]
async fn database_of_another_program_is_not_filled_with_our_tables() {
    let place = Place::sqlite();
    std::fs::create_dir_all(place.file().parent().expect("a folder")).expect("the folder");
    std::fs::write(place.file(), b"").expect("a file to fill");
    place.tamper("CREATE TABLE diary (text TEXT)").await.expect("another program's table");
    let before = std::fs::read(place.file()).expect("the file");
    let Err(refused) = place.open(StoreMode::Write(ProcessInfo::current(1))).await else { panic!("it was filled") };
    assert!(refused.to_string().contains("not a Loopwright store"), "{refused}");
    assert_eq!(std::fs::read(place.file()).expect("the file"), before);
}

#[tokio::test]
async fn newer_store_is_refused_without_a_byte_written() {
    let place = Place::sqlite();
    history(&place).await;
    place.tamper("UPDATE meta SET schema_version = 99").await.expect("a newer loopwright");
    let before = std::fs::read(place.file()).expect("the file");
    let Err(refused) = place.open(StoreMode::Write(ProcessInfo::current(1))).await else { panic!("it was opened") };
    assert_eq!(refused.kind, StoreErrorKind::Newer { found: 99, known: 15 });
    assert!(std::fs::read(place.file()).expect("the file") == before);
    let log = std::fs::metadata(place.file().with_file_name("store.db-wal"));
    assert!(log.is_ok_and(|log| log.len() == 0), "a reader makes an empty log and writes nothing");
}

#[tokio::test]
async fn locked_out_writer_fails_in_bounded_time_and_continues() {
    let place = Place::sqlite();
    let store = place.own().await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(place.file());
    let mut other = <sqlx::SqliteConnection as sqlx::Connection>::connect_with(&options).await.expect("a backup tool");
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.expect("its lock");
    let refused = store.append(batch("r1", 0, "started")).await.expect_err("another process writes");
    assert!(matches!(refused.kind, StoreErrorKind::Busy(_)), "{refused}");
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.expect("its end");
    assert_eq!(store.append(batch("r1", 0, "started")).await.expect("append"), 1);
}

#[tokio::test]
async fn full_disk_fails_the_append_and_nothing_else() {
    let place = Place::sqlite();
    let disk = place.file().parent().expect("a folder").to_owned();
    std::fs::create_dir_all(&disk).expect("the folder");
    let mount = format!("mount -t tmpfs -o size=2m tmpfs '{}'", disk.display());
    let probe = Command::new("unshare").args(["-rm", "sh", "-c", &mount]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return skip("this host allows no mount in a private namespace");
    }
    let words = child::command("store::child::child_fills_the_disk", &place.file());
    let script = format!("{mount} && \"$@\" && cat '{}/passed'", disk.display());
    let output = Command::new("unshare").args(["-rm", "sh", "-c", &script, "sh"]).args(words).output();
    let output = output.expect("the child");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("full after"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn store_of_version_one_is_read_by_this_version() {
    let place = Place::sqlite();
    std::fs::create_dir_all(place.file().parent().expect("a folder")).expect("the folder");
    std::fs::write(place.file(), b"").expect("a file to fill");
    place.tamper(include_str!("fixtures/v1.sql")).await.expect("the fixture");
    let store = Store::open_sqlite(&place.file(), StoreMode::Write(ProcessInfo::current(1))).await.expect("own");
    let report = store.verify().await.expect("verify");
    assert_eq!((report.events, report.broken), (4, None));
    assert_eq!(store.round("r1").await.expect("round").expect("the round").summary, "fix it");
    let asked = store.inbox_item("q1").await.expect("read").expect("the question is still there");
    assert_eq!((asked.round.as_str(), asked.summary.as_str()), ("r1", "ship?"));
    assert_eq!(store.append(batch("r1", 2, "later")).await.expect("append"), 3);
    // The spend of its rounds is in the ledger, on the day on which they started.
    let old = store.ledger("r0").await.expect("ledger");
    assert_eq!((old[0].start, old[0].day.as_str(), old[0].micros, old[0].known), (-1, "1970-01-01", 34, 0));
}

#[tokio::test]
async fn store_of_version_two_is_read_before_and_after_it_is_migrated() {
    let place = Place::sqlite();
    std::fs::create_dir_all(place.file().parent().expect("a folder")).expect("the folder");
    std::fs::write(place.file(), b"").expect("a file to fill");
    place.tamper(include_str!("fixtures/v2.sql")).await.expect("the fixture");
    let reader = place.read().await;
    assert_eq!(reader.ledger("r1").await.expect("ledger").len(), 2);
    assert_eq!(reader.schedules().await.expect("a store from before schedules"), []);
    assert_eq!(reader.pending_signals(9).await.expect("none"), []);
    assert_eq!(reader.last_ms().await.expect("none"), None);
    let store = place.own().await;
    let report = store.verify().await.expect("verify");
    assert_eq!((report.events, report.broken), (6, None));
    assert_eq!(store.raised("repo-1", "fix", "2026-05-01", "r1").await.expect("raised"), (25, 5));
    assert_eq!(store.item("repo-1", "fix", "issue-7").await.expect("item").map(|item| item.failures), Some(2));
    assert_eq!(store.append(batch("r1", 3, "later")).await.expect("append"), 4);
    assert_eq!(reader.schedules().await.expect("an empty table now"), []);
    let kept = store.append(StoreBatch::of_rows(1, vec![RowChange::Schedule(schedule("fix", 9))])).await;
    kept.expect("it knows time now");
    assert_eq!(reader.schedules().await.expect("one").len(), 1);
    let backup = place.file().with_file_name("store.db.bak-v2");
    assert!(backup.exists(), "the older binary opens the copy");
}
