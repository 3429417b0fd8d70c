//! The facts of a repository and its machine that turn a loop file into the dispatcher's entry. Values that many loops
//! share are stored once.

use loopwright_core::cadence::{CadenceProblem, LoopSchedule};
use loopwright_core::dispatch::LoopEntry;
use loopwright_core::spec::{CheckedSpec, Triggers};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The facts.
#[derive(Debug)]
pub(super) struct LoopEntryBuilder {
    /// The repository's id.
    pub(super) repo: Arc<str>,
    /// The system's zone.
    pub(super) zone: String,
    /// The agents of loops that name none.
    pub(super) agents: Vec<Arc<str>>,
    shared: Mutex<ScheduleCache>,
}

/// Values of many loops, stored once while the files are read.
#[derive(Debug, Default)]
struct ScheduleCache {
    words: HashSet<Arc<str>>,
    /// By the times they come from.
    schedules: HashMap<String, LoopSchedule>,
}

impl LoopEntryBuilder {
    pub(super) fn new(repo: &str, zone: String, agents: Vec<Arc<str>>) -> Self {
        Self { repo: repo.into(), zone, agents, shared: Mutex::default() }
    }

    /// The loop as the dispatcher sees it.
    pub(super) fn entry(&self, spec: &CheckedSpec) -> Result<LoopEntry, CadenceProblem> {
        let mut entry = LoopEntry::with_schedule(spec, &self.repo, self.schedule(spec)?);
        if entry.agents.is_empty() {
            entry.agents.clone_from(&self.agents);
        }
        let mut shared = self.shared();
        entry.agents.iter_mut().for_each(|word| shared.intern(word));
        Ok(entry)
    }

    fn shared(&self) -> MutexGuard<'_, ScheduleCache> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loops with the same times share a schedule. With jitter no two are the same.
    fn schedule(&self, spec: &CheckedSpec) -> Result<LoopSchedule, CadenceProblem> {
        let compiled = || LoopSchedule::of(&spec.on, &format!("{}/{}", self.repo, spec.name), &self.zone);
        if spec.on.jitter.is_some() {
            return compiled();
        }
        let times = times(&spec.on);
        if let Some(known) = self.shared().schedules.get(&times) {
            return Ok(known.clone());
        }
        let schedule = compiled()?;
        self.shared().schedules.insert(times, schedule.clone());
        Ok(schedule)
    }
}

impl ScheduleCache {
    fn intern(&mut self, word: &mut Arc<str>) {
        match self.words.get(&**word) {
            Some(known) => *word = Arc::clone(known),
            None => {
                self.words.insert(Arc::clone(word));
            }
        }
    }
}

/// All times of an `on:` block that determine its schedule.
fn times(on: &Triggers) -> String {
    let bounds = (&on.timezone, &on.quiet, &on.not_before, &on.until);
    format!("{:?}", (&on.every, &on.daily, &on.weekly, &on.cron, bounds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use loopwright_core::spec::read_loop_file;

    fn spec(name: &str, on: &str) -> CheckedSpec {
        let text = format!("---\nname: {name}\nintent: fix it\non: {{ {on} }}\n---\n# Maker\nfix\n");
        read_loop_file("a.md", text.as_bytes()).expect("a loop")
    }

    #[test]
    fn a_shared_schedule_equals_the_one_compiled_for_the_loop_alone() {
        let blocks = [
            "every: 15m",
            "every: 15m, quiet: '22:00-06:00'",
            "every: 15m, timezone: Europe/Berlin",
            "daily: '02:30'",
            "daily: '02:30', timezone: Europe/Berlin",
            "daily: '02:30', until: '2030-01-01'",
            "daily: '02:30', not_before: '2030-01-01'",
            "weekly: 'mon 02:30'",
            "cron: '30 2 * * 1'",
            "cron: '30 2 * * 1', push: [main]",
        ];
        let ground = LoopEntryBuilder::new("r1", "UTC".to_owned(), Vec::new());
        for (at, on) in blocks.into_iter().chain(blocks).enumerate() {
            let spec = spec(&format!("l{at}"), on);
            let alone = LoopSchedule::of(&spec.on, "r1/x", "UTC").expect("a schedule");
            let shared = ground.entry(&spec).expect("an entry").schedule;
            assert_eq!(format!("{shared:?}"), format!("{alone:?}"), "{on}");
        }
        assert_eq!(ground.shared().schedules.len(), blocks.len() - 1);
    }
}
