//! A store that fails: no decision is lost, and none is carried out twice.

use crate::common::{judge, mender, mending};
use crate::world::*;
use loopwright::daemon::{LoopFleet, PreparedStart};
use loopwright::proc::CancelToken;
use loopwright::round::{LoopBindings, RoleAgents};
use loopwright::seam::{Seam, SeamFault, SeamHook, SeamMoment};
use loopwright::spec::Role;
use loopwright::{Engine, EngineSettings, LoopLevel, RoundOutcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Makes the next writes fail, before or after they took effect.
#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) before: AtomicU32,
    after: AtomicU32,
}

fn takes_one(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl SeamHook for Faults {
    fn hit(&self, moment: SeamMoment, site: &'static str) -> Result<(), SeamFault> {
        let (count, when) = match moment {
            SeamMoment::Before => (&self.before, "before"),
            SeamMoment::After => (&self.after, "after"),
        };
        if site == "store.append" && takes_one(count) { Err(SeamFault { site, when }) } else { Ok(()) }
    }
}

/// Counts transactions.
#[derive(Default)]
struct Writes(AtomicU32);

impl SeamHook for Writes {
    fn hit(&self, moment: SeamMoment, site: &'static str) -> Result<(), SeamFault> {
        if site == "store.append" && moment == SeamMoment::Before {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

#[tokio::test]
async fn loops_due_together_without_work_are_written_together() {
    for number in [1, 20, 200] {
        let names: Vec<String> = (0..number).map(|number| format!("look-{number}")).collect();
        let mut stage = Stage::new(names.iter().map(|name| every(name, "every 1h")).collect()).await;
        (stage.limits.total, stage.limits.per_repo) = (number, number);
        names.iter().for_each(|name| stage.troop.find(name, &[]));
        let writes = Arc::new(Writes::default());
        let hook = Arc::clone(&writes) as Arc<dyn SeamHook>;
        let mut show = stage.open_with(EngineSettings { seam: Seam::hooked(hook), ..stage.settings() }).await;
        show.settled().await;
        let before = writes.0.load(Ordering::SeqCst);
        stage.at(HOUR);
        for _ in 0..number {
            show.ear.hears("kept look-").await;
        }
        show.settled().await;
        let transactions = writes.0.load(Ordering::SeqCst) - before;
        assert!(transactions <= 3, "{transactions} for {number} loops");
        assert_eq!(show.fates(&stage.key(&names[0])).await, ["60 no-work"]);
        assert_eq!(show.ear.count("kept look-"), number);
        show.close().await;
    }
}

async fn stage() -> (Stage, Arc<Faults>, Show) {
    let stage = Stage::new(vec![every("look", "every 1h")]).await;
    let faults = Arc::new(Faults::default());
    let hook = Arc::clone(&faults) as Arc<dyn SeamHook>;
    let mut show = stage.open_with(EngineSettings { seam: Seam::hooked(hook), ..stage.settings() }).await;
    show.settled().await;
    (stage, faults, show)
}

#[tokio::test]
async fn start_that_cannot_be_written_is_retried_and_happens_once() {
    let (stage, faults, mut show) = stage().await;
    faults.before.store(1, Ordering::SeqCst);
    stage.at(HOUR);
    show.ear.hears("not-started look true").await;
    assert!(show.rounds().await.is_empty());
    stage.at(HOUR + MINUTE);
    show.ear.hears("started look due:2026-05-01T01:00:00Z").await;
    show.ear.hears("ended look reported").await;
    show.settled().await;
    assert_eq!((show.fates(&stage.key("look")).await, show.rounds().await.len()), (vec!["60 started".to_owned()], 1));
    show.close().await;
}

#[tokio::test]
async fn start_whose_answer_was_lost_is_found_and_not_repeated() {
    let (stage, faults, mut show) = stage().await;
    faults.after.store(1, Ordering::SeqCst);
    stage.at(HOUR);
    // The daemon reads the record at once, and the round has its loop's slot from then on.
    show.ear.hears("known look due:2026-05-01T01:00:00Z").await;
    show.ear.hears("ended look").await;
    show.settled().await;
    let rounds = show.rounds().await;
    assert_eq!((show.fates(&stage.key("look")).await, rounds.len()), (vec!["60 started".to_owned()], 1));
    assert!(rounds[0].ended_ms.is_some(), "it was recovered: {:?}", rounds[0]);
    stage.at(2 * HOUR);
    show.ear.hears("ended look reported").await;
    show.close().await;
}

#[tokio::test]
async fn receipts_that_cannot_be_written_are_written_later_once() {
    let (stage, faults, mut show) = stage().await;
    show.daemon.pause(&stage.key("look"), "ada", "a holiday").await.expect("paused");
    faults.before.store(2, Ordering::SeqCst);
    stage.at(HOUR);
    show.ear.hears("unkept").await;
    for _ in 0..100 {
        show.daemon.snapshot().await.expect("it is at work");
    }
    assert_eq!(show.ear.count("unkept"), 1, "it is not tried again before its moment");
    stage.at(HOUR + 2_000);
    show.ear.hears("unkept").await;
    // The third attempt succeeds, and its answer is lost: the fourth finds that the write happened.
    faults.after.store(1, Ordering::SeqCst);
    stage.at(HOUR + 10_000);
    show.ear.hears("unkept").await;
    stage.at(HOUR + 60_000);
    show.ear.hears("known look due:2026-05-01T01:00:00Z").await;
    show.settled().await;
    assert_eq!(show.fates(&stage.key("look")).await, ["60 paused"]);
    show.close().await;
}

#[tokio::test]
async fn stop_takes_effect_at_once_even_behind_a_failing_write() {
    let (stage, faults, mut show) = stage().await;
    stage.troop.troupe.play("look", Play::Hang);
    stage.at(HOUR);
    stage.troop.troupe.begun_times(1).await;
    faults.before.store(1, Ordering::SeqCst);
    show.daemon.pause(&stage.key("look"), "ada", "a holiday").await.expect_err("it cannot be written");
    let daemon = show.daemon.clone();
    let stop = tokio::spawn(async move { daemon.freeze("ada", "smoke").await });
    // The daemon writes nothing before the clock advances, and it does not advance.
    show.ear.hears("ended look cancelled").await;
    stage.at(HOUR + MINUTE);
    stop.await.expect("no panic").expect("it is on record by now");
    show.close().await;
}

#[tokio::test]
async fn unanswered_question_expires_even_if_that_cannot_be_written_at_once() {
    let mut spec = mending(LoopLevel::L2Assisted);
    spec.name = "look".to_owned();
    let stage = Stage::new(vec![spec]).await;
    let faults = Arc::new(Faults::default());
    let hook = Arc::clone(&faults) as Arc<dyn SeamHook>;
    let approval = std::time::Duration::from_secs(3_600);
    let mut show = stage.open_with(EngineSettings { seam: Seam::hooked(hook), approval, ..stage.settings() }).await;
    let bind = LoopBindings { agents: mended(), ..stage.troop.bindings() };
    let waiting = show.engine.run(stage.troop.request("look"), &bind, &CancelToken::new()).await.expect("a round");
    show.settled().await;
    let phase = async |show: &Show| show.engine.store().round(&waiting.round).await.expect("read").expect("it").phase;
    stage.at(HOUR - 1);
    show.daemon.snapshot().await.expect("at work");
    assert_eq!(phase(&show).await, loopwright_core::round::RoundPhase::Waiting, "there is time left");
    faults.before.store(1, Ordering::SeqCst);
    stage.at(HOUR);
    show.ear.hears("expired {").await;
    assert_eq!(phase(&show).await, loopwright_core::round::RoundPhase::Waiting, "it could not be written");
    show.ear.hears(&format!("sleeps {}", HOUR + 5_000)).await;
    stage.at(HOUR + MINUTE);
    let expired_line = show.ear.hears("expired {").await;
    assert!(expired_line.contains("rejected"), "{expired_line}");
    assert_eq!(phase(&show).await, loopwright_core::round::RoundPhase::Ended);
    show.close().await;
}

#[tokio::test]
async fn start_that_waited_for_a_write_is_dropped_by_a_global_stop() {
    let (stage, faults, mut show) = stage().await;
    faults.before.store(1, Ordering::SeqCst);
    // The due times before the last are resolved first; the start comes when that is durable.
    stage.at(5 * HOUR);
    show.ear.hears("unkept").await;
    let daemon = show.daemon.clone();
    let stop = tokio::spawn(async move { daemon.freeze("ada", "smoke").await });
    show.ear.hears("frozen ada smoke").await;
    stage.at(5 * HOUR + MINUTE);
    stop.await.expect("no panic").expect("it is on record by now");
    show.settled().await;
    assert_eq!((show.rounds().await.len(), stage.troop.troupe.starts().len()), (0, 0), "nothing starts during a stop");
    assert_eq!(show.ear.count("starting"), 0, "nor is anything prepared");
    show.close().await;
}

#[tokio::test]
async fn clock_that_is_set_back_does_not_delay_a_retried_write() {
    let (stage, faults, mut show) = stage().await;
    faults.before.store(1, Ordering::SeqCst);
    show.daemon.pause(&stage.key("look"), "ada", "a holiday").await.expect_err("it cannot be written");
    stage.at(-3 * HOUR);
    show.daemon.resume(&stage.key("look"), "ada").await.expect("it is written by now");
    let row = show.engine.store().schedule(&stage.key("look").repo, "look").await.expect("read").expect("it stands");
    assert_eq!(row.paused_ms, None);
    assert!(show.ear.count("unkept") == 1);
    show.close().await;
}

#[tokio::test]
async fn interrupted_answer_is_resumed_by_the_running_daemon() {
    let mut spec = mending(LoopLevel::L2Assisted);
    spec.name = "look".to_owned();
    let stage = Stage::new(vec![spec]).await;
    let faults = Arc::new(Faults::default());
    let hook = Arc::clone(&faults) as Arc<dyn SeamHook>;
    let mut show = stage.open_with(EngineSettings { seam: Seam::hooked(hook), ..stage.settings() }).await;
    let bind = LoopBindings { agents: mended(), ..stage.troop.bindings() };
    let waiting = show.engine.run(stage.troop.request("look"), &bind, &CancelToken::new()).await.expect("a round");
    assert_eq!(waiting.exit, Some(10), "{:?}", waiting.reasons);
    let candidate = waiting.candidate.clone().expect("it has one");
    show.settled().await;
    // The approval is durable but its answer is lost, so nothing was sent.
    faults.after.store(1, Ordering::SeqCst);
    let broken = show.engine.approve(&waiting.round, &candidate, "ada", &bind).await;
    broken.map(drop).expect_err("it was interrupted");
    show.daemon.snapshot().await.expect("it has received that");
    stage.at(MINUTE);
    show.ear.hears("ended look shipped").await;
    show.settled().await;
    assert_eq!(show.rounds().await[0].outcome, Some(loopwright_core::outcome::RoundOutcome::Shipped));
    let pulls = std::fs::read_dir(stage.world.forge().join("pulls")).expect("pulls").count();
    assert_eq!(pulls, 1, "once");
    // A merged change may be proposed again.
    let page = stage.world.forge().join("pulls/1.md");
    let text = std::fs::read_to_string(&page).expect("the page");
    std::fs::write(&page, text.replacen("state: open", "state: merged", 1)).expect("a merge");
    // An approval that never became durable leaves the question open.
    let second = show.engine.run(stage.troop.request("look"), &bind, &CancelToken::new()).await.expect("a round");
    let candidate = second.candidate.clone().expect("it has one");
    faults.before.store(1, Ordering::SeqCst);
    show.engine.approve(&second.round, &candidate, "ada", &bind).await.map(drop).expect_err("it was interrupted");
    show.daemon.snapshot().await.expect("it has received that");
    stage.at(2 * MINUTE);
    show.ear.hears("ended look").await;
    show.settled().await;
    assert_eq!(
        show.engine.store().round(&second.round).await.expect("read").expect("a round").phase,
        loopwright_core::round::RoundPhase::Waiting
    );
    show.engine.approve(&second.round, &candidate, "ada", &bind).await.expect("it can be approved again");
    show.close().await;
}

#[tokio::test]
async fn manual_round_left_open_keeps_its_loops_slot_and_is_recovered() {
    let (stage, faults, mut show) = stage().await;
    stage.troop.troupe.play("look", Play::Hang);
    let ready = stage.troop.prepare(&show.engine, &stage.key("look")).await;
    let Ok(PreparedStart::Round(ready)) = ready else { panic!("it can be prepared") };
    let engine = show.engine.clone();
    let run = tokio::spawn(async move { engine.run(ready.request, &ready.bind, &CancelToken::new()).await.map(drop) });
    stage.troop.troupe.begun_times(1).await;
    faults.before.store(1, Ordering::SeqCst);
    stage.troop.troupe.let_go();
    run.await.expect("no panic").expect_err("it cannot be written");
    show.ear.hears("parked look").await;
    show.daemon.occupy(&stage.key("look"), "r2", &CancelToken::new()).await.map(drop).expect_err("its slot is taken");
    stage.at(2 * MINUTE);
    show.ear.hears("ended look").await;
    show.settled().await;
    assert!(show.rounds().await.iter().all(|round| round.ended_ms.is_some()));
    show.close().await;
}

#[tokio::test]
async fn round_whose_end_cannot_be_written_keeps_its_loops_slot_until_it_is() {
    let (stage, faults, mut show) = stage().await;
    stage.troop.troupe.play("look", Play::Hang);
    stage.at(HOUR);
    stage.troop.troupe.begun_times(1).await;
    faults.before.store(u32::MAX, Ordering::SeqCst);
    stage.troop.troupe.let_go();
    show.ear.hears("parked look").await;
    for tries in 1..12 {
        stage.at(HOUR + tries * 3 * HOUR);
        show.ear.hears("parked look").await;
    }
    assert_eq!((show.ear.count("started look"), show.ear.count("ended look")), (1, 0));
    faults.before.store(0, Ordering::SeqCst);
    stage.at(48 * HOUR);
    show.ear.hears("ended look").await;
    show.settled().await;
    let rounds = show.rounds().await;
    assert!(matches!(rounds.as_slice(), [only] if only.ended_ms.is_some()), "{rounds:?}");
    show.close().await;
}

/// A maker that does its work and a checker that passes it.
pub(crate) fn mended() -> RoleAgents {
    RoleAgents::default().with(Role::Maker, Arc::new(mender())).with(Role::Checker, Arc::new(judge("pass", 5)))
}

#[tokio::test]
async fn round_that_is_recovered_while_everything_is_stopped_only_ends() {
    for is_stopped in [false, true] {
        let stage = Stage::new(vec![every("look", "every 1h")]).await;
        let faults = Arc::new(Faults::default());
        let hook = Arc::clone(&faults) as Arc<dyn SeamHook>;
        let dead = Engine::open(EngineSettings { seam: Seam::hooked(hook), ..stage.settings() }).await.expect("opened");
        // The round is on record before its agent has started, and its engine does not know that.
        faults.after.store(1, Ordering::SeqCst);
        let run = dead.run(stage.troop.request("look"), &stage.troop.bindings(), &CancelToken::new()).await;
        run.expect_err("the answer to its start is lost");
        dead.close().await.expect("it is gone");
        let engine = Engine::open(stage.settings()).await.expect("opened");
        if is_stopped {
            engine.stop_all("ada", "the pager rang").await.expect("stopped");
        }
        let mut ended = Vec::new();
        let mut note = |taken: loopwright::takeover::TakenOverRound| ended.push(taken.ended.expect("it ends"));
        engine.take_over(stage.troop.as_ref(), &CancelToken::new(), &mut note).await.expect("taken over");
        let (outcome, starts) = if is_stopped { (RoundOutcome::Interrupted, 0) } else { (RoundOutcome::Reported, 1) };
        assert_eq!((ended, stage.troop.troupe.starts().len()), (vec![Some(outcome)], starts), "stopped: {is_stopped}");
        engine.close().await.expect("closed");
    }
}
