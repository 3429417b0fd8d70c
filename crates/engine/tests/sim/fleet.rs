//! The loops of a simulated world, as one of its processes knows them.

use super::agent::AtWork;
use super::dice::Dice;
use super::faults::{Door, Faults, Site};
use super::ground::Ground;
use crate::manual_clock::ManualClock;
use loopwright::clock::Clock;
use loopwright::daemon::{FleetLoops, LoopFleet, PreparedStart, ReadyRound};
use loopwright::round::{DeliveryOutlet, LoopBindings, RoleAgents, RunRequest};
use loopwright::spec::{
    ActionKind, CatchUp, CheckMode, CheckedSpec, DiffGate, DiffRule, Gate, OutputSpec, Overlap, Role,
};
use loopwright::store::Store;
use loopwright::takeover::RoundBinder;
use loopwright::units::{TimeSpan, Usd};
use loopwright::{AlwaysEscalate, BoxFuture, Engine, EngineError, LoopLevel, LoopSpec};
use loopwright_core::dispatch::{LoopEntry, LoopKey};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

pub(crate) const MINUTE_MS: i64 = 60_000;
/// Intervals of loops, in minutes.
const GRIDS: [u64; 4] = [5, 15, 30, 60];
/// The longest delay of a loop.
pub(crate) const JITTER_MS: i64 = 90_000;

/// The state that everything in a run shares.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) faults: Arc<Faults>,
    dice: Arc<Mutex<Dice>>,
    pub(crate) ground: &'static Ground,
    specs: Arc<Mutex<Vec<CheckedSpec>>>,
    /// Every day that the clock showed.
    pub(crate) days: Arc<Mutex<BTreeSet<String>>>,
    /// Broken promises that were observed during the run.
    wrong: Arc<Mutex<Vec<String>>>,
    /// Rounds whose agent did not do its task.
    pub(crate) spoilt: Arc<Mutex<BTreeSet<String>>>,
    /// Whether the daemon's events are printed.
    pub(crate) is_told: bool,
    /// The state of one process.
    pub(crate) own: Own,
}

/// The state of one process, which dies with it.
#[derive(Clone)]
pub(crate) struct Own {
    pub(crate) door: Arc<Door>,
    /// The number of tasks that wait for the clock.
    pub(crate) waiting: Arc<AtomicUsize>,
    pub(crate) at_work: AtWork,
    pub(crate) store: Arc<OnceLock<Arc<Store>>>,
    /// Loops at whose next start the process dies.
    pub(crate) last: Arc<Mutex<BTreeSet<String>>>,
}

impl Own {
    fn new(faults: &Arc<Faults>) -> Self {
        let door = Arc::new(Door::new(Arc::clone(faults)));
        Self { door, waiting: Arc::default(), at_work: AtWork::default(), store: Arc::default(), last: Arc::default() }
    }
}

/// Counts a task that waits for the clock, while it waits.
pub(crate) struct Waits(Arc<AtomicUsize>);

impl Waits {
    pub(crate) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A few loops with a grid each; in some runs, one of them proposes changes.
fn specs(dice: &mut Dice) -> Vec<CheckedSpec> {
    let count = 2 + dice.below(3);
    let proposes = dice.quarter();
    let spec = |number: u64, dice: &mut Dice| {
        let level = if proposes && number == 0 { LoopLevel::L2Assisted } else { LoopLevel::L1Report };
        let mut spec = LoopSpec::new(format!("loop-{number}"), "look and report", level).with_maker_prompt("Look.");
        spec.attempts = 1;
        // A crash charges the reservation; many crashes must not exhaust the day or wait for a person.
        spec.budget.day.usd = Some(Usd(1_000_000_000_000));
        spec.budget.role.tokens = Some(1_000);
        spec.budget.role.usd = Some(Usd(1_000));
        spec.on.every = vec![TimeSpan::secs(60 * dice.pick(&GRIDS))];
        spec.on.timezone = Some("UTC".to_owned());
        spec.on.overlap = dice.pick(&[Overlap::Skip, Overlap::Queue, Overlap::Cancel]);
        spec.on.catch_up = dice.pick(&[CatchUp::Once, CatchUp::Once, CatchUp::Skip, CatchUp::All(2)]);
        spec.on.jitter = dice.quarter().then(|| TimeSpan::secs(JITTER_MS.unsigned_abs() / 1000));
        spec.on.quiet = dice.quarter().then(|| "12:00-13:00".to_owned());
        spec.priority = dice.pick(&[0, 0, 5]);
        spec.locks = if dice.quarter() { vec!["shared".to_owned()] } else { Vec::new() };
        match spec.level {
            LoopLevel::L1Report => spec.check = CheckMode::None,
            _ => propose(&mut spec),
        }
        checked(spec)
    };
    (0..count).map(|number| spec(number, dice)).collect()
}

fn propose(spec: &mut LoopSpec) {
    let diff = DiffRule { files_max: Some(3), ..DiffRule::default() };
    spec.gates = vec![Gate::Diff(DiffGate { name: "small".to_owned(), diff })];
    spec.output = vec![OutputSpec::new(ActionKind::PullRequest)];
}

fn checked(spec: LoopSpec) -> CheckedSpec {
    spec.check().unwrap_or_else(|problems| panic!("{problems:?}"))
}

impl World {
    pub(crate) fn new(dice: &mut Dice, clock: ManualClock, ground: &'static Ground) -> Self {
        let faults = Arc::new(Faults::new(dice));
        Self {
            own: Own::new(&faults),
            faults,
            specs: Arc::new(Mutex::new(specs(dice))),
            dice: Arc::new(Mutex::new(dice.split())),
            clock,
            ground,
            days: Arc::default(),
            wrong: Arc::default(),
            spoilt: Arc::default(),
            is_told: false,
        }
    }

    /// The same world for another process.
    pub(crate) fn of_new_process(&self) -> Self {
        Self { own: Own::new(&self.faults), ..self.clone() }
    }

    pub(crate) fn specs(&self) -> Vec<CheckedSpec> {
        self.specs.lock().expect("no one panics with the loops").clone()
    }

    pub(crate) fn entry(&self, spec: &CheckedSpec) -> LoopEntry {
        LoopEntry::from_spec(spec, &self.ground.repo_id, "UTC").expect("a checked cadence")
    }

    pub(crate) fn key(&self, spec: &CheckedSpec) -> LoopKey {
        LoopKey::new(&self.ground.repo_id, &spec.name)
    }

    /// Gives a loop another interval in its file, if one is left that it never had.
    pub(crate) fn edit(&self, number: usize, had: &[i64]) -> Option<CheckedSpec> {
        let had = |minutes: &u64| had.contains(&(i64::try_from(*minutes).unwrap_or(0) * MINUTE_MS));
        let minutes = GRIDS.into_iter().find(|minutes| !had(minutes))?;
        let mut specs = self.specs.lock().expect("no one panics with the loops");
        let mut spec = (*specs[number]).clone();
        spec.on.every = vec![TimeSpan::secs(60 * minutes)];
        specs[number] = checked(spec);
        Some(specs[number].clone())
    }

    /// Records a broken promise.
    pub(crate) fn blame(&self, text: String) {
        self.wrong.lock().expect("no one panics with it").push(text);
    }

    pub(crate) fn blamed(&self) -> Result<(), String> {
        self.wrong.lock().expect("no one panics with it").first().map_or(Ok(()), |text| Err(text.clone()))
    }

    pub(crate) fn bindings(&self) -> LoopBindings {
        LoopBindings {
            agents: RoleAgents::default()
                .with(Role::Maker, Arc::new(self.clone()))
                .with(Role::Checker, Arc::new(self.clone())),
            gate: Arc::new(AlwaysEscalate),
            outlet: DeliveryOutlet::LocalForge,
        }
    }

    pub(crate) fn request(&self, spec: CheckedSpec) -> RunRequest {
        RunRequest::manual(spec, self.ground.repo.path(), "sim")
    }

    pub(crate) fn throw(&self, most: u64) -> u64 {
        self.dice.lock().expect("no one panics with the dice").below(most)
    }

    /// Waits until the clock has advanced by some minutes.
    pub(crate) async fn linger(&self, most: u64) {
        let until_ms = self.clock.now_ms() + i64::try_from(self.throw(most)).unwrap_or(1) * MINUTE_MS;
        let _waits = Waits::new(&self.own.waiting);
        self.clock.until(until_ms).await;
    }
}

impl RoundBinder for World {
    fn rebind(&self, engine: &Engine, _: &loopwright_core::round::RoundStarted) -> (Engine, LoopBindings) {
        (engine.clone(), self.bindings())
    }
}

impl LoopFleet for World {
    fn load(&self) -> BoxFuture<'_, Result<FleetLoops, EngineError>> {
        let entries: Vec<LoopEntry> = self.specs().iter().map(|spec| self.entry(spec)).collect();
        Box::pin(std::future::ready(Ok(entries.into())))
    }

    fn prepare<'a>(
        &'a self,
        engine: &'a Engine,
        key: &'a LoopKey,
    ) -> BoxFuture<'a, Result<PreparedStart, EngineError>> {
        Box::pin(async move {
            let is_slow = self.faults.strikes(Site::SlowProbe);
            if is_slow {
                self.linger(40).await;
            }
            if self.faults.strikes(Site::ProbeFails) {
                return Err(EngineError::Daemon("the loop file is being written".to_owned()));
            }
            // A slow probe always finds work, so that commands given meanwhile coincide with a start. A proposing loop
            // always has work.
            if self.throw(3) > 0 && !is_slow && !self.proposes(&key.name) {
                return Ok(PreparedStart::NoWork);
            }
            if is_slow && self.faults.may_kill() && self.throw(2) == 0 {
                // Nothing after the start repairs what the start undid.
                self.own.last.lock().expect("no one panics with it").insert(key.name.to_string());
            }
            let spec = self.specs().into_iter().find(|spec| *spec.name == *key.name).expect("a loop of ours");
            let request = self.request(spec);
            Ok(ReadyRound { engine: engine.clone(), bind: self.bindings(), request }.into())
        })
    }
}
