//! Workspaces against `git worktree add`: created, sealed, read by a checker, and how each grows with the number of
//! files.

use super::rounds::{git, repository};
use super::sample::{TimeSamples, slope};
use super::table::BenchSection;
use super::worker::{BenchWorker, seconds};
use super::{BenchSetup, StorageMedium};
use serde_json::Value;
use std::path::PathBuf;

/// The sizes of a usual run, and the additional size of a large run.
pub(super) const FILES: [usize; 2] = [1_000, 10_000];
pub(super) const FILES_LARGE: usize = 100_000;
/// Rounds of every comparison; each creates and removes a worktree of that size.
const ROUNDS: usize = 5;

/// The timed steps of a workspace, in order.
const ORDERS: [(&str, &str); 5] = [
    ("overlay", "workspace ready"),
    ("run", "… and /bin/true run in it, sandboxed"),
    ("seal", "seal of 10 changed files"),
    ("view", "view of the sealed commit for a gate"),
    ("copy", "without overlays: ready, as a new copy"),
];

struct WorkspaceBench {
    files: usize,
    medium: StorageMedium,
    repo: PathBuf,
    tree: PathBuf,
    worker: BenchWorker,
    first: f64,
    add: TimeSamples,
    times: [TimeSamples; ORDERS.len()],
    /// Processes of git and ticks of processor time, added up.
    cost: [(u64, u64); ORDERS.len()],
    add_ticks: u64,
}

pub(super) fn measure(bed: &BenchSetup, sizes: &[usize]) -> Result<Vec<BenchSection>, String> {
    // Creating and deleting a hundred thousand files again and again slows the disk severely, for git as for
    // Loopwright. A run with that size is entirely in memory, so that its sizes can be compared.
    let medium = if sizes.contains(&FILES_LARGE) { StorageMedium::Memory } else { StorageMedium::Disk };
    let mut worlds =
        sizes.iter().map(|files| WorkspaceBench::new(bed, *files, medium)).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..ROUNDS {
        worlds.iter_mut().try_for_each(WorkspaceBench::once)?;
    }
    let growth = growth(&worlds);
    let mut sections: Vec<BenchSection> = worlds.into_iter().map(WorkspaceBench::section).collect();
    sections.push(growth);
    Ok(sections)
}

impl WorkspaceBench {
    fn new(bed: &BenchSetup, files: usize, medium: StorageMedium) -> Result<Self, String> {
        let dir = bed.folder(&format!("spaces-{files}"), medium)?;
        let repo = dir.join("repo");
        repository(&repo, files)?;
        let mut worker = BenchWorker::start_workspaces(&bed.worker, &dir.join("state"), &repo)?;
        // The first workspace of a base creates its layers and is measured separately.
        let first = seconds(&worker.request("overlay")?);
        worker.request("discard")?;
        Ok(Self {
            files,
            medium,
            repo,
            tree: dir.join("tree"),
            worker,
            first,
            add: TimeSamples::new(),
            times: [const { TimeSamples::new() }; ORDERS.len()],
            cost: [(0, 0); ORDERS.len()],
            add_ticks: 0,
        })
    }

    fn once(&mut self) -> Result<(), String> {
        for (at, (order, _)) in ORDERS.into_iter().enumerate() {
            match order {
                "seal" => drop(self.worker.request("change")?),
                "copy" => drop(self.worker.request("discard")?),
                _ => {}
            }
            let answer = self.worker.request(order)?;
            self.times[at].push(seconds(&answer));
            let number = |name: &str| answer.get(name).and_then(Value::as_u64).unwrap_or(0);
            self.cost[at] = (self.cost[at].0 + number("processes"), self.cost[at].1 + number("ticks"));
        }
        self.worker.request("discard")?;
        let (tree, before) = (self.tree.to_string_lossy().into_owned(), child_ticks());
        self.add.time(|| git(&self.repo, &["worktree", "add", "-q", "--detach", &tree]))?;
        self.add_ticks += child_ticks() - before;
        git(&self.repo, &["worktree", "remove", "--force", &tree])
    }

    fn section(self) -> BenchSection {
        let about = match self.medium {
            StorageMedium::Disk => {
                "one process that makes, seals and removes workspaces; a `git worktree` before each, on the same disk"
            }
            StorageMedium::Memory => {
                "one process that makes, seals and removes workspaces; a `git worktree` before each, both in memory"
            }
        };
        let by_hand = "git worktree add";
        let mut section = BenchSection::new(format!("workspaces of {} files", self.files), about);
        section = section.line(by_hand, self.add.clone(), None);
        for ((_, name), times) in ORDERS.into_iter().zip(self.times.clone()) {
            section = section.line(name, times, Some(by_hand));
        }
        let ready = self.add.median() / self.times[0].median();
        section = section.note("worktree add / workspace ready", format!("{ready:.0}×"));
        let each = |(processes, ticks): (u64, u64)| {
            format!(
                "{:.1} processes of git, {} ms of CPU",
                processes as f64 / ROUNDS as f64,
                ticks * 10 / ROUNDS as u64
            )
        };
        section = section.note(by_hand, each((ROUNDS as u64, self.add_ticks)));
        for ((_, name), cost) in ORDERS.into_iter().zip(self.cost) {
            section = section.note(name, each(cost));
        }
        section.note("first workspace of the base, once", super::table::format_seconds(self.first))
    }
}

fn growth(worlds: &[WorkspaceBench]) -> BenchSection {
    let points = |of: &dyn Fn(&WorkspaceBench) -> f64| {
        worlds.iter().map(|world| (world.files as f64, of(world))).collect::<Vec<_>>()
    };
    let mut section =
        BenchSection::new("workspaces and the number of files", "b in cost = a·N^b over the sizes above; 0 is flat");
    section = section.note("git worktree add", format!("{:.2}", slope(&points(&|world| world.add.median()))));
    for (at, (_, name)) in ORDERS.into_iter().enumerate() {
        section = section.note(name, format!("{:.2}", slope(&points(&|world| world.times[at].median()))));
    }
    section
}

/// Processor time of the ended children of this process, in the kernel's ticks of 10 ms.
pub(super) fn child_ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    after.split(' ').skip(13).take(2).filter_map(|word| word.parse::<u64>().ok()).sum()
}
