//! A daemon on PostgreSQL, through the real program: one daemon schedules, commands on any machine work, and another
//! daemon replaces a frozen one.

use crate::world::{LONG, REPORT, World};
use loopwright_testkit::{postgres, wait};

fn beating(url: &str) -> World {
    let world = World::on(url);
    world.add("beat", "check: none\non: { every: 1s }\n", REPORT);
    world
}

/// A daemon as if on another machine: it shares the database and no files.
fn elsewhere(world: &World, line: &str) -> String {
    format!("--state {} {line}", world.env.root().join("elsewhere").display())
}

fn reported(url: &str) -> usize {
    let count = postgres::server().sql(url, "SELECT count(*) FROM rounds WHERE outcome = 'reported'");
    count.parse().expect("a number")
}

#[test]
fn daemon_works_on_postgresql_and_a_second_one_names_the_holder() {
    let url = postgres::server().database();
    let world = beating(&url);
    let daemon = world.up();
    daemon.wait_for("end       beat");
    assert_eq!(world.run("run look --json").success().json()["outcome"], "reported", "commands are sent to it");
    for line in ["up".to_owned(), elsewhere(&world, "up"), elsewhere(&world, "tick")] {
        let refused = world.run(&line).code(1);
        assert!(refused.stderr().contains(&daemon.pid().to_string()), "{line}: {}", refused.stderr());
    }
    let beside = world.run(&elsewhere(&world, "run look --json")).success().json();
    assert_eq!(beside["outcome"], "reported", "a round works beside it");
    daemon.stop();
    let (rounds, receipts) = (reported(&url), "SELECT count(*) FROM receipts WHERE receipt = 'started'");
    assert!(rounds >= 2);
    let started: usize = postgres::server().sql(&url, receipts).parse().expect("a number");
    assert!(started + 2 >= rounds, "each but those by hand has its receipt");
    assert_eq!(world.run(&elsewhere(&world, "run look --json")).success().json()["outcome"], "reported", "it is free");
    let _ = world.run("verify").success();
}

#[test]
fn frozen_daemon_is_fenced_and_replaced_when_its_lease_has_expired() {
    let url = postgres::server().database();
    let world = beating(&url);
    let mut frozen = world.up();
    frozen.wait_for("end       beat");
    frozen.signal("STOP");
    let refused = world.run(&elsewhere(&world, "up")).code(1);
    assert!(refused.stderr().contains(&frozen.pid().to_string()), "its lease still runs: {}", refused.stderr());
    // Three minutes pass for the database.
    let _ = postgres::server().sql(&url, "UPDATE processes SET lease_until_ms = 1");
    let second = world.up_with(&elsewhere(&world, "up"));
    let before = reported(&url);
    wait::until("rounds of the second one", LONG, || reported(&url) > before + 1);
    frozen.signal("CONT");
    let status = frozen.ended();
    assert!(!status.success(), "{status}: {}", frozen.said());
    assert!(frozen.said().contains("another"), "it says why: {}", frozen.said());
    let before = reported(&url);
    wait::until("the second one goes on", LONG, || reported(&url) > before);
    second.stop();
    let doubled = "SELECT count(*) FROM (SELECT occurrence FROM rounds GROUP BY repo, loop_name, occurrence HAVING count(*) > 1) AS twice";
    assert_eq!(postgres::server().sql(&url, doubled), "0", "no moment has two rounds");
    let _ = world.run(&elsewhere(&world, "verify")).success();
}
