//! The soak of time: a daemon without kills runs many rounds that ship. Its limits: the last hundred rounds use at most
//! 1.1 times the processor time of the first hundred, the daemon's memory stays flat, and `gc` leaves a state whose size
//! does not depend on the files of old rounds. A person merges each pull request soon, because open ones cost time in every
//! round, however many rounds there were.

use super::{SoakProgram, SoakRepo};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Loops, each due every second; together they keep two cores busy.
const LOOPS: usize = 4;
/// Rounds that are compared.
const COMPARED: usize = 100;
/// Rounds before the first comparison: the first ones prepare the base.
const WARM: usize = 20;
/// Pull requests that stay open.
const OPEN_KEPT: usize = 20;
/// How much more processor time a late round may use than an early one.
const CPU_RATIO_MAX: f64 = 1.1;
/// How much the daemon's memory may grow between the first hundred rounds and the last.
const RESIDENT_GROWTH_KIB_MAX: u64 = 16 << 10;
/// The limit of the disk space after `gc`: a fixed part, and for each round its journal, its rows and the items that it sent.
const STATE_FIXED_KIB: u64 = 32 << 10;
const STATE_KIB_PER_ROUND: u64 = 48;
/// A hundred rounds that take longer than this are broken.
const HUNDRED_MAX: Duration = Duration::from_secs(1_800);

fn loop_file(name: &str) -> String {
    super::LOOP.replace("name: mend", &format!("name: {name}")).replace("level: L3", "level: L3\non: { every: 1s }")
}

/// A moment of the daemon.
struct Sample {
    cpu_ms: u64,
    resident_kib: u64,
}

pub(super) fn run(rounds: usize, program: &SoakProgram) -> Result<(), String> {
    if rounds < WARM + 2 * COMPARED {
        return Err(format!("`--rounds` needs at least {} rounds", WARM + 2 * COMPARED));
    }
    let world = world(program)?;
    println!("soak: {rounds} rounds of {LOOPS} loops at L3, by a daemon without kills");
    let begun = Instant::now();
    let mut daemon = super::daemon::ready(&world)?;
    let measured = sample(&world, daemon.id(), rounds);
    let signal = rustix::process::Signal::TERM;
    rustix::process::kill_process(rustix::process::Pid::from_child(&daemon), signal)
        .map_err(|error| error.to_string())?;
    let _ = daemon.wait();
    let samples = measured?;
    let took = begun.elapsed();
    let before = size(&world.state());
    world.json(&["gc", "--days", "0", "--json"])?;
    world.json(&["verify", "--json"])?;
    let after = size(&world.state());
    println!("soak: state of {before} KiB before `gc --days 0`, {after} KiB after it; {:.0} s", took.as_secs_f64());
    println!("soak: outcomes {:?}", outcomes(&world)?);
    judge(&samples, rounds, after)
}

/// The daemon after the first rounds, after a hundred more, before the last hundred and after them.
fn sample(world: &SoakRepo, pid: u32, rounds: usize) -> Result<[Sample; 4], String> {
    let at = |mark: usize| {
        wait_for_rounds(world, mark)?;
        Sample::read(pid)
    };
    Ok([at(WARM)?, at(WARM + COMPARED)?, at(rounds - COMPARED)?, at(rounds)?])
}

/// Compares the measurements with the limits; all that exceed one are named.
fn judge(samples: &[Sample; 4], rounds: usize, state_kib: u64) -> Result<(), String> {
    let cost = |from: usize| (samples[from + 1].cpu_ms - samples[from].cpu_ms) as f64 / COMPARED as f64;
    let ratio = cost(2) / cost(0);
    let (early_kib, late_kib) = (samples[1].resident_kib, samples[3].resident_kib);
    println!(
        "soak: {:.1} ms of CPU for each early round, {:.1} ms for each late one: {ratio:.2} times",
        cost(0),
        cost(2)
    );
    println!("soak: resident {early_kib} KiB after {} rounds, {late_kib} KiB at the end", WARM + COMPARED);
    let state_max_kib = STATE_FIXED_KIB + STATE_KIB_PER_ROUND * rounds as u64;
    let limits = [
        (
            ratio > CPU_RATIO_MAX,
            format!("a late round uses {ratio:.2} times the CPU of an early one, above {CPU_RATIO_MAX}"),
        ),
        (
            late_kib > early_kib + RESIDENT_GROWTH_KIB_MAX,
            format!("the daemon grew from {early_kib} to {late_kib} KiB, by more than {RESIDENT_GROWTH_KIB_MAX}"),
        ),
        (state_kib > state_max_kib, format!("{state_kib} KiB of state after `gc`, above {state_max_kib}")),
    ];
    let exceeded: Vec<String> = limits.into_iter().filter_map(|(is_over, text)| is_over.then_some(text)).collect();
    if exceeded.is_empty() { Ok(()) } else { Err(exceeded.join("; ")) }
}

/// The rounds on record by outcome; every one has shipped or was interrupted by the end of the daemon.
fn outcomes(world: &SoakRepo) -> Result<BTreeMap<String, usize>, String> {
    let mut tally = BTreeMap::new();
    for round in world.rounds(names())? {
        let outcome = round["outcome"].as_str().ok_or_else(|| format!("a round has not ended: {round}"))?;
        *tally.entry(outcome.to_owned()).or_insert(0) += 1;
    }
    match tally.keys().find(|outcome| !matches!(outcome.as_str(), "shipped" | "interrupted")) {
        Some(odd) => Err(format!("a round ended {odd}: {tally:?}")),
        None => Ok(tally),
    }
}

fn names() -> impl Iterator<Item = String> {
    (0..LOOPS).map(|number| format!("mend-{number}"))
}

fn world(program: &SoakProgram) -> Result<SoakRepo, String> {
    let mut files = vec![
        ("sum.sh".to_owned(), "#!/bin/sh\necho $(($1 - $2))\n".to_owned()),
        ("tests/run.sh".to_owned(), "test \"$(sh sum.sh 2 3)\" = 5 && echo 'ok 1 - adds'\n".to_owned()),
        (".loopwright/mend.script".to_owned(), super::SCRIPT.to_owned()),
    ];
    files.extend(names().map(|name| (format!(".loopwright/loops/{name}.md"), loop_file(&name))));
    SoakRepo::with(program, &files)
}

/// Every round that has ended has a report.
fn wait_for_rounds(world: &SoakRepo, wanted: usize) -> Result<(), String> {
    let folder = world.state().join("reports");
    let mut deadline = Instant::now() + HUNDRED_MAX;
    let (mut seen, mut merged) = (0, BTreeSet::new());
    loop {
        merge_old_pulls(&world.state().join("forge"), &mut merged).map_err(|error| error.to_string())?;
        let count = std::fs::read_dir(&folder).map_or(0, Iterator::count);
        if count >= wanted {
            return Ok(());
        }
        if count >= seen + COMPARED {
            (seen, deadline) = (count, Instant::now() + HUNDRED_MAX);
            println!("soak: {count} rounds");
        }
        if Instant::now() > deadline {
            return Err(format!("{count} rounds, and no hundred more within {} s", HUNDRED_MAX.as_secs()));
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// Marks all but the newest pull requests as merged, as a person does it in the page.
fn merge_old_pulls(forge: &Path, merged: &mut BTreeSet<u64>) -> std::io::Result<()> {
    for repo in std::fs::read_dir(forge).into_iter().flatten().flatten() {
        let folder = repo.path().join("pulls");
        let mut pages: Vec<(u64, PathBuf)> = std::fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|page| {
                let path = page.path();
                Some((path.file_name()?.to_str()?.strip_suffix(".md")?.parse().ok()?, path))
            })
            .collect();
        pages.sort_unstable();
        pages.truncate(pages.len().saturating_sub(OPEN_KEPT));
        pages.retain(|(number, _)| merged.insert(*number));
        for (number, page) in pages {
            let text = std::fs::read_to_string(&page)?.replacen("state: open", "state: merged", 1);
            let new = folder.join(format!(".{number}.new"));
            std::fs::write(&new, text)?;
            std::fs::rename(new, page)?;
        }
    }
    Ok(())
}

impl Sample {
    fn read(pid: u32) -> Result<Self, String> {
        let read =
            |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).map_err(|error| error.to_string());
        let stat = read("stat")?;
        // The name in parentheses may contain spaces. Then: user, system, and both of the children that have ended.
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks: u64 = fields.get(11..15).into_iter().flatten().filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        let status = read("status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident_kib = resident.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
        Ok(Self { cpu_ms: ticks * 10, resident_kib })
    }
}

/// The size of a folder in KiB, in whole blocks of the disk.
fn size(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let mut blocks = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(about) = entry.path().symlink_metadata() else { continue };
            blocks += about.blocks();
            if about.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    blocks / 2
}
