//! One run: a world, what happens in it, and a quiet end after which the promises must be seen to hold.

use super::dice::Dice;
use super::faults::{Faults, Site};
use super::fleet::{self, World};
use super::life::{self, Life};
use super::oracle::{self, Tally};
use loopwright::Engine;
use loopwright::clock::{Clock as _, HandClock};
use loopwright::seam::Seam;
use loopwright::store::SignalRow;
use loopwright_core::dispatch::Limits;
use loopwright_testkit::TestRepo;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

/// 2026-11-16T08:02Z.
const DAWN_MS: i64 = 1_794_816_120_000;
const MINUTE_MS: i64 = 60_000;
/// How much happens.
const STEPS: u64 = 14;
/// How long the quiet end may take.
const QUIET_STEPS: u32 = 400;

/// One repository for all runs: no round changes it.
static REPO: LazyLock<TestRepo> = LazyLock::new(|| {
    let repo = TestRepo::new();
    repo.write("README.md", "hello\n").commit("first");
    repo
});

/// A run that is being told.
struct Story {
    state: PathBuf,
    world: World,
    limits: Limits,
    dice: Dice,
    life: Option<Life>,
    signals: u64,
    /// The latest moment the clock ever showed.
    seen_ms: i64,
    /// The earliest moment the clock showed before all loops were on record.
    least_ms: i64,
    /// When all loops were seen to be on record.
    registered_ms: Option<i64>,
    /// Whether the clock may go back so far that it is not believed. Nobody thaws then: that would take the clock as it is,
    /// and marks would go back, which has its own tests.
    goes_far_back: bool,
    tally: Tally,
}

/// Tells the run of a seed.
pub(crate) fn tell(seed: u64) -> Result<Tally, String> {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.map_err(|why| why.to_string())?;
    let mut story = Story::new(seed, folder.path().join("state"))?;
    for _ in 0..STEPS {
        story.step()?;
    }
    story.come_to_rest()?;
    story.examine()
}

impl Story {
    fn new(seed: u64, state: PathBuf) -> Result<Self, String> {
        let mut dice = Dice::new(seed);
        let clock = HandClock::new(DAWN_MS);
        let faults = Arc::new(Faults::new(&mut dice));
        let specs = Arc::new(fleet::specs(&mut dice));
        let limits = Limits { total: 1 + usize::try_from(dice.below(3)).unwrap_or(0), ..Limits::default() };
        let mut world = World {
            clock,
            faults,
            dice: Arc::new(Mutex::new(dice.split())),
            waiting: Arc::default(),
            repo_id: String::new(),
            repo_path: REPO.path().to_owned(),
            specs,
        };
        world.repo_id = repo_id(&state, &world)?;
        let life = Some(Life::begin(&state, &world, &limits)?);
        let goes_far_back = dice.below(2) == 0;
        Ok(Self {
            goes_far_back,
            state,
            world,
            limits,
            dice,
            life,
            signals: 0,
            seen_ms: DAWN_MS,
            least_ms: DAWN_MS,
            registered_ms: None,
            tally: Tally::default(),
        })
    }

    fn life(&self) -> &Life {
        self.life.as_ref().expect("there is always a process")
    }

    fn step(&mut self) -> Result<(), String> {
        self.advance();
        if self.world.faults.strikes(Site::SecondDaemon) {
            self.second_daemon()?;
        }
        self.act();
        let lives = self.life().settle(&self.world)?;
        self.look_for_loops();
        if !lives || self.world.faults.strikes(Site::Crash) {
            self.reborn()?;
        }
        Ok(())
    }

    /// Time passes, to the next moment that something waits for or by some minutes; or the clock is set.
    fn advance(&mut self) {
        let now_ms = self.world.clock.now_ms();
        let by_ms = i64::try_from(self.dice.below(20)).unwrap_or(1) * MINUTE_MS;
        let wake_ms = self.ask(|life| async move { life.daemon.snapshot().await.ok()?.next_wake_ms }).flatten();
        let mut at_ms = wake_ms.filter(|_| self.dice.below(2) == 0).unwrap_or(now_ms + by_ms).max(now_ms);
        if self.world.faults.strikes(Site::ClockForward) {
            at_ms += i64::try_from(self.dice.below(3 * 24 * 60)).unwrap_or(1) * MINUTE_MS;
        }
        if self.world.faults.strikes(Site::ClockBack) {
            at_ms -= i64::try_from(self.dice.below(4 * 60)).unwrap_or(1) * MINUTE_MS;
        }
        if !self.goes_far_back {
            at_ms = at_ms.max(self.seen_ms - 50 * MINUTE_MS);
        }
        self.set(at_ms);
    }

    fn set(&mut self, at_ms: i64) {
        self.seen_ms = self.seen_ms.max(at_ms);
        if self.registered_ms.is_none() {
            self.least_ms = self.least_ms.min(at_ms);
        }
        self.world.clock.set(at_ms);
    }

    fn ask<'a, T, F: Future<Output = T>>(&'a self, asked: impl FnOnce(&'a Life) -> F) -> Option<T> {
        self.life().ask(asked(self.life()), &self.world)
    }

    /// What a person or the outside does; what the daemon answers is not the point, what is on record afterwards is.
    fn act(&mut self) {
        let key = self.world.key(usize::try_from(self.dice.below(9)).unwrap_or(0));
        match self.dice.below(12) {
            3..=5 if self.goes_far_back => {}
            0 => drop(self.ask(|life| async move { life.daemon.pause(&key, "ann", "a test").await })),
            1 | 2 => drop(self.ask(|life| async move { life.daemon.resume(&key, "ann").await })),
            3 => drop(self.ask(|life| async move { life.daemon.freeze("ann", "a test").await })),
            4 | 5 => drop(self.ask(|life| async move { life.daemon.thaw("ann").await })),
            6 => drop(self.ask(|life| async move { life.daemon.reload().await })),
            7 | 8 => {
                self.signals += 1;
                let item = self.dice.quarter().then(|| format!("item-{}", self.signals % 3));
                let signal = SignalRow {
                    repo: key.repo.to_string(),
                    loop_name: key.name.to_string(),
                    key: format!("push:main:{}", self.signals),
                    trigger: "push".to_owned(),
                    at_ms: self.world.clock.now_ms(),
                    item,
                    title: None,
                    data: None,
                    taken_ms: None,
                };
                drop(self.ask(|life| async move { life.daemon.signal(signal).await }));
            }
            _ => {}
        }
    }

    /// A process may die before its loops are on record; from the moment they are, every due counts.
    fn look_for_loops(&mut self) {
        let schedules = self.life().look(self.life().engine.store().schedules());
        if self.registered_ms.is_none() && schedules.is_ok_and(|rows| rows.len() == self.world.specs.len()) {
            self.registered_ms = Some(self.seen_ms);
        }
    }

    /// A process dies and another one begins.
    fn reborn(&mut self) -> Result<(), String> {
        self.tally.crashes += 1;
        if let Some(life) = self.life.take() {
            life.drop_dead();
        }
        // What waited died too.
        self.life = Some(Life::begin(&self.state, &self.world, &self.limits)?);
        Ok(())
    }

    /// Another engine on the same state is told who has it.
    fn second_daemon(&mut self) -> Result<(), String> {
        let settings = life::settings(&self.state, &self.world, Seam::none());
        match self.life().look(Engine::open(settings)) {
            Ok(_) => Err("P1: two engines own one store".to_owned()),
            Err(_) => Ok(()),
        }
    }

    /// Nothing goes wrong any more: everything that is due or waits comes to its end.
    fn come_to_rest(&mut self) -> Result<(), String> {
        self.world.faults.end();
        let (dawn_ms, seen_ms) = (self.world.clock.now_ms(), self.seen_ms);
        self.set(seen_ms.max(dawn_ms));
        self.reborn()?;
        self.ask(|life| async move { life.daemon.thaw("ann").await });
        for number in 0..self.world.specs.len() {
            let key = self.world.key(number);
            self.ask(|life| async move { life.daemon.resume(&key, "ann").await });
        }
        for _ in 0..QUIET_STEPS {
            self.life().settle(&self.world)?;
            self.look_for_loops();
            if self.is_at_rest()? {
                return Ok(());
            }
            let now_ms = self.world.clock.now_ms();
            self.set(now_ms + MINUTE_MS);
        }
        let open = self.life().look(self.life().engine.store().open_rounds()).map_err(|why| why.to_string())?;
        let pending =
            self.life().look(self.life().engine.store().pending_signals(99)).map_err(|why| why.to_string())?;
        Err(format!("P9: it comes to no rest; open {open:?}, pending {pending:?}"))
    }

    fn is_at_rest(&self) -> Result<bool, String> {
        let life = self.life();
        let store = life.engine.store();
        let is_idle = life.look(life.daemon.snapshot()).is_ok_and(|now| now.running.is_empty() && now.unwritten == 0);
        let open = life.look(store.open_rounds()).map_err(|why| why.to_string())?;
        let pending = life.look(store.pending_signals(1)).map_err(|why| why.to_string())?;
        Ok(is_idle && open.is_empty() && pending.is_empty())
    }

    fn examine(mut self) -> Result<Tally, String> {
        let life = self.life.take().expect("there is always a process");
        let registered_ms = self.registered_ms.unwrap_or(self.seen_ms);
        life.look(oracle::examine(life.engine.store(), &self.world, (self.least_ms, registered_ms), &mut self.tally))?;
        life.end()?;
        Ok(self.tally)
    }
}

fn repo_id(state: &Path, world: &World) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|why| why.to_string())?;
    runtime.block_on(async {
        let engine = Engine::open(life::settings(state, world, Seam::none())).await.map_err(|why| why.to_string())?;
        let id = engine.git().discover(REPO.path()).await.map_err(|why| why.to_string())?.id;
        engine.close().await.map_err(|why| why.to_string())?;
        Ok(id)
    })
}
