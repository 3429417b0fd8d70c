//! Finds out which restrictions this host enforces, by trying them: the helper builds a sandbox without a program and
//! reports how far it got. The engine decides what follows from the findings; `remedy` has the fixes.

use crate::cgroup::{CgroupController, RunCgroups};
use crate::confined_tree::{HelperStart, silent_streams};
use crate::confinement::{Confinement, MountSource};
use crate::plan::{self, MemoryBound};
use crate::process_table;
use crate::process_tree::ProcessTree;
use crate::remedy::{RemedyFacts, remedy};
use crate::wire::{HelperRecord, LaunchStep, RECORD_LEN};
use crate::{ResourceCeilings, TreeCookie};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The restrictions that a host enforces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSupport {
    /// One finding for each [`SandboxFeature`], in their order.
    pub findings: Vec<FeatureFinding>,
}

/// The finding for one feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureFinding {
    /// The feature.
    pub feature: SandboxFeature,
    /// Whether the host supports it.
    pub support: FeatureSupport,
    /// The observation, as a fragment.
    pub detail: String,
    /// The fix, as a command to paste or a sentence.
    pub fix: Option<String>,
}

/// The features that the probe tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SandboxFeature {
    /// A user namespace, which all other namespaces need.
    UserNamespace,
    /// A private root: only mounted paths are visible.
    Mounts,
    /// A private process table.
    Proc,
    /// A private network.
    Network,
    /// The system call filter.
    Seccomp,
    /// The second restriction of files, signals and sockets.
    Landlock,
    /// Workspaces as overlays.
    Overlay,
    /// Limits for memory, processes and processor time of a whole tree.
    Resources,
}

/// Whether the host supports a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureSupport {
    /// Fully.
    Yes,
    /// Not at all.
    No,
    /// In part.
    Partly,
}

impl SandboxFeature {
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

    /// Those that the higher levels need.
    const NEEDED: &[Self] = Self::ALL.split_at(5).0;

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

    /// The feature that a step of the start belongs to.
    fn of_step(step: LaunchStep) -> Self {
        match step {
            LaunchStep::Plan
            | LaunchStep::UserNamespace
            | LaunchStep::IdMaps
            | LaunchStep::Privileges
            | LaunchStep::Limits => Self::UserNamespace,
            LaunchStep::Namespaces | LaunchStep::Loopback | LaunchStep::Door => Self::Network,
            LaunchStep::Fork | LaunchStep::Proc | LaunchStep::ProcMask => Self::Proc,
            LaunchStep::Landlock => Self::Landlock,
            LaunchStep::Seccomp => Self::Seccomp,
            _ => Self::Mounts,
        }
    }
}

impl HostSupport {
    /// Whether a confined program has all restrictions that the higher levels need.
    pub fn enforces(&self) -> bool {
        SandboxFeature::NEEDED.iter().all(|wall| self.support(*wall) == FeatureSupport::Yes)
    }

    /// Whether workspaces can be overlays on this file system.
    pub fn supports_overlay(&self) -> bool {
        self.enforces() && self.support(SandboxFeature::Overlay) == FeatureSupport::Yes
    }

    /// The support for one feature.
    pub fn support(&self, wall: SandboxFeature) -> FeatureSupport {
        self.findings
            .iter()
            .find(|finding| finding.feature == wall)
            .map_or(FeatureSupport::No, |finding| finding.support)
    }

    /// The findings without full support.
    pub fn gaps(&self) -> impl Iterator<Item = &FeatureFinding> {
        self.findings.iter().filter(|finding| finding.support != FeatureSupport::Yes)
    }
}

/// The result of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProbeAttempt {
    /// The step that failed.
    pub(crate) failed: Option<(LaunchStep, i32)>,
    /// The reason why the helper could not be started, or did not answer.
    pub(crate) broken: Option<String>,
    pub(crate) landlock: Option<u32>,
    pub(crate) processes: Option<u32>,
    pub(crate) filter: bool,
}

/// Tries all features. `scratch` is an existing folder on the file system of the workspaces; files that the probe
/// creates there are removed.
pub fn probe(scratch: &Path) -> HostSupport {
    let facts = RemedyFacts::read();
    let groups = RunCgroups::make(&ResourceCeilings::default());
    let plain = attempt(&Confinement::default());
    let mut findings: Vec<FeatureFinding> = judge(&plain, &facts);
    findings.push(overlay(&plain, scratch, &facts));
    findings.push(resources(&groups, &facts));
    HostSupport { findings }
}

fn judge(tried: &ProbeAttempt, facts: &RemedyFacts) -> Vec<FeatureFinding> {
    let walls = SandboxFeature::NEEDED.iter().map(|wall| judge_one(*wall, tried, facts));
    walls.chain([landlock(tried)]).collect()
}

fn judge_one(wall: SandboxFeature, tried: &ProbeAttempt, facts: &RemedyFacts) -> FeatureFinding {
    let missing = |detail: String, fix| FeatureFinding { feature: wall, support: FeatureSupport::No, detail, fix };
    if let Some(broken) = &tried.broken {
        return missing(format!("the helper program does not run: {broken}"), facts.memory_programs_fix());
    }
    let Some((step, errno)) = tried.failed else { return judge_built(wall, tried) };
    let (reason, fix) = (io::Error::from_raw_os_error(errno), remedy(step, errno, facts));
    if SandboxFeature::of_step(step) == wall {
        return missing(format!("{}: {reason}", step.text()), fix);
    }
    // The steps run one after the other, so a feature whose step was not reached is not supported.
    if reached(wall) < step as u32 {
        return FeatureFinding { feature: wall, support: FeatureSupport::Yes, detail: "holds".to_owned(), fix: None };
    }
    missing(format!("not reached: {} failed: {reason}", step.text()), fix)
}

/// The last step that a feature needs.
fn reached(wall: SandboxFeature) -> u32 {
    (match wall {
        SandboxFeature::UserNamespace => LaunchStep::IdMaps,
        SandboxFeature::Network => LaunchStep::Loopback,
        SandboxFeature::Proc => LaunchStep::ProcMask,
        SandboxFeature::Mounts | SandboxFeature::Overlay => LaunchStep::Seal,
        SandboxFeature::Seccomp | SandboxFeature::Landlock | SandboxFeature::Resources => LaunchStep::Seccomp,
    }) as u32
}

fn judge_built(wall: SandboxFeature, tried: &ProbeAttempt) -> FeatureFinding {
    let bad = match wall {
        SandboxFeature::Proc if tried.processes != Some(1) => Some("processes outside the sandbox are visible"),
        SandboxFeature::Seccomp if !tried.filter => Some("a call that must be refused was not refused"),
        _ => None,
    };
    let held = if bad.is_some() { FeatureSupport::No } else { FeatureSupport::Yes };
    FeatureFinding { feature: wall, support: held, detail: bad.unwrap_or("holds").to_owned(), fix: None }
}

/// The version from which landlock also covers signals and abstract sockets.
const LANDLOCK_SCOPES: u32 = 6;

fn landlock(tried: &ProbeAttempt) -> FeatureFinding {
    let version = tried.landlock.unwrap_or(0);
    if let (0, Some(why)) = (version, not_tried(tried)) {
        let detail = format!("not tried, because {why}");
        return FeatureFinding { feature: SandboxFeature::Landlock, support: FeatureSupport::No, detail, fix: None };
    }
    let (held, detail) = match version {
        0 => (FeatureSupport::No, "the kernel has no landlock; only the mounts protect files".to_owned()),
        version if version < LANDLOCK_SCOPES => (FeatureSupport::Partly, format!("version {version}: files only")),
        version => (FeatureSupport::Yes, format!("version {version}")),
    };
    let fix = (version == 0)
        .then(|| "add `landlock` to the kernel's `lsm=` parameter, or use Linux 6.12 or newer".to_owned());
    FeatureFinding { feature: SandboxFeature::Landlock, support: held, detail, fix }
}

/// The reason why later features could not be tried.
fn not_tried(tried: &ProbeAttempt) -> Option<String> {
    let broken = tried.broken.as_ref().map(|broken| format!("the helper program does not run: {broken}"));
    broken.or_else(|| {
        let (step, errno) = tried.failed?;
        Some(format!("an earlier step failed: {}: {}", step.text(), io::Error::from_raw_os_error(errno)))
    })
}

fn overlay(plain: &ProbeAttempt, scratch: &Path, facts: &RemedyFacts) -> FeatureFinding {
    let finding =
        |held, detail: String, fix| FeatureFinding { feature: SandboxFeature::Overlay, support: held, detail, fix };
    if plain.failed.is_some() || plain.broken.is_some() {
        return finding(FeatureSupport::No, "not tried: the sandbox could not be built".to_owned(), None);
    }
    match try_overlay(scratch) {
        Ok(ProbeAttempt { failed: None, broken: None, .. }) => finding(FeatureSupport::Yes, "holds".to_owned(), None),
        Ok(ProbeAttempt { failed: Some((_, errno)), .. }) => {
            let reason = io::Error::from_raw_os_error(errno);
            let detail = format!("mount an overlay in `{}`: {reason}", scratch.display());
            finding(FeatureSupport::No, detail, facts.overlay_fix(errno))
        }
        Ok(tried) => finding(FeatureSupport::No, tried.broken.unwrap_or_default(), None),
        Err(error) => finding(FeatureSupport::No, format!("make folders in `{}`: {error}", scratch.display()), None),
    }
}

/// Folders for one overlay, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn make(above: &Path) -> io::Result<Self> {
        let folder = above.join(TreeCookie::new("probe").as_str());
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

fn try_overlay(scratch: &Path) -> io::Result<ProbeAttempt> {
    let folders = Scratch::make(scratch)?;
    let at = |name: &str| folders.0.join(name);
    let mut confine = Confinement::default();
    confine
        .mount("/workspace", MountSource::Overlay { lower: vec![at("lower")], upper: at("upper"), work: at("work") });
    Ok(attempt(&confine))
}

fn resources(groups: &RunCgroups, facts: &RemedyFacts) -> FeatureFinding {
    let kept = |controller| groups.enforces(controller);
    let all = [
        (kept(CgroupController::Memory), "memory"),
        (kept(CgroupController::Processes) || !facts.is_root, "processes"),
        (kept(CgroupController::Cpu), "processor time"),
    ];
    let missing: Vec<&str> = all.iter().filter(|(kept, _)| !kept).map(|(_, name)| *name).collect();
    let (held, detail) = match missing.len() {
        0 => (FeatureSupport::Yes, "holds".to_owned()),
        count => {
            let held = if count == all.len() { FeatureSupport::No } else { FeatureSupport::Partly };
            (held, format!("no ceiling on the whole tree for: {}", missing.join(", ")))
        }
    };
    let fix = (held != FeatureSupport::Yes).then(|| {
        "start it in a control group of its own: systemd-run --user --scope -p Delegate=yes loopwright …".to_owned()
    });
    FeatureFinding { feature: SandboxFeature::Resources, support: held, detail, fix }
}

fn attempt(confine: &Confinement) -> ProbeAttempt {
    try_walls(confine)
        .unwrap_or_else(|error| ProbeAttempt { broken: Some(error.to_string()), ..ProbeAttempt::default() })
}

fn try_walls(confine: &Confinement) -> io::Result<ProbeAttempt> {
    let cookie = TreeCookie::new("probe");
    let plan = plan::for_probe(confine, MemoryBound::Group)?;
    let start = HelperStart::from_plan(&plan.encode(), cookie.as_str())?;
    let streams = silent_streams(start.further)?;
    let tree = ProcessTree::start(&start.prepared, &streams, cookie.as_str())?;
    drop(streams);
    let tried = listen(start.status.into());
    drop(start.lifeline);
    process_table::await_exit(tree.root().pid);
    tree.collect();
    tried
}

/// Reads the helper's records until it is done.
fn listen(mut status: fs::File) -> io::Result<ProbeAttempt> {
    const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
    let mut tried = ProbeAttempt::default();
    loop {
        let mut bytes = [0; RECORD_LEN];
        if rustix::event::poll(&mut [PollFd::new(&status, PollFlags::IN)], Some(&PATIENCE))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if status.read(&mut bytes)? != RECORD_LEN {
            return Err(io::Error::other("the helper ended early"));
        }
        match HelperRecord::decode(&bytes) {
            Some(HelperRecord::Failed { step, errno, .. }) => {
                return Ok(ProbeAttempt { failed: Some((step, errno)), ..tried });
            }
            Some(HelperRecord::Seen { step: LaunchStep::Landlock, value }) => tried.landlock = Some(value),
            Some(HelperRecord::Seen { step: LaunchStep::Proc, value }) => tried.processes = Some(value),
            Some(HelperRecord::Gap { step: LaunchStep::Landlock, .. }) => tried.landlock = Some(0),
            Some(HelperRecord::Ended { status, .. }) => return Ok(ProbeAttempt { filter: status == 0, ..tried }),
            _ => {}
        }
    }
}
