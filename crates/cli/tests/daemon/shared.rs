//! A daemon on PostgreSQL, through the real program: one daemon schedules, commands on any machine work, and another
//! daemon replaces a frozen one.

use crate::world::{Daemon, LONG, REPORT, World};
use loopwright_testkit::{postgres, wait};
use std::time::Duration;

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
fn daemon_works_on_postgresql_and_a_second_one_stands_by() {
    let url = postgres::server().database();
    let world = beating(&url);
    let daemon = world.up();
    daemon.wait_for("end       beat");
    assert_eq!(world.run("run look --json").success().json()["outcome"], "reported", "commands are sent to it");
    for line in ["up --detach".to_owned(), elsewhere(&world, "tick")] {
        let refused = world.run(&line).code(1);
        assert!(refused.stderr().contains(&daemon.pid().to_string()), "{line}: {}", refused.stderr());
    }
    let second = Daemon::start(&world, &elsewhere(&world, "up"));
    let waits = second.wait_for("takes over when that one ends");
    assert!(waits.contains(&daemon.pid().to_string()), "{waits}");
    assert!(second.stop().lines().all(|line| !line.contains("up: process")), "a signal ends it while it waits");
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
    let second = Daemon::start(&world, &elsewhere(&world, "up"));
    let waits = second.wait_for("takes over when that one ends");
    assert!(waits.contains(&frozen.pid().to_string()), "its lease still runs: {waits}");
    // Three minutes pass for the database.
    let pass = format!("UPDATE processes SET lease_until_ms = 1 WHERE pid = {}", frozen.pid());
    let _ = postgres::server().sql(&url, &pass);
    second.wait_for("up: process");
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

#[test]
fn a_start_beside_a_frozen_daemon_whose_lease_has_expired_names_it_and_gives_back_what_it_took() {
    let url = postgres::server().database();
    let world = beating(&url);
    let frozen = world.up();
    frozen.wait_for("end       beat");
    frozen.signal("STOP");
    let _ = postgres::server().sql(&url, "UPDATE processes SET lease_until_ms = 1");
    let refused = world.run("up").code(1);
    assert!(refused.stderr().contains(&format!("kill -CONT {}", frozen.pid())), "{}", refused.stderr());
    let held = "SELECT count(*) FROM leases WHERE name = 'dispatcher' AND instance <> ''";
    assert_eq!(postgres::server().sql(&url, held), "0", "the start that failed has no lease");
    frozen.signal("KILL");
    world.up().stop();
}

#[test]
fn a_daemon_that_was_killed_is_replaced_at_once_even_before_its_parent_has_collected_it() {
    let url = postgres::server().database();
    let world = beating(&url);
    let killed = world.up();
    killed.wait_for("end       beat");
    killed.signal("KILL");
    let stat = format!("/proc/{}/stat", killed.pid());
    wait::until("its end", LONG, || std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") Z ")));
    let next = world.up();
    next.wait_for("end       beat");
    next.stop();
}

#[test]
fn a_daemon_that_stands_by_takes_over_within_seconds_of_the_end_of_the_other() {
    let url = postgres::server().database();
    let world = beating(&url);
    let mut first = world.up();
    first.wait_for("end       beat");
    let second = Daemon::start(&world, &elsewhere(&world, "up"));
    second.wait_for("takes over when that one ends");
    let third = Daemon::start(&world, &elsewhere(&world, "up"));
    third.wait_for("takes over when that one ends");
    first.signal("KILL");
    let _ = first.ended();
    let leads = |daemon: &Daemon| daemon.said().contains("up: process");
    wait::until("another one to schedule", Duration::from_secs(10), || leads(&second) || leads(&third));
    let before = reported(&url);
    wait::until("its rounds", LONG, || reported(&url) > before);
    assert!(!(leads(&second) && leads(&third)), "only one schedules");
    let (leader, waiting) = if leads(&second) { (second, third) } else { (third, second) };
    leader.stop();
    waiting.wait_for("up: process");
    waiting.stop();
    let doubled = "SELECT count(*) FROM (SELECT occurrence FROM rounds GROUP BY repo, loop_name, occurrence HAVING count(*) > 1) AS twice";
    assert_eq!(postgres::server().sql(&url, doubled), "0", "no moment has two rounds");
}
