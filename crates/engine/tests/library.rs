//! The library as an embedder uses it: build, run, approve, deny, stop, with agents and sinks of the embedder's own.

mod common;

use common::*;
use loopwright::agents::CommandAgent;
use loopwright::round::Refusal;
use loopwright::spec::{ActionKind, ApprovalRule, SandboxMode};
use loopwright::{
    ActionError, ActionReceipt, Actor, AllowlistGate, BuildError, CallbackActionExecutor, EngineError, LoopEngine,
    LoopLevel, LoopSpec, ProposedAction, RoundOutcome, RoundReport,
};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A loop without gates at L2: the checker decides alone, then a person.
fn ungated() -> LoopSpec {
    let mut spec = mending(LoopLevel::L2Assisted);
    spec.gates.clear();
    spec
}

fn builder() -> loopwright::LoopEngineBuilder {
    LoopEngine::builder(ungated()).maker(mender()).checker(judge("pass", 5))
}

#[tokio::test]
async fn a_round_waits_for_a_person_and_ships_the_approved_candidate() {
    let world = World::new();
    let report_sink = RecordedReports::default();
    let engine = world.build(builder().with_local_forge().with_sink(report_sink.clone())).await;
    let before = world.repo.tree_digest();
    let waiting = engine.run_once().await.expect("a round");
    assert_eq!(waiting.outcome, Some(RoundOutcome::Escalated), "{}", waiting.render());
    let candidate = waiting.candidate.clone().expect("a candidate");
    let shipped = engine.approve(&waiting.round, &candidate, "ada").await.expect("it waits");
    assert_eq!(shipped.outcome, Some(RoundOutcome::Shipped), "{}", shipped.render());
    let branch = format!("loop/mend-sum/{}:sum.sh", waiting.round);
    let shown = loopwright_testkit::repo::git(&world.forge().join("repo.git"), ["show", &branch]);
    assert_eq!(shown, MENDED.trim_end());
    assert_eq!(report_sink.words(), ["escalated", "shipped"]);
    before.assert_untouched(&world.repo.tree_digest());
}

/// The stop is made by the maker itself, while its round runs: the round then starts no checker and ships nothing.
#[tokio::test]
async fn global_stop_keeps_the_next_agent_of_a_running_round_from_starting() {
    let world = World::new();
    let stop = world.state().join(loopwright::daemon::STOP_FILE);
    let maker = puppet(move |invocation| {
        write(invocation, "sum.sh", MENDED);
        std::fs::write(&stop, "a drill\n").expect("the state directory is there");
        said("done")
    });
    let checker = puppet(|_| panic!("no agent starts while everything is stopped"));
    let engine = world.build(LoopEngine::builder(ungated()).maker(maker).checker(checker).with_local_forge()).await;
    let report = engine.run_once().await.expect("a round");
    assert_eq!(report.outcome, Some(RoundOutcome::Cancelled), "{}", report.render());
    assert!(report.reasons.iter().any(|reason| reason.text.contains("a drill")), "{:?}", report.reasons);
}

/// A loop that ships without a person, with at most this many open pull requests.
fn unattended(open_max: u32) -> loopwright::LoopEngineBuilder {
    let mut spec = LoopSpec { attempts: 1, open_max, ..mending(LoopLevel::L3Unattended) };
    spec.allow = vec![ActionKind::PullRequest];
    // Each round proposes another change: the same one is proposed once.
    let maker = puppet(|invocation| {
        write(invocation, "sum.sh", MENDED);
        write(invocation, "notes.txt", &invocation.round);
        said("I mended it.")
    });
    let builder = LoopEngine::builder(spec).maker(maker).checker(judge("pass", 5)).with_local_forge();
    builder.with_gate(AllowlistGate::new(["pull-request"]))
}

#[tokio::test]
async fn loop_opens_no_more_pull_requests_than_open_max_until_a_person_closes_one() {
    let world = World::new();
    let engine = world.build(unattended(2)).await;
    for _ in 0..2 {
        let report = engine.run_once().await.expect("a round");
        assert_eq!(report.outcome, Some(RoundOutcome::Shipped), "{}", report.render());
    }
    let full = engine.run_once().await.expect_err("two are open");
    assert!(matches!(full, EngineError::TooManyOpen { open: 2, open_max: 2, .. }), "{full}");
    let page = world.forge().join("pulls/1.md");
    let text = std::fs::read_to_string(&page).expect("the page is there");
    std::fs::write(&page, text.replace("state: open", "state: closed")).expect("it can be written");
    let report = engine.run_once().await.expect("a slot is free");
    assert_eq!(report.outcome, Some(RoundOutcome::Shipped), "{}", report.render());
    engine.run_once().await.expect_err("two are open again");
}

/// The engine enforces the policy: an embedder cannot bypass it.
#[tokio::test]
async fn the_library_keeps_to_approvers_quorum_and_separation() {
    let world = World::new();
    let mut spec = ungated();
    spec.approvers = vec!["ada".to_owned(), "grace".to_owned(), "library".to_owned()];
    spec.approvals = ApprovalRule { quorum: 2, separate: true, ..ApprovalRule::default() };
    let loop_builder = LoopEngine::builder(spec).maker(mender()).checker(judge("pass", 5)).with_local_forge();
    let engine = world.build(loop_builder).await;
    let waiting = engine.run_once().await.expect("a round");
    let (round, candidate) = (&waiting.round, waiting.candidate.clone().expect("a candidate"));
    let refused = |answer: Result<RoundReport, EngineError>| match answer {
        Err(EngineError::Refused(refusal)) => refusal,
        other => panic!("it was not refused: {other:?}"),
    };
    let stranger = refused(engine.approve(round, &candidate, "mallory").await);
    assert!(matches!(&stranger, Refusal::NotAnApprover { actor, .. } if actor == "mallory"), "{stranger}");
    assert_eq!(stranger.approvers(), ["ada", "grace", "library"]);
    assert!(matches!(refused(engine.deny(round, "mallory", "no").await), Refusal::NotAnApprover { .. }));
    let starter = refused(engine.approve(round, &candidate, "library").await);
    assert!(matches!(starter, Refusal::StartedIt { .. }), "{starter}");
    let first = engine.approve(round, &candidate, Actor::user("ada", 7)).await.expect("ada may");
    assert_eq!(first.outcome, Some(RoundOutcome::Escalated), "{}", first.render());
    let inbox = engine.engine().store().inbox(10).await.expect("the inbox reads");
    assert!(inbox[0].summary.contains("approved by ada (1 of 2)"), "{:?}", inbox[0]);
    let again = refused(engine.approve(round, &candidate, Actor::user("ada", 7)).await);
    assert!(matches!(again, Refusal::Repeated { count: 1, quorum: 2, .. }), "{again}");
    let shipped = engine.approve(round, &candidate, "grace").await.expect("grace may");
    assert_eq!(shipped.outcome, Some(RoundOutcome::Shipped), "{}", shipped.render());
}

#[tokio::test]
async fn an_answer_to_another_candidate_is_refused_and_a_second_answer_is_stale() {
    let world = World::new();
    let engine = world.build(builder().with_local_forge()).await;
    let waiting = engine.run_once().await.expect("a round");
    let candidate = waiting.candidate.clone().expect("a candidate");
    let other = engine.approve(&waiting.round, "another", "ada").await.expect_err("another candidate");
    assert!(matches!(other, EngineError::Refused(Refusal::Stale)), "{other}");
    engine.approve(&waiting.round, &candidate, "ada").await.expect("it still waits");
    let again = engine.approve(&waiting.round, &candidate, "ada").await.expect_err("it is over");
    assert!(matches!(again, EngineError::Stale(_)), "{again}");
    let unknown = engine.approve("no-such-round", &candidate, "ada").await.expect_err("no round");
    assert!(matches!(unknown, EngineError::Unknown(_)), "{unknown}");
}

#[tokio::test]
async fn denied_round_ends_rejected_with_the_persons_reason() {
    let world = World::new();
    let report_sink = RecordedReports::default();
    let engine = world.build(builder().with_local_forge().with_sink(report_sink.clone())).await;
    let waiting = engine.run_once().await.expect("a round");
    let denied = engine.deny(&waiting.round, "ada", "too clever").await.expect("it waits");
    assert_eq!(denied.outcome, Some(RoundOutcome::Rejected));
    assert!(denied.render().contains("too clever"), "{}", denied.render());
    assert_eq!(report_sink.words(), ["escalated", "rejected"]);
}

#[tokio::test]
async fn without_an_executor_nothing_leaves_even_when_approved() {
    let world = World::new();
    let engine = world.build(builder()).await;
    let waiting = engine.run_once().await.expect("a round");
    let candidate = waiting.candidate.clone().expect("a candidate");
    let report = engine.approve(&waiting.round, &candidate, "ada").await.expect("it waits");
    assert_eq!(report.outcome, Some(RoundOutcome::Refused), "{}", report.render());
    assert!(report.render().contains("no action executor is configured"), "{}", report.render());
}

/// Runs a round, approves it, and returns the report and the keys that the executor was called with.
async fn executed(answer: fn(u32) -> Result<(), ActionError>) -> (loopwright::RoundReport, Vec<String>) {
    let world = World::new();
    let keys = Arc::new(Mutex::new(Vec::new()));
    let (seen, calls) = (Arc::clone(&keys), AtomicU32::new(0));
    let executor = CallbackActionExecutor(move |_: &LoopSpec, action: &ProposedAction, key: &str| {
        seen.lock().expect("no panic").push(key.to_owned());
        answer(calls.fetch_add(1, Ordering::SeqCst))?;
        Ok(ActionReceipt { kind: action.kind.clone(), summary: "request 7".to_owned() })
    });
    let engine = world.build(builder().with_action_executor(executor)).await;
    let waiting = engine.run_once().await.expect("a round");
    let candidate = waiting.candidate.clone().expect("a candidate");
    let report = engine.approve(&waiting.round, &candidate, "ada").await.expect("it waits");
    let keys = keys.lock().expect("no panic").clone();
    (report, keys)
}

#[tokio::test]
async fn executor_that_fails_is_retried_with_the_same_key() {
    let (report, keys) = executed(|call| if call == 0 { Err(ActionError::Exec("down".into())) } else { Ok(()) }).await;
    assert_eq!(report.outcome, Some(RoundOutcome::Shipped), "{}", report.render());
    assert_eq!(report.outbox[0].receipt.as_deref(), Some("request 7"));
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
}

#[tokio::test]
async fn executor_that_always_fails_is_given_up_after_three_attempts() {
    let (report, keys) = executed(|_| Err(ActionError::Exec("down".into()))).await;
    assert_eq!(report.outcome, Some(RoundOutcome::Failed), "{}", report.render());
    assert_eq!((keys.len(), report.outbox[0].state.as_str()), (3, "quarantined"));
}

#[tokio::test]
async fn refusal_and_doubt_of_an_executor_are_not_retried() {
    let (report, keys) = executed(|_| Err(ActionError::Refused("not here".into()))).await;
    assert_eq!((report.outcome, keys.len()), (Some(RoundOutcome::Refused), 1), "{}", report.render());
    let (report, keys) = executed(|_| Err(ActionError::InDoubt("the line went dead".into()))).await;
    assert_eq!((report.outcome, keys.len()), (Some(RoundOutcome::Escalated), 1), "{}", report.render());
    assert_eq!(report.outbox[0].state, "in-doubt");
}

/// A round whose one delivery is in doubt, and its engine.
async fn doubtful(world: &World) -> (LoopEngine, loopwright::RoundReport) {
    let executor = CallbackActionExecutor(|_: &LoopSpec, _: &ProposedAction, _: &str| {
        Err::<ActionReceipt, _>(ActionError::InDoubt("the line went dead".into()))
    });
    let engine = world.build(builder().with_action_executor(executor)).await;
    let waiting = engine.run_once().await.expect("a round");
    let candidate = waiting.candidate.clone().expect("a candidate");
    let report = engine.approve(&waiting.round, &candidate, "ada").await.expect("it waits");
    (engine, report)
}

async fn open_questions(engine: &LoopEngine) -> Vec<String> {
    let open = engine.engine().store().inbox(10).await.expect("the inbox reads");
    open.into_iter().map(|question| question.kind.word().to_owned()).collect()
}

#[tokio::test]
async fn doubt_ends_when_a_person_confirms_the_delivery() {
    let world = World::new();
    let (engine, report) = doubtful(&world).await;
    assert_eq!(open_questions(&engine).await, ["in-doubt"]);
    let other = engine.approve(&report.round, "another candidate", "ada").await;
    assert!(matches!(other, Err(EngineError::Refused(Refusal::Stale))), "{other:?}");
    let candidate = report.candidate.clone().expect("a candidate");
    let settled = engine.approve(&report.round, &candidate, "ada").await.expect("it is in doubt");
    assert_eq!(settled.outcome, Some(RoundOutcome::Shipped), "{}", settled.render());
    assert_eq!(settled.outbox[0].state, "sent");
    assert!(open_questions(&engine).await.is_empty());
}

#[tokio::test]
async fn doubt_ends_when_a_person_denies_the_delivery() {
    let world = World::new();
    let (engine, report) = doubtful(&world).await;
    let settled = engine.deny(&report.round, "ada", "nothing arrived").await.expect("it is in doubt");
    assert_eq!(settled.outcome, Some(RoundOutcome::Refused), "{}", settled.render());
    assert_eq!(settled.outbox[0].state, "refused");
    assert!(open_questions(&engine).await.is_empty());
}

#[tokio::test]
async fn failing_sink_changes_nothing_and_is_reported() {
    let world = World::new();
    let (bad, good, troubles) = (RecordedReports::failing(), RecordedReports::default(), SinkTroubles::default());
    let builder = LoopEngine::builder(reporting()).maker(reporter()).checker(judge_report("pass", 5));
    let builder = builder.with_sink(bad.clone()).with_sink(good.clone()).with_events(troubles.clone());
    let report = world.build(builder).await.run_once().await.expect("a round");
    assert_eq!(report.outcome, Some(RoundOutcome::Reported), "{}", report.render());
    assert_eq!((bad.words(), good.words()), (vec!["reported"], vec!["reported"]));
    let expected = format!("{}: deliver the round's report: the mailbox is full", report.round);
    assert_eq!(troubles.all(), [expected]);
}

#[tokio::test]
async fn role_without_an_agent_and_bad_spec_are_errors_before_any_round() {
    let world = World::new();
    let build = |builder: loopwright::LoopEngineBuilder| builder.build(world.settings(), world.repo.path().to_owned());
    let error = build(LoopEngine::builder(ungated()).maker(mender())).await.err().expect("no checker");
    assert!(matches!(error, BuildError::NoAgent("checker")), "{error}");
    let error = build(LoopEngine::builder(ungated()).checker(mender())).await.err().expect("no maker");
    assert!(matches!(error, BuildError::NoAgent("maker")), "{error}");
    let spec = ungated().with_cadence("15m");
    let error =
        build(LoopEngine::builder(spec).maker(mender()).checker(judge("pass", 5))).await.err().expect("bad spec");
    assert!(error.to_string().contains("write `every 15m`"), "{error}");
}

#[tokio::test]
async fn a_stopped_engine_starts_no_further_agent() {
    let world = World::new();
    let maker = mender();
    let calls = maker.calls();
    let engine = world.build(LoopEngine::builder(ungated()).maker(maker).checker(judge("pass", 5))).await;
    engine.stop();
    let report = engine.run_once().await.expect("a round");
    assert_eq!((report.outcome, calls.count()), (Some(RoundOutcome::Interrupted), 0));
}

#[tokio::test]
async fn a_command_and_a_function_work_together() {
    let world = World::new();
    let argv = ["sh", "-c", "printf 'echo $(( $1 + $2 ))\\n' > sum.sh"].map(str::to_owned);
    let maker = CommandAgent::new(&argv).expect("a good argv");
    let builder = LoopEngine::builder(ungated()).maker(maker).checker(judge("pass", 5)).with_local_forge();
    let report = world.build(builder).await.run_once().await.expect("a round");
    assert_eq!(report.outcome, Some(RoundOutcome::Escalated), "{}", report.render());
    assert!(!report.spend.known, "a command does not say what it used, so its reservation is charged");
    assert!(report.render().contains("| reserved |"), "{}", report.render());
}

#[tokio::test]
async fn several_loops_share_one_state_directory() {
    let world = World::new();
    let first = world.build(builder().with_local_forge()).await;
    let second = LoopEngine::builder(reporting()).maker(reporter()).checker(judge_report("pass", 4));
    let second = second.build_on(first.engine().clone(), world.repo.path()).expect("a good loop");
    let (one, two) = tokio::join!(first.run_once(), second.run_once());
    assert_eq!(one.expect("a round").outcome, Some(RoundOutcome::Escalated));
    assert_eq!(two.expect("a round").outcome, Some(RoundOutcome::Reported));
    let verified = first.engine().store().verify().await.expect("the store is whole");
    assert!(verified.is_ok(), "{:?}", verified.broken);
}

/// A maker that keeps working until its neighbour has completed a whole round. If the engine mistook it for the
/// leftover of a dead engine, it would end the maker and resume its round.
#[tokio::test(flavor = "multi_thread")]
async fn running_round_is_not_mistaken_for_an_abandoned_one() {
    let world = World::new();
    let flags = tempfile::tempdir().expect("a folder");
    let (here, go_on) = (flags.path().join("here"), flags.path().join("go-on"));
    let script = format!(
        "printf 'echo $(( $1 + $2 ))\\n' > sum.sh; : > {}; until test -e {}; do sleep 0.05; done",
        here.display(),
        go_on.display()
    );
    let maker = CommandAgent::new(&["sh", "-c", &script].map(str::to_owned)).expect("a good argv");
    // A file of the host releases the maker.
    let spec = LoopSpec { sandbox: SandboxMode::Off, ..ungated() };
    let slow = world.build(LoopEngine::builder(spec).maker(maker).checker(judge("pass", 5))).await;
    let quick = LoopEngine::builder(reporting()).maker(reporter()).checker(judge_report("pass", 4));
    let quick = quick.build_on(slow.engine().clone(), world.repo.path()).expect("a good loop");
    let twin = slow.clone();
    let running = tokio::spawn(async move { twin.run_once().await });
    loopwright_testkit::wait::until("the maker at work", Duration::from_secs(30), || here.exists());
    assert!(slow.engine().collect_abandoned().await.expect("the store reads").is_empty());
    assert_eq!(quick.run_once().await.expect("a round").outcome, Some(RoundOutcome::Reported));
    std::fs::write(&go_on, "").expect("a flag can be set");
    let report = running.await.expect("no panic").expect("a round");
    assert_eq!(report.outcome, Some(RoundOutcome::Escalated), "{}", report.render());
}
