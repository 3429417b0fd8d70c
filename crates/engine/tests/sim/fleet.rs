//! The loops of a simulated world and their one agent, which is a function of this process.

use super::dice::Dice;
use super::faults::{Faults, Site};
use loopwright::agents::{Agent, AgentError, AgentLog, AgentOutcome, Capabilities, Invocation};
use loopwright::budget::{Tokens, Usage};
use loopwright::clock::{Clock, HandClock};
use loopwright::daemon::{Fleet, Loops, Prepared, Ready};
use loopwright::proc::{Cancel, Proc, Started};
use loopwright::round::{Bindings, Fallback, Outlet, RunRequest};
use loopwright::spec::{CatchUp, CheckMode, CheckedSpec, Overlap};
use loopwright::takeover::Rebind;
use loopwright::units::{Span, Usd};
use loopwright::{AlwaysEscalate, BoxFuture, Engine, EngineError, LoopLevel, LoopSpec};
use loopwright_core::dispatch::{Entry, LoopKey};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const MINUTE_MS: i64 = 60_000;

/// What all loops share.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) clock: HandClock,
    pub(crate) faults: Arc<Faults>,
    pub(crate) dice: Arc<Mutex<Dice>>,
    /// Agents that wait for the clock.
    pub(crate) waiting: Arc<AtomicUsize>,
    pub(crate) repo_id: String,
    pub(crate) repo_path: PathBuf,
    pub(crate) specs: Arc<Vec<CheckedSpec>>,
}

/// A few loops with a grid each.
pub(crate) fn specs(dice: &mut Dice) -> Vec<CheckedSpec> {
    let count = 2 + dice.below(3);
    (0..count)
        .map(|number| {
            let mut spec = LoopSpec::new(format!("loop-{number}"), "look and report", LoopLevel::L1Report)
                .with_maker_prompt("Look.");
            spec.check = CheckMode::None;
            spec.attempts = 1;
            // A crash charges what was held back; a day of crashes is not to end in a wait for the next day.
            spec.budget.day.usd = Some(Usd(1_000_000_000_000));
            spec.on.every = vec![Span::secs(60 * dice.pick(&[5, 15, 30, 60]))];
            spec.on.timezone = Some("UTC".to_owned());
            spec.on.overlap = dice.pick(&[Overlap::Skip, Overlap::Queue, Overlap::Cancel]);
            spec.on.catch_up = dice.pick(&[CatchUp::Once, CatchUp::Once, CatchUp::Skip, CatchUp::All(2)]);
            spec.priority = dice.pick(&[0, 0, 5]);
            spec.locks = if dice.quarter() { vec!["shared".to_owned()] } else { Vec::new() };
            spec.check().unwrap_or_else(|problems| panic!("{problems:?}"))
        })
        .collect()
}

impl World {
    pub(crate) fn key(&self, number: usize) -> LoopKey {
        LoopKey::new(&self.repo_id, &self.specs[number % self.specs.len()].name)
    }

    fn bindings(&self) -> Bindings {
        Bindings {
            maker: Arc::new(self.clone()),
            checker: None,
            fallback: Fallback::default(),
            gate: Arc::new(AlwaysEscalate),
            outlet: Outlet::LocalForge,
        }
    }

    fn throw(&self, most: u64) -> u64 {
        self.dice.lock().expect("no one panics with the dice").below(most)
    }
}

impl Rebind for World {
    fn rebind(&self, engine: &Engine, _: &loopwright_core::round::Started) -> (Engine, Bindings) {
        (engine.clone(), self.bindings())
    }
}

impl Fleet for World {
    fn load(&self) -> BoxFuture<'_, Result<Loops, EngineError>> {
        let entry = |spec: &CheckedSpec| Entry::of(spec, &self.repo_id, "UTC").expect("a checked cadence");
        let entries: Vec<Entry> = self.specs.iter().map(entry).collect();
        Box::pin(std::future::ready(Ok(entries.into())))
    }

    fn prepare<'a>(&'a self, engine: &'a Engine, key: &'a LoopKey) -> BoxFuture<'a, Result<Prepared, EngineError>> {
        Box::pin(async move {
            if self.faults.strikes(Site::PrepareFails) {
                return Err(EngineError::Daemon("the loop file is being written".to_owned()));
            }
            if self.throw(3) > 0 {
                return Ok(Prepared::NoWork);
            }
            let spec = self.specs.iter().find(|spec| *spec.name == *key.name).expect("a loop of ours").clone();
            let request = RunRequest::manual(spec, &self.repo_path, "sim");
            Ok(Ready { engine: engine.clone(), bind: self.bindings(), request }.into())
        })
    }
}

/// Counts an agent as waiting for as long as it lives.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Agent for World {
    fn name(&self) -> &str {
        "sim"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { usage: true, session_isolation: true, ..Capabilities::default() }
    }

    fn invoke<'a>(
        &'a self,
        _: &'a Invocation,
        _: &'a Proc,
        _: &'a mut dyn AgentLog,
        cancel: &'a Cancel,
        _: &'a mut (dyn FnMut(&Started) + Send),
    ) -> BoxFuture<'a, Result<AgentOutcome, AgentError>> {
        Box::pin(async move {
            if self.faults.strikes(Site::SlowAgent) {
                let until_ms = self.clock.now_ms() + i64::try_from(self.throw(90)).unwrap_or(1) * MINUTE_MS;
                let _waits = Waits::new(&self.waiting);
                tokio::select! {
                    () = self.clock.until(until_ms) => {}
                    () = cancel.cancelled() => {}
                }
            }
            assert!(!self.faults.strikes(Site::AgentPanics), "the agent panics");
            let exit = i32::from(self.faults.strikes(Site::AgentFails));
            let usage = Usage::Reported(Tokens { input: 10, ..Tokens::default() });
            Ok(AgentOutcome::in_process(exit, "nothing to tell", usage))
        })
    }
}
