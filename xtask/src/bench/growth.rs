//! How `status` grows with the number of loops and with history: the exponent, not only the time.

use super::rounds::{BenchRepo, run_quiet, write};
use super::sample::{TimeSamples, slope};
use super::table::BenchSection;
use super::worker::fill_store;
use super::{BenchSetup, ROUNDS, StorageMedium};

/// Sizes of the two sweeps.
const LOOPS: [usize; 4] = [10, 100, 1_000, 10_000];
const EVENTS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

pub(super) fn measure(bed: &BenchSetup) -> Result<Vec<BenchSection>, String> {
    let mut loops = Vec::new();
    for count in LOOPS {
        let world = BenchRepo::new(bed, &format!("loops-{count}"), 1, StorageMedium::Disk)?;
        (0..count).try_for_each(|number| loop_file(&world, number))?;
        loops.push((count, world));
    }
    let mut history = Vec::new();
    for count in EVENTS {
        let world = BenchRepo::new(bed, &format!("events-{count}"), 1, StorageMedium::Disk)?;
        (0..10).try_for_each(|number| loop_file(&world, number))?;
        fill_store(&bed.worker, &world.state, count)?;
        history.push((count, world));
    }
    let about = "loopwright status in a repository with this many loop files and an empty store; every file is read and checked";
    let first = sweep("`status` and the number of loops", about, "loops", &loops)?;
    let about =
        "loopwright status with ten loop files and a store with this many events of past rounds, a round for every 12";
    Ok(vec![first, sweep("`status` and history", about, "events", &history)?])
}

fn sweep(title: &str, about: &str, unit: &str, worlds: &[(usize, BenchRepo)]) -> Result<BenchSection, String> {
    let mut times = vec![TimeSamples::new(); worlds.len()];
    for _ in 0..ROUNDS {
        for ((_, world), times) in worlds.iter().zip(&mut times) {
            times.time(|| run_quiet(&mut world.command(&["status"])))?;
        }
    }
    let points: Vec<_> = worlds.iter().zip(&times).map(|((n, _), times)| (*n as f64, times.median())).collect();
    let name = |count: usize| format!("{count} {unit}");
    let first = name(worlds[0].0);
    let section = worlds.iter().zip(times).fold(BenchSection::new(title, about), |section, ((count, _), times)| {
        let against = (name(*count) != first).then_some(first.as_str());
        section.line(name(*count), times, against)
    });
    Ok(section.note("log-log slope over all four", format!("{:.2}", slope(&points))))
}

fn loop_file(world: &BenchRepo, number: usize) -> Result<(), String> {
    let text = format!(
        "---\nname: loop-{number:05}\nintent: Keep part {number} in order.\nlevel: L1\non:\n  every: 15m\n---\n# Maker\nLook at part {number}.\n"
    );
    write(&world.repo.join(format!(".loopwright/loops/loop-{number:05}.md")), &text)
}
