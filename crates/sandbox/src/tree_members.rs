//! The members of a tree, computed from a process table. It sends no signals.

use crate::process_table::{ProcessEntry, ProcessTable};
use std::collections::BTreeSet;

/// The first process of a tree. While this process has not reaped it, its pid is pinned; a record needs all three,
/// because the kernel reuses the pid alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedProcess {
    /// Its pid.
    pub pid: u32,
    /// Its start time, in clock ticks since boot.
    pub start_ticks: u64,
    /// The cookie of its tree.
    pub cookie: String,
}

/// This process, as trees see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnProcess {
    pub(crate) pid: u32,
    pub(crate) session: u32,
}

/// Reads the cookie of a process; a function so that tests can use artificial tables.
pub(crate) type CookieReader<'a> = &'a dyn Fn(u32) -> Option<Vec<u8>>;

/// The members of one tree, including zombies.
///
/// Orphans without any mark could belong to any tree that was alive when they started. They count as members of each of
/// them, so they are killed with the first that ends: killing too early is a nuisance, killing too late breaks a
/// promise.
pub(crate) fn members(
    root: &StartedProcess,
    others: &[StartedProcess],
    us: OwnProcess,
    table: &ProcessTable,
    cookie_of: CookieReader,
) -> Vec<ProcessEntry> {
    let mut own = marked(root, us, table, cookie_of);
    let strangers = unmarked_orphans(root, others, us, table, &own, cookie_of);
    own.extend(strangers);
    let own = add_descendants(own, table, |entry| could_belong_to(root, us, entry));
    own.iter().filter_map(|pid| table.entries.get(pid)).copied().collect()
}

/// The members with a mark of this tree: the first process, its session and group, the cookie, and all their
/// descendants.
fn marked(root: &StartedProcess, us: OwnProcess, table: &ProcessTable, cookie_of: CookieReader) -> BTreeSet<u32> {
    let led = |entry: &ProcessEntry| [entry.pid, entry.session, entry.group].contains(&root.pid);
    let seeds = candidates(root, us, table)
        .filter(|entry| {
            led(entry) || (!entry.is_dead() && cookie_of(entry.pid).as_deref() == Some(root.cookie.as_bytes()))
        })
        .map(|entry| entry.pid);
    add_descendants(seeds.collect(), table, |entry| could_belong_to(root, us, entry))
}

fn unmarked_orphans(
    root: &StartedProcess,
    others: &[StartedProcess],
    us: OwnProcess,
    table: &ProcessTable,
    own: &BTreeSet<u32>,
    cookie_of: CookieReader,
) -> Vec<u32> {
    let orphans: Vec<u32> = candidates(root, us, table)
        .filter(|entry| entry.ppid == us.pid && !own.contains(&entry.pid))
        .filter(|entry| others.iter().all(|other| other.pid != entry.pid))
        .map(|entry| entry.pid)
        .collect();
    if orphans.is_empty() {
        return orphans;
    }
    // Only now are the environments of the other trees needed.
    let theirs: Vec<_> = others.iter().map(|other| marked(other, us, table, cookie_of)).collect();
    orphans.into_iter().filter(|pid| theirs.iter().all(|tree| !tree.contains(pid))).collect()
}

fn candidates<'t>(
    root: &StartedProcess,
    us: OwnProcess,
    table: &'t ProcessTable,
) -> impl Iterator<Item = &'t ProcessEntry> {
    let root = root.clone();
    table.entries.values().filter(move |entry| could_belong_to(&root, us, entry))
}

/// No process of a tree is older than its first process, and no process of it can enter the engine's session (setpgid
/// and setsid do not allow that). So ordinary children of this program are never mistaken for orphans.
fn could_belong_to(root: &StartedProcess, us: OwnProcess, entry: &ProcessEntry) -> bool {
    entry.pid != us.pid && entry.start >= root.start_ticks && entry.session != us.session
}

/// Adds all descendants of the set, and all processes in sessions that a member of the set leads.
pub(crate) fn add_descendants(
    mut set: BTreeSet<u32>,
    table: &ProcessTable,
    may: impl Fn(&ProcessEntry) -> bool,
) -> BTreeSet<u32> {
    loop {
        let before = set.len();
        for entry in table.entries.values().filter(|entry| may(entry)) {
            if set.contains(&entry.ppid) || set.contains(&entry.session) {
                set.insert(entry.pid);
            }
        }
        if set.len() == before {
            return set;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: OwnProcess = OwnProcess { pid: 100, session: 90 };

    /// Processes as (pid, ppid, session, start).
    fn table(lines: &[(u32, u32, u32, u64)]) -> ProcessTable {
        let entry = |&(pid, ppid, session, start): &(u32, u32, u32, u64)| {
            (pid, ProcessEntry { pid, ppid, group: session, session, state: b'S', start })
        };
        ProcessTable { entries: lines.iter().map(entry).collect() }
    }

    fn root(pid: u32, start: u64) -> StartedProcess {
        StartedProcess { pid, start_ticks: start, cookie: format!("c{pid}") }
    }

    fn pids(
        root: &StartedProcess,
        others: &[StartedProcess],
        table: &ProcessTable,
        cookies: &[(u32, &str)],
    ) -> Vec<u32> {
        let cookie_of =
            |pid: u32| cookies.iter().find(|(owner, _)| *owner == pid).map(|(_, cookie)| cookie.as_bytes().to_vec());
        members(root, others, US, table, &cookie_of).iter().map(|entry| entry.pid).collect()
    }

    #[test]
    fn descendants_belong_even_in_other_sessions() {
        let table = table(&[(100, 1, 90, 5), (200, 100, 200, 10), (201, 200, 200, 11), (202, 201, 202, 12)]);
        assert_eq!(pids(&root(200, 10), &[], &table, &[]), [200, 201, 202]);
    }

    #[test]
    fn ordinary_children_of_this_program_are_not_orphans() {
        let table = table(&[(100, 1, 90, 5), (200, 100, 200, 10), (300, 100, 90, 20)]);
        assert_eq!(pids(&root(200, 10), &[], &table, &[]), [200]);
    }

    #[test]
    fn unmarked_orphan_belongs_only_if_it_is_not_older_than_the_tree() {
        let table = table(&[(100, 1, 90, 5), (200, 100, 200, 10), (300, 100, 300, 9), (301, 100, 301, 10)]);
        assert_eq!(pids(&root(200, 10), &[], &table, &[]), [200, 301]);
    }

    #[test]
    fn other_trees_and_their_marked_orphans_are_spared() {
        let table = table(&[
            (200, 100, 200, 10),
            (300, 100, 300, 10),
            (301, 300, 301, 11),
            (302, 100, 302, 12),
            (303, 302, 303, 13),
        ]);
        let cookies = [(302, "c300")];
        assert_eq!(pids(&root(200, 10), &[root(300, 10)], &table, &cookies), [200]);
        assert_eq!(pids(&root(300, 10), &[root(200, 10)], &table, &cookies), [300, 301, 302, 303]);
    }

    #[test]
    fn cookie_finds_a_process_without_any_other_mark() {
        let table = table(&[(200, 100, 200, 10), (400, 1, 400, 12), (401, 1, 401, 12)]);
        assert_eq!(pids(&root(200, 10), &[], &table, &[(400, "c200"), (401, "c200x")]), [200, 400]);
    }
}
