//! What goes wrong: each kind is active in a quarter of the runs, and strikes at a quarter of its chances then.

use super::dice::Dice;
use loopwright::seam::{Moment, SeamFault, SeamHook};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Site {
    /// The process dies between two steps.
    Crash,
    /// The process dies at a write.
    CrashAtWrite,
    /// A write fails.
    WriteFails,
    /// A write takes effect and then says it failed.
    WriteLies,
    ClockForward,
    ClockBack,
    SlowAgent,
    AgentFails,
    AgentPanics,
    PrepareFails,
    SecondDaemon,
}

impl Site {
    const ALL: [Self; 11] = [
        Self::Crash,
        Self::CrashAtWrite,
        Self::WriteFails,
        Self::WriteLies,
        Self::ClockForward,
        Self::ClockBack,
        Self::SlowAgent,
        Self::AgentFails,
        Self::AgentPanics,
        Self::PrepareFails,
        Self::SecondDaemon,
    ];
}

/// The faults of a run.
pub(crate) struct Faults {
    active: Vec<Site>,
    dice: Mutex<Dice>,
    is_over: AtomicBool,
    is_dead: AtomicBool,
    /// The process has died.
    pub(crate) died: Notify,
    writes: AtomicU64,
}

impl Faults {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let active = Site::ALL.into_iter().filter(|_| dice.quarter()).collect();
        Self {
            active,
            dice: Mutex::new(dice.split()),
            is_over: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
            died: Notify::new(),
            writes: AtomicU64::new(0),
        }
    }

    /// Whether a fault strikes at this chance.
    pub(crate) fn strikes(&self, site: Site) -> bool {
        let is_possible = self.active.contains(&site) && !self.is_over.load(Ordering::SeqCst);
        is_possible && self.dice.lock().expect("no one panics with the dice").quarter()
    }

    /// Nothing goes wrong from now on.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// A new process.
    pub(crate) fn revive(&self) {
        self.is_dead.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }

    /// How many writes there were: whether anything happens at all.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }

    /// A process that has died writes nothing more.
    fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
        self.died.notify_one();
    }
}

impl SeamHook for Faults {
    fn hit(&self, moment: Moment, site: &'static str) -> Result<(), SeamFault> {
        let when = if moment == Moment::Before { "before" } else { "after" };
        let fault = SeamFault { site, when };
        if self.is_dead() {
            return Err(fault);
        }
        if site != "store.append" {
            return Ok(());
        }
        self.writes.fetch_add(1, Ordering::SeqCst);
        // One write in four has a chance, so that a round with many of them has one too.
        if !self.dice.lock().expect("no one panics with the dice").quarter() {
            return Ok(());
        }
        if self.strikes(Site::CrashAtWrite) {
            self.die();
            return Err(fault);
        }
        let lies = moment == Moment::After;
        if self.strikes(if lies { Site::WriteLies } else { Site::WriteFails }) { Err(fault) } else { Ok(()) }
    }
}
