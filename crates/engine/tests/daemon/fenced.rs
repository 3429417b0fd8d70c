//! PostgreSQL: an owner that was taken over ends everything at once and says so.

use crate::world::*;
use loopwright::Settings;
use loopwright::daemon::Ended;
use sqlx::Connection as _;

#[tokio::test]
async fn a_daemon_whose_store_was_taken_over_cancels_everything_and_ends_with_the_reason() {
    let url = loopwright_testkit::postgres::server().database();
    let stage = Stage::new(vec![every("hangs", "every 1h"), every("next", "every 2h")]).await;
    stage.troop.troupe.play("hangs", Play::Hang);
    let mut show = stage.open_with(Settings { store: Some(url.clone()), ..stage.settings() }).await;
    stage.at(HOUR);
    show.ear.hears("started hangs").await;
    // Another engine takes over, as it may when the lease has run out.
    let mut other = sqlx::PgConnection::connect(&url).await.expect("a connection");
    sqlx::query("UPDATE owner SET fence = fence + 1").execute(&mut other).await.expect("the fence");
    stage.at(2 * HOUR);
    show.ear.hears("fenced").await;
    let (ended, lines) = show.end().await;
    assert!(matches!(&ended, Ended::Fenced(why) if why.contains("another owner")), "{ended:?} {lines:?}");
    let rounds = sqlx::query("SELECT id FROM rounds").fetch_all(&mut other).await.expect("rounds");
    assert_eq!(rounds.len(), 1, "nothing was started for `next`");
}
