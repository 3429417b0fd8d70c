//! PostgreSQL: an owner keeps its lease; a daemon whose store was taken over ends everything at once and reports it.

use crate::world::*;
use loopwright::EngineSettings;
use loopwright::daemon::DaemonEnd;
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
