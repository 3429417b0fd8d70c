//! A fleet of loops in one repository, their agents, a clock, and an observer of the daemon's events.

use crate::common::{World, ended, said};
use crate::manual_clock::ManualClock;
use loopwright::agents::{Agent, AgentCapabilities, AgentError, AgentInvocation, AgentLog, AgentOutcome};
use loopwright::daemon::{Daemon, DaemonEnd, DaemonJoin, FleetLoops, LoopFleet, PreparedStart, ReadyRound};
use loopwright::events::{EventKind, EventSink, LiveEvent};
use loopwright::gc::GcRetention;
use loopwright::probe::ProbeResult;
use loopwright::proc::{CancelToken, ProcessRunner, RunEnd, StartedProcess};
use loopwright::round::{DeliveryOutlet, LoopBindings, RoleAgents, RunRequest};
use loopwright::spec::{CheckMode, Role};
use loopwright::store::{ReceiptRow, ReceiptsQuery, RoundRow, RoundsQuery};
use loopwright::takeover::RoundBinder;
use loopwright::{AlwaysEscalate, BoxFuture, Engine, EngineError, EngineSettings, LoopLevel, LoopSpec};
use loopwright_core::budget::BudgetLimit;
use loopwright_core::dispatch::{ConcurrencyLimits, LoopEntry, LoopKey};
use loopwright_core::provider::{ProviderTrouble, TroubleKind};
use loopwright_core::round::{ProbeItem, RoundStarted as Birth};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};

/// 2026-05-01T00:00:00Z.
pub(crate) const T0: i64 = 1_777_593_600_000;
pub(crate) const MINUTE: i64 = 60_000;
pub(crate) const HOUR: i64 = 60 * MINUTE;
/// Longer than any test waits for an event that arrives.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The behaviour of a loop's agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Play {
    /// Stages a report.
    Report,
    /// Stages a report and uses this many tokens.
    Use(u64),
    /// Hangs until it is released or stopped.
    Hang,
    /// Panics.
    Panic,
    /// Exits with a code.
    Fail,
    /// Reaches this limit of its round.
    Limit(BudgetLimit),
    /// Its provider asks to retry later.
    Later(i64),
}

/// Plays the agents of all loops.
#[derive(Clone, Default)]
pub(crate) struct Troupe {
    plays: Arc<Mutex<HashMap<String, Play>>>,
    starts: Arc<watch::Sender<Vec<String>>>,
    free: Arc<Notify>,
}

impl Troupe {
    pub(crate) fn play(&self, loop_name: &str, play: Play) {
        self.plays.lock().expect("no test panicked here").insert(loop_name.to_owned(), play);
    }

    /// Releases one agent that hangs.
    pub(crate) fn let_go(&self) {
        self.free.notify_one();
    }

    /// The loops whose agents were started, in order.
    pub(crate) fn starts(&self) -> Vec<String> {
        self.starts.borrow().clone()
    }

    /// Waits until agents were started this many times.
    pub(crate) async fn begun_times(&self, times: usize) {
        let mut starts = self.starts.subscribe();
        let begun = tokio::time::timeout(PATIENCE, starts.wait_for(|starts| starts.len() >= times)).await;
        drop(begun.expect("agents start").expect("the troupe lives"));
    }

    async fn perform(&self, invocation: &AgentInvocation, cancel: &CancelToken) -> AgentOutcome {
        let name = invocation.loop_name.clone();
        self.starts.send_modify(|starts| starts.push(name.clone()));
        let play = self.plays.lock().expect("no test panicked here").get(&name).copied().unwrap_or(Play::Report);
        match play {
            Play::Panic => panic!("the agent of {name} lost its head"),
            // A different number each time: numbers do not make failures different.
            Play::Fail => return ended(3 + i32::try_from(self.starts.borrow().len()).expect("a few"), "no", 0),
            Play::Later(at_ms) => return later(at_ms),
            Play::Limit(limit) => return AgentOutcome { limit: Some(limit), ..ended(0, "", 0) },
            Play::Report | Play::Use(_) => {}
            Play::Hang => tokio::select! {
                () = self.free.notified() => {}
                () = cancel.cancelled() => return AgentOutcome { how: RunEnd::Cancelled, exit: None, ..said("stopped") },
            },
        }
        std::fs::write(invocation.outbox.join("report.md"), "seen\n").expect("the outbox can be written");
        match play {
            Play::Use(tokens) => ended(0, "done", tokens),
            _ => said("done"),
        }
    }
}

fn later(at_ms: i64) -> AgentOutcome {
    let mut outcome = ended(1, "", 0);
    let (kind, text) = (TroubleKind::RateLimited, "not now".to_owned());
    outcome.self_report.trouble = Some(ProviderTrouble { kind, status: None, retry_at_ms: Some(at_ms), text });
    outcome
}

impl Agent for Troupe {
    fn name(&self) -> &str {
        "troupe"
    }

    fn capabilities(&self) -> AgentCapabilities {
        AgentCapabilities { usage: true, session_isolation: true, ..AgentCapabilities::default() }
    }

    fn invoke<'a>(
        &'a self,
        invocation: &'a AgentInvocation,
        _: &'a ProcessRunner,
        _: &'a mut dyn AgentLog,
        cancel: &'a CancelToken,
        _: &'a mut (dyn FnMut(&StartedProcess) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        Box::pin(async move { Ok(self.perform(invocation, cancel).await) })
    }
}

/// The loops of the test, as the command line would load them.
pub(crate) struct Troop {
    specs: Mutex<Vec<LoopSpec>>,
    broken: Mutex<HashSet<String>>,
    /// Loops whose probe never answers.
    silent: Mutex<HashSet<String>>,
    /// Whether loading the loops blocks until the test releases it, and how many loads have started.
    is_slow: AtomicBool,
    go: Notify,
    loads: watch::Sender<usize>,
    /// The items that the probes of loops find.
    found: Mutex<HashMap<String, Vec<String>>>,
    /// How long the data of ended rounds stays, if the daemon removes it.
    kept_ms: Mutex<Option<i64>>,
    repo: (PathBuf, String),
    outlet: Mutex<DeliveryOutlet>,
    pub(crate) troupe: Troupe,
}

impl Troop {
    pub(crate) fn bindings(&self) -> LoopBindings {
        LoopBindings {
            agents: RoleAgents::default().with(Role::Maker, Arc::new(self.troupe.clone())),
            gate: Arc::new(AlwaysEscalate),
            outlet: self.outlet.lock().expect("no test panicked here").clone(),
        }
    }

    /// From now on items go there.
    pub(crate) fn send_to(&self, outlet: DeliveryOutlet) {
        *self.outlet.lock().expect("no test panicked here") = outlet;
    }

    pub(crate) fn set(&self, specs: Vec<LoopSpec>) {
        *self.specs.lock().expect("no test panicked here") = specs;
    }

    /// From now on the loop's probe finds these items.
    pub(crate) fn find(&self, name: &str, items: &[&str]) {
        let items = items.iter().map(|item| (*item).to_owned()).collect();
        self.found.lock().expect("no test panicked here").insert(name.to_owned(), items);
    }

    /// The daemon removes data of rounds that ended this long ago.
    pub(crate) fn keep_for(&self, kept_ms: i64) {
        *self.kept_ms.lock().expect("no test panicked here") = Some(kept_ms);
    }

    fn found(&self, name: &str) -> Option<ProbeResult> {
        let found = self.found.lock().expect("no test panicked here").get(name).cloned()?;
        let items: Vec<_> = found.into_iter().map(|key| ProbeItem { key, title: None, data: None, chain: 0 }).collect();
        Some(if items.is_empty() { ProbeResult::None } else { ProbeResult::Items(items) })
    }

    /// From now on each load of the loops blocks until [`Self::let_load`] is called once.
    pub(crate) fn slow_down(&self) {
        self.is_slow.store(true, Ordering::SeqCst);
    }

    pub(crate) fn let_load(&self) {
        self.go.notify_one();
    }

    /// Waits until this many loads have started.
    pub(crate) async fn loads(&self, times: usize) {
        let mut loads = self.loads.subscribe();
        let begun = tokio::time::timeout(PATIENCE, loads.wait_for(|loads| *loads >= times)).await;
        drop(begun.expect("loops are read").expect("the troop lives"));
    }

    /// From now on the loop cannot be prepared.
    pub(crate) fn break_file(&self, name: &str) {
        self.broken.lock().expect("no test panicked here").insert(name.to_owned());
    }

    /// From now on the loop's probe never answers.
    pub(crate) fn silence(&self, name: &str) {
        self.silent.lock().expect("no test panicked here").insert(name.to_owned());
    }

    /// The id of the repository.
    pub(crate) fn repo_id(&self) -> String {
        self.repo.1.clone()
    }

    pub(crate) fn request(&self, name: &str) -> RunRequest {
        let specs = self.specs.lock().expect("no test panicked here");
        let spec = specs.iter().find(|spec| spec.name == name).expect("a loop of the test").clone();
        RunRequest::manual(spec.check().expect("a good spec"), &self.repo.0, "ada")
    }
}

impl RoundBinder for Troop {
    fn rebind(&self, engine: &Engine, _: &Birth) -> (Engine, LoopBindings) {
        (engine.clone(), self.bindings())
    }
}

impl LoopFleet for Troop {
    fn load(&self) -> BoxFuture<'_, Result<FleetLoops, EngineError>> {
        Box::pin(async move {
            let specs = self.specs.lock().expect("no test panicked here").clone();
            self.loads.send_modify(|loads| *loads += 1);
            if self.is_slow.load(Ordering::SeqCst) {
                self.go.notified().await;
            }
            let mut loops = FleetLoops::default();
            for spec in specs {
                let spec = spec.check().expect("a good spec");
                let entry = LoopEntry::from_spec(&spec, &self.repo.1, "UTC").expect("UTC is known");
                let after = spec.on.after.iter().map(|leader| (entry.key.clone(), Arc::from(leader.as_str())));
                loops.after.extend(after);
                loops.entries.push(entry);
            }
            Ok(loops)
        })
    }

    fn prepare<'a>(
        &'a self,
        engine: &'a Engine,
        key: &'a LoopKey,
    ) -> BoxFuture<'a, Result<PreparedStart, EngineError>> {
        Box::pin(async move {
            if self.broken.lock().expect("no test panicked here").contains(&*key.name) {
                return Err(EngineError::NotRunnable { name: key.name.to_string(), why: vec!["it broke".to_owned()] });
            }
            let is_silent = self.silent.lock().expect("no test panicked here").contains(&*key.name);
            if is_silent {
                std::future::pending::<()>().await;
            }
            let (bind, request) = (self.bindings(), self.request(&key.name));
            let ready = ReadyRound { engine: engine.clone(), bind, request };
            Ok(match self.found(&key.name) {
                Some(found) => ready.with_probe_result(found),
                None => ready.into(),
            })
        })
    }

    fn retention(&self, now_ms: i64) -> Option<GcRetention> {
        let before_ms = now_ms - (*self.kept_ms.lock().expect("no test panicked here"))?;
        Some(GcRetention { rounds_before_ms: before_ms, logs_before_ms: before_ms })
    }
}

/// A loop that only reports, without a checker, by a cadence.
pub(crate) fn every(name: &str, cadence: &str) -> LoopSpec {
    let mut spec = LoopSpec::new(name, "look at it", LoopLevel::L1Report).with_maker_prompt("Look.");
    if !cadence.is_empty() {
        spec = spec.with_cadence(cadence);
    }
    spec.check = CheckMode::None;
    spec
}

/// The daemon's events as lines; can wait for lines that arrive later.
pub(crate) struct Ear {
    lines: Vec<String>,
    coming: mpsc::UnboundedReceiver<String>,
}

struct Mouth(mpsc::UnboundedSender<String>);

impl EventSink for Mouth {
    fn event(&self, event: &LiveEvent) {
        for line in lines(event) {
            let _ = self.0.send(line);
        }
    }
}

fn lines(event: &LiveEvent) -> Vec<String> {
    let name = event.loop_name();
    let line = match &event.kind {
        EventKind::Up { taken_over, .. } => format!("up {taken_over}"),
        EventKind::Started { occurrence } => format!("started {name} {occurrence}"),
        EventKind::NotStarted { why, again_ms } => format!("not-started {name} {} {why}", again_ms.is_some()),
        EventKind::AlreadyDone { occurrence } => format!("known {name} {occurrence}"),
        EventKind::Ended { outcome, .. } => format!("ended {name} {}", outcome.map_or("-", |word| word.word())),
        EventKind::Panicked { text } => format!("panicked {name} {text}"),
        EventKind::Parked { why, .. } => format!("parked {name} {why}"),
        EventKind::Cancelling { why } => format!("cancelling {name} {why}"),
        EventKind::Asked { why } => format!("asked {name} {why}"),
        EventKind::Receipts(receipts) => {
            let one = |receipt: &loopwright_core::dispatch::OccurrenceReceipt| {
                format!("kept {} {} {} x{}", receipt.key.name, receipt.fate, receipt.occurrence, receipt.count)
            };
            return receipts.iter().map(one).collect();
        }
        EventKind::WriteFailed { again_ms, .. } => format!("unkept {again_ms}"),
        EventKind::ChainTooLong { follower, depth } => format!("too-deep {name} {} {depth}", follower.name),
        EventKind::Frozen { by, why } => format!("frozen {by} {why}"),
        EventKind::Collected { removed, stuck, .. } => format!("collected {removed} {}", stuck.is_some()),
        EventKind::Thawed => "thawed".to_owned(),
        EventKind::Draining { running, .. } => format!("draining {running}"),
        EventKind::Fenced { .. } => "fenced".to_owned(),
        EventKind::Sleeping { until_ms, due_ms } => {
            let after = |at: &Option<i64>| at.map_or("-".to_owned(), |at| (at - T0).to_string());
            format!("sleeps {} due {}", after(until_ms), after(due_ms))
        }
        // The stages of rounds have tests of their own.
        EventKind::Stage { .. }
        | EventKind::Recorded { .. }
        | EventKind::Gate(_)
        | EventKind::AgentLine { .. }
        | EventKind::ProgramLine { .. } => {
            return Vec::new();
        }
        other => format!("{other:?}").to_lowercase(),
    };
    vec![line]
}

impl Ear {
    /// Waits for the next line with this prefix.
    pub(crate) async fn hears(&mut self, start: &str) -> String {
        self.hears_one_of(&[start]).await
    }

    /// Waits for the next line with one of these prefixes.
    pub(crate) async fn hears_one_of(&mut self, starts: &[&str]) -> String {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.coming.recv()).await;
            let Ok(Some(line)) = next else { panic!("{starts:?} was not reported in:\n{}", self.lines.join("\n")) };
            self.lines.push(line.clone());
            if starts.iter().any(|start| line.starts_with(start)) {
                return line;
            }
        }
    }

    /// All lines so far, except the sleeps.
    pub(crate) fn all(&mut self) -> Vec<String> {
        while let Ok(line) = self.coming.try_recv() {
            self.lines.push(line);
        }
        self.lines.iter().filter(|line| !line.starts_with("sleeps")).cloned().collect()
    }

    /// How often the daemon went to sleep.
    pub(crate) fn sleeps(&mut self) -> usize {
        self.all();
        self.lines.iter().filter(|line| line.starts_with("sleeps")).count()
    }

    /// The number of lines with this prefix.
    pub(crate) fn count(&mut self, start: &str) -> usize {
        self.all().iter().filter(|line| line.starts_with(start)).count()
    }
}

/// The stage of a test.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) clock: ManualClock,
    pub(crate) troop: Arc<Troop>,
    pub(crate) limits: ConcurrencyLimits,
}

/// A running daemon.
pub(crate) struct Show {
    pub(crate) engine: Engine,
    pub(crate) daemon: Daemon,
    pub(crate) ear: Ear,
    ending: DaemonJoin,
}

impl Stage {
    pub(crate) async fn new(specs: Vec<LoopSpec>) -> Self {
        let world = World::new();
        let git = loopwright::git::Git::new(loopwright::seam::Seam::none());
        let repo = git.discover(world.repo.path()).await.expect("a repository");
        let troop = Troop {
            specs: Mutex::new(specs),
            broken: Mutex::default(),
            silent: Mutex::default(),
            is_slow: AtomicBool::new(false),
            go: Notify::new(),
            loads: watch::Sender::new(0),
            found: Mutex::default(),
            kept_ms: Mutex::default(),
            repo: (world.repo.path().to_owned(), repo.id),
            outlet: Mutex::new(DeliveryOutlet::LocalForge),
            troupe: Troupe::default(),
        };
        Self { world, clock: ManualClock::new(T0), troop: Arc::new(troop), limits: ConcurrencyLimits::default() }
    }

    pub(crate) fn settings(&self) -> EngineSettings {
        EngineSettings { clock: Arc::new(self.clock.clone()), ..self.world.settings() }
    }

    pub(crate) fn key(&self, name: &str) -> LoopKey {
        LoopKey::new(&self.troop.repo.1, name)
    }

    pub(crate) async fn open(&self) -> Show {
        self.open_with(self.settings()).await
    }

    pub(crate) async fn open_with(&self, settings: EngineSettings) -> Show {
        let engine = Engine::open(settings).await.expect("the state directory is free");
        let (mouth, coming) = mpsc::unbounded_channel();
        let fleet = Arc::clone(&self.troop) as Arc<dyn LoopFleet>;
        engine.events().attach(Arc::new(Mouth(mouth))).keep();
        let started = Daemon::start(engine.clone(), fleet, self.limits.clone()).await;
        let (daemon, ending) = started.expect("the daemon starts");
        let mut ear = Ear { lines: Vec::new(), coming };
        ear.hears("sleeps").await;
        Show { engine, daemon, ear, ending }
    }

    /// Sets the clock to this long after the start.
    pub(crate) fn at(&self, after_ms: i64) {
        self.clock.set(T0 + after_ms);
    }
}

impl Show {
    /// All receipts of a loop, oldest first.
    pub(crate) async fn receipts(&self, key: &LoopKey) -> Vec<ReceiptRow> {
        let (repo, loop_name) = (key.repo.to_string(), key.name.to_string());
        let query = ReceiptsQuery { repo, loop_name, before: None, limit: 1000 };
        let mut all = self.engine.store().receipts(query).await.expect("receipts");
        all.reverse();
        all
    }

    /// The receipts as words: the outcome of each, and how many due times it stands for.
    pub(crate) async fn fates(&self, key: &LoopKey) -> Vec<String> {
        let describe = |row: &ReceiptRow| match row.count {
            1 => format!("{} {}", (row.due_ms - T0) / MINUTE, row.receipt),
            count => format!("{} {} x{count}", (row.due_ms - T0) / MINUTE, row.receipt),
        };
        self.receipts(key).await.iter().map(describe).collect()
    }

    pub(crate) async fn rounds(&self) -> Vec<RoundRow> {
        self.engine.store().rounds(RoundsQuery { limit: 1000, ..RoundsQuery::default() }).await.expect("rounds")
    }

    /// Waits until the daemon has done all it can do now.
    pub(crate) async fn settled(&mut self) {
        loop {
            let snapshot = self.daemon.snapshot().await.expect("it is at work");
            if snapshot.unwritten == 0 && snapshot.running.is_empty() {
                return;
            }
            self.ear.hears("sleeps").await;
        }
    }

    /// Ends the daemon abruptly, as by a crash.
    pub(crate) async fn die(self) {
        self.ending.abandon().await;
        drop(self.daemon);
        self.engine.close().await.expect("the state directory is free");
    }

    /// Ends the daemon without waiting for rounds, and closes the state directory.
    pub(crate) async fn close(self) -> Vec<String> {
        self.daemon.drain(Duration::ZERO).await.expect("it is at work");
        let (ended, lines) = self.end().await;
        assert_eq!(ended, DaemonEnd::Drained);
        lines
    }

    /// Waits for the daemon's end, and closes the state directory.
    pub(crate) async fn end(mut self) -> (DaemonEnd, Vec<String>) {
        let ended = tokio::time::timeout(PATIENCE, self.ending.wait()).await.expect("it ends");
        drop(self.daemon);
        let _ = self.engine.close().await;
        (ended, self.ear.all())
    }
}
