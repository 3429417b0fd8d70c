//! One life of a process: an engine and a daemon on a runtime of their own, which ends well or is dropped as it stands.

use super::faults::Faults;
use super::fleet::World;
use loopwright::daemon::{Daemon, Ended, Ending};
use loopwright::seam::Seam;
use loopwright::{Engine, Settings};
use loopwright_core::dispatch::Limits;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// How long nothing happens before nothing more is expected.
const STILL: Duration = Duration::from_millis(60);
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long anything may take in all.
const LONG: Duration = Duration::from_secs(30);

/// A process at work.
pub(crate) struct Life {
    runtime: Option<Runtime>,
    pub(crate) engine: Engine,
    pub(crate) daemon: Daemon,
    ending: Option<Ending>,
}

/// Lets a moment of real time pass.
async fn moment() {
    let _ = tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await;
}

pub(crate) fn settings(state: &Path, world: &World, seam: Seam) -> Settings {
    Settings { clock: Arc::new(world.clock.clone()), seam, ..Settings::new(state) }
}

impl Life {
    /// Opens the state directory and goes to work; a process that has just died may still be letting go of it.
    pub(crate) fn begin(state: &Path, world: &World, limits: &Limits) -> Result<Self, String> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|why| why.to_string())?;
        let begun = Instant::now();
        loop {
            world.faults.revive();
            let opened = runtime.block_on(open(state, world, limits));
            match opened {
                Ok((engine, daemon, ending)) => {
                    return Ok(Self { runtime: Some(runtime), engine, daemon, ending: Some(ending) });
                }
                Err(why) if begun.elapsed() > LONG => return Err(format!("no engine opens: {why}")),
                Err(_) => runtime.block_on(moment()),
            }
        }
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("a process at work").block_on(work)
    }

    /// Lets everything happen that happens without the clock. Says whether the process lives.
    pub(crate) fn settle(&self, world: &World) -> Result<bool, String> {
        let is_dead = |faults: &Faults| faults.is_dead();
        self.run(async {
            let begun = Instant::now();
            let mut last = (world.faults.writes(), Instant::now());
            while begun.elapsed() < LONG {
                let Ok(Ok(now)) = tokio::time::timeout(LONG, self.daemon.snapshot()).await else {
                    return if is_dead(&world.faults) { Ok(false) } else { Err("the daemon is gone".to_owned()) };
                };
                if is_dead(&world.faults) {
                    return Ok(false);
                }
                let is_waiting = now.running.len() <= world.waiting.load(Ordering::SeqCst);
                if is_waiting && now.unwritten == 0 {
                    return Ok(true);
                }
                let writes = world.faults.writes();
                if writes != last.0 {
                    last = (writes, Instant::now());
                }
                if last.1.elapsed() > STILL {
                    return Ok(true);
                }
                moment().await;
            }
            Err("the daemon comes to no rest".to_owned())
        })
    }

    /// Asks the daemon something; nobody answers when the process has died meanwhile, or when a write is tried again only
    /// after the clock has moved.
    pub(crate) fn ask<T>(&self, asked: impl Future<Output = T>, world: &World) -> Option<T> {
        self.run(async {
            tokio::select! {
                biased;
                () = world.faults.died.notified() => None,
                answer = tokio::time::timeout(PATIENCE, asked) => answer.ok(),
            }
        })
    }

    /// A look at the store, which no fault touches.
    pub(crate) fn look<T>(&self, asked: impl Future<Output = T>) -> T {
        self.run(asked)
    }

    /// As `kill -9` does it: nothing is closed.
    pub(crate) fn drop_dead(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Ends as a service is stopped.
    pub(crate) fn end(mut self) -> Result<(), String> {
        let ending = self.ending.take().expect("a process ends once");
        let ended = self.run(async {
            self.daemon.drain(Duration::ZERO).await.map_err(|why| why.to_string())?;
            tokio::time::timeout(LONG, ending.wait()).await.map_err(|_| "the daemon does not end".to_owned())
        })?;
        if ended != Ended::Drained {
            return Err(format!("the daemon ended {ended:?}"));
        }
        self.run(self.engine.close()).map_err(|why| format!("close: {why}"))?;
        self.drop_dead();
        Ok(())
    }
}

async fn open(state: &Path, world: &World, limits: &Limits) -> Result<(Engine, Daemon, Ending), String> {
    let seam = Seam::hooked(Arc::clone(&world.faults) as _);
    let engine = Engine::open(settings(state, world, seam)).await.map_err(|why| why.to_string())?;
    let fleet = Arc::new(world.clone());
    match Daemon::start(engine.clone(), fleet, limits.clone(), Arc::new(())).await {
        Ok((daemon, ending)) => Ok((engine, daemon, ending)),
        Err(why) => {
            // The next try is another engine.
            let _ = engine.close().await;
            Err(why.to_string())
        }
    }
}
