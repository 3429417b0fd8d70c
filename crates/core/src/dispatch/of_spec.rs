//! A loop's entry as its checked file has it: the one place where keys of a loop file become what the dispatcher weighs, whole
//! or by way of the few facts that are worth keeping beside the file.

use super::{Entry, ItemLocks, Lock, LoopKey, OWN_ITEMS};
use crate::cadence::{CadenceProblem, Schedule};
use crate::spec::{CheckedSpec, LoopSpec, Role, Triggers};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What of a loop file the dispatcher weighs. It is written down beside a file that was checked, and read back many times
/// faster than the file itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The loop's name.
    pub name: String,
    /// What makes it due.
    #[serde(default, skip_serializing_if = "Triggers::is_default")]
    pub on: Triggers,
    /// Higher goes first.
    pub priority: i64,
    /// The agents a round starts.
    pub agents: Vec<String>,
    /// Its locks as written.
    pub locks: Vec<String>,
    /// From so many open proposals on nothing new is started.
    pub open_max: u32,
    /// How long a round may take.
    pub wall_ms: Option<i64>,
}

impl From<&LoopSpec> for Facts {
    fn from(spec: &LoopSpec) -> Self {
        Self {
            name: spec.name.clone(),
            on: spec.on.clone(),
            priority: i64::from(spec.priority),
            agents: agents(spec),
            locks: spec.locks.clone(),
            open_max: spec.open_max,
            wall_ms: wall_ms(spec),
        }
    }
}

impl Facts {
    /// The entry of the loop in a repository; the schedule is that of its `on`.
    #[must_use]
    pub fn entry(&self, repo: &Arc<str>, schedule: Schedule) -> Entry {
        let key = LoopKey { repo: Arc::clone(repo), name: self.name.as_str().into() };
        Entry {
            overlap: self.on.overlap,
            catch_up: self.on.catch_up,
            priority: self.priority,
            agents: self.agents.iter().map(|agent| agent.as_str().into()).collect(),
            locks: locks(repo, &self.locks),
            item_locks: item_locks(&self.locks),
            batch: self.on.batch(),
            open_max: self.open_max,
            events: events(&self.on),
            wall_ms: self.wall_ms,
            ..Entry::new(key, schedule)
        }
    }
}

impl Entry {
    /// The entry of a loop in a repository; `system_zone` is what a loop without `timezone` means.
    ///
    /// # Errors
    /// When this machine's zone is unknown; a checked spec has nothing else that could be wrong.
    pub fn of(spec: &CheckedSpec, repo: &str, system_zone: &str) -> Result<Self, CadenceProblem> {
        let key = LoopKey::new(repo, &spec.name);
        let schedule = Schedule::of(&spec.on, &key.to_string(), system_zone)?;
        Ok(Facts::from(spec.spec()).entry(&key.repo, schedule))
    }
}

/// The locks that a loop file names, but for the one on whatever a round is about.
pub(super) fn locks(repo: &str, written: &[String]) -> Vec<Lock> {
    written.iter().filter(|lock| *lock != OWN_ITEMS).map(|lock| Lock::of(repo, lock)).collect()
}

/// Whether it names that one.
pub(super) fn item_locks(written: &[String]) -> ItemLocks {
    if written.iter().any(|lock| lock == OWN_ITEMS) { ItemLocks::Own } else { ItemLocks::None }
}

/// Every agent that a round may start first; what stands in for one is not counted before it does.
pub(super) fn agents(spec: &LoopSpec) -> Vec<String> {
    let first = |role| spec.chain(role).into_iter().next().map(|agent| agent.agent.word());
    let words: BTreeSet<&str> = [Role::Maker, Role::Checker].into_iter().filter_map(first).collect();
    words.into_iter().map(str::to_owned).collect()
}

/// What the loop hears besides its cadence, in words.
fn events(on: &Triggers) -> Vec<Arc<str>> {
    let named = |words: &'static str, names: &[String]| -> Vec<Arc<str>> {
        names.iter().map(|name| format!("{words} {name}").into()).collect()
    };
    let kinds = [("webhook", &on.webhook), ("push to", &on.push), ("files", &on.files), ("after", &on.after)];
    kinds.into_iter().flat_map(|(words, names)| named(words, names)).collect()
}

pub(super) fn wall_ms(spec: &LoopSpec) -> Option<i64> {
    let wall = spec.timeout.or(spec.budget.round.wall)?;
    i64::try_from(wall.duration().as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::read_loop_file;

    fn entry(front: &str) -> Entry {
        let text = format!("---\nname: fix\nintent: mend it\n{front}\n---\n# Maker\nmend\n");
        let spec = read_loop_file("fix.md", text.as_bytes()).expect("a loop");
        let facts = Facts::from(spec.spec());
        let kept = serde_json::to_string(&facts).expect("facts are data");
        let read: Facts = serde_json::from_str(&kept).expect("they come back");
        assert_eq!(read, facts, "{kept}");
        let direct = Entry::of(&spec, "r1", "UTC").expect("an entry");
        // What is read back must weigh the same: a lock that a restart forgets is no lock.
        let entry = read.entry(&"r1".into(), direct.schedule.clone());
        assert_eq!(format!("{entry:?}"), format!("{direct:?}"));
        entry
    }

    #[test]
    fn every_form_of_a_probe_is_kept() {
        for probe in ["commits", "{ run: [./ask], items: lines, batch: 4 }", "{ use: failing-ci, branch: main }"] {
            entry(&format!("on: {{ every: 1h, probe: {probe} }}"));
        }
    }

    #[test]
    fn keys_of_the_loop_file_reach_the_dispatcher() {
        let told = entry(
            "on: { every: 15m, push: [main], overlap: queue, catch_up: skip, probe: { use: open-issues, labels: [bug], batch: 3 } }\n\
             priority: 7\nopen_max: 2\ntimeout: 10m\nlocks: [docs, 'global:gpu', item]\n\
             agents: { maker: { use: claude }, checker: { use: codex } }",
        );
        let words = |all: &[Arc<str>]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(told.locks, [Lock::of("r1", "docs"), Lock::of("r2", "global:gpu")]);
        assert_eq!((told.item_locks, told.batch), (ItemLocks::Own, 3));
        assert_eq!((words(&told.agents), words(&told.events)), ("claude codex".to_owned(), "push to main".to_owned()));
        assert_eq!((told.priority, told.open_max, told.wall_ms), (7, 2, Some(600_000)));
        assert_eq!((told.overlap, told.catch_up), (crate::spec::Overlap::Queue, crate::spec::CatchUp::Skip));
    }
}
