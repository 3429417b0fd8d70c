//! Rounds whose provider is unavailable, or whose ceiling is reached: which agents take over, which rounds wait, what
//! is stored, and the effect of a person's command.

mod common;
#[path = "common/stepping_clock.rs"]
mod stepping_clock;

use common::*;
use loopwright::agents::{AgentInvocation, AgentOutcome};
use loopwright::events::{EventKind, EventSink, LiveEvent};
use loopwright::{EngineError, EngineSettings, LoopEngine, LoopLevel, LoopSpec, RoundOutcome, RoundReport};
use loopwright_core::budget::Reservation;
use loopwright_core::provider::{ProviderTrouble, TroubleKind};
use loopwright_core::units::Usd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DAWN_MS: i64 = 1_800_000_000_000;
const HOUR_MS: i64 = 3_600_000;
const NOTHING_MORE: Reservation = Reservation { tokens: 0, usd: Usd(0) };

fn one_attempt() -> LoopSpec {
    let mut spec = mending(LoopLevel::L2Assisted);
    spec.gates.clear();
    spec.attempts = 1;
    spec
}

/// A clock that skips every wait.
fn leaping(world: &World) -> EngineSettings {
    EngineSettings { clock: Arc::new(stepping_clock::SteppingClock::new(DAWN_MS, 1)), ..world.settings() }
}

fn no(kind: TroubleKind, retry_at_ms: Option<i64>) -> AgentOutcome {
    let mut outcome = ended(1, "", 7);
    outcome.self_report.trouble = Some(ProviderTrouble { kind, status: None, retry_at_ms, text: "not now".into() });
    outcome
}

/// A maker that is blocked this many times, half done each time, and then succeeds.
fn hindered(
    times: usize,
    kind: TroubleKind,
    retry_at_ms: Option<i64>,
) -> Puppet<impl Fn(&AgentInvocation) -> AgentOutcome + Send + Sync> {
    let left = AtomicUsize::new(times);
    puppet(move |invocation| {
        if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            write(invocation, "half.txt", "half\n");
            return no(kind, retry_at_ms);
        }
        write(invocation, "sum.sh", MENDED);
        said("I mended it.")
    })
}

fn codes(report: &RoundReport) -> Vec<&str> {
    report.reasons.iter().map(|reason| reason.code.as_str()).collect()
}

/// Records waits.
#[derive(Clone, Default)]
struct Waits(Arc<Mutex<Vec<String>>>);

impl Waits {
    fn all(&self) -> Vec<String> {
        self.0.lock().expect("no test panicked here").clone()
    }
}

impl EventSink for Waits {
    fn event(&self, event: &LiveEvent) {
        if let EventKind::ProviderWait { why, .. } = &event.kind {
            self.0.lock().expect("no test panicked here").push(why.clone());
        }
    }
}

#[tokio::test]
async fn next_agent_of_the_chain_continues_the_same_attempt() {
    let world = World::new();
    let first = hindered(9, TroubleKind::Auth, None);
    let builder = LoopEngine::builder(one_attempt()).maker(first).maker_fallback(mender()).checker(judge("pass", 5));
    let engine = builder.build(leaping(&world), world.repo.path()).await.expect("the loop is built");
    let report = engine.run_once().await.expect("a round");
    assert_eq!((report.outcome, report.attempts), (Some(RoundOutcome::Escalated), 1), "{}", report.render());
    assert!(report.render().contains("puppet: auth (not now); continued with the next agent"), "{}", report.render());
    assert_eq!(report.spend.tokens.input, 7, "what the first one used is charged");
}

#[tokio::test]
async fn round_waits_for_its_provider_and_reports_each_wait_once() {
    let world = World::new();
    let waits = Waits::default();
    let maker = hindered(2, TroubleKind::Overloaded, None);
    let calls = maker.calls();
    let builder = LoopEngine::builder(one_attempt()).maker(maker).checker(judge("pass", 5)).with_events(waits.clone());
    let engine = builder.build(leaping(&world), world.repo.path()).await.expect("the loop is built");
    let report = engine.run_once().await.expect("a round");
    assert_eq!((report.outcome, report.attempts), (Some(RoundOutcome::Escalated), 1), "{}", report.render());
    assert_eq!((calls.count(), waits.all().len()), (3, 2), "{:?}", waits.all());
    assert_eq!(codes(&report), ["overloaded", "overloaded", "gates-none", "level"]);
    assert!(calls.all()[0].prompt.contains("Attempt 1 of 1") && !calls.all()[0].prompt.contains("was interrupted"));
    assert!(calls.all()[1].prompt.contains("An earlier start of this attempt was interrupted"));
}

#[tokio::test]
async fn far_reset_suspends_with_the_work_kept_and_a_person_resumes() {
    let world = World::new();
    let maker = puppet({
        let inner = hindered(1, TroubleKind::RateLimited, Some(DAWN_MS + 5 * HOUR_MS));
        move |invocation: &AgentInvocation| {
            let seen = invocation.workspace.join("half.txt").exists();
            let outcome = inner.play(invocation);
            if outcome.self_report.trouble.is_none() {
                assert!(seen, "what the first start left is there");
                std::fs::remove_file(invocation.workspace.join("half.txt")).expect("it can be removed");
            }
            outcome
        }
    });
    let calls = maker.calls();
    let builder = LoopEngine::builder(one_attempt()).maker(maker).checker(judge("pass", 5));
    let engine = builder.build(leaping(&world), world.repo.path()).await.expect("the loop is built");
    let later = engine.run_once().await.expect("a round");
    assert_eq!(later.outcome, Some(RoundOutcome::RateLimited), "{}", later.render());
    assert_eq!(later.exit, Some(75));
    assert!(later.retry_at.as_deref().is_some_and(|at| at.starts_with("2027-01-15T13:0")), "{:?}", later.retry_at);
    assert!(later.render().contains(&format!("`loopwright retry {}`", later.round)), "{}", later.render());
    let report = engine.resume(&later.round, "ada", NOTHING_MORE).await.expect("it is suspended");
    assert_eq!(report.round, later.round, "it is the same round");
    assert_eq!((report.outcome, report.attempts), (Some(RoundOutcome::Escalated), 1), "{}", report.render());
    assert_eq!((calls.count(), &report.retry_at), (2, &None));
    assert_eq!(codes(&report), ["rate-limited", "resumed", "gates-none", "level"]);
    let again = engine.resume(&later.round, "ada", NOTHING_MORE).await.expect_err("it waits for an answer now");
    assert!(matches!(again, EngineError::Stale(_)), "{again}");
}

#[tokio::test]
async fn blocked_checker_is_restarted_without_another_maker_run() {
    let world = World::new();
    let maker = mender();
    let made = maker.calls();
    let left = AtomicUsize::new(1);
    let inner = judge("pass", 5);
    let checker = puppet(move |invocation: &AgentInvocation| {
        if left.swap(0, Ordering::SeqCst) > 0 {
            return no(TroubleKind::RateLimited, Some(DAWN_MS + 5 * HOUR_MS));
        }
        inner.play(invocation)
    });
    let builder = LoopEngine::builder(one_attempt()).maker(maker).checker(checker);
    let engine = builder.build(leaping(&world), world.repo.path()).await.expect("the loop is built");
    let later = engine.run_once().await.expect("a round");
    assert_eq!(later.outcome, Some(RoundOutcome::RateLimited), "{}", later.render());
    assert!(later.candidate.is_some(), "what was sealed stays");
    let report = engine.resume(&later.round, "ada", NOTHING_MORE).await.expect("it is suspended");
    assert_eq!(report.outcome, Some(RoundOutcome::Escalated), "{}", report.render());
    assert_eq!((made.count(), report.candidate), (1, later.candidate));
}

#[tokio::test]
async fn reached_ceiling_keeps_the_work_until_it_is_raised() {
    let world = World::new();
    let maker = puppet(|invocation: &AgentInvocation| {
        write(invocation, "sum.sh", MENDED);
        ended(0, "I mended it.", 500_000)
    });
    let made = maker.calls();
    let builder = LoopEngine::builder(one_attempt()).maker(maker).checker(judge("pass", 5));
    let engine = builder.build(leaping(&world), world.repo.path()).await.expect("the loop is built");
    let over = engine.run_once().await.expect("a round");
    assert_eq!((over.outcome, over.exit), (Some(RoundOutcome::OverBudget), Some(12)), "{}", over.render());
    let still = engine.resume(&over.round, "ada", NOTHING_MORE).await.expect("it is suspended");
    assert_eq!(still.outcome, Some(RoundOutcome::OverBudget), "{}", still.render());
    let raised = Reservation { tokens: 300_000, usd: Usd(100_000_000) };
    let report = engine.resume(&over.round, "ada", raised).await.expect("it is suspended");
    assert_eq!(report.outcome, Some(RoundOutcome::Escalated), "{}", report.render());
    assert_eq!(made.count(), 1, "the work was done already");
}

#[tokio::test]
async fn a_stop_ends_a_wait_at_once() {
    let world = World::new();
    let (sender, heard) = tokio::sync::oneshot::channel();
    struct First(Mutex<Option<tokio::sync::oneshot::Sender<()>>>);
    impl EventSink for First {
        fn event(&self, event: &LiveEvent) {
            if matches!(event.kind, EventKind::ProviderWait { .. }) {
                self.0.lock().expect("no test panicked here").take().map(|sender| sender.send(()));
            }
        }
    }
    let maker = hindered(9, TroubleKind::RateLimited, None);
    let builder = LoopEngine::builder(one_attempt()).maker(maker).checker(judge("pass", 5));
    let builder = builder.with_events(First(Mutex::new(Some(sender))));
    // The real clock, and a wait of a minute that is cut short.
    let engine = world.build(builder).await;
    let stopper = engine.clone();
    let stop = async move {
        heard.await.expect("it waits");
        stopper.stop();
    };
    let (report, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(30), engine.run_once()), stop);
    let report = report.expect("at once").expect("a round");
    assert_eq!(report.outcome, Some(RoundOutcome::Interrupted), "{}", report.render());
}

#[tokio::test]
async fn round_without_its_workspace_cannot_resume_and_expires() {
    let world = World::new();
    let maker = hindered(9, TroubleKind::RateLimited, Some(DAWN_MS + 5 * HOUR_MS));
    let builder = LoopEngine::builder(one_attempt()).maker(maker).checker(judge("pass", 5));
    let engine = builder.build(leaping(&world), world.repo.path()).await.expect("the loop is built");
    let later = engine.run_once().await.expect("a round");
    assert!(engine.engine().collect_abandoned().await.expect("reads").is_empty(), "it rests");
    assert!(engine.engine().forgotten_rounds(DAWN_MS).await.expect("reads").is_empty(), "it is young");
    let old = engine.engine().forgotten_rounds(DAWN_MS + HOUR_MS).await.expect("reads");
    assert_eq!(old.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), [later.round.as_str()]);
    let mut repos = std::fs::read_dir(world.state().join("workspaces")).expect("there are workspaces");
    let repo = repos.next().expect("of one repository").expect("that reads").path();
    std::fs::remove_dir_all(repo.join("rounds").join(&later.round)).expect("it can be removed");
    let gone = engine.resume(&later.round, "ada", NOTHING_MORE).await.expect_err("the workspace no longer exists");
    assert!(matches!(gone, EngineError::WorkGone(_)), "{gone}");
}
