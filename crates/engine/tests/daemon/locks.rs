//! Manual rounds hold their locks and conflict with the locks of others: with a daemon, without one, and where the daemon
//! does not know their loop.

use crate::world::*;
use loopwright::daemon::{LoopFleet as _, PreparedStart};
use loopwright::proc::CancelToken;
use loopwright::round::{LoopBindings, RunRequest};
use loopwright::spec::{ItemsForm, ProbeSpec, SandboxMode};
use loopwright::units::TimeSpan;
use loopwright::{Engine, EngineError, LoopSpec, RoundOutcome, RoundReport};
use tokio::task::JoinHandle;

fn locking(name: &str, cadence: &str, lock: &str) -> LoopSpec {
    let mut spec = every(name, cadence);
    spec.locks = vec![lock.to_owned()];
    spec.timeout = Some(TimeSpan::secs(1_800));
    spec
}

fn about(stage: &Stage, name: &str, item: &str) -> RunRequest {
    RunRequest { items: vec![item.to_owned()], ..stage.troop.request(name) }
}

async fn run(engine: &Engine, request: RunRequest, bind: &LoopBindings) -> Result<RoundReport, EngineError> {
    engine.run(request, bind, &CancelToken::new()).await
}

/// Starts a round that hangs, and waits until its agent runs.
async fn begun(stage: &Stage, engine: &Engine, request: RunRequest) -> JoinHandle<Result<RoundReport, EngineError>> {
    let before = stage.troop.troupe.starts().len();
    let (engine, bind) = (engine.clone(), stage.troop.bindings());
    let by_hand = tokio::spawn(async move { run(&engine, request, &bind).await });
    stage.troop.troupe.begun_times(before + 1).await;
    by_hand
}

/// Waits until a loop is blocked, and returns the reason.
async fn waits(stage: &Stage, show: &mut Show, name: &str) -> String {
    loop {
        let why = show.daemon.explain(&stage.key(name)).await.expect("at work").text();
        if why.starts_with("due since") {
            return why;
        }
        show.ear.hears("sleeps").await;
    }
}

fn why(refused: Result<RoundReport, EngineError>) -> String {
    match refused {
        Err(EngineError::Busy { why, .. }) => why,
        other => panic!("it was not refused: {other:?}"),
    }
}

#[tokio::test]
async fn manual_round_locks_its_item_against_due_and_manual_rounds() {
    let stage = Stage::new(vec![locking("left", "", "item"), locking("right", "every 1h", "item")]).await;
    stage.troop.troupe.play("left", Play::Hang);
    stage.troop.find("right", &["issue-1@b"]);
    let mut show = stage.open().await;
    let left = begun(&stage, &show.engine, about(&stage, "left", "issue-1@a")).await;
    let round = show.daemon.snapshot().await.expect("at work").running[0].round.clone().expect("it is on record");
    let held = format!(
        "the lock `issue:1` is held by round {round} of `left` (since 2026-05-01T00:00:00Z, until 2026-05-01T00:30:00Z at the latest)"
    );
    let refused = run(&show.engine, about(&stage, "right", "issue-1@b"), &stage.troop.bindings()).await;
    assert_eq!(why(refused), held);
    stage.at(HOUR);
    let why = waits(&stage, &mut show, "right").await;
    assert!(why.contains("waiting for the lock `issue:1`, held by round"), "{why}");
    stage.troop.troupe.let_go();
    left.await.expect("no panic").expect("a round");
    show.ear.hears("started right due:2026-05-01T01:00:00Z").await;
    show.ear.hears("ended right reported").await;
    show.close().await;
}

#[tokio::test]
async fn probe_of_a_manual_round_leaves_out_items_of_other_rounds() {
    let mut probing = locking("right", "", "item");
    probing.on.probe = Some(ProbeSpec::Named("commits".to_owned()));
    let stage = Stage::new(vec![locking("left", "every 1h", "item"), probing]).await;
    stage.troop.troupe.play("left", Play::Hang);
    stage.troop.find("left", &["main@1"]);
    let mut show = stage.open().await;
    stage.at(HOUR);
    show.ear.hears("started left").await;
    let refused = run(&show.engine, stage.troop.request("right"), &stage.troop.bindings()).await;
    let why = why(refused);
    assert!(why.starts_with("the lock `item:main` is held by round") && why.contains("of `left`"), "{why}");
    assert_eq!(show.rounds().await.len(), 1, "nothing was begun");
    stage.troop.troupe.let_go();
    show.ear.hears("ended left reported").await;
    show.settled().await;
    let report = run(&show.engine, stage.troop.request("right"), &stage.troop.bindings()).await.expect("a round");
    assert_eq!(report.exit, Some(0));
    show.close().await;
}

#[tokio::test]
async fn manual_round_of_a_loop_unknown_to_the_daemon_respects_and_holds_locks() {
    let known = locking("known", "every 1h", "path:src/");
    let stage = Stage::new(vec![known.clone()]).await;
    let mut show = stage.open().await;
    stage.troop.set(vec![known, locking("new", "", "path:src/a.rs")]);
    stage.troop.troupe.play("known", Play::Hang);
    stage.at(HOUR);
    show.ear.hears("started known").await;
    let why = why(run(&show.engine, stage.troop.request("new"), &stage.troop.bindings()).await);
    assert!(why.starts_with("the lock `path:src/a.rs` conflicts with `path:src/`, which is held by round"), "{why}");
    stage.troop.troupe.let_go();
    show.ear.hears("ended known reported").await;
    show.settled().await;
    stage.troop.troupe.play("new", Play::Hang);
    let new = begun(&stage, &show.engine, stage.troop.request("new")).await;
    stage.at(2 * HOUR);
    let why = waits(&stage, &mut show, "known").await;
    assert!(
        why.contains("`path:src/a.rs` conflicts with it and is held by round") && why.contains("of `new`"),
        "{why}"
    );
    stage.troop.troupe.play("known", Play::Report);
    stage.troop.troupe.let_go();
    new.await.expect("no panic").expect("a round");
    show.ear.hears("started known due:2026-05-01T02:00:00Z").await;
    show.ear.hears("ended known reported").await;
    show.close().await;
}

#[tokio::test]
async fn rounds_of_one_process_respect_each_others_locks_without_a_daemon() {
    let stage = Stage::new(vec![locking("left", "", "item"), locking("right", "", "item")]).await;
    let engine = Engine::open(stage.settings()).await.expect("the state directory is free");
    let Ok(PreparedStart::Round(ready)) = stage.troop.prepare(&engine, &stage.key("right")).await else {
        panic!("it can be prepared")
    };
    stage.troop.troupe.play("left", Play::Hang);
    let left = begun(&stage, &engine, about(&stage, "left", "issue-1@a")).await;
    let why = why(run(&engine, about(&stage, "right", "issue-1@b"), &ready.bind).await);
    assert!(why.starts_with("the lock `issue:1` is held by round"), "{why}");
    assert!(why.ends_with("of `left` (since 2026-05-01T00:00:00Z, until 2026-05-01T00:30:00Z at the latest)"), "{why}");
    run(&engine, about(&stage, "right", "issue-2@b"), &ready.bind).await.expect("another item is free");
    stage.troop.troupe.let_go();
    left.await.expect("no panic").expect("a round");
    run(&engine, about(&stage, "right", "issue-1@b"), &ready.bind).await.expect("it is free again");
    engine.close().await.expect("closed");
}

/// A loop whose probe appends a line to a file at each run, and gives another answer after the first run.
fn asking_once(stage: &Stage, first: &str, items: ItemsForm) -> LoopSpec {
    let count = stage.world.repo.path().join(".git/asked");
    let script = format!("echo x >> {0}; [ $(wc -l < {0}) = 1 ] && {{ {first}; }}; echo issue-1@a", count.display());
    let mut spec = locking("look", "", "item");
    spec.sandbox = SandboxMode::Off;
    spec.on.probe = Some(ProbeSpec::Run { run: ["sh", "-c", &script].map(str::to_owned).to_vec(), items, batch: 1 });
    spec
}

#[tokio::test]
async fn probe_of_a_manual_round_runs_once_for_any_answer() {
    let table = [
        ("exit 1", ItemsForm::Lines, RoundOutcome::NothingToDo),
        ("exit 7", ItemsForm::Lines, RoundOutcome::Failed),
        ("exit 0", ItemsForm::None, RoundOutcome::Reported),
        ("echo issue-2@$$; exit 0", ItemsForm::Lines, RoundOutcome::Reported),
    ];
    for (first, items, outcome) in table {
        let stage = Stage::new(Vec::new()).await;
        stage.troop.set(vec![asking_once(&stage, first, items)]);
        let asked = || std::fs::read_to_string(stage.world.repo.path().join(".git/asked")).expect("it was asked");
        let engine = Engine::open(stage.settings()).await.expect("the state directory is free");
        let alone = run(&engine, stage.troop.request("look"), &stage.troop.bindings()).await.expect("a round");
        assert_eq!((alone.outcome, asked().as_str()), (Some(outcome), "x\n"), "{first}");
        engine.close().await.expect("closed");
        std::fs::remove_file(stage.world.repo.path().join(".git/asked")).expect("it is there");
        let show = stage.open().await;
        let beside = run(&show.engine, stage.troop.request("look"), &stage.troop.bindings()).await.expect("a round");
        assert_eq!((beside.outcome, asked().as_str()), (Some(outcome), "x\n"), "{first}, beside a daemon");
        show.close().await;
    }
}
