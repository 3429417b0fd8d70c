//! PostgreSQL: an owner keeps its lease; a daemon whose store was taken over ends everything at once and reports it.

use crate::world::*;
use loopwright::daemon::DaemonEnd;
use loopwright::store::{RoundRequestKind, RoundRequestRow, RoundRequestState, RowChange};
use loopwright::{Engine, EngineSettings};
use loopwright_testkit::postgres::{self, PostgresServer};
use sqlx::{Connection as _, Row as _};

#[tokio::test]
async fn a_daemon_whose_store_was_taken_over_cancels_everything_and_ends_with_the_reason() {
    let url = loopwright_testkit::postgres::server().database();
    let stage = Stage::new(vec![every("hangs", "every 1h"), every("next", "every 2h")]).await;
    stage.troop.troupe.play("hangs", Play::Hang);
    let mut show = stage.open_with(EngineSettings { store: Some(url.clone()), ..stage.settings() }).await;
    stage.at(HOUR);
    show.ear.hears("started hangs").await;
    // Another engine takes over, as it may when the lease has expired.
    let mut other = sqlx::PgConnection::connect(&url).await.expect("a connection");
    sqlx::query("UPDATE leases SET fence = fence + 1 WHERE name = 'dispatcher'")
        .execute(&mut other)
        .await
        .expect("the fence");
    stage.at(2 * HOUR);
    show.ear.hears("fenced").await;
    let (ended, lines) = show.end().await;
    assert!(matches!(&ended, DaemonEnd::Fenced(why) if why.contains("another process")), "{ended:?} {lines:?}");
    let rounds = sqlx::query("SELECT id FROM rounds").fetch_all(&mut other).await.expect("rounds");
    assert_eq!(rounds.len(), 1, "nothing was started for `next`");
}

/// A daemon with one loop whose agent hangs, on a server of its own.
async fn hanging(server: &PostgresServer) -> (Stage, Show) {
    let url = server.database();
    let stage = Stage::new(vec![every("hangs", "every 1h")]).await;
    stage.troop.troupe.play("hangs", Play::Hang);
    let mut show = stage.open_with(EngineSettings { store: Some(url), ..stage.settings() }).await;
    stage.at(HOUR);
    show.ear.hears("started hangs").await;
    stage.troop.troupe.begun_times(1).await;
    (stage, show)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maker_whose_database_restarts_is_paid_once() {
    let server = postgres::own_server();
    let (stage, mut show) = hanging(&server).await;
    server.stop();
    stage.troop.troupe.let_go();
    // The end of the agent cannot be recorded now, and waits.
    show.ear.hears("warning(\"the database is away").await;
    server.start();
    show.ear.hears("ended hangs reported").await;
    assert_eq!(stage.troop.troupe.starts(), ["hangs"], "nothing was made again");
    show.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_a_round_that_another_process_took_over_end_with_the_next_renewal() {
    let url = postgres::server().database();
    let stage = Stage::new(vec![every("hangs", "every 1h")]).await;
    stage.troop.troupe.play("hangs", Play::Hang);
    let mut show = stage.open_with(EngineSettings { store: Some(url.clone()), ..stage.settings() }).await;
    stage.at(HOUR);
    show.ear.hears("started hangs").await;
    stage.troop.troupe.begun_times(1).await;
    let taken = "UPDATE leases SET fence = fence + 1, instance = 'other' WHERE name <> 'dispatcher'";
    let _ = postgres::server().sql(&url, taken);
    let events = "SELECT count(*) FROM events";
    let before = postgres::server().sql(&url, events);
    // Nothing is due, so only the renewal can notice it.
    stage.at(HOUR + 2 * MINUTE);
    let parked = show.ear.hears("parked hangs").await;
    assert!(parked.contains("another process took"), "{parked}");
    assert_eq!(postgres::server().sql(&url, events), before, "a fenced process writes nothing about the round");
    show.close().await;
}

/// An engine as of another machine: the same store and another state directory.
async fn elsewhere(stage: &Stage, url: &str) -> (tempfile::TempDir, Engine) {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let settings = EngineSettings { state, store: Some(url.to_owned()), ..stage.settings() };
    (folder, Engine::open(settings).await.expect("the store is shared"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_is_stopped_and_everything_is_stopped_from_another_machine() {
    let url = postgres::server().database();
    let stage = Stage::new(vec![every("hangs", "every 1h")]).await;
    stage.troop.troupe.play("hangs", Play::Hang);
    let mut show = stage.open_with(EngineSettings { store: Some(url.clone()), ..stage.settings() }).await;
    let (_folder, other) = elsewhere(&stage, &url).await;
    stage.at(HOUR);
    show.ear.hears("started hangs").await;
    stage.troop.troupe.begun_times(1).await;
    let round = show.rounds().await[0].id.clone();
    let request = RoundRequestRow {
        id: "q1".to_owned(),
        round,
        kind: RoundRequestKind::Stop,
        actor: "ada".to_owned(),
        text: "wrong branch".to_owned(),
        at_ms: T0,
        state: RoundRequestState::Pending,
    };
    other.write_rows(vec![RowChange::NewRequest(request)]).await.expect("any process may ask");
    stage.at(HOUR + 10_000);
    show.ear.hears("ended hangs cancelled").await;
    let state = "SELECT state FROM round_requests";
    assert_eq!(postgres::server().sql(&url, state), "applied");
    stage.at(2 * HOUR);
    show.ear.hears("started hangs").await;
    stage.troop.troupe.begun_times(2).await;
    other.stop_all("ada", "fire").await.expect("the flag is written");
    stage.at(2 * HOUR + 10_000);
    show.ear.hears("frozen ada fire").await;
    show.ear.hears("ended hangs").await;
    other.thaw_all(Vec::new(), "ada").await.expect("the flag is removed");
    stage.at(2 * HOUR + 20_000);
    show.ear.hears("thawed").await;
    other.close().await.expect("close");
    show.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_file_reaches_the_processes_of_other_machines_as_a_flag() {
    let url = postgres::server().database();
    let stage = Stage::new(vec![every("look", "")]).await;
    let settings = EngineSettings { store: Some(url.clone()), ..stage.settings() };
    let file = settings.state.join(loopwright::daemon::STOP_FILE);
    let mut show = stage.open_with(settings).await;
    let (_folder, other) = elsewhere(&stage, &url).await;
    std::fs::write(&file, "smoke\n").expect("the file can be written");
    let _ = show.daemon.snapshot().await.expect("it answers");
    show.ear.hears("frozen").await;
    let seen = async {
        while other.global_stop().await.expect("flags").is_none_or(|stop| stop.why != "smoke") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.expect("the flag is written");
    std::fs::remove_file(&file).expect("the file can be removed");
    let _ = show.daemon.snapshot().await.expect("it answers");
    show.ear.hears("thawed").await;
    let gone = async {
        while other.global_stop().await.expect("flags").is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the flag is removed");
    other.close().await.expect("close");
    show.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_a_shared_store_leaves_no_file_that_stops_a_machine_again_after_thaw() {
    let url = postgres::server().database();
    let stage = Stage::new(vec![every("look", "")]).await;
    let settings = EngineSettings { store: Some(url.clone()), ..stage.settings() };
    let here = settings.state.join(loopwright::daemon::STOP_FILE);
    let mut show = stage.open_with(settings).await;
    let (folder, other) = elsewhere(&stage, &url).await;
    let there = folder.path().join("state").join(loopwright::daemon::STOP_FILE);
    show.daemon.freeze("ada", "fire").await.expect("it is recorded");
    assert!(!here.exists(), "the flag is enough on the machine that schedules");
    show.daemon.thaw("ada").await.expect("it is recorded");
    show.ear.hears("thawed").await;
    other.stop_all("ada", "fire").await.expect("it is recorded");
    assert!(!there.exists(), "the flag is enough on a machine that stands by");
    stage.at(10_000);
    show.ear.hears("frozen ada fire").await;
    show.daemon.thaw("ada").await.expect("it is recorded");
    assert!(other.global_stop().await.expect("flags").is_none(), "the other machine may schedule");
    std::fs::write(&there, "by a person\n").expect("the file can be written");
    other.stop_all("ada", "fire").await.expect("it is recorded");
    assert!(there.exists(), "a file that a person wrote stays");
    other.close().await.expect("close");
    show.close().await;
}

/// When the lease expires, by the database's clock.
async fn lease(other: &mut sqlx::PgConnection) -> i64 {
    let row = sqlx::query("SELECT lease_until_ms FROM processes").fetch_one(other).await.expect("the process");
    row.get("lease_until_ms")
}

#[tokio::test]
async fn daemon_renews_its_lease_repeatedly() {
    let url = loopwright_testkit::postgres::server().database();
    let stage = Stage::new(vec![every("look", "")]).await;
    let show = stage.open_with(EngineSettings { store: Some(url.clone()), ..stage.settings() }).await;
    let mut other = sqlx::PgConnection::connect(&url).await.expect("a connection");
    let mut minutes = 0;
    for time in 1..=3 {
        sqlx::query("UPDATE processes SET lease_until_ms = 1")
            .execute(&mut other)
            .await
            .expect("it is about to run out");
        let renewed = async {
            while lease(&mut other).await == 1 {
                minutes += 1;
                stage.at(minutes * MINUTE);
            }
        };
        let renewed = tokio::time::timeout(std::time::Duration::from_secs(20), renewed).await;
        assert!(renewed.is_ok(), "it was not renewed the {time}. time");
    }
    show.close().await;
}
