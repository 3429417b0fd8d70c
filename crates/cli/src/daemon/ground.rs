//! What a repository and its machine add to the facts of a loop file, so that they become the dispatcher's entry. What many
//! loops have in common is kept once.

use loopwright_core::cadence::{CadenceProblem, Schedule};
use loopwright_core::dispatch::{Entry, Facts};
use loopwright_core::spec::Triggers;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What loops are joined with.
#[derive(Debug)]
pub(super) struct Ground {
    /// The repository's id.
    pub(super) repo: Arc<str>,
    /// The system's zone.
    pub(super) zone: String,
    /// The agents of loops that name none.
    pub(super) agents: Vec<Arc<str>>,
    hasher: RandomState,
    shared: Mutex<Shared>,
}

/// What many loops have in common, kept once while they are read.
#[derive(Debug, Default)]
struct Shared {
    words: HashSet<Arc<str>>,
    /// By the hash of the times they come from, which are kept to tell them from others that have the same.
    schedules: HashMap<u64, Vec<(Triggers, Schedule)>>,
}

impl Ground {
    pub(super) fn new(repo: &str, zone: String, agents: Vec<Arc<str>>) -> Self {
        Self { repo: repo.into(), zone, agents, hasher: RandomState::new(), shared: Mutex::default() }
    }

    /// The loop as the dispatcher knows it.
    pub(super) fn entry(&self, facts: &Facts) -> Result<Entry, CadenceProblem> {
        let mut entry = facts.entry(&self.repo, self.schedule(facts)?);
        if entry.agents.is_empty() {
            entry.agents.clone_from(&self.agents);
        }
        let mut shared = self.shared();
        entry.agents.iter_mut().for_each(|word| shared.share(word));
        Ok(entry)
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some loop has these times already.
    pub(super) fn knows(&self, on: &Triggers) -> bool {
        let hash = self.hasher.hash_one(times(on));
        self.shared().find(hash, on).is_some()
    }

    /// Loops with the same times share a schedule. With jitter no two are the same.
    fn schedule(&self, facts: &Facts) -> Result<Schedule, CadenceProblem> {
        let on = &facts.on;
        let compiled = || Schedule::of(on, &format!("{}/{}", self.repo, facts.name), &self.zone);
        if on.jitter.is_some() {
            return compiled();
        }
        let hash = self.hasher.hash_one(times(on));
        if let Some(known) = self.shared().find(hash, on) {
            return Ok(known.clone());
        }
        let schedule = compiled()?;
        self.shared().schedules.entry(hash).or_default().push((on.clone(), schedule.clone()));
        Ok(schedule)
    }
}

impl Shared {
    fn find(&self, hash: u64, on: &Triggers) -> Option<&Schedule> {
        let alike = self.schedules.get(&hash)?;
        alike.iter().find(|(known, _)| times(known) == times(on)).map(|(_, schedule)| schedule)
    }

    fn share(&mut self, word: &mut Arc<str>) {
        match self.words.get(&**word) {
            Some(known) => *word = Arc::clone(known),
            None => {
                self.words.insert(Arc::clone(word));
            }
        }
    }
}

/// Everything of an `on:` block that its schedule comes from.
fn times(on: &Triggers) -> impl std::hash::Hash + PartialEq {
    let bounds = (&on.timezone, &on.quiet, &on.not_before, &on.until);
    (&on.every, &on.daily, &on.weekly, &on.cron, bounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use loopwright_core::spec::{read_loop_file, read_loop_file_knowing};

    fn facts(name: &str, on: &str) -> Facts {
        let text = format!("---\nname: {name}\nintent: mend it\non: {{ {on} }}\n---\n# Maker\nmend\n");
        Facts::from(read_loop_file("a.md", text.as_bytes()).expect("a loop").spec())
    }

    #[test]
    fn a_schedule_that_is_shared_is_the_one_that_the_loop_would_have_alone() {
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
        let ground = Ground::new("r1", "UTC".to_owned(), Vec::new());
        for (at, on) in blocks.into_iter().chain(blocks).enumerate() {
            let facts = facts(&format!("l{at}"), on);
            let alone = Schedule::of(&facts.on, "r1/x", "UTC").expect("a schedule");
            let shared = ground.entry(&facts).expect("an entry").schedule;
            assert_eq!(format!("{shared:?}"), format!("{alone:?}"), "{on}");
        }
        assert_eq!(ground.shared().schedules.values().map(Vec::len).sum::<usize>(), blocks.len() - 1);
    }

    #[test]
    fn only_times_that_are_right_are_known_and_all_else_of_the_block_is_still_looked_at() {
        let ground = Ground::new("r1", "UTC".to_owned(), Vec::new());
        let read = |on: &str| {
            let text = format!("---\nname: a\nintent: mend it\non: {{ {on} }}\n---\n# Maker\nmend\n");
            read_loop_file_knowing("a.md", text.as_bytes(), &|on| ground.knows(on))
        };
        let right = facts("a", "daily: '02:30', quiet: '22:00-01:00'");
        assert!(!ground.knows(&right.on));
        ground.entry(&right).expect("an entry");
        assert!(ground.knows(&right.on));
        assert!(read("daily: '02:30', quiet: '22:00-01:00'").is_ok());
        for wrong in [
            "daily: '02:30', quiet: '22:00-06:00'",
            "daily: '02:60', quiet: '22:00-01:00'",
            "daily: '02:30', quiet: '22:00-01:00', timezone: Mars/Base",
            "daily: '02:30', quiet: '22:00-01:00', catch_up: { all: 5000 }",
            "daily: '02:30', quiet: '22:00-01:00', probe: no-such",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
