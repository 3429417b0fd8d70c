//! The one place where keys of a loop file become settings of the dispatcher: a loop's entry, and the resources of a
//! round that the dispatcher did not start. Those come from the loop file as it was when the round started, even if the
//! file has changed since or is not loaded.

use super::lock::without_covered;
use super::{ItemLocks, LoopEntry, LoopKey, OWN_ITEMS, PlacementNeeds, RoundLock};
use crate::cadence::{CadenceProblem, LoopSchedule};
use crate::spec::{CheckedSpec, LoopSpec, Role, Triggers};
use std::collections::BTreeSet;
use std::sync::Arc;

impl LoopEntry {
    /// The entry of a loop in a repository; `system_zone` applies to a loop without `timezone`.
    ///
    /// # Errors
    /// If this machine's time zone is unknown. Nothing else in a checked spec can be wrong.
    pub fn from_spec(spec: &CheckedSpec, repo: &str, system_zone: &str) -> Result<Self, CadenceProblem> {
        let key = LoopKey::new(repo, &spec.name);
        let schedule = LoopSchedule::of(&spec.on, &key.to_string(), system_zone)?;
        Ok(Self::with_schedule(spec, &key.repo, schedule))
    }

    /// The same with the schedule of its `on:` block, which loops with the same times share.
    #[must_use]
    pub fn with_schedule(spec: &CheckedSpec, repo: &Arc<str>, schedule: LoopSchedule) -> Self {
        let key = LoopKey { repo: Arc::clone(repo), name: spec.name.as_str().into() };
        Self {
            overlap: spec.on.overlap,
            catch_up: spec.on.catch_up,
            priority: i64::from(spec.priority),
            agents: agents(spec),
            locks: locks(repo, &spec.locks),
            item_locks: item_locks(&spec.locks),
            batch: spec.on.batch(),
            open_max: spec.open_max,
            events: events(&spec.on),
            wall_ms: wall_ms(spec),
            place: PlacementNeeds::from_spec(spec).map(Arc::new),
            ..Self::new(key, schedule)
        }
    }
}

/// The resources that a round holds while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoundClaims {
    /// The agents it starts.
    pub agents: Vec<Arc<str>>,
    /// Its locks.
    pub locks: Vec<RoundLock>,
    /// Whether it also locks the items it works on.
    pub item_locks: ItemLocks,
    /// Its time limit, from which the expiry of its locks is computed.
    pub wall_ms: Option<i64>,
}

impl RoundClaims {
    /// The claims of a round of this loop, before its items are known.
    #[must_use]
    pub fn from_spec(spec: &LoopSpec, repo: &str) -> Self {
        Self {
            agents: agents(spec),
            locks: locks(repo, &spec.locks),
            item_locks: item_locks(&spec.locks),
            wall_ms: wall_ms(spec),
        }
    }

    /// The same claims for a round about these items.
    #[must_use]
    pub fn with_items(&self, repo: &str, items: &[Arc<str>]) -> Self {
        let own =
            items.iter().filter(|_| self.item_locks == ItemLocks::Own).map(|item| RoundLock::for_item(repo, item));
        Self { locks: without_covered(self.locks.iter().cloned().chain(own)), ..self.clone() }
    }

    /// The first own lock that conflicts with a lock of another round, and that other lock.
    #[must_use]
    pub fn conflict_with<'a>(&'a self, other: &'a Self) -> Option<(&'a RoundLock, &'a RoundLock)> {
        let met = |own: &'a RoundLock| other.locks.iter().find(|lock| lock.conflicts_with(own)).map(|lock| (own, lock));
        self.locks.iter().find_map(met)
    }
}

impl From<&LoopEntry> for RoundClaims {
    fn from(entry: &LoopEntry) -> Self {
        let (agents, locks) = (entry.agents.clone(), entry.locks.clone());
        Self { agents, locks, item_locks: entry.item_locks, wall_ms: entry.wall_ms }
    }
}

/// The locks that a loop file names, except `item`.
fn locks(repo: &str, written: &[String]) -> Vec<RoundLock> {
    written.iter().filter(|lock| *lock != OWN_ITEMS).map(|lock| RoundLock::from_text(repo, lock)).collect()
}

/// Whether the file names `item`.
fn item_locks(written: &[String]) -> ItemLocks {
    if written.iter().any(|lock| lock == OWN_ITEMS) { ItemLocks::Own } else { ItemLocks::None }
}

/// Every agent that a round may start first; a fallback agent counts only once it is used.
pub(super) fn agents(spec: &LoopSpec) -> Vec<Arc<str>> {
    let first = |role| spec.chain(role).into_iter().next().map(|agent| agent.agent.word());
    let words: BTreeSet<&str> = [Role::Maker, Role::Checker].into_iter().filter_map(first).collect();
    words.into_iter().map(Arc::from).collect()
}

/// The loop's triggers besides its cadence, as text.
fn events(on: &Triggers) -> Vec<Arc<str>> {
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

    fn entry(front: &str) -> LoopEntry {
        let text = format!("---\nname: fix\nintent: mend it\n{front}\n---\n# Maker\nmend\n");
        let spec = read_loop_file("fix.md", text.as_bytes()).expect("a loop");
        LoopEntry::from_spec(&spec, "r1", "UTC").expect("an entry")
    }

    #[test]
    fn keys_of_the_loop_file_reach_the_dispatcher() {
        let parsed = entry(
            "on: { every: 15m, push: [main], overlap: queue, catch_up: skip, probe: { use: open-issues, labels: [bug], batch: 3 } }\n\
             priority: 7\nlabels: [gpu, big]\nopen_max: 2\ntimeout: 10m\nlocks: [docs, 'global:gpu', item]\n\
             agents: { maker: { use: claude }, checker: { use: codex } }",
        );
        let words = |all: &[Arc<str>]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(parsed.locks, [RoundLock::from_text("r1", "docs"), RoundLock::from_text("r2", "global:gpu")]);
        assert_eq!((parsed.item_locks, parsed.batch), (ItemLocks::Own, 3));
        let place = parsed.place.as_ref().map(|needs| needs.text());
        assert_eq!(place.as_deref(), Some("a worker with the labels `big`, `gpu` and with claude, codex"));
        assert_eq!(
            (words(&parsed.agents), words(&parsed.events)),
            ("claude codex".to_owned(), "push to main".to_owned())
        );
        assert_eq!((parsed.priority, parsed.open_max, parsed.wall_ms), (7, 2, Some(600_000)));
        assert_eq!((parsed.overlap, parsed.catch_up), (crate::spec::Overlap::Queue, crate::spec::CatchUp::Skip));
    }
}
