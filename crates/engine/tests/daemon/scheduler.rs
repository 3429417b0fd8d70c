//! The library's scheduler: loops bound in code, on the same clock and record as the daemon's.

use crate::world::{HOUR, MINUTE, Play, Stage, every};
use loopwright::daemon::{DaemonEnd, TickReport};
use loopwright::{
    Engine, LoopEngine, LoopScheduler, LoopSink, LoopSpec, RoundReport, ScheduleError, SchedulerHandle, SinkError,
};
use loopwright_core::spec::ProbeSpec;
use std::time::Duration;
use tokio::sync::mpsc;

/// A sink whose reports a test can await.
#[derive(Clone)]
struct Post(mpsc::UnboundedSender<String>);

struct Letters(mpsc::UnboundedReceiver<String>);

impl LoopSink for Post {
    fn deliver(&self, report: &RoundReport) -> Result<(), SinkError> {
        let word = report.outcome.map_or("-", |outcome| outcome.word());
        let _ = self.0.send(format!("{} {word}", report.loop_name));
        Err(SinkError::new("a sink may fail without an effect"))
    }
}

impl Letters {
    async fn next(&mut self) -> String {
        let next = tokio::time::timeout(Duration::from_secs(60), self.0.recv()).await;
        next.expect("a report arrives").expect("the sinks live")
    }

    fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

fn post() -> (Post, Letters) {
    let (send, receive) = mpsc::unbounded_channel();
    (Post(send), Letters(receive))
}

struct Desk {
    stage: Stage,
    post: Post,
}

impl Desk {
    async fn new() -> (Self, Letters) {
        let (post, letters) = post();
        (Self { stage: Stage::new(Vec::new()).await, post }, letters)
    }

    async fn engine(&self) -> Engine {
        Engine::open(self.stage.settings()).await.expect("the state directory is free")
    }

    fn bound(&self, engine: &Engine, spec: LoopSpec) -> LoopEngine {
        let builder = LoopEngine::builder(spec).maker(self.stage.troop.troupe.clone()).with_sink(self.post.clone());
        builder.build_on(engine.clone(), self.stage.world.repo.path()).expect("the loop is built")
    }

    async fn scheduler(&self, engine: &Engine, specs: Vec<LoopSpec>) -> LoopScheduler {
        let mut scheduler = LoopScheduler::new(engine.clone());
        for spec in specs {
            scheduler.register(self.bound(engine, spec)).await.expect("a loop that can be scheduled");
        }
        scheduler
    }

    async fn start(&self, specs: Vec<LoopSpec>) -> (Engine, SchedulerHandle) {
        let engine = self.engine().await;
        let handle = self.scheduler(&engine, specs).await.start().await.expect("it starts");
        (engine, handle)
    }

    async fn tick(&self, specs: Vec<LoopSpec>) -> TickReport {
        let engine = self.engine().await;
        let report = self.scheduler(&engine, specs).await.tick_once().await.expect("one pass");
        engine.close().await.expect("closed");
        report
    }
}

async fn stop(engine: &Engine, handle: SchedulerHandle) {
    assert_eq!(handle.stop(Duration::from_secs(60)).await, DaemonEnd::Drained);
    engine.close().await.expect("closed");
}

#[tokio::test]
async fn loop_fires_on_its_cadence_and_not_because_a_program_started() {
    let (desk, mut letters) = Desk::new().await;
    for hour in 1..=3 {
        let (engine, handle) = desk.start(vec![every("look", "every 1h"), every("rare", "every 30d")]).await;
        desk.stage.at(hour * HOUR);
        assert_eq!(letters.next().await, "look reported");
        stop(&engine, handle).await;
        assert_eq!(letters.rest(), [""; 0], "hour {hour}");
    }
    assert_eq!(desk.stage.troop.troupe.starts().len(), 3);
}

#[tokio::test]
async fn one_pass_runs_each_due_loop_once() {
    let (desk, mut letters) = Desk::new().await;
    let loops = || vec![every("look", "every 1h"), every("see", "every 2h")];
    assert!(desk.tick(loops()).await.rounds.is_empty(), "a first pass starts nothing");
    desk.stage.at(HOUR + MINUTE);
    let ran = |report: TickReport| report.rounds.iter().map(|round| round.key.name.to_string()).collect::<Vec<_>>();
    assert_eq!(ran(desk.tick(loops()).await), ["look"]);
    assert!(desk.tick(loops()).await.rounds.is_empty(), "nothing runs twice");
    assert_eq!(letters.rest(), ["look reported"]);
}

#[tokio::test]
async fn a_loop_whose_probe_finds_nothing_has_a_receipt_and_no_round() {
    let (desk, mut letters) = Desk::new().await;
    let asking = || {
        let mut spec = every("asks", "every 1h");
        spec.on.probe = Some(ProbeSpec::Named("open-issues".to_owned()));
        vec![spec]
    };
    desk.tick(asking()).await;
    desk.stage.at(HOUR + MINUTE);
    let report = desk.tick(asking()).await;
    assert_eq!(report.receipts.iter().map(|receipt| receipt.fate.word()).collect::<Vec<_>>(), ["no-work"]);
    assert!(report.rounds.is_empty() && letters.rest().is_empty());
    assert_eq!(desk.stage.troop.troupe.starts().len(), 0);
}

#[tokio::test]
async fn loop_that_panics_does_not_stop_the_others() {
    let (desk, mut letters) = Desk::new().await;
    desk.stage.troop.troupe.play("bad", Play::Panic);
    let (engine, handle) = desk.start(vec![every("bad", "every 1h"), every("good", "every 1h")]).await;
    let mut outcomes = Vec::new();
    for hour in 1..=2 {
        desk.stage.at(hour * HOUR + MINUTE * hour);
        outcomes.extend([letters.next().await, letters.next().await]);
    }
    outcomes.sort();
    assert_eq!(outcomes, ["bad failed", "bad failed", "good reported", "good reported"]);
    stop(&engine, handle).await;
}

#[tokio::test]
async fn manual_round_beside_the_scheduler_is_reported_once() {
    let (desk, mut letters) = Desk::new().await;
    let engine = desk.engine().await;
    let scheduler = desk.scheduler(&engine, vec![every("look", "every 1h")]).await;
    let handle = scheduler.start().await.expect("it starts");
    desk.bound(&engine, every("look", "every 1h")).run_once().await.expect("a manual round");
    stop(&engine, handle).await;
    assert_eq!(letters.rest(), ["look reported"]);
}

#[tokio::test]
async fn loop_that_could_never_fire_is_refused_when_it_is_registered() {
    let (desk, _letters) = Desk::new().await;
    let engine = desk.engine().await;
    let mut scheduler = desk.scheduler(&engine, vec![every("look", "every 1h")]).await;
    let twice = scheduler.register(desk.bound(&engine, every("look", "daily 08:00"))).await.map(|_| ());
    assert!(matches!(twice, Err(ScheduleError::Twice(name)) if name == "look"));
    let never = scheduler.register(desk.bound(&engine, every("quiet", ""))).await.map(|_| ());
    assert!(matches!(never, Err(ScheduleError::NeverDue(name)) if name == "quiet"));
    let elsewhere = tempfile::tempdir().expect("a folder");
    let other =
        Engine::open(loopwright::EngineSettings::new(elsewhere.path().join("state"))).await.expect("another engine");
    let foreign = scheduler.register(desk.bound(&other, every("far", "every 1h"))).await.map(|_| ());
    assert!(matches!(foreign, Err(ScheduleError::OtherEngine(name)) if name == "far"));
    let mut nowhere = LoopScheduler::new(engine.clone()).with_zone("Middle/Earth");
    let lost = nowhere.register(desk.bound(&engine, every("lost", "daily 08:00"))).await.map(|_| ());
    assert!(matches!(lost, Err(ScheduleError::Cadence { name, .. }) if name == "lost"));
    assert_eq!((scheduler.len(), nowhere.is_empty()), (1, true));
}
