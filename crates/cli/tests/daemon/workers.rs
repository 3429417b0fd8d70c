//! Workers through the real program: a scheduler and workers of one PostgreSQL store, each with its own state directory.

use crate::world::{Daemon, LONG, REPORT, World};
use loopwright_testkit::{postgres, wait};

/// A world whose loop `train` runs on workers with the label `gpu`.
fn training(url: &str) -> World {
    let world = World::on(url);
    world.add("train", "check: none\non: { every: 1s }\nlabels: gpu\n", REPORT);
    world
}

/// A command as if on another machine: it shares the database and no files.
fn on(world: &World, machine: &str, line: &str) -> String {
    format!("--state {} {line}", world.env.root().join(machine).display())
}

fn worker(world: &World, name: &str, more: &str) -> Daemon {
    let worker = Daemon::start(world, &on(world, name, &format!("worker --name {name} {more}")));
    worker.wait_for(&format!("worker {name}: process"));
    worker
}

fn reported(url: &str) -> usize {
    let count = postgres::server().sql(url, "SELECT count(*) FROM rounds WHERE outcome = 'reported'");
    count.parse().expect("a number")
}

/// Waits until `why` says this about the loop.
fn why_says(world: &World, text: &str) {
    let why = || world.json("why train")["because"].to_string();
    wait::until(text, LONG, || why().contains(text));
}

#[test]
fn loops_with_labels_run_on_workers_that_have_them_and_why_says_what_is_missing() {
    let url = postgres::server().database();
    let world = training(&url);
    let scheduler = world.up();
    why_says(&world, "waiting for a worker with the label `gpu` and with scripted: no worker is connected");
    let plain = worker(&world, "plain", "--label cpu");
    why_says(&world, "plain lacks the label `gpu`");
    assert_eq!(reported(&url), 0, "no machine runs it");
    let gpu = worker(&world, "gpu-1", "--label gpu --label big --slots 2");
    gpu.wait_for("reported");
    scheduler.wait_for("end       train");
    let listed = world.json("workers");
    let names: Vec<_> = listed["workers"].as_array().expect("a list").iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["gpu-1", "plain"]);
    let own = &listed["workers"][0];
    assert_eq!((&own["state"], &own["slots"]), (&"active".into(), &2.into()), "{own}");
    assert_eq!(own["labels"], serde_json::json!(["big", "gpu"]));
    let page = world.run("workers").success();
    assert!(page.stdout().contains("gpu-1") && page.stdout().contains("big, gpu"), "{}", page.stdout());
    // Transcripts are files of the machine that ran the round.
    assert!(world.env.root().join("gpu-1/transcripts").is_dir(), "the round ran on the worker");
    let twice = world.run(&on(&world, "twice", "worker --name gpu-1 --label gpu")).code(1);
    assert!(twice.stderr().contains(&format!("worker `gpu-1` is process {}", gpu.pid())), "{}", twice.stderr());
    plain.stop();
    gpu.stop();
    assert_eq!(world.json("workers")["workers"], serde_json::json!([]), "they have disconnected");
    scheduler.stop();
    let doubled = "SELECT count(*) FROM (SELECT occurrence FROM rounds GROUP BY repo, loop_name, occurrence HAVING count(*) > 1) AS twice";
    assert_eq!(postgres::server().sql(&url, doubled), "0", "no moment has two rounds");
    let _ = world.run("verify").success();
}

#[test]
fn a_drained_worker_takes_no_round_until_it_is_undrained() {
    let url = postgres::server().database();
    let world = training(&url);
    let scheduler = world.up();
    let gpu = worker(&world, "gpu-1", "--label gpu");
    gpu.wait_for("reported");
    assert_eq!(world.json("workers drain gpu-1")["state"], "draining");
    why_says(&world, "gpu-1 takes no more rounds (drained)");
    assert_eq!(world.json("workers")["workers"][0]["state"], "draining");
    gpu.stop();
    let gpu = worker(&world, "gpu-1", "--label gpu");
    assert_eq!(world.json("workers")["workers"][0]["drained"], true, "also when it connects again");
    let before = reported(&url);
    assert_eq!(world.json("workers undrain gpu-1")["state"], "active");
    wait::until("rounds again", LONG, || reported(&url) > before);
    let unknown = world.run("workers drain nobody").code(2);
    assert!(unknown.stderr().contains("there is no worker `nobody`"), "{}", unknown.stderr());
    gpu.stop();
    scheduler.stop();
}

#[test]
fn a_worker_that_is_killed_loses_no_due_time_and_another_one_goes_on() {
    let url = postgres::server().database();
    let world = training(&url);
    let scheduler = world.up();
    let mut first = worker(&world, "gpu-1", "--label gpu");
    first.wait_for("reported");
    first.signal("KILL");
    let _ = first.ended();
    let second = worker(&world, "gpu-2", "--label gpu");
    let before = reported(&url);
    wait::until("rounds of the second one", LONG, || reported(&url) > before + 1);
    let listed = world.json("workers");
    let states: Vec<_> = listed["workers"].as_array().expect("a list").iter().map(|one| one["state"].clone()).collect();
    assert_eq!(states, ["gone", "active"]);
    second.stop();
    scheduler.stop();
    let open = "SELECT count(*) FROM rounds WHERE ended_ms IS NULL";
    wait::until("no round is left open", LONG, || postgres::server().sql(&url, open) == "0");
    let unreceipted = "SELECT count(*) FROM rounds r WHERE NOT EXISTS (SELECT 1 FROM receipts c WHERE c.round = r.id)";
    assert_eq!(postgres::server().sql(&url, unreceipted), "0", "each round has its receipt");
    let _ = world.run("verify").success();
}

#[test]
fn a_worker_needs_a_shared_store_and_says_so() {
    let world = World::new();
    let refused = world.run("worker --label gpu").code(1);
    assert!(refused.stderr().contains("a worker needs a store that machines share"), "{}", refused.stderr());
    for (line, why) in
        [("worker --label no/label", "is not a label"), ("worker --label gpu --slots 0", "0"), ("worker", "--label")]
    {
        let refused = world.run(line).code(2);
        assert!(refused.stderr().contains(why), "{line}: {}", refused.stderr());
    }
}
