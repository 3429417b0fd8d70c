//! The engine's own part of a goal loop: one more attempt with a seal, and a detached run whose agent does nothing.

use super::rounds::{BenchRepo, run_quiet, write};
use super::sample::TimeSamples;
use super::table::BenchSection;
use super::worker::{BenchWorker, seconds};
use super::{BenchSetup, BenchWindow, ROUNDS, StorageMedium};
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

/// Files of the repository.
const FILES: usize = 1_000;
/// The attempts of the longer round; the other one has one attempt.
const ATTEMPTS: usize = 10;
/// How long the agent of a detached run may take to begin.
const BEGINS: Duration = Duration::from_secs(60);
/// How long a detached run is left alone before it counts as idle.
const SETTLES: Duration = Duration::from_secs(3);
/// The kernel's clock of process times.
const TICKS_PER_SECOND: f64 = 100.0;

/// The time of one attempt: a round of ten attempts against one of a single attempt.
pub(super) fn attempts(bed: &BenchSetup, medium: StorageMedium) -> Result<BenchSection, String> {
    let world = BenchRepo::new(bed, "cycle", FILES, medium)?;
    let worker = |attempts: usize| {
        let name = format!("cycle-{attempts}");
        let file = world.repo.with_file_name(format!("{name}.md"));
        write(
            &file,
            &format!(
                "---\nname: {name}\nintent: Change one line.\nlevel: L2\nattempts: {attempts}\nagents:\n  maker: {{ use: command, \
                 run: [/bin/sh, -c, \"echo more >> d000/f00000.txt\"] }}\ngates:\n  - {{ name: no, run: [/bin/sh, -c, \
                 \"cat d000/f00000.txt; exit 1\"] }}\noutput: [pull-request]\nbudget:\n  round: {{ usd: none, tokens: none }}\n  \
                 day: {{ usd: 1000000 }}\n---\n# Maker\nChange one line.\n"
            ),
        )?;
        BenchWorker::start_rounds(&bed.worker, &world.state.with_file_name(name), &world.repo, &file)
    };
    let (mut one, mut many) = (worker(1)?, worker(ATTEMPTS)?);
    let [mut whole, mut own, mut git, mut programs] = [const { TimeSamples::new() }; 4];
    rejected(&one.request("round")?)?;
    rejected(&many.request("round")?)?;
    for _ in 0..ROUNDS {
        let (short, long) = (one.request("round")?, many.request("round")?);
        rejected(&long)?;
        let each = |take: &dyn Fn(&Value) -> f64| (take(&long) - take(&short)) / (ATTEMPTS - 1) as f64;
        let part = |kind: &'static str| move |round: &Value| seconds(&round["parts"][kind]);
        whole.push(each(&seconds));
        git.push(each(&part("git")));
        programs.push(each(&part("process")));
        own.push(each(&|round| seconds(round) - seconds(&round["parts"]["git"]) - seconds(&round["parts"]["process"])));
    }
    let about = "a round of ten attempts minus a round of one, divided by nine; each attempt changes a line of a repository \
                 with 1,000 files, is sealed, and is rejected by a gate on a fresh checkout";
    Ok(BenchSection::new(format!("one more attempt with a seal {}", medium.place()), about)
        .line("own time of the engine", own, None)
        .line("of git: seal and checkout for the gate", git, None)
        .line("of the maker and the gate", programs, None)
        .line("all of it", whole, None))
}

fn rejected(round: &Value) -> Result<(), String> {
    match round["outcome"].as_str() {
        Some("rejected") => Ok(()),
        _ => Err(format!("the round was not rejected at its last attempt: {round}")),
    }
}

/// A detached run whose agent sleeps: its memory and its processor time.
pub(super) fn idle(bed: &BenchSetup) -> Result<BenchSection, String> {
    let world = BenchRepo::new(bed, "idle", FILES, StorageMedium::Disk)?;
    let file = world.repo.join(".loopwright/loops/idle.md");
    let text = "---\nname: idle\nintent: Wait.\nlevel: L1\ncheck: none\nagents:\n  maker: { use: command, run: [/bin/sleep, \"600\"] }\n\
                budget:\n  round: { wall: 20m, idle: 15m }\n  day: { usd: 1000000 }\n---\n# Maker\nWait.\n";
    write(&file, text)?;
    let started = world.command(&["run", "idle", "--detach", "--json"]).output().map_err(|error| error.to_string())?;
    let document: Value = serde_json::from_slice(&started.stdout).map_err(|error| error.to_string())?;
    let (Some(round), Some(pid)) = (document["round"].as_str(), document["detached"]["pid"].as_u64()) else {
        return Err(format!("the run did not start: {document}{}", String::from_utf8_lossy(&started.stderr)));
    };
    let begun = Instant::now();
    let works = || {
        let shown = world.command(&["logs", round]).output().map_err(|error| error.to_string())?;
        Ok::<_, String>(String::from_utf8_lossy(&shown.stdout).contains("role-started"))
    };
    while !works()? {
        if begun.elapsed() > BEGINS {
            return Err("the agent of the detached run did not start".to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(SETTLES);
    let window = Duration::from_secs(if bed.window == BenchWindow::Quick { 10 } else { 60 });
    let (before, memory) = (ticks(pid), status(pid, "VmRSS:"));
    std::thread::sleep(window);
    let used = (ticks(pid) - before) / TICKS_PER_SECOND;
    let peak = status(pid, "VmHWM:");
    run_quiet(&mut world.command(&["stop", round]))?;
    let about =
        "`run --detach` in a repository with 1,000 files, while its agent sleeps; the process of Loopwright alone";
    Ok(BenchSection::new("an idle detached run", about)
        .note("resident memory now, peak", format!("{:.1} MB, {:.1} MB", memory / 1024.0, peak / 1024.0))
        .note("processor time", format!("{:.0} ms in {} s", used * 1e3, window.as_secs())))
}

/// Processor time in ticks, of all threads.
fn ticks(pid: u64) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    // After the name: state is the first, user time the 12th and system time the 13th.
    [11, 12].into_iter().filter_map(|at| fields.get(at)?.parse::<f64>().ok()).sum()
}

/// A value of the process in KiB.
fn status(pid: u64, key: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(f64::NAN)
}
