//! What a repository and its machine add to the facts of a loop file, so that they become the dispatcher's entry. What many
//! loops have in common is kept once.

use loopwright_core::cadence::{CadenceProblem, Schedule};
use loopwright_core::dispatch::{Entry, Facts};
use loopwright_core::spec::Triggers;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What loops are joined with.
#[derive(Debug)]
pub(super) struct Ground {
    /// The repository's id.
    pub(super) repo: Arc<str>,
    /// The system's zone.
    pub(super) zone: String,
    /// The agents of loops that name none.
    pub(super) agents: Vec<Arc<str>>,
    shared: Mutex<Shared>,
}

/// What many loops have in common, kept once while they are read.
#[derive(Debug, Default)]
struct Shared {
    words: HashSet<Arc<str>>,
    schedules: HashMap<String, Schedule>,
}

impl Ground {
    pub(super) fn new(repo: &str, zone: String, agents: Vec<Arc<str>>) -> Self {
        Self { repo: repo.into(), zone, agents, shared: Mutex::default() }
    }

    /// The loop as the dispatcher knows it.
    pub(super) fn entry(&self, facts: &Facts) -> Result<Entry, CadenceProblem> {
        let mut entry = facts.entry(&self.repo, self.schedule(facts)?);
        if entry.agents.is_empty() {
            entry.agents.clone_from(&self.agents);
        }
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        entry.agents.iter_mut().for_each(|word| shared.share(word));
        Ok(entry)
    }

    /// Loops with the same times share a schedule. With jitter no two are the same.
    fn schedule(&self, facts: &Facts) -> Result<Schedule, CadenceProblem> {
        let on = &facts.on;
        let compiled = || Schedule::of(on, &format!("{}/{}", self.repo, facts.name), &self.zone);
        if on.jitter.is_some() {
            return compiled();
        }
        let shared = || self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let times = times(on);
        if let Some(known) = shared().schedules.get(&times) {
            return Ok(known.clone());
        }
        let schedule = compiled()?;
        shared().schedules.insert(times, schedule.clone());
        Ok(schedule)
    }
}

impl Shared {
    fn share(&mut self, word: &mut Arc<str>) {
        match self.words.get(&**word) {
            Some(known) => *word = Arc::clone(known),
            None => {
                self.words.insert(Arc::clone(word));
            }
        }
    }
}

/// Everything of an `on:` block that its schedule comes from, in one text.
fn times(on: &Triggers) -> String {
    let bounds = (&on.timezone, &on.quiet, &on.not_before, &on.until);
    format!("{:?}", (&on.every, &on.daily, &on.weekly, &on.cron, bounds))
}
