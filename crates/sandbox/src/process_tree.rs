//! A living process tree: registered from its start, ended to the last process. It does not decide when.

use crate::launch::{ChildStreams, PreparedLaunch};
use crate::process_table::{self, ProcessEntry, ProcessTable};
use crate::spawn::COOKIE_VAR;
use crate::tree_members::{OwnProcess, StartedProcess, add_descendants, members};
use rustix::process::Signal;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The trees of this program. Starts and scans happen under this lock, so that no scan takes a starting process for an
/// orphan, and no pid is reaped twice.
static LIVE: Mutex<Vec<StartedProcess>> = Mutex::new(Vec::new());

/// The time that SIGKILL may take to have an effect: only a process stuck in the kernel needs longer.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// A process is not reported as unkillable before this many attempts, however slow the host is.
const KILL_TRIES: usize = 10;

/// The number of quick scans for orphans that fork repeatedly, before the full scan.
const CHASE_STEPS: usize = 100;

/// The result of ending a tree.
#[derive(Debug, Default)]
pub(crate) struct TreeSweep {
    /// The number of killed processes.
    pub(crate) killed: usize,
    /// The surviving processes: stuck in the kernel, owned by another user, or forking faster than the engine can
    /// follow.
    pub(crate) unkillable: Vec<u32>,
}

/// One scan of a tree.
struct Look {
    alive: Vec<ProcessEntry>,
    /// Orphans of the tree that had ended and were reaped in this scan.
    collected: Vec<u32>,
}

impl Look {
    /// Proof that no process is left. A process that forks and exits to escape leaves a zombie, which only the engine
    /// can reap. So a scan that finds neither living processes nor new zombies cannot have missed one.
    fn is_empty(&self) -> bool {
        self.alive.is_empty() && self.collected.is_empty()
    }
}

/// A tree that is killed when this is dropped.
pub(crate) struct ProcessTree {
    root: StartedProcess,
    collected: bool,
}

impl ProcessTree {
    /// Starts the first process.
    pub(crate) fn start(prepared: &PreparedLaunch, streams: &ChildStreams, cookie: &str) -> io::Result<Self> {
        become_subreaper()?;
        let mut live = live();
        let pid = prepared.launch(streams)?;
        // The child is not reaped yet, so `/proc` has it unless there is no `/proc` at all.
        let start = process_table::read_entry(pid).map(|entry| entry.start);
        let root = StartedProcess { pid, start_ticks: start.unwrap_or_default(), cookie: cookie.to_owned() };
        live.push(root.clone());
        drop(live);
        let tree = Self { root, collected: false };
        start.map(|_| tree).ok_or_else(|| io::Error::other("/proc does not show the new process"))
    }

    pub(crate) fn root(&self) -> &StartedProcess {
        &self.root
    }

    /// Reaps the first process, which must have ended, and removes the tree from the register.
    pub(crate) fn collect(mut self) {
        self.forget();
    }

    fn forget(&mut self) {
        let mut live = live();
        process_table::reap(self.root.pid);
        live.retain(|root| *root != self.root);
        self.collected = true;
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        if !self.collected {
            kill(&self.root);
            self.forget();
        }
    }
}

/// Sends SIGTERM to every process of the tree; stopped processes are continued so that they receive it.
pub(crate) fn terminate(root: &StartedProcess) {
    let _ = look(root, ask_to_end);
}

fn ask_to_end(alive: &[ProcessEntry]) {
    for entry in alive {
        let _ = process_table::signal(entry, Signal::TERM);
        let _ = process_table::signal(entry, Signal::CONT);
    }
}

/// Whether a process of the tree runs; a zombie does not.
pub(crate) fn is_alive(root: &StartedProcess) -> bool {
    look(root, |_| ()).is_ok_and(|look| !look.alive.is_empty())
}

/// The living processes of a confined tree. No process can leave a pid namespace, so all of them descend from its
/// helper, and no other mark is needed.
pub(crate) fn confined(root: &StartedProcess) -> Vec<ProcessEntry> {
    let Ok(table) = ProcessTable::read() else { return Vec::new() };
    let us = std::process::id();
    let found =
        add_descendants(BTreeSet::from([root.pid]), &table, |entry| entry.pid != us && entry.start >= root.start_ticks);
    found.iter().filter_map(|pid| table.entries.get(pid)).filter(|entry| !entry.is_dead()).copied().collect()
}

/// Sends SIGTERM to every process of a confined tree, as `terminate` does, except to the helper's own two.
pub(crate) fn terminate_confined(root: &StartedProcess) {
    ask_to_end(&confined(root));
}

/// Reaps orphans of the tree that ended, so that a long run does not fill the process table.
pub(crate) fn collect_orphans(root: &StartedProcess) {
    let _ = look(root, |_| ());
}

/// Whether no process of any tree can be left except its first process. A process that outlives the first process of
/// its tree has an ancestor, or is one, that became the engine's child when its parent died, and that stays the
/// engine's child until it is reaped. So if all children are first processes, no other process is left. Only for trees
/// whose processes stay descendants ([`ProgramTrust::Ours`]), and only after the first process has ended.
///
/// [`ProgramTrust::Ours`]: crate::ProgramTrust::Ours
pub(crate) fn left_no_orphan() -> bool {
    let live = live();
    let ours = |pid: &u32| live.iter().any(|root| root.pid == *pid);
    process_table::adopted_children(std::process::id()).is_some_and(|children| children.iter().all(ours))
}

/// Kills the whole tree and returns when no process of it is left.
pub(crate) fn kill(root: &StartedProcess) -> TreeSweep {
    let deadline = Instant::now() + KILL_PATIENCE;
    let mut hit = BTreeSet::new();
    let mut tries = 0;
    loop {
        tries += 1;
        let Ok(look) = freeze_and_kill(root, deadline) else {
            return kill_group_blindly(root);
        };
        hit.extend(look.alive.iter().filter(|entry| entry.pid != root.pid).map(|entry| (entry.pid, entry.start)));
        if look.is_empty() {
            return TreeSweep { killed: hit.len(), unkillable: Vec::new() };
        }
        if tries > KILL_TRIES && Instant::now() > deadline {
            let alive: Vec<u32> = look.alive.iter().map(|entry| entry.pid).collect();
            let killed = hit.len().saturating_sub(alive.len());
            return TreeSweep { killed, unkillable: if alive.is_empty() { look.collected } else { alive } };
        }
        chase(root);
        process_table::await_end(&look.alive);
    }
}

/// Kills orphans as they arrive. A process that forks, exits and repeats that in its child is gone before a scan of the
/// whole table ends. But each of them becomes the engine's child, and that list is short and quick to read.
fn chase(root: &StartedProcess) {
    let live = live();
    let us = us();
    let others: Vec<StartedProcess> = live.iter().filter(|other| *other != root).cloned().collect();
    for _ in 0..CHASE_STEPS {
        let adopted = process_table::adopted_children(us.pid).unwrap_or_default();
        let fresh = adopted.into_iter().filter(|pid| live.iter().all(|root| root.pid != *pid));
        let entries = fresh.filter_map(process_table::read_entry).map(|entry| (entry.pid, entry)).collect();
        let table = ProcessTable { entries };
        let alive: Vec<ProcessEntry> =
            members(root, &others, us, &table, &|pid| process_table::environ_value(pid, COOKIE_VAR))
                .into_iter()
                .filter(|entry| !entry.is_dead())
                .collect();
        if alive.is_empty() {
            return;
        }
        signal_all(&alive, Signal::KILL);
    }
}

/// Stops processes until no new ones appear, then kills them: a stopped process cannot fork.
fn freeze_and_kill(root: &StartedProcess, deadline: Instant) -> io::Result<Look> {
    let mut known = BTreeSet::new();
    loop {
        let seen = look(root, |alive| signal_all(alive, Signal::STOP))?;
        let new = seen.alive.iter().filter(|entry| known.insert((entry.pid, entry.start))).count();
        if seen.alive.is_empty() {
            return Ok(seen);
        }
        if new == 0 || Instant::now() > deadline {
            return look(root, |alive| signal_all(alive, Signal::KILL));
        }
    }
}

/// By group first, because the kernel does that in one step that no fork can escape; then one by one. The group of a
/// member contains only members: a group never leaves its session, and the tree created the session.
fn signal_all(alive: &[ProcessEntry], signal: Signal) {
    let mut groups = BTreeSet::new();
    for entry in alive {
        if entry.group == entry.session && groups.insert(entry.group) {
            let _ = process_table::signal_group(entry, signal);
        }
    }
    for entry in alive.iter().filter(|entry| signal == Signal::KILL || !entry.is_stopped()) {
        let _ = process_table::signal(entry, signal);
    }
}

/// Without `/proc` only the group can be signalled; the unreaped first process pins its number.
fn kill_group_blindly(root: &StartedProcess) -> TreeSweep {
    if let Ok(group) = process_table::raw_pid(root.pid) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    TreeSweep::default()
}

/// Scans the tree, lets `act` signal the living processes, then reaps the adopted zombies. In this order, because an
/// unreaped process pins its pid and its group's.
fn look(root: &StartedProcess, act: impl FnOnce(&[ProcessEntry])) -> io::Result<Look> {
    let live = live();
    let others: Vec<StartedProcess> = live.iter().filter(|other| *other != root).cloned().collect();
    let us = us();
    let table = ProcessTable::read()?;
    // All other trees need the same environments, so each is read once.
    let cookies = RefCell::new(BTreeMap::new());
    let cookie_of =
        |pid| cookies.borrow_mut().entry(pid).or_insert_with(|| process_table::environ_value(pid, COOKIE_VAR)).clone();
    let (dead, alive): (Vec<ProcessEntry>, Vec<ProcessEntry>) =
        members(root, &others, us, &table, &cookie_of).into_iter().partition(ProcessEntry::is_dead);
    act(&alive);
    let adopted = |entry: &&ProcessEntry| entry.ppid == us.pid && live.iter().all(|root| root.pid != entry.pid);
    let collected: Vec<u32> = dead.iter().filter(adopted).map(|entry| entry.pid).collect();
    collected.iter().copied().for_each(process_table::reap);
    Ok(Look { alive, collected })
}

fn live() -> MutexGuard<'static, Vec<StartedProcess>> {
    // The list is consistent after every statement, so a panic elsewhere does not corrupt it.
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn us() -> OwnProcess {
    let pid = std::process::id();
    OwnProcess { pid, session: process_table::read_entry(pid).map_or(0, |entry| entry.session) }
}

/// From now on orphans become children of this process instead of init, where a tree would lose them.
fn become_subreaper() -> io::Result<()> {
    static DONE: OnceLock<()> = OnceLock::new();
    if DONE.get().is_none() {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let _ = DONE.set(());
    }
    Ok(())
}
