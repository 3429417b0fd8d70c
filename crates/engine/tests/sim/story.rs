//! One run: a world, the events in it, and a quiet end after which the promises must hold.

use super::cover::{self, Stretch};
use super::dice::Dice;
use super::faults::Site;
use super::fleet::{MINUTE_MS, World};
use super::foreground::Foreground;
use super::ground::ground;
use super::life::{self, AT_LAST, Life, STILL, Settled};
use super::oracle::{self, Tally};
use super::said::Said;
use crate::manual_clock::ManualClock;
use loopwright::Engine;
use loopwright::clock::Clock as _;
use loopwright::seam::Seam;
use loopwright_core::dispatch::ConcurrencyLimits;
use std::path::{Path, PathBuf};

/// 2026-11-16T08:02Z.
const DAWN_MS: i64 = 1_794_816_120_000;
const YEAR_MS: i64 = 365 * 24 * 60 * MINUTE_MS;
/// The number of steps.
const STEPS: u64 = 14;
/// The most steps of the quiet end.
const QUIET_STEPS: u32 = 400;

/// One run in progress.
pub(super) struct Story {
    pub(super) state: PathBuf,
    pub(super) world: World,
    limits: ConcurrencyLimits,
    limit_dice: Dice,
    pub(super) dice: Dice,
    life: Option<Life>,
    /// A round in the foreground beside the daemon.
    pub(super) foreground: Option<Foreground>,
    pub(super) said: Said,
    pub(super) signals: u64,
    /// The latest time that the clock ever showed.
    seen_ms: i64,
    /// The cadences of each loop, from edit to edit.
    pub(super) stretches: Vec<Vec<Stretch>>,
    /// Whether the clock may go back so far that it is implausible. No thaw happens then: it would accept the clock,
    /// and marks would go back, which has its own tests.
    pub(super) goes_far_back: bool,
    has_leapt: bool,
    /// The write counts of the process when the record was last checked.
    looked: Option<(u64, u64)>,
    tally: Tally,
}

/// Runs the story of a seed.
pub(crate) fn tell(seed: u64, is_told: bool) -> Result<Tally, String> {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.map_err(|why| why.to_string())?;
    let mut story = Story::new(seed, is_told, folder.path().join("state"))?;
    for _ in 0..STEPS {
        story.step()?;
    }
    story.come_to_rest()?;
    story.examine()
}

impl Story {
    fn new(seed: u64, is_told: bool, state: PathBuf) -> Result<Self, String> {
        let mut dice = Dice::new(seed);
        let mut world = World::new(&mut dice, ManualClock::new(DAWN_MS), ground()?);
        world.is_told = is_told;
        let limit_dice = dice.split();
        let stretches = world.specs().iter().map(|spec| vec![Stretch::new(spec, &world, DAWN_MS)]).collect();
        let goes_far_back = dice.below(2) == 0;
        let mut story = Self {
            goes_far_back,
            has_leapt: false,
            looked: None,
            life: None,
            foreground: None,
            said: Said::default(),
            stretches,
            state,
            world,
            limits: ConcurrencyLimits::default(),
            limit_dice,
            dice,
            signals: 0,
            seen_ms: DAWN_MS,
            tally: Tally::default(),
        };
        story.set(DAWN_MS);
        story.life = Some(story.begin()?);
        Ok(story)
    }

    pub(super) fn life(&self) -> &Life {
        self.life.as_ref().expect("there is always a process")
    }

    fn step(&mut self) -> Result<(), String> {
        let is_full = self.world.faults.strikes(Site::DiskFull) || self.is_in_trouble();
        self.world.faults.fill_disk(is_full);
        self.advance();
        if self.world.faults.strikes(Site::SecondDaemon) {
            self.second_daemon()?;
        }
        self.act()?;
        self.looked = None;
        if self.world.faults.strikes(Site::CrashMidway) {
            let moments = self.dice.below(12);
            self.life().pass(moments);
            self.reborn()?;
        }
        let settled = self.life().settle(STILL)?;
        self.look(settled != Settled::Dead)?;
        // A process that is stopped in the middle of a write would block all others, as an open transaction does.
        let is_taken_over = settled == Settled::Rests && self.world.faults.strikes(Site::TakenOver);
        if is_taken_over && self.life().writes_nothing() {
            self.taken_over()?;
        } else if settled == Settled::Dead || self.world.faults.strikes(Site::Crash) {
            self.reborn()?;
        }
        self.world.blamed()
    }

    /// Time passes, to the next wake-up or by some minutes; or the clock is set.
    fn advance(&mut self) {
        let now_ms = self.world.clock.now_ms();
        let minutes = |most: u64, dice: &mut Dice| i64::try_from(dice.below(most)).unwrap_or(1) * MINUTE_MS;
        let by_ms = minutes(20, &mut self.dice);
        let wake_ms = self.ask(|life| async move { life.daemon.snapshot().await.ok()?.next_wake_ms }).flatten();
        let mut at_ms = wake_ms.filter(|_| self.dice.below(2) == 0).unwrap_or(now_ms + by_ms).max(now_ms);
        if self.world.faults.strikes(Site::ClockForward) {
            at_ms += minutes(3 * 24 * 60, &mut self.dice);
        }
        if !self.has_leapt && self.world.faults.strikes(Site::ClockFarForward) {
            self.has_leapt = true;
            at_ms += 10 * YEAR_MS;
        }
        if self.world.faults.strikes(Site::ClockBack) {
            at_ms -= minutes(4 * 60, &mut self.dice);
        }
        if !self.goes_far_back {
            at_ms = at_ms.max(self.seen_ms - 50 * MINUTE_MS);
        }
        self.set(at_ms);
    }

    fn set(&mut self, at_ms: i64) {
        self.seen_ms = self.seen_ms.max(at_ms);
        self.stretches.iter_mut().flatten().for_each(|stretch| stretch.see_clock(at_ms));
        self.world.days.lock().expect("no one panics with it").insert(loopwright::clock::day(at_ms));
        self.world.clock.set(at_ms);
    }

    pub(super) fn ask<'a, T, F: Future<Output = T>>(&'a self, asked: impl FnOnce(&'a Life) -> F) -> Option<T> {
        self.life().ask(asked(self.life()))
    }

    /// Checks the conditions that hold at every moment.
    fn look(&mut self, lives: bool) -> Result<(), String> {
        let written = self.life().written();
        // Only writes change the record, and only actions change acknowledgements; an action clears `looked`.
        if self.looked != Some(written) {
            self.look_at_record()?;
            self.looked = Some(written);
        }
        let life = self.life();
        if lives {
            life.look(oracle::ended_is_dead(life.engine.store().as_ref(), &life.world))?;
            let left = if self.said.is_stopped() { life.still_at_work() } else { Vec::new() };
            if !left.is_empty() && !life.is_dead() {
                return Err(format!("P7: everything is stopped, and agents of {left:?} are at work"));
            }
        }
        Ok(())
    }

    /// A process may die before its loops are on record; from then on, every due time counts.
    fn look_at_record(&mut self) -> Result<(), String> {
        let life = self.life.as_ref().expect("there is always a process");
        let store = life.engine.store().as_ref();
        let latest = life.look(oracle::latest(store, &self.world))?;
        // Read after the receipts: marks only advance.
        let rows = life.look(store.schedules()).map_err(|why| why.to_string())?;
        let flags = life.look(store.flags()).map_err(|why| why.to_string())?;
        for (spec, stretches) in self.world.specs().iter().zip(&mut self.stretches) {
            let row = rows.iter().find(|row| row.loop_name == spec.name);
            if let Some(last) = stretches.last_mut() {
                last.see_record(row, self.seen_ms);
            }
        }
        oracle::marks_fit(&latest, &rows)?;
        self.said.stands(&rows, &flags)
    }

    /// Starts a process. The limit of concurrent rounds may have changed meanwhile, so that not all abandoned rounds
    /// can resume at once.
    fn begin(&mut self) -> Result<Life, String> {
        self.looked = None;
        self.limits.total = 1 + usize::try_from(self.limit_dice.below(3)).unwrap_or(0);
        Life::begin(&self.state, &self.world, &self.limits)
    }

    /// A process dies and another one starts.
    fn reborn(&mut self) -> Result<(), String> {
        self.tally.lives += 1;
        if let Some(life) = self.life.take() {
            life.drop_dead();
        }
        let life = self.begin()?;
        let kept = life.look(self.said.holds(life.engine.store().as_ref(), &self.world));
        self.life = Some(life);
        kept
    }

    /// Another process on the same state may not schedule.
    fn second_daemon(&mut self) -> Result<(), String> {
        let settings = life::settings(&self.state, &self.world, Seam::none());
        self.life().look(async {
            let engine = Engine::open(settings).await.map_err(|why| format!("P9: no second engine opens: {why}"))?;
            let leased = engine.lease_dispatcher().await;
            engine.close().await.map_err(|why| format!("close: {why}"))?;
            if leased.is_ok() { Err("P1: two processes schedule one store".to_owned()) } else { Ok(()) }
        })
    }

    /// Another process takes over while this one is stopped, as it may when a lease has expired; here the lock files
    /// are removed. When the old process continues, it can neither write nor acknowledge anything.
    fn taken_over(&mut self) -> Result<(), String> {
        self.tally.lives += 1;
        std::fs::remove_dir_all(self.state.join("processes")).map_err(|why| format!("the locks' files: {why}"))?;
        let new = self.begin()?;
        let old = self.life.replace(new).expect("there is always a process");
        let kept = old.world.own.door.kept();
        let key = self.world.key(&self.world.specs()[0]);
        if let Some(Ok(())) = old.ask(old.daemon.pause(&key, "ann", "to an engine that has no store")) {
            return Err("P2: an engine whose store was taken over acknowledges a pause".to_owned());
        }
        let wrote = old.world.own.door.kept() - kept;
        old.drop_dead();
        if wrote > 0 {
            return Err(format!("P1: an engine whose store was taken over wrote {wrote} times"));
        }
        self.look(true)
    }

    /// Without faults, everything that is due or waits must end.
    fn come_to_rest(&mut self) -> Result<(), String> {
        self.world.faults.end();
        self.foreground = None;
        let (dawn_ms, seen_ms) = (self.world.clock.now_ms(), self.seen_ms);
        self.set(seen_ms.max(dawn_ms));
        self.reborn()?;
        self.release();
        for _ in 0..QUIET_STEPS {
            self.life().settle(AT_LAST)?;
            self.look(true)?;
            self.answer_all();
            if self.is_at_rest()? {
                return self.world.blamed();
            }
            let now_ms = self.world.clock.now_ms();
            let wake_ms = self.ask(|life| async move { life.daemon.snapshot().await.ok()?.next_wake_ms }).flatten();
            self.set(wake_ms.unwrap_or(0).max(now_ms + MINUTE_MS / 4));
        }
        let store = self.life().engine.store();
        let open = self.life().look(store.open_rounds()).map_err(|why| why.to_string())?;
        let pending = self.life().look(store.pending_signals(99)).map_err(|why| why.to_string())?;
        let rows = self.life().look(store.schedules()).map_err(|why| why.to_string())?;
        let now_ms = self.world.clock.now_ms();
        Err(format!("P9: it comes to no rest at {now_ms}; open {open:?}, pending {pending:?}, loops {rows:?}"))
    }

    fn is_at_rest(&self) -> Result<bool, String> {
        let life = self.life();
        let store = life.engine.store();
        if !life.look(life.daemon.snapshot()).is_ok_and(|now| now.running.is_empty() && now.unwritten == 0) {
            return Ok(false);
        }
        let open = life.look(store.open_rounds()).map_err(|why| why.to_string())?;
        let pending = life.look(store.pending_signals(1)).map_err(|why| why.to_string())?;
        let rows = life.look(store.schedules()).map_err(|why| why.to_string())?;
        let is_caught_up = self.world.specs().iter().zip(&self.stretches).all(|(spec, stretches)| {
            let row = rows.iter().find(|row| row.loop_name == spec.name);
            row.is_some_and(|row| cover::is_caught_up(stretches, row.mark_ms, self.world.clock.now_ms()))
        });
        Ok(open.is_empty() && pending.is_empty() && is_caught_up)
    }

    fn examine(mut self) -> Result<Tally, String> {
        let life = self.life.take().expect("there is always a process");
        life.look(self.said.holds(life.engine.store().as_ref(), &self.world))?;
        let forge = self.state.join("forge");
        life.look(oracle::examine(&life.engine, &self.world, &self.stretches, &forge, &mut self.tally))?;
        life.end()?;
        self.world.blamed()?;
        Ok(self.tally)
    }
}
