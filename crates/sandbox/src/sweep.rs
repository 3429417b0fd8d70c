//! Finds trees of an engine that no longer runs, by the cookie in their environments, and ends them. `process_tree`
//! handles the trees of this program.

use crate::error::SweepError;
use crate::process_table::{self, ProcessEntry, ProcessTable};
use crate::spawn::COOKIE_VAR;
use crate::tree_members::add_descendants;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::io;
use std::time::Duration;
use tokio::time::Instant;

/// The time that SIGKILL may take to have an effect.
const PATIENCE: Duration = Duration::from_secs(10);

/// Kills every process whose cookie starts with `cookie_prefix`, and its descendants, until none is left.
///
/// It spares this process and its ancestors even if they have such a cookie. Returns the number of killed processes.
pub fn sweep(cookie_prefix: &str) -> Result<usize, SweepError> {
    if cookie_prefix.is_empty() {
        return Err(SweepError::EmptyPrefix);
    }
    let deadline = Instant::now() + PATIENCE;
    let mut hit = BTreeSet::new();
    // A killed process loses its environment before it has ended, so its cookie no longer identifies it.
    let mut dying: Vec<ProcessEntry> = Vec::new();
    loop {
        let found = freeze(cookie_prefix, deadline).map_err(SweepError::Table)?;
        dying.retain(process_table::still_runs);
        if found.is_empty() && dying.is_empty() {
            return Ok(hit.len());
        }
        for entry in &found {
            if hit.insert((entry.pid, entry.start)) {
                dying.push(*entry);
            }
            let _ = process_table::signal(entry, Signal::KILL);
        }
        if Instant::now() > deadline {
            return Err(SweepError::Unkillable(dying.iter().map(|entry| entry.pid).collect()));
        }
        process_table::await_end(&dying);
    }
}

/// The processes that `sweep` would kill now.
pub fn leftovers(cookie_prefix: &str) -> Vec<u32> {
    find(cookie_prefix).map(|found| found.iter().map(|entry| entry.pid).collect()).unwrap_or_default()
}

/// Stops matching processes until no new ones appear: a stopped process cannot fork.
fn freeze(prefix: &str, deadline: Instant) -> io::Result<Vec<ProcessEntry>> {
    let mut known = BTreeSet::new();
    loop {
        let found = find(prefix)?;
        let new = found.iter().filter(|entry| known.insert((entry.pid, entry.start))).count();
        if new == 0 || Instant::now() > deadline {
            return Ok(found);
        }
        for entry in found.iter().filter(|entry| !entry.is_stopped()) {
            let _ = process_table::signal(entry, Signal::STOP);
        }
    }
}

fn find(prefix: &str) -> io::Result<Vec<ProcessEntry>> {
    let table = ProcessTable::read()?;
    let spared = us_and_ancestors(&table);
    let may = |entry: &ProcessEntry| !spared.contains(&entry.pid);
    let carries = |entry: &ProcessEntry| {
        may(entry)
            && !entry.is_dead()
            && process_table::environ_value(entry.pid, COOKIE_VAR)
                .is_some_and(|cookie| cookie.starts_with(prefix.as_bytes()))
    };
    let seeds: BTreeSet<u32> = table.entries.values().filter(|entry| carries(entry)).map(|entry| entry.pid).collect();
    let found = add_descendants(seeds, &table, may);
    Ok(found.iter().filter_map(|pid| table.entries.get(pid)).filter(|entry| !entry.is_dead()).copied().collect())
}

fn us_and_ancestors(table: &ProcessTable) -> BTreeSet<u32> {
    let mut spared = BTreeSet::new();
    let mut pid = std::process::id();
    while spared.insert(pid) {
        pid = table.entries.get(&pid).map_or(0, |entry| entry.ppid);
    }
    spared
}
