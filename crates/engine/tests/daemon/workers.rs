//! Loops with labels: their rounds are offered to workers, which run them with their own state directory.

use crate::world::*;
use loopwright::clock::SystemClock;
use loopwright::proc::CancelToken;
use loopwright::worker::{Worker, WorkerNote, WorkerSettings};
use loopwright::{Engine, EngineSettings, LoopSpec};
use loopwright_core::dispatch::{LoopExplanation, LoopKey, StartBlocker};
use loopwright_core::outcome::RoundOutcome;
use loopwright_testkit::postgres;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

fn train() -> LoopSpec {
    let mut spec = every("train", "every 1h");
    spec.labels = vec!["gpu".to_owned()];
    spec
}

/// A worker with a state directory of its own, on the clock of the system.
struct Hand {
    _folder: tempfile::TempDir,
    engine: Engine,
    notes: mpsc::UnboundedReceiver<WorkerNote>,
    stop: CancelToken,
    interrupt: CancelToken,
    run: JoinHandle<()>,
}

async fn worker_engine(stage: &Stage, url: &str) -> (tempfile::TempDir, Engine) {
    let folder = tempfile::tempdir().expect("a folder");
    let (state, store) = (folder.path().join("state"), Some(url.to_owned()));
    let settings = EngineSettings { state, store, clock: Arc::new(SystemClock), ..stage.settings() };
    (folder, Engine::open(settings).await.expect("the store is shared"))
}

fn settings(stage: &Stage, name: &str) -> WorkerSettings {
    let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect();
    let agents = loopwright_core::spec::AgentUse::ALL.iter().map(|agent| agent.word().to_owned()).collect();
    let repos = std::iter::once(stage.troop.repo_id()).collect();
    let (name, version) = (name.to_owned(), "1".to_owned());
    WorkerSettings { name, labels: words(&["gpu"]), agents, repos, slots: 1, version }
}

impl Hand {
    async fn new(stage: &Stage, url: &str, name: &str) -> Self {
        let (folder, engine) = worker_engine(stage, url).await;
        let (sender, notes) = mpsc::unbounded_channel();
        let (stop, interrupt) = (CancelToken::new(), CancelToken::new());
        let tell = Arc::new(move |note: WorkerNote| drop(sender.send(note)));
        let worker = Worker::new(engine.clone(), stage.troop.clone(), settings(stage, name), interrupt.clone(), tell);
        worker.connect().await.expect("it is recorded");
        let until = stop.clone();
        let run = tokio::spawn(async move { worker.run(&until).await.expect("it ends in order") });
        Self { _folder: folder, engine, notes, stop, interrupt, run }
    }

    /// The next round that it takes.
    async fn takes(&mut self) -> String {
        match tokio::time::timeout(PATIENCE, self.notes.recv()).await.expect("in time").expect("it lives") {
            WorkerNote::Taken(round) => round,
            other => panic!("{other:?}"),
        }
    }

    /// The end of its round.
    async fn ends(&mut self) -> Option<RoundOutcome> {
        match tokio::time::timeout(PATIENCE, self.notes.recv()).await.expect("in time").expect("it lives") {
            WorkerNote::Ended(_, ended) => ended.expect("it came to rest").outcome(),
            other => panic!("{other:?}"),
        }
    }

    async fn close(self) {
        self.stop.cancel();
        self.run.await.expect("no panic");
        self.engine.close().await.expect("close");
    }
}

async fn open(stage: &Stage, url: &str) -> Show {
    stage.open_with(EngineSettings { store: Some(url.to_owned()), ..stage.settings() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_of_a_loop_with_labels_waits_for_a_worker_runs_there_and_makes_its_followers_due() {
    let url = postgres::server().database();
    let mut follow = every("follow", "");
    follow.on.after = vec!["train".to_owned()];
    let stage = Stage::new(vec![train(), follow]).await;
    let mut show = open(&stage, &url).await;
    stage.at(HOUR);
    let key = LoopKey::new(&stage.troop.repo_id(), "train");
    let blocked = loop {
        match show.daemon.explain(&key).await.expect("an answer") {
            LoopExplanation::Waiting { on: StartBlocker::Worker { needs, slots, gaps, .. }, .. } => {
                break (needs.labels, slots, gaps.len());
            }
            _ => tokio::task::yield_now().await,
        }
    };
    assert_eq!(blocked, (vec!["gpu".to_owned()], 0, 0));
    assert_eq!(stage.troop.troupe.starts(), [""; 0], "it does not run where it was decided");
    let mut hand = Hand::new(&stage, &url, "gpu-1").await;
    stage.at(HOUR + 10_000);
    show.ear.hears("started train").await;
    let round = hand.takes().await;
    assert_eq!(hand.ends().await, Some(RoundOutcome::Reported));
    stage.at(HOUR + 20_000);
    show.ear.hears("ended train reported").await;
    show.ear.hears("started follow").await;
    show.ear.hears("ended follow reported").await;
    assert_eq!(stage.troop.troupe.starts(), ["train", "follow"]);
    let report = show.engine.store().round(&round).await.expect("a read").and_then(|row| row.report);
    assert!(report.is_some(), "the worker wrote its report");
    assert_eq!(show.engine.store().offers().await.expect("offers"), [], "nothing waits any more");
    assert!(show.engine.store().verify().await.expect("verify").is_ok());
    hand.close().await;
    assert_eq!(show.engine.store().workers().await.expect("workers"), [], "it has disconnected");
    show.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_whose_worker_is_lost_before_its_maker_started_begins_again_on_another() {
    let url = postgres::server().database();
    let stage = Stage::new(vec![train()]).await;
    let (_folder, lost) = worker_engine(&stage, &url).await;
    let tell = Arc::new(|_: WorkerNote| ());
    let binder = stage.troop.clone();
    let worker = Worker::new(lost.clone(), binder, settings(&stage, "lost"), CancelToken::new(), tell);
    worker.connect().await.expect("it is recorded");
    let mut show = open(&stage, &url).await;
    stage.at(HOUR);
    show.ear.hears("started train").await;
    let places = lost.store().open_places().await.expect("places");
    let claimed = lost.store().claim("lost", &places).await.expect("a claim").expect("it is offered");
    // Three minutes pass for the database.
    let expire = format!("UPDATE processes SET lease_until_ms = 1 WHERE instance = '{}'", lost.store().instance_name());
    let _ = postgres::server().sql(&url, &expire);
    let mut hand = Hand::new(&stage, &url, "gpu-2").await;
    // The daemon looks once a second of its own clock.
    let mut now = HOUR;
    let taken = loop {
        now += 10_000;
        stage.at(now);
        match tokio::time::timeout(Duration::from_millis(200), hand.takes()).await {
            Ok(round) => break round,
            Err(_) => assert!(now < 2 * HOUR - 60_000, "no worker takes it"),
        }
    };
    assert_eq!(taken, claimed.round, "the same round");
    assert_eq!(hand.ends().await, Some(RoundOutcome::Reported));
    stage.at(now + 20_000);
    show.ear.hears("ended train reported").await;
    assert_eq!(stage.troop.troupe.starts(), ["train"], "one maker was paid");
    hand.close().await;
    lost.close().await.expect("close");
    show.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_whose_worker_is_lost_while_its_maker_works_ends_interrupted_and_its_loop_goes_on() {
    let url = postgres::server().database();
    let stage = Stage::new(vec![train()]).await;
    stage.troop.troupe.play("train", Play::Hang);
    let mut hand = Hand::new(&stage, &url, "gpu-1").await;
    let mut show = open(&stage, &url).await;
    stage.at(HOUR);
    show.ear.hears("started train").await;
    hand.takes().await;
    stage.troop.troupe.begun_times(1).await;
    let expire =
        format!("UPDATE processes SET lease_until_ms = 1 WHERE instance = '{}'", hand.engine.store().instance_name());
    let _ = postgres::server().sql(&url, &expire);
    stage.at(HOUR + 10_000);
    show.ear.hears("ended train interrupted").await;
    // The worker is continued: its agent ends, and what it writes is refused.
    hand.interrupt.cancel();
    match tokio::time::timeout(PATIENCE, hand.notes.recv()).await.expect("in time").expect("it lives") {
        WorkerNote::Ended(_, ended) => assert!(ended.is_err(), "it is fenced: {ended:?}"),
        other => panic!("{other:?}"),
    }
    let rows = show.rounds().await;
    assert_eq!(rows.iter().map(|row| row.outcome).collect::<Vec<_>>(), [Some(RoundOutcome::Interrupted)]);
    hand.close().await;
    show.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offered_round_is_ended_by_a_person_before_any_worker_takes_it() {
    let url = postgres::server().database();
    let stage = Stage::new(vec![train()]).await;
    let (_folder, idle) = worker_engine(&stage, &url).await;
    let tell = Arc::new(|_: WorkerNote| ());
    let binder = stage.troop.clone();
    let worker = Worker::new(idle.clone(), binder, settings(&stage, "idle"), CancelToken::new(), tell);
    worker.connect().await.expect("it is recorded");
    let mut show = open(&stage, &url).await;
    stage.at(HOUR);
    show.ear.hears("started train").await;
    let round = show.rounds().await[0].id.clone();
    assert!(idle.end_offered(&round, stage.troop.as_ref(), "wrong branch by ada").await.expect("a try"));
    assert!(!idle.end_offered(&round, stage.troop.as_ref(), "again").await.expect("a try"), "it is over");
    stage.at(HOUR + 10_000);
    show.ear.hears("ended train cancelled").await;
    assert_eq!(stage.troop.troupe.starts(), [""; 0], "no agent started");
    idle.close().await.expect("close");
    show.close().await;
}
