//! One life of a process: an engine and a daemon on their own runtime, which ends cleanly or is dropped at once.

use super::fleet::{Waits, World};
use loopwright::clock::Clock as _;
use loopwright::daemon::{Daemon, DaemonEnd, DaemonJoin, RoundOrigin};
use loopwright::events::{EventKind, EventSink, LiveEvent};
use loopwright::seam::Seam;
use loopwright::{Engine, EngineSettings};
use loopwright_core::dispatch::ConcurrencyLimits;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// How long nothing must happen before the process counts as idle, while writes may fail and wait for the clock.
pub(crate) const STILL: Duration = Duration::from_millis(60);
/// The same after all faults have ended, when only programs on a busy machine are left to wait for.
pub(crate) const AT_LAST: Duration = Duration::from_secs(10);
/// How long to wait for an answer while nothing is written.
const PATIENCE: Duration = Duration::from_millis(40);
/// The time within which a stopped agent must end.
const SOON: Duration = Duration::from_secs(5);
/// The time limit of any operation.
const LONG: Duration = Duration::from_secs(30);
/// The most decisions that a daemon may have without having written them.
const UNWRITTEN_MAX: usize = 200;

/// A running process.
pub(crate) struct Life {
    runtime: Option<Runtime>,
    pub(crate) engine: Engine,
    pub(crate) daemon: Daemon,
    /// The world as this process sees it.
    pub(crate) world: World,
    ending: Option<DaemonJoin>,
    /// The number of tasks beside the daemon.
    beside: Arc<AtomicUsize>,
}

/// The state after everything that needs no clock has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Only tasks that wait for the clock are left.
    Rests,
    /// Something is in progress but does not advance: a failing write, or a slow program.
    Hangs,
    /// The process has died.
    Dead,
}

/// Waits for a moment of real time.
async fn moment() {
    let _ = tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await;
}

pub(crate) fn settings(state: &Path, world: &World, seam: Seam) -> EngineSettings {
    let host = Some(world.ground.host.clone());
    EngineSettings { clock: Arc::new(world.clock.clone()), host, seam, ..EngineSettings::new(state) }
}

impl Life {
    /// Opens the state directory and starts the daemon. A process that has just died may still hold it, and one that
    /// dies at its first writes is followed by another.
    pub(crate) fn begin(state: &Path, world: &World, limits: &ConcurrencyLimits) -> Result<Self, String> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|why| why.to_string())?;
        let begun = Instant::now();
        world.faults.fill_disk(false);
        loop {
            let world = world.of_new_process();
            let opened = runtime.block_on(open(state, &world, limits));
            match opened {
                Ok((engine, daemon, ending)) => {
                    let (runtime, ending, beside) = (Some(runtime), Some(ending), Arc::default());
                    return Ok(Self { runtime, engine, daemon, world, ending, beside });
                }
                Err(why) if begun.elapsed() > LONG => return Err(format!("P9: no engine opens: {why}")),
                Err(_) => runtime.block_on(moment()),
            }
        }
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("a process at work")
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime().block_on(work)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.world.own.door.is_dead()
    }

    /// Waits for some moments.
    pub(crate) fn pass(&self, moments: u64) {
        (0..moments).for_each(|_| self.run(moment()));
    }

    /// Waits until everything that needs no clock has happened and nothing was written for this long.
    pub(crate) fn settle(&self, still: Duration) -> Result<Settled, String> {
        self.run(async {
            let begun = Instant::now();
            let mut last = (self.world.own.door.tried(), Instant::now());
            while begun.elapsed() < LONG {
                let Ok(Ok(now)) = tokio::time::timeout(LONG, self.daemon.snapshot()).await else {
                    return if self.is_dead() { Ok(Settled::Dead) } else { Err("P9: the daemon is gone".to_owned()) };
                };
                if self.is_dead() {
                    return Ok(Settled::Dead);
                }
                if now.unwritten > UNWRITTEN_MAX {
                    return Err(format!("P11: {} decisions wait to be written", now.unwritten));
                }
                let busy = now.running.iter().filter(|running| !running.is_parked).count();
                let is_waiting = busy <= self.world.own.waiting.load(Ordering::SeqCst);
                let by_hand = now.running.iter().filter(|running| running.begun == RoundOrigin::Manual).count();
                // Entries that are due but not processed yet are still to come.
                let is_on_time = now.next_wake_ms.is_none_or(|at_ms| at_ms > self.world.clock.now_ms());
                if is_waiting && is_on_time && now.unwritten == 0 && self.beside.load(Ordering::SeqCst) <= by_hand {
                    return Ok(Settled::Rests);
                }
                let tried = self.world.own.door.tried();
                if tried != last.0 {
                    last = (tried, Instant::now());
                }
                if last.1.elapsed() > still {
                    return Ok(Settled::Hangs);
                }
                moment().await;
            }
            Err("P9: the daemon comes to no rest".to_owned())
        })
    }

    /// Sends the daemon a request; `None` if the process died meanwhile, or if a write is retried only after the clock
    /// has advanced.
    pub(crate) fn ask<T>(&self, asked: impl Future<Output = T>) -> Option<T> {
        self.run(async {
            let mut asked = std::pin::pin!(asked);
            loop {
                let tried = self.world.own.door.tried();
                tokio::select! {
                    biased;
                    () = self.world.own.door.died.notified() => return None,
                    answer = tokio::time::timeout(PATIENCE, &mut asked) => match answer {
                        Ok(answer) => return Some(answer),
                        Err(_) if tried == self.world.own.door.tried() => return None,
                        Err(_) => {}
                    },
                }
            }
        })
    }

    /// The numbers of attempted and of successful writes.
    pub(crate) fn written(&self) -> (u64, u64) {
        (self.world.own.door.tried(), self.world.own.door.kept())
    }

    /// Whether nothing is written for a while.
    pub(crate) fn writes_nothing(&self) -> bool {
        let tried = self.world.own.door.tried();
        self.run(async { drop(tokio::time::timeout(STILL, std::future::pending::<()>()).await) });
        tried == self.world.own.door.tried()
    }

    /// The rounds whose agents are at work and stay at work.
    pub(crate) fn still_at_work(&self) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let left = self.world.own.at_work.rounds();
            if left.is_empty() || self.is_dead() || begun.elapsed() > SOON {
                return left;
            }
            self.run(moment());
        }
    }

    /// Reads the store without faults.
    pub(crate) fn look<T>(&self, asked: impl Future<Output = T>) -> T {
        self.run(asked)
    }

    /// Runs a task beside the daemon; it dies with the process.
    pub(crate) fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        let counted = Waits::new(&self.beside);
        drop(self.runtime().spawn(async move {
            work.await;
            drop(counted);
        }));
    }

    /// Like `kill -9`: nothing is closed.
    pub(crate) fn drop_dead(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Ends like a service that is stopped.
    pub(crate) fn end(mut self) -> Result<(), String> {
        let ending = self.ending.take().expect("a process ends once");
        let ended = self.run(async {
            self.daemon.drain(Duration::ZERO).await.map_err(|why| why.to_string())?;
            tokio::time::timeout(LONG, ending.wait()).await.map_err(|_| "P7: the daemon does not end".to_owned())
        })?;
        if ended != DaemonEnd::Drained {
            return Err(format!("P9: the daemon ended {ended:?}"));
        }
        self.run(self.engine.close()).map_err(|why| format!("close: {why}"))?;
        let left = self.world.own.at_work.rounds();
        self.drop_dead();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("P7: the daemon has ended, and agents of {left:?} are at work"))
        }
    }
}

/// Observes the daemon's events: prints them for a single seed, and kills the process at a start that must be its last
/// act.
struct Ear(World);

impl EventSink for Ear {
    fn event(&self, event: &LiveEvent) {
        let Self(world) = self;
        if world.is_told && !matches!(event.kind, EventKind::Sleeping { .. }) {
            println!("{} {event:?}", world.clock.now_ms());
        }
        if matches!(event.kind, EventKind::Started { .. })
            && world.own.last.lock().expect("no one panics with it").contains(event.loop_name())
        {
            world.own.door.die();
        }
    }
}

async fn open(state: &Path, world: &World, limits: &ConcurrencyLimits) -> Result<(Engine, Daemon, DaemonJoin), String> {
    let seam = Seam::hooked(Arc::clone(&world.own.door) as _);
    let engine = Engine::open(settings(state, world, seam)).await.map_err(|why| why.to_string())?;
    // It is not set yet: the cell belongs to this process.
    let _ = world.own.store.set(Arc::clone(engine.store()));
    let fleet = Arc::new(world.clone());
    engine.events().attach(Arc::new(Ear(world.clone()))).keep();
    match Daemon::start(engine.clone(), fleet, limits.clone()).await {
        Ok((daemon, ending)) => Ok((engine, daemon, ending)),
        Err(why) => {
            // The next attempt opens another engine.
            let _ = engine.close().await;
            Err(why.to_string())
        }
    }
}
