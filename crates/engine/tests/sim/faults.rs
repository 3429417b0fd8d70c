//! The faults of a run, and the actions of people and external systems. Each kind is active in a run or not, and an
//! active one strikes at a quarter of its chances: a run is hard in a few ways at a time, and over many runs every two
//! kinds combine.

use super::dice::Dice;
use loopwright::seam::{SeamFault, SeamHook, SeamMoment};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// A kind of event in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Site {
    /// The process dies between two steps.
    Crash,
    /// The process dies while a request is in progress.
    CrashMidway,
    /// The process dies at a write.
    CrashAtWrite,
    /// A write fails, as on a busy store.
    WriteFails,
    /// A write takes effect and then reports an error.
    WriteLies,
    /// No write of rows or files succeeds for a while.
    DiskFull,
    ClockForward,
    /// The clock jumps ten years ahead.
    ClockFarForward,
    ClockBack,
    SlowAgent,
    AgentFails,
    AgentPanics,
    /// The probe, or the loop file, cannot be read.
    ProbeFails,
    /// Time passes between the decision to start and the start.
    SlowProbe,
    /// A delivery fails, before or after it took effect.
    ForgeFails,
    /// Another engine tries to schedule the store while this one does.
    SecondDaemon,
    /// Another engine takes it over: the lease or the lock is lost, and the old process wakes up again.
    TakenOver,
    CadenceEdited,
    Reloads,
    Pauses,
    Stops,
    Events,
    EventsTwice,
    ByHand,
    /// A person starts a round in a separate process, and may kill it.
    Foreground,
}

/// Faults; each is active in a quarter of the runs.
const FAULTS: [Site; 17] = [
    Site::Crash,
    Site::CrashMidway,
    Site::CrashAtWrite,
    Site::WriteFails,
    Site::WriteLies,
    Site::DiskFull,
    Site::ClockForward,
    Site::ClockFarForward,
    Site::ClockBack,
    Site::SlowAgent,
    Site::AgentFails,
    Site::AgentPanics,
    Site::ProbeFails,
    Site::SlowProbe,
    Site::ForgeFails,
    Site::SecondDaemon,
    Site::TakenOver,
];
/// Actions that are not faults; each is active in half of the runs.
const ACTS: [Site; 8] = [
    Site::CadenceEdited,
    Site::Reloads,
    Site::Pauses,
    Site::Stops,
    Site::Events,
    Site::EventsTwice,
    Site::ByHand,
    Site::Foreground,
];

/// The faults and actions of a run.
pub(crate) struct Faults {
    active: Vec<Site>,
    dice: Mutex<Dice>,
    is_over: AtomicBool,
    is_disk_full: AtomicBool,
}

impl Faults {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let mut active: Vec<_> = FAULTS.into_iter().filter(|_| dice.quarter()).collect();
        active.extend(ACTS.into_iter().filter(|_| dice.below(2) == 0));
        Self {
            active,
            dice: Mutex::new(dice.split()),
            is_over: AtomicBool::new(false),
            is_disk_full: AtomicBool::new(false),
        }
    }

    /// Whether this kind is active in this run.
    pub(crate) fn may(&self, site: Site) -> bool {
        self.active.contains(&site)
    }

    /// Whether processes die in this run.
    pub(crate) fn may_kill(&self) -> bool {
        [Site::Crash, Site::CrashMidway, Site::CrashAtWrite].into_iter().any(|site| self.may(site))
    }

    /// Whether it strikes at this chance.
    pub(crate) fn strikes(&self, site: Site) -> bool {
        self.may(site) && !self.are_over() && self.quarter()
    }

    /// Whether the faults have ended.
    pub(crate) fn are_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn quarter(&self) -> bool {
        self.dice.lock().expect("no one panics with the dice").quarter()
    }

    /// Ends all faults.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.fill_disk(false);
    }

    pub(crate) fn is_disk_full(&self) -> bool {
        self.is_disk_full.load(Ordering::SeqCst)
    }

    pub(crate) fn fill_disk(&self, is_full: bool) {
        self.is_disk_full.store(is_full, Ordering::SeqCst);
    }
}

/// The seams of one process, where faults strike; it knows whether the process is alive, and how often it has written.
pub(crate) struct Door {
    faults: Arc<Faults>,
    is_dead: AtomicBool,
    /// Notified when the process has died.
    pub(crate) died: Notify,
    tried: AtomicU64,
    kept: AtomicU64,
    /// The process dies at the next write that takes effect.
    is_doomed: AtomicBool,
}

impl Door {
    pub(crate) fn new(faults: Arc<Faults>) -> Self {
        let (tried, kept) = (AtomicU64::new(0), AtomicU64::new(0));
        let (is_dead, is_doomed) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { faults, is_dead, died: Notify::new(), tried, kept, is_doomed }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }

    /// The number of attempted writes, which shows whether anything happens at all.
    pub(crate) fn tried(&self) -> u64 {
        self.tried.load(Ordering::SeqCst)
    }

    /// The number of writes that took effect.
    pub(crate) fn kept(&self) -> u64 {
        self.kept.load(Ordering::SeqCst)
    }

    /// Makes the process die at the next write that takes effect.
    pub(crate) fn doom(&self) {
        self.is_doomed.store(true, Ordering::SeqCst);
    }

    /// A dead process writes nothing more.
    pub(crate) fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
        self.died.notify_one();
    }

    fn write(&self, moment: SeamMoment, fault: SeamFault) -> Result<(), SeamFault> {
        match moment {
            SeamMoment::Before => self.tried.fetch_add(1, Ordering::SeqCst),
            SeamMoment::After => self.kept.fetch_add(1, Ordering::SeqCst),
        };
        if moment == SeamMoment::After && self.is_doomed.load(Ordering::SeqCst) {
            self.die();
            return Err(fault);
        }
        // One write in four has a chance, so that even a round with many writes can get through.
        if !self.faults.quarter() {
            return Ok(());
        }
        if self.faults.strikes(Site::CrashAtWrite) {
            self.die();
            return Err(fault);
        }
        let site = if moment == SeamMoment::After { Site::WriteLies } else { Site::WriteFails };
        if self.faults.strikes(site) { Err(fault) } else { Ok(()) }
    }
}

impl SeamHook for Door {
    fn hit(&self, moment: SeamMoment, site: &'static str) -> Result<(), SeamFault> {
        let when = if moment == SeamMoment::Before { "before" } else { "after" };
        let fault = SeamFault { site, when };
        if self.is_dead() {
            return Err(fault);
        }
        let is_write = matches!(site, "store.append" | "fs.write");
        if is_write && moment == SeamMoment::Before && self.faults.is_disk_full() {
            self.tried.fetch_add(1, Ordering::SeqCst);
            return Err(fault);
        }
        match site {
            "store.append" => self.write(moment, fault),
            "deliver.execute" if self.faults.strikes(Site::ForgeFails) => Err(fault),
            _ => Ok(()),
        }
    }
}
