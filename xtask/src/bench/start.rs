//! The time of commands from start to end: the program's own against the smallest programs available.

use super::rounds::{self, BenchRepo};
use super::sample::TimeSamples;
use super::table::BenchSection;
use super::{BenchSetup, ROUNDS, StorageMedium};
use std::process::{Command, Stdio};

/// Starts are short, so each round takes several.
const EACH: usize = 5;

pub(super) fn measure(bed: &BenchSetup) -> Result<BenchSection, String> {
    let empty = BenchRepo::new(bed, "start-empty", 1, StorageMedium::Disk)?;
    let small = BenchRepo::new(bed, "start-small", 1, StorageMedium::Disk)?;
    small.round("light")?;
    for number in 0..10 {
        rounds::run_quiet(&mut small.command(&["tasks", "add", &format!("task {number}")]))?;
    }
    let outside = bed.folder("start-outside", StorageMedium::Disk)?;
    let mut away = small.command(&["status"]);
    away.current_dir(&outside);
    let mut commands = vec![
        ("/bin/true", bare("/bin/true", &[])),
        ("git --version", bare("git", &["--version"])),
        ("loopwright --version", empty.command(&["--version"])),
        ("loopwright status, no store yet", empty.command(&["status"])),
        ("loopwright status, one loop with history", small.command(&["status"])),
        ("loopwright status, outside a repository", away),
        ("loopwright tasks ready", small.command(&["tasks", "ready"])),
        ("loopwright tasks add", small.command(&["tasks", "add", "one more"])),
    ];
    let mut times = vec![TimeSamples::new(); commands.len()];
    for _ in 0..ROUNDS * EACH {
        for ((name, command), times) in commands.iter_mut().zip(&mut times) {
            times.time(|| rounds::run_quiet(command).map_err(|error| format!("{name}: {error}")))?;
        }
    }
    let about = "wall time of the whole command, output discarded; inside a repository, `status` also runs git";
    let section = BenchSection::new("start-up", about);
    let lines = commands.into_iter().zip(times);
    Ok(lines.fold(section, |section, ((name, _), times)| {
        let against = (name != "/bin/true").then_some("/bin/true");
        section.line(name, times, against)
    }))
}

fn bare(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    command
}
