//! Control groups: limits for a whole tree, if the host allows them. Finds the hierarchies, creates a group per run
//! below the engine's own, moves the run's tree into it and removes it.
//!
//! This is not part of the start: entering a group takes the kernel a grace period of 10 ms or more, in which a program
//! can do little harm and a short one is already finished. A tree that runs longer is checked every second, because a
//! process that forks while it is being moved leaves a child outside. Other limits bound its number of processes from
//! the start.

use crate::confinement::ResourceCeilings;
use crate::process_tree;
use crate::tree_members::StartedProcess;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};

/// The controllers that a group can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CgroupController {
    Memory,
    Processes,
    Cpu,
}

/// The controllers and their names in the kernel.
const CONTROLLERS: [(CgroupController, &str); 3] =
    [(CgroupController::Memory, "memory"), (CgroupController::Processes, "pids"), (CgroupController::Cpu, "cpu")];

/// The version of a hierarchy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CgroupVersion {
    V1,
    V2,
}

/// The number of scans for new processes in one attempt; the next attempt follows a second later.
const GATHER_LOOKS: usize = 20;

/// The prefix of the group names; the engine's pid follows.
const PREFIX: &str = "loopwright-";

/// The parent folders of new groups.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Version 2: one folder for all controllers.
    Unified(PathBuf),
    /// Version 1: one folder for each controller.
    Split(Vec<(CgroupController, PathBuf)>),
}

/// The groups of one run; removed when dropped, which must be after its tree is gone.
#[derive(Debug, Default)]
pub(crate) struct RunCgroups {
    folders: Vec<PathBuf>,
    kept: Vec<CgroupController>,
}

impl RunCgroups {
    /// Creates the groups that the host allows. A controller that is not available is missing from `kept`.
    pub(crate) fn make(resources: &ResourceCeilings) -> Self {
        match places() {
            Some(Place::Unified(above)) => Self::unified(above, resources).unwrap_or_default(),
            Some(Place::Split(places)) => Self::split(places, resources),
            None => Self::default(),
        }
    }

    fn unified(above: &Path, resources: &ResourceCeilings) -> io::Result<Self> {
        let folder = above.join(name());
        fs::create_dir(&folder)?;
        let mut groups = Self { folders: vec![folder.clone()], kept: Vec::new() };
        for (controller, _) in CONTROLLERS {
            let set = setting(controller, resources, CgroupVersion::V2);
            if set.is_none_or(|(file, value)| fs::write(folder.join(file), value).is_ok()) {
                groups.kept.push(controller);
            }
        }
        // The file is absent if swap is not accounted, and then no limit is needed.
        let _ = fs::write(folder.join("memory.swap.max"), "0");
        let _ = fs::write(folder.join("memory.oom.group"), "1");
        Ok(groups)
    }

    fn split(places: &[(CgroupController, PathBuf)], resources: &ResourceCeilings) -> Self {
        let mut groups = Self::default();
        let name = name();
        for (controller, above) in places {
            let Some((file, value)) = setting(*controller, resources, CgroupVersion::V1) else { continue };
            let folder = above.join(&name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            if fs::write(folder.join(file), value).is_ok() {
                groups.kept.push(*controller);
            }
            groups.folders.push(folder);
        }
        groups
    }

    /// Moves all processes of a confined tree into the groups, and returns whether all are inside. The next scan finds
    /// processes that were forked during a scan. Children of a process inside are also inside.
    fn move_tree_in(&self, root: &StartedProcess) -> bool {
        (0..GATHER_LOOKS).any(|_| {
            let tree: Vec<u32> =
                process_tree::confined(root).iter().map(|entry| entry.pid).filter(|pid| *pid != root.pid).collect();
            self.folders.iter().all(|folder| take_in(folder, &tree))
        })
    }

    pub(crate) fn enforces(&self, controller: CgroupController) -> bool {
        self.kept.contains(&controller)
    }
}

impl Drop for RunCgroups {
    fn drop(&mut self) {
        // A later engine removes a group that is still in use.
        self.folders.iter().for_each(|folder| drop(fs::remove_dir(folder)));
    }
}

/// Whether all processes were already inside. A process that has ended does not count.
fn take_in(folder: &Path, tree: &[u32]) -> bool {
    let entrance = folder.join("cgroup.procs");
    let inside = fs::read_to_string(&entrance).unwrap_or_default();
    let inside: BTreeSet<u32> = inside.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    let mut outside = tree.iter().filter(|pid| !inside.contains(pid)).peekable();
    let all_in = outside.peek().is_none();
    outside.for_each(|pid| drop(fs::write(&entrance, pid.to_string())));
    all_in
}

/// Whether this host allows a limit of this kind for a tree.
pub(crate) fn can_enforce(controller: CgroupController) -> bool {
    match places() {
        Some(Place::Unified(_)) => true,
        Some(Place::Split(places)) => places.iter().any(|(one, _)| *one == controller),
        None => false,
    }
}

/// The file and the value of a limit; `None` without one.
fn setting(
    controller: CgroupController,
    resources: &ResourceCeilings,
    version: CgroupVersion,
) -> Option<(&'static str, String)> {
    let weight = resources.cpu_weight.map(|weight| weight.clamp(1, 10_000));
    let (file, value) = match (controller, version) {
        (CgroupController::Memory, CgroupVersion::V1) => ("memory.limit_in_bytes", resources.memory),
        (CgroupController::Memory, CgroupVersion::V2) => ("memory.max", resources.memory),
        (CgroupController::Processes, _) => ("pids.max", resources.processes),
        // The default weight is 1024 here and 100 in version 2.
        (CgroupController::Cpu, CgroupVersion::V1) => ("cpu.shares", weight.map(|weight| (weight * 1024 / 100).max(2))),
        (CgroupController::Cpu, CgroupVersion::V2) => ("cpu.weight", weight),
    };
    Some((file, value?.to_string()))
}

fn name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{PREFIX}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Found once: the engine's group does not change unless another process moves the engine.
fn places() -> Option<&'static Place> {
    static FOUND: OnceLock<Option<Place>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref()
}

fn find() -> Option<Place> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    if let Some(folder) = unified_folder(&mounts, &own)
        && delegate(&folder).is_ok()
    {
        remove_stale(&folder);
        return Some(Place::Unified(folder));
    }
    let writable = |(_, folder): &(CgroupController, PathBuf)| {
        rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok() && folder.join("cgroup.procs").exists()
    };
    let split: Vec<_> = split_folders(&mounts, &own).into_iter().filter(writable).collect();
    split.iter().for_each(|(_, folder)| remove_stale(folder));
    (!split.is_empty()).then_some(Place::Split(split))
}

/// The engine's own group in version 2.
fn unified_folder(mounts: &str, own: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().filter_map(Mount::parse).find(|mount| mount.kind == "cgroup2")?.folder(path)
}

/// The engine's own groups in version 1, for the available controllers.
fn split_folders(mounts: &str, own: &str) -> Vec<(CgroupController, PathBuf)> {
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).filter(|mount| mount.kind == "cgroup").collect();
    let one = |name: &str| {
        let path = own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (names, path) = rest.split_once(':')?;
            names.split(',').any(|one| one == name).then_some(path)
        })?;
        mounts.iter().find(|mount| mount.options.split(',').any(|one| one == name))?.folder(path)
    };
    CONTROLLERS.iter().filter_map(|(controller, name)| Some((*controller, one(name)?))).collect()
}

/// One line of mountinfo.
struct Mount<'t> {
    root: &'t str,
    at: &'t str,
    kind: &'t str,
    options: &'t str,
}

impl<'t> Mount<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let (first, second) = line.split_once(" - ")?;
        let mut first = first.split(' ').skip(3);
        let mut second = second.split(' ');
        Some(Self { root: first.next()?, at: first.next()?, kind: second.next()?, options: second.nth(1)? })
    }

    /// The path of a group in this hierarchy, if the mount shows it.
    fn folder(&self, path: &str) -> Option<PathBuf> {
        let below = Path::new(path).strip_prefix(self.root).ok()?;
        Some(Path::new(self.at).join(below))
    }
}

/// Enables controllers for groups below the engine's own. The kernel does not allow processes in a group whose children
/// have controllers. So if the engine is alone in its group, it moves into a child of it.
fn delegate(folder: &Path) -> io::Result<()> {
    let has = |file: &str| {
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        ["memory", "pids"].iter().all(|name| text.split_whitespace().any(|one| one == *name))
    };
    if !has("cgroup.controllers") {
        return Err(io::ErrorKind::Unsupported.into());
    }
    if has("cgroup.subtree_control") {
        return Ok(());
    }
    let enable = || fs::write(folder.join("cgroup.subtree_control"), "+memory +pids");
    if enable().is_err() {
        move_aside(folder)?;
        enable()?;
    }
    let _ = fs::write(folder.join("cgroup.subtree_control"), "+cpu");
    Ok(())
}

fn move_aside(folder: &Path) -> io::Result<()> {
    let us = std::process::id().to_string();
    let inhabitants = fs::read_to_string(folder.join("cgroup.procs"))?;
    if inhabitants.split_whitespace().any(|pid| pid != us) {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    let aside = folder.join(format!("{PREFIX}engine"));
    fs::create_dir_all(&aside)?;
    fs::write(aside.join("cgroup.procs"), us)
}

/// Removes groups of engines that were killed. A group in use cannot be removed, so no running engine is affected.
fn remove_stale(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// A program that runs this long gets groups.
const FIRST: Duration = Duration::from_millis(20);
const EVERY: Duration = Duration::from_secs(1);

/// The groups of one run. Dropped after its tree is gone, so that they can be removed.
pub(crate) struct CgroupKeeper {
    resources: ResourceCeilings,
    next: Instant,
    look: Option<JoinHandle<RunCgroups>>,
    /// `None` while a scan runs.
    groups: Option<RunCgroups>,
}

impl CgroupKeeper {
    pub(crate) fn new(resources: ResourceCeilings) -> Self {
        Self { resources, next: Instant::now() + FIRST, look: None, groups: None }
    }

    /// Keeps the tree in its groups as long as it is awaited. Safe to cancel.
    pub(crate) async fn keep_in_groups(&mut self, root: &StartedProcess) {
        loop {
            if let Some(look) = &mut self.look {
                let Ok(groups) = look.await else { return std::future::pending().await };
                (self.look, self.groups, self.next) = (None, Some(groups), Instant::now() + EVERY);
            }
            sleep_until(self.next).await;
            let (made, resources, root) = (self.groups.take(), self.resources.clone(), root.clone());
            self.look = Some(spawn_blocking(move || {
                let groups = made.unwrap_or_else(|| RunCgroups::make(&resources));
                groups.move_tree_in(&root);
                groups
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn each_controller_of_a_hybrid_host_is_found_where_it_is_mounted() {
        let own = "8:pids:/\n4:memory:/a/b\n1:cpu,cpuacct:/\n0::/\n";
        let expected = [
            (CgroupController::Memory, "/sys/fs/cgroup/memory/a/b"),
            (CgroupController::Processes, "/sys/fs/cgroup/pids"),
            (CgroupController::Cpu, "/sys/fs/cgroup/cpu"),
        ];
        assert_eq!(split_folders(HYBRID, own), expected.map(|(controller, path)| (controller, PathBuf::from(path))));
        assert_eq!(unified_folder(HYBRID, own), Some(PathBuf::from("/sys/fs/cgroup/unified")));
    }

    #[test]
    fn group_that_is_mounted_as_a_root_is_found_below_it() {
        let mounts = "30 23 0:26 /user.slice/s /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        assert_eq!(unified_folder(mounts, "0::/user.slice/s/x\n"), Some(PathBuf::from("/sys/fs/cgroup/x")));
        assert_eq!(unified_folder(mounts, "0::/elsewhere\n"), None);
        assert_eq!(unified_folder("", "0::/\n"), None);
    }

    #[test]
    fn default_weight_is_the_default_share() {
        let resources = ResourceCeilings { cpu_weight: Some(100), ..ResourceCeilings::default() };
        let set = setting(CgroupController::Cpu, &resources, CgroupVersion::V1);
        assert_eq!(set, Some(("cpu.shares", "1024".to_owned())));
    }
}
