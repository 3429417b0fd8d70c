//! A loop's entry as its checked file has it: the one place where keys of a loop file become what the dispatcher weighs.

use super::{Entry, ItemLocks, Lock, LoopKey, OWN_ITEMS};
use crate::cadence::{CadenceProblem, Schedule};
use crate::spec::{CheckedSpec, LoopSpec, Role};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Entry {
    /// The entry of a loop in a repository; `system_zone` is what a loop without `timezone` means.
    ///
    /// # Errors
    /// When this machine's zone is unknown; a checked spec has nothing else that could be wrong.
    pub fn of(spec: &CheckedSpec, repo: &str, system_zone: &str) -> Result<Self, CadenceProblem> {
        let key = LoopKey::new(repo, &spec.name);
        let schedule = Schedule::of(&spec.on, &key.to_string(), system_zone)?;
        Ok(Self {
            overlap: spec.on.overlap,
            catch_up: spec.on.catch_up,
            priority: i64::from(spec.priority),
            agents: agents(spec),
            locks: spec.locks.iter().filter(|lock| *lock != OWN_ITEMS).map(|lock| Lock::of(repo, lock)).collect(),
            item_locks: if spec.locks_items() { ItemLocks::Own } else { ItemLocks::None },
            batch: spec.on.batch(),
            open_max: spec.open_max,
            events: events(spec),
            wall_ms: wall_ms(spec),
            ..Self::new(key, schedule)
        })
    }
}

/// Every agent that a round may start first; what stands in for one is not counted before it does.
fn agents(spec: &LoopSpec) -> Vec<Arc<str>> {
    let first = |role| spec.chain(role).into_iter().next().map(|agent| agent.agent.word());
    let words: BTreeSet<&str> = [Role::Maker, Role::Checker].into_iter().filter_map(first).collect();
    words.into_iter().map(Arc::from).collect()
}

/// What the loop hears besides its cadence, in words.
fn events(spec: &LoopSpec) -> Vec<Arc<str>> {
    let on = &spec.on;
    let named = |words: &'static str, names: &[String]| -> Vec<Arc<str>> {
        names.iter().map(|name| format!("{words} {name}").into()).collect()
    };
    let kinds = [("webhook", &on.webhook), ("push to", &on.push), ("files", &on.files), ("after", &on.after)];
    kinds.into_iter().flat_map(|(words, names)| named(words, names)).collect()
}

fn wall_ms(spec: &LoopSpec) -> Option<i64> {
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
        Entry::of(&spec, "r1", "UTC").expect("an entry")
    }

    #[test]
    fn keys_of_the_loop_file_reach_the_dispatcher() {
        let told = entry(
            "on: { every: 15m, push: [main], overlap: queue, catch_up: skip }\npriority: 7\nopen_max: 2\n\
             timeout: 10m\nlocks: [docs, 'global:gpu', item]\nagents: { maker: { use: claude }, checker: { use: codex } }",
        );
        let words = |all: &[Arc<str>]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(told.locks, [Lock::of("r1", "docs"), Lock::of("r2", "global:gpu")]);
        assert_eq!(told.item_locks, ItemLocks::Own);
        assert_eq!((words(&told.agents), words(&told.events)), ("claude codex".to_owned(), "push to main".to_owned()));
        assert_eq!((told.priority, told.open_max, told.wall_ms), (7, 2, Some(600_000)));
        assert_eq!((told.overlap, told.catch_up), (crate::spec::Overlap::Queue, crate::spec::CatchUp::Skip));
    }
}
