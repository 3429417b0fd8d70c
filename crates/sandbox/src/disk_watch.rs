//! Watches a tree's disk usage, because no kernel limit of the sandbox bounds it. It decides only when the usage is too
//! high.
//!
//! It reads the free space every second, which is cheap. It walks the writable mounts when free space fell, and
//! regularly in any case, because other programs on the host also use and free space.

use crate::confinement::Confinement;
use crate::process_tree;
use crate::tree_members::StartedProcess;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};

const EVERY: Duration = Duration::from_secs(1);

/// The first check takes the size at the start, so it comes before a program has written much. Most short programs end
/// before it.
const FIRST: Duration = Duration::from_millis(200);

/// The longest time without a walk.
const WALK_EVERY: Duration = Duration::from_secs(5);

/// The drop in free space that triggers a walk, at most.
const NOTICEABLE: u64 = 64 << 20;

/// Growth by at least this much counts as growth.
const GROWN: u64 = 1 << 20;

/// Free space below which no tree may grow; less on small file systems.
const FLOOR: u64 = 512 << 20;

/// The fraction of a small file system that is kept free, and the largest fraction of a large one.
const FLOOR_PART_SMALL: u64 = 16;
const FLOOR_PART: u64 = 100;
const FLOOR_MAX: u64 = 2 << 30;

/// A walk may use this fraction of the time, so that a tree of a million files does not keep a core busy.
const WALK_PART: u32 = 20;

/// The largest number of files in one walk.
const FILES_MAX: usize = 4_000_000;

/// The watch over one run.
pub(crate) struct DiskWatch {
    next: Instant,
    look: Option<JoinHandle<(State, bool)>>,
    /// `None` while a check runs.
    state: Option<State>,
}

struct State {
    root: StartedProcess,
    places: Vec<PathBuf>,
    ceiling: Option<u64>,
    systems: Vec<System>,
    /// The size of the mounts at the start, once known.
    base: Option<u64>,
    not_before: Instant,
    walked: Instant,
}

/// A file system with a writable mount.
struct System {
    device: u64,
    sample: PathBuf,
    floor: u64,
    free_at_start: u64,
    free_at_walk: u64,
    free: u64,
}

impl DiskWatch {
    pub(crate) fn new(confine: &Confinement, root: &StartedProcess) -> Self {
        let places: Vec<PathBuf> = confine.writable().map(Path::to_owned).collect();
        let state = State {
            root: root.clone(),
            systems: systems(&places),
            places,
            ceiling: confine.resources.disk,
            base: None,
            not_before: Instant::now(),
            walked: Instant::now(),
        };
        Self { next: Instant::now() + FIRST, look: None, state: Some(state) }
    }

    /// Returns when the tree has used too much. Safe to cancel.
    pub(crate) async fn wait_until_full(&mut self) {
        loop {
            if let Some(look) = &mut self.look {
                let Ok((state, over)) = look.await else { return std::future::pending().await };
                (self.look, self.state, self.next) = (None, Some(state), Instant::now() + EVERY);
                if over {
                    return;
                }
            }
            sleep_until(self.next).await;
            let Some(mut state) = self.state.take() else { return std::future::pending().await };
            self.look = Some(spawn_blocking(move || {
                let over = state.look();
                (state, over)
            }));
        }
    }
}

fn systems(places: &[PathBuf]) -> Vec<System> {
    let mut found: Vec<System> = Vec::new();
    for place in places {
        let Ok(device) = fs::metadata(place).map(|data| data.dev()) else { continue };
        if found.iter().all(|system| system.device != device)
            && let Some((free, total)) = space(place)
        {
            let floor = floor(total);
            let (free_at_start, free_at_walk) = (free, free);
            found.push(System { device, sample: place.clone(), floor, free_at_start, free_at_walk, free });
        }
    }
    found
}

fn floor(total: u64) -> u64 {
    FLOOR.max(total / FLOOR_PART).min(FLOOR_MAX).min(total / FLOOR_PART_SMALL)
}

/// Free and total bytes of the file system of a path.
fn space(path: &Path) -> Option<(u64, u64)> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some((found.f_bavail.saturating_mul(found.f_frsize), found.f_blocks.saturating_mul(found.f_frsize)))
}

impl State {
    /// Whether the tree has used too much.
    fn look(&mut self) -> bool {
        for system in &mut self.systems {
            if let Some((free, _)) = space(&system.sample) {
                system.free = free;
            }
        }
        let low = self.systems.iter().any(|system| system.free < system.floor);
        let threshold = self.ceiling.map_or(NOTICEABLE, |ceiling| (ceiling / 8).clamp(GROWN, NOTICEABLE));
        let fell = |at_least| self.systems.iter().any(|system| system.free + at_least <= system.free_at_walk);
        let overdue = self.base.is_none() || self.walked.elapsed() >= WALK_EVERY;
        let worth = overdue || fell(threshold) || (low && fell(GROWN));
        worth && Instant::now() >= self.not_before && self.walk(low)
    }

    fn walk(&mut self, low: bool) -> bool {
        let begun = Instant::now();
        let held = self.held();
        self.walked = Instant::now();
        self.not_before = self.walked + begun.elapsed() * WALK_PART;
        let fallen: u64 = self.systems.iter().map(|system| system.free_at_start.saturating_sub(system.free)).sum();
        self.systems.iter_mut().for_each(|system| system.free_at_walk = system.free);
        // The size before the first walk is unknown. The tree cannot have added more than the drop in free space.
        let base = *self.base.get_or_insert(held.saturating_sub(fallen));
        let grown = held.saturating_sub(base);
        self.ceiling.is_some_and(|ceiling| grown > ceiling) || (low && grown > GROWN)
    }

    /// Bytes in the mounts, and in deleted files there that are still open.
    fn held(&self) -> u64 {
        let mut files = 0;
        let inside: u64 = self.places.iter().map(|place| size(place, &mut files)).sum();
        let devices: BTreeSet<u64> = self.systems.iter().map(|system| system.device).collect();
        let pids: Vec<u32> = process_tree::confined(&self.root).iter().map(|entry| entry.pid).collect();
        inside + deleted(&pids, &devices)
    }
}

/// The size of a folder in bytes. It uses a list of folders instead of recursion, because the tree chooses how deep its
/// folders nest.
fn size(path: &Path, files: &mut usize) -> u64 {
    let mut ahead = Vec::new();
    let mut sum = 0;
    let mut count = |path: PathBuf, ahead: &mut Vec<PathBuf>| {
        let Ok(found) = fs::symlink_metadata(&path) else { return };
        *files += 1;
        // A file with several names counts at each of them; accurate enough, and never too low.
        sum += found.blocks() * 512;
        if found.is_dir() && *files <= FILES_MAX {
            ahead.push(path);
        }
    };
    count(path.to_owned(), &mut ahead);
    while let Some(folder) = ahead.pop() {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.for_each(|entry| count(entry.path(), &mut ahead));
    }
    sum
}

fn deleted(pids: &[u32], devices: &BTreeSet<u64>) -> u64 {
    let mut seen = BTreeSet::new();
    let mut sum = 0;
    for pid in pids {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        for found in open.filter_map(|entry| fs::metadata(entry.path()).ok()) {
            let counts = found.is_file() && found.nlink() == 0 && devices.contains(&found.dev());
            if counts && seen.insert((found.dev(), found.ino())) {
                sum += found.blocks() * 512;
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_is_a_fraction_of_small_disks_and_bounded_on_large_ones() {
        let gib = 1 << 30;
        assert_eq!([gib, 40 * gib, 100 * gib, 10_000 * gib].map(floor), [gib / 16, FLOOR, gib, FLOOR_MAX]);
    }

    #[test]
    fn deeply_nested_folders_do_not_crash_the_engine() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut deep = dir.path().to_owned();
        (0..1900).for_each(|_| deep.push("d"));
        fs::create_dir_all(&deep).expect("folders");
        // Not every file system counts blocks for folders.
        fs::write(deep.join("f"), "content").expect("a file");
        // A stack so small that recursion would overflow it.
        let path = dir.path().to_owned();
        let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(move || size(&path, &mut 0));
        assert!(thread.expect("thread").join().expect("it comes back") > 0);
    }

    #[test]
    fn sizes_are_those_of_blocks_and_links_are_not_followed() {
        let dir = tempfile::tempdir().expect("temporary directory");
        fs::write(dir.path().join("a"), vec![1; 1 << 20]).expect("write");
        std::os::unix::fs::symlink("/", dir.path().join("root")).expect("link");
        let size = size(dir.path(), &mut 0);
        assert!((1 << 20..2 << 20).contains(&size), "{size}");
    }
}
