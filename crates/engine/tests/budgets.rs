//! Budgets over many rounds at once, over midnight, and over a crash: no ceiling is exceeded by more than one report of
//! each start, and the journal's spend equals what the agents reported.

mod common;

use common::*;
use loopwright::agents::{
    Agent, AgentCapabilities, AgentError, AgentInvocation, AgentLog, AgentOutcome, AgentSelfReport,
};
use loopwright::budget::{AgentUsage, ModelTokens, Tokens};
use loopwright::clock::Clock;
use loopwright::proc::{CancelToken, ProcessRunner, RunEnd, StartedProcess};
use loopwright::spec::CheckMode;
use loopwright::store::{SpendRow, SpendScope};
use loopwright::units::Usd;
use loopwright::{BoxFuture, EngineSettings, LoopEngine, LoopSpec};
use loopwright_core::config::ModelPrice;
use loopwright_core::prices::ModelPrices;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use tokio::sync::Notify;

const DOLLAR: u64 = 1_000_000;
/// The amount of one report, in millionths of a dollar; a token costs one.
const STEP: u64 = 7_000;
/// 2026-05-01 at one second before midnight.
const LATE: i64 = 1_777_679_999_000;

/// An agent that reports its use step by step until it has to stop, like a reader of a real stream.
#[derive(Clone, Default)]
struct Spender {
    /// The amount it tries to use.
    wants: u64,
    /// The sum that all of them reported.
    reported: Arc<AtomicU64>,
    /// A change of the clock while it runs.
    meanwhile: Option<(Arc<AtomicI64>, i64)>,
    /// Signals that it has started, and never ends.
    hangs: Option<Arc<Notify>>,
}

impl Agent for Spender {
    fn name(&self) -> &str {
        "spender"
    }

    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities { usage: true, session_isolation: true, ..AgentCapabilities::default() }
    }

    fn invoke<'a>(
        &'a self,
        invocation: &'a AgentInvocation,
        _: &'a ProcessRunner,
        _: &'a mut dyn AgentLog,
        _: &'a CancelToken,
        _: &'a mut (dyn FnMut(&StartedProcess) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        Box::pin(async move {
            if let Some(begun) = &self.hangs {
                begun.notify_one();
                std::future::pending::<()>().await;
            }
            let (mut used, mut limit) = (0, None);
            while limit.is_none() && used < self.wants {
                used += STEP;
                self.reported.fetch_add(STEP, Ordering::SeqCst);
                let own = invocation.limits.usd.is_some_and(|most| Usd(used) > most);
                limit = invocation.limits.meter.report(used, Usd(used)).or(own.then_some(loopwright::BudgetLimit::Usd));
                tokio::task::yield_now().await;
            }
            if let Some((clock, later)) = &self.meanwhile {
                clock.store(*later, Ordering::SeqCst);
            }
            let tokens = Tokens { input: used, ..Tokens::default() };
            let how = if limit.is_some() { RunEnd::Stopped } else { RunEnd::Exited(0) };
            let reported =
                AgentSelfReport { models: vec![ModelTokens::charged("m", tokens)], ..AgentSelfReport::default() };
            let plain = AgentOutcome::in_process(0, "all is well", AgentUsage::Reported(tokens));
            Ok(AgentOutcome { how, limit, self_report: reported, ..plain })
        })
    }
}

/// A loop that only reports, without a checker: one start for each round, which reserves a quarter of the round's
/// ceiling.
fn looking(round: u64, day: u64) -> LoopSpec {
    let mut spec = reporting();
    spec.check = CheckMode::None;
    spec.attempts = 4;
    spec.budget.round.usd = Some(Usd(round));
    spec.budget.round.tokens = None;
    spec.budget.day.usd = Some(Usd(day));
    spec
}

fn priced(settings: EngineSettings) -> EngineSettings {
    let price =
        ModelPrice { input: Usd(DOLLAR), output: Usd(DOLLAR), cache_read: Usd(DOLLAR), cache_write: Usd(DOLLAR) };
    EngineSettings { prices: Arc::new(ModelPrices::new([("m".to_owned(), price)].into())), ..settings }
}

async fn engine(world: &World, spec: LoopSpec, agent: Spender, settings: EngineSettings) -> LoopEngine {
    LoopEngine::builder(spec).maker(agent).build(settings, world.repo.path()).await.expect("the loop is built")
}

async fn fleet(engine: &LoopEngine, day: &str) -> SpendRow {
    engine.engine().store().spend(SpendScope::Fleet, "", "", day).await.expect("spend")
}

/// Twenty rounds at once try to use more than a dollar each, and together have one dollar.
async fn race(settings: impl FnOnce(EngineSettings) -> EngineSettings) {
    let world = World::new();
    let reported = Arc::new(AtomicU64::new(0));
    let agent = Spender { wants: DOLLAR, reported: Arc::clone(&reported), ..Spender::default() };
    let settings = settings(priced(world.settings()));
    let engine = engine(&world, looking(160_000, DOLLAR), agent, settings).await;
    let rounds: Vec<_> = (0..20)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.run_once().await.expect("a round") })
        })
        .collect();
    let (mut sum, mut over) = (0, 0);
    for round in rounds {
        let report = round.await.expect("no panic");
        sum += report.spend.usd.0;
        over += u64::from(report.exit == Some(12));
    }
    let reported = reported.load(Ordering::SeqCst);
    assert!(reported > DOLLAR * 9 / 10, "they raced for it: {reported}");
    assert!(reported <= DOLLAR + over * STEP, "{reported} were used, {over} were ended");
    let store = engine.engine().store();
    let today = loopwright::clock::day(loopwright::clock::SystemClock.now_ms());
    let day = fleet(&engine, &today).await;
    assert_eq!((sum, u64::try_from(day.settled_micros).expect("positive")), (reported, reported));
    assert_eq!((day.reserved_micros, day.reserved_tokens), (0, 0), "nothing is held any more");
    let verified = store.verify().await.expect("verify");
    assert_eq!(verified.broken, None, "ledger, rounds and days say the same");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_rounds_racing_for_the_last_dollar_exceed_it_by_a_report_each_at_most() {
    race(|settings| settings).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_rounds_racing_on_postgresql_exceed_it_by_a_report_each_at_most() {
    let url = loopwright_testkit::postgres::server().database();
    race(|settings| EngineSettings { store: Some(url), ..settings }).await;
}

/// A clock that the test sets.
struct Hand(Arc<AtomicI64>);

impl Clock for Hand {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn start_is_charged_to_the_day_it_began_and_the_next_day_starts_at_zero() {
    let world = World::new();
    let now = Arc::new(AtomicI64::new(LATE));
    let settings = EngineSettings { clock: Arc::new(Hand(Arc::clone(&now))), ..priced(world.settings()) };
    let agent = Spender { wants: 700_000, meanwhile: Some((Arc::clone(&now), LATE + 3_600_000)), ..Spender::default() };
    let engine = engine(&world, looking(DOLLAR, DOLLAR), agent, settings).await;
    let first = engine.run_once().await.expect("a round");
    assert_eq!((first.exit, first.spend.usd), (Some(0), Usd(700_000)), "{}", first.render());
    let (before, after) = (fleet(&engine, "2026-05-01").await, fleet(&engine, "2026-05-02").await);
    assert_eq!((before.settled_micros, before.reserved_micros, after.settled_micros), (700_000, 0, 0));
    let second = engine.run_once().await.expect("a round");
    assert_eq!(second.exit, Some(0), "the new day has its own dollar: {}", second.render());
    let third = engine.run_once().await.expect("a round");
    assert_eq!(third.exit, Some(12), "{}", third.render());
    let report_text = third.render();
    assert!(
        report_text.contains("the loop's day may cost 1.00 USD; 0.70 USD are spent and 0.30 USD reserved"),
        "{report_text}"
    );
    assert!(report_text.contains("loopwright budget raise read-sum --usd N"), "{report_text}");
}

#[tokio::test]
async fn a_crash_leaves_its_reservation_charged_in_every_scope() {
    let world = World::new();
    let now = Arc::new(AtomicI64::new(LATE));
    let settings = || EngineSettings { clock: Arc::new(Hand(Arc::clone(&now))), ..priced(world.settings()) };
    let begun = Arc::new(Notify::new());
    let hanging = Spender { hangs: Some(Arc::clone(&begun)), ..Spender::default() };
    let dying = engine(&world, looking(400_000, DOLLAR), hanging, settings()).await;
    tokio::select! {
        ended = dying.run_once() => panic!("it hangs: {ended:?}"),
        () = begun.notified() => {}
    }
    let scopes = [SpendScope::Loop, SpendScope::Repo, SpendScope::Fleet, SpendScope::Month];
    let all = dying.engine().store().loop_spends("2026-05-01").await.expect("spends").remove(0);
    for scope in scopes {
        let row = dying.engine().store().spend(scope, &all.repo, &all.loop_name, "2026-05-01").await.expect("spend");
        assert_eq!((row.reserved_micros, row.settled_micros), (100_000, 0), "{scope:?}");
    }
    dying.engine().close().await.expect("it is gone");
    drop(dying);
    let quiet = Spender::default();
    let next = engine(&world, looking(400_000, DOLLAR), quiet, settings()).await;
    drop(next.run_once().await.expect("the lost round is ended, then another runs"));
    for scope in scopes {
        let row = next.engine().store().spend(scope, &all.repo, &all.loop_name, "2026-05-01").await.expect("spend");
        assert_eq!((row.reserved_micros, row.settled_micros), (0, 100_000), "{scope:?}");
    }
    assert_eq!(next.engine().store().verify().await.expect("verify").broken, None);
}

#[tokio::test]
async fn the_day_of_a_loop_turns_at_midnight_of_its_zone_and_the_shared_day_at_the_users() {
    let world = World::new();
    // 2026-05-01T14:59:59Z: one second before midnight in Tokyo.
    let before = LATE - 9 * 3_600_000;
    let now = Arc::new(AtomicI64::new(before));
    let agent = Spender { wants: 700_000, ..Spender::default() };
    let mut spec = looking(4 * DOLLAR, DOLLAR);
    spec.on.timezone = Some("Asia/Tokyo".to_owned());
    let settings = EngineSettings { clock: Arc::new(Hand(Arc::clone(&now))), ..priced(world.settings()) };
    let engine = engine(&world, spec, agent, settings).await;
    let exit = async || engine.run_once().await.expect("a round").exit;
    assert_eq!(exit().await, Some(0));
    assert_eq!(exit().await, Some(12), "the loop's day is full");
    now.store(before + 2_000, Ordering::SeqCst);
    assert_eq!(exit().await, Some(0), "a new day began in Tokyo");
    assert_eq!(fleet(&engine, "2026-05-01").await.settled_micros, 1_400_000, "it is the same day of UTC");
    assert_eq!(fleet(&engine, "2026-05-02").await.settled_micros, 0);
    let days = engine.engine().store().loop_spends("2026-05-01").await.expect("spends");
    let days: Vec<_> = days.iter().map(|row| (row.day.as_str(), row.settled_micros)).collect();
    assert_eq!(days, [("2026-05-01", 700_000), ("2026-05-02", 700_000)]);
    assert_eq!(engine.engine().store().verify().await.expect("verify").broken, None);
}
