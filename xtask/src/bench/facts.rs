//! The facts of the machine and three yardsticks, without which no number means anything.

use super::sample::TimeSamples;
use super::table::format_seconds;
use super::{ROUNDS, rounds};
use crate::command::{first_output_line, program};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// The machine on which the numbers were measured.
pub(super) struct BenchFacts(Vec<(&'static str, String)>);

impl BenchFacts {
    pub(super) fn render(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name:<34} {value}\n")).collect()
    }

    pub(super) fn to_json(&self) -> Value {
        self.0.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<serde_json::Map<_, _>>().into()
    }
}

/// Queries the machine and measures the yardsticks.
pub(super) fn collect_facts(dir: &Path) -> Result<BenchFacts, String> {
    let asked = |name: &str, args: &[&str]| {
        let mut command = program(name);
        command.args(args);
        first_output_line(command).unwrap_or_else(|| "unknown".to_owned())
    };
    let yard = yardsticks(dir)?;
    let shown = |samples: &TimeSamples| {
        format!("{} median, {} min", format_seconds(samples.median()), format_seconds(samples.min()))
    };
    Ok(BenchFacts(vec![
        ("date", asked("date", &["-u", "+%Y-%m-%dT%H:%MZ"])),
        ("cores", std::thread::available_parallelism().map_or(0, usize::from).to_string()),
        ("kernel", asked("uname", &["-sr"])),
        ("file system of the folder", asked("stat", &["-f", "-c", "%T", &dir.to_string_lossy()])),
        ("git", asked("git", &["--version"])),
        ("compiler", asked("rustc", &["--version"])),
        ("load at the start", load()),
        ("yardstick: 4 KiB append + fdatasync", shown(&yard.0)),
        ("yardstick: start of /bin/true", shown(&yard.1)),
        ("yardstick: worktree add, 1k files", shown(&yard.2)),
    ]))
}

/// The load averages.
pub(super) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn yardsticks(dir: &Path) -> Result<(TimeSamples, TimeSamples, TimeSamples), String> {
    let (mut sync, mut start, mut add) = (TimeSamples::new(), TimeSamples::new(), TimeSamples::new());
    let repo = dir.join("yard");
    rounds::repository(&repo, 1_000)?;
    let mut log = File::create(dir.join("log")).map_err(|error| error.to_string())?;
    for _ in 0..ROUNDS {
        for _ in 0..10 {
            sync.time(|| append(&mut log))?;
            start.time(spawn_true)?;
        }
        let place = dir.join("yard-tree");
        add.time(|| rounds::git(&repo, &["worktree", "add", "-q", "--detach", &place.to_string_lossy()]))?;
        rounds::git(&repo, &["worktree", "remove", "--force", &place.to_string_lossy()])?;
    }
    Ok((sync, start, add))
}

/// One durable write: no store can be faster.
pub(super) fn append(log: &mut File) -> Result<(), String> {
    log.write_all(&[7; 4096]).and_then(|()| log.sync_data()).map_err(|error| format!("append: {error}"))
}

/// One process that does nothing, started by the standard library.
pub(super) fn spawn_true() -> Result<(), String> {
    let status = std::process::Command::new("/bin/true").env_clear().status();
    status.map(drop).map_err(|error| format!("start /bin/true: {error}"))
}
