//! What this host enforces, found by trying it: walls are built around nothing, and the helper tells how far it came. What
//! follows from the findings is the engine's business; what to do about them is in `remedy`.

use crate::cgroup::{Controller, Groups};
use crate::confine::{Confine, What};
use crate::confined::{Start, quiet};
use crate::plan::{self, Bounds};
use crate::remedy::{Facts, remedy};
use crate::table;
use crate::tree::Tree;
use crate::wire::{RECORD_LEN, Record, Step};
use crate::{Cookie, Resources};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What a host enforces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// One for each [`Wall`], in their order.
    pub findings: Vec<Finding>,
}

/// What was found about one wall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which wall.
    pub wall: Wall,
    /// Whether it holds.
    pub held: Held,
    /// What was seen, as a fragment.
    pub detail: String,
    /// What to do about it, as a command to paste or a sentence.
    pub fix: Option<String>,
}

/// The walls that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wall {
    /// A user, and with it all other namespaces, of its own.
    UserNamespace,
    /// A root of its own: only what is mounted is there.
    Mounts,
    /// A process table of its own.
    Proc,
    /// A network of its own.
    Network,
    /// The filter of system calls.
    Seccomp,
    /// The second wall around files, signals and sockets.
    Landlock,
    /// Workspaces as overlays.
    Overlay,
    /// Ceilings for memory, processes and processor time of a whole tree.
    Resources,
}

/// Whether a wall holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It does.
    Yes,
    /// It is not there.
    No,
    /// Some of it is.
    Partly,
}

impl Wall {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::UserNamespace,
        Self::Mounts,
        Self::Proc,
        Self::Network,
        Self::Seccomp,
        Self::Landlock,
        Self::Overlay,
        Self::Resources,
    ];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::UserNamespace => "user namespace",
            Self::Mounts => "files",
            Self::Proc => "processes",
            Self::Network => "network",
            Self::Seccomp => "system calls",
            Self::Landlock => "landlock",
            Self::Overlay => "overlay",
            Self::Resources => "resources",
        }
    }

    /// The wall that a step of the start belongs to.
    fn of(step: Step) -> Self {
        match step {
            Step::Plan | Step::UserNamespace | Step::IdMaps | Step::Privileges | Step::Limits => Self::UserNamespace,
            Step::Namespaces | Step::Loopback | Step::Door => Self::Network,
            Step::Fork | Step::Proc | Step::ProcMask => Self::Proc,
            Step::Landlock => Self::Landlock,
            Step::Seccomp => Self::Seccomp,
            _ => Self::Mounts,
        }
    }
}

impl Host {
    /// Whether a confined program is held by all that the higher levels need.
    pub fn enforces(&self) -> bool {
        let needed = [Wall::UserNamespace, Wall::Mounts, Wall::Proc, Wall::Network, Wall::Seccomp];
        needed.iter().all(|wall| self.held(*wall) == Held::Yes)
    }

    /// Whether workspaces can be overlays on this file system.
    pub fn overlay(&self) -> bool {
        self.enforces() && self.held(Wall::Overlay) == Held::Yes
    }

    /// Whether one wall holds.
    pub fn held(&self, wall: Wall) -> Held {
        self.findings.iter().find(|finding| finding.wall == wall).map_or(Held::No, |finding| finding.held)
    }

    /// The findings that are not wholly good.
    pub fn gaps(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.held != Held::Yes)
    }
}

/// How one try ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tried {
    /// The step that could not be done.
    pub(crate) failed: Option<(Step, i32)>,
    /// Why the helper could not even be started, or did not answer.
    pub(crate) broken: Option<String>,
    pub(crate) landlock: Option<u32>,
    pub(crate) processes: Option<u32>,
    pub(crate) filter: bool,
}

/// Tries everything. `scratch` is an existing folder on the file system that workspaces will be on; what is made there is removed.
pub fn probe(scratch: &Path) -> Host {
    let facts = Facts::read();
    let groups = Groups::make(&Resources::default());
    let plain = attempt(&Confine::default());
    let mut findings: Vec<Finding> = judge(&plain, &facts);
    findings.push(overlay(&plain, scratch, &facts));
    findings.push(resources(&groups, &facts));
    Host { findings }
}

fn judge(tried: &Tried, facts: &Facts) -> Vec<Finding> {
    let walls = [Wall::UserNamespace, Wall::Mounts, Wall::Proc, Wall::Network, Wall::Seccomp];
    let mut findings: Vec<Finding> = walls.iter().map(|wall| judge_one(*wall, tried, facts)).collect();
    findings.push(landlock(tried));
    findings
}

fn judge_one(wall: Wall, tried: &Tried, facts: &Facts) -> Finding {
    if let Some(broken) = &tried.broken {
        let detail = format!("the helper program does not run: {broken}");
        return Finding { wall, held: Held::No, detail, fix: facts.memory_programs_fix() };
    }
    let Some((step, errno)) = tried.failed else { return judge_built(wall, tried) };
    let reason = io::Error::from_raw_os_error(errno);
    let fix = remedy(step, errno, facts);
    if Wall::of(step) == wall {
        return Finding { wall, held: Held::No, detail: format!("{}: {reason}", step.text()), fix };
    }
    // The walls are built one after the other, so one that was not reached cannot be said to hold.
    if reached(wall) < step as u32 {
        return Finding { wall, held: Held::Yes, detail: "holds".to_owned(), fix: None };
    }
    Finding { wall, held: Held::No, detail: format!("not reached: {} failed: {reason}", step.text()), fix }
}

/// The last step that a wall needs.
fn reached(wall: Wall) -> u32 {
    (match wall {
        Wall::UserNamespace => Step::IdMaps,
        Wall::Network => Step::Loopback,
        Wall::Proc => Step::ProcMask,
        Wall::Mounts | Wall::Overlay => Step::Seal,
        Wall::Seccomp | Wall::Landlock | Wall::Resources => Step::Seccomp,
    }) as u32
}

fn judge_built(wall: Wall, tried: &Tried) -> Finding {
    let bad = match wall {
        Wall::Proc if tried.processes != Some(1) => Some("processes of others can be seen"),
        Wall::Seccomp if !tried.filter => Some("a refused call was not refused"),
        _ => None,
    };
    let held = if bad.is_some() { Held::No } else { Held::Yes };
    Finding { wall, held, detail: bad.unwrap_or("holds").to_owned(), fix: None }
}

/// The version from which signals and abstract sockets are covered too.
const LANDLOCK_SCOPES: u32 = 6;

fn landlock(tried: &Tried) -> Finding {
    let version = tried.landlock.unwrap_or(0);
    if let (0, Some(why)) = (version, not_tried(tried)) {
        let detail = format!("not tried, because {why}");
        return Finding { wall: Wall::Landlock, held: Held::No, detail, fix: None };
    }
    let (held, detail) = match version {
        0 => (Held::No, "the kernel has no landlock; the mounts alone hold".to_owned()),
        version if version < LANDLOCK_SCOPES => (Held::Partly, format!("version {version}: files only")),
        version => (Held::Yes, format!("version {version}")),
    };
    let fix = (version == 0)
        .then(|| "add `landlock` to the kernel's `lsm=` parameter, or use Linux 6.12 or newer".to_owned());
    Finding { wall: Wall::Landlock, held, detail, fix }
}

/// What kept the later walls from being tried at all.
fn not_tried(tried: &Tried) -> Option<String> {
    let broken = tried.broken.as_ref().map(|broken| format!("the helper program does not run: {broken}"));
    broken.or_else(|| {
        let (step, errno) = tried.failed?;
        Some(format!("an earlier wall failed: {}: {}", step.text(), io::Error::from_raw_os_error(errno)))
    })
}

fn overlay(plain: &Tried, scratch: &Path, facts: &Facts) -> Finding {
    let finding = |held, detail: String, fix| Finding { wall: Wall::Overlay, held, detail, fix };
    if plain.failed.is_some() || plain.broken.is_some() {
        return finding(Held::No, "not tried: the walls around it do not stand".to_owned(), None);
    }
    match try_overlay(scratch) {
        Ok(Tried { failed: None, broken: None, .. }) => finding(Held::Yes, "holds".to_owned(), None),
        Ok(Tried { failed: Some((_, errno)), .. }) => {
            let reason = io::Error::from_raw_os_error(errno);
            let detail = format!("mount an overlay in `{}`: {reason}", scratch.display());
            finding(Held::No, detail, facts.overlay_fix(errno))
        }
        Ok(tried) => finding(Held::No, tried.broken.unwrap_or_default(), None),
        Err(error) => finding(Held::No, format!("make folders in `{}`: {error}", scratch.display()), None),
    }
}

/// Folders for one overlay, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn make(above: &Path) -> io::Result<Self> {
        let folder = above.join(Cookie::new("probe").as_str());
        fs::create_dir(&folder)?;
        let scratch = Self(folder);
        ["lower", "upper", "work"].iter().try_for_each(|name| fs::create_dir(scratch.0.join(name)))?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn try_overlay(scratch: &Path) -> io::Result<Tried> {
    let folders = Scratch::make(scratch)?;
    let at = |name: &str| folders.0.join(name);
    let mut confine = Confine::default();
    confine.mount("/workspace", What::Overlay { lower: vec![at("lower")], upper: at("upper"), work: at("work") });
    Ok(attempt(&confine))
}

fn resources(groups: &Groups, facts: &Facts) -> Finding {
    let kept = |controller| groups.keeps(controller);
    let all = [
        (kept(Controller::Memory), "memory"),
        (kept(Controller::Processes) || !facts.is_root, "processes"),
        (kept(Controller::Cpu), "processor time"),
    ];
    let missing: Vec<&str> = all.iter().filter(|(kept, _)| !kept).map(|(_, name)| *name).collect();
    let (held, detail) = match missing.len() {
        0 => (Held::Yes, "holds".to_owned()),
        count => {
            let held = if count == all.len() { Held::No } else { Held::Partly };
            (held, format!("no ceiling on the whole tree for: {}", missing.join(", ")))
        }
    };
    let fix = (held != Held::Yes).then(|| {
        "start it in a control group of its own: systemd-run --user --scope -p Delegate=yes loopwright …".to_owned()
    });
    Finding { wall: Wall::Resources, held, detail, fix }
}

fn attempt(confine: &Confine) -> Tried {
    try_walls(confine).unwrap_or_else(|error| Tried { broken: Some(error.to_string()), ..Tried::default() })
}

fn try_walls(confine: &Confine) -> io::Result<Tried> {
    let cookie = Cookie::new("probe");
    let plan = plan::for_walls(confine, Bounds::Group)?;
    let start = Start::of_plan(&plan.encode(), cookie.as_str())?;
    let streams = quiet(start.further)?;
    let tree = Tree::plant(&start.prepared, &streams, cookie.as_str())?;
    drop(streams);
    let tried = listen(start.status.into());
    drop(start.lifeline);
    table::await_exit(tree.root().pid);
    tree.collect();
    tried
}

/// Reads the helper's records until it is done.
fn listen(mut status: fs::File) -> io::Result<Tried> {
    const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
    let mut tried = Tried::default();
    loop {
        let mut bytes = [0; RECORD_LEN];
        if rustix::event::poll(&mut [PollFd::new(&status, PollFlags::IN)], Some(&PATIENCE))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if status.read(&mut bytes)? != RECORD_LEN {
            return Err(io::Error::other("the helper ended early"));
        }
        match Record::decode(&bytes) {
            Some(Record::Failed { step, errno, .. }) => return Ok(Tried { failed: Some((step, errno)), ..tried }),
            Some(Record::Seen { step: Step::Landlock, value }) => tried.landlock = Some(value),
            Some(Record::Seen { step: Step::Proc, value }) => tried.processes = Some(value),
            Some(Record::Gap { step: Step::Landlock, .. }) => tried.landlock = Some(0),
            Some(Record::Ended { status, .. }) => return Ok(Tried { filter: status == 0, ..tried }),
            _ => {}
        }
    }
}
