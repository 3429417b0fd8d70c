//! `loopwright up` with ten thousand loops and a million events: the time until it is ready, its idle cost, the delay
//! of due starts, and the cost of a wake-up without work. For comparison: the shell script that a crontab would run.

mod fixture;
mod process;

use super::rounds::{BenchRepo, run_quiet};
use super::sample::TimeSamples;
use super::table::{BenchSection, format_seconds};
use super::worker::run_worker;
use super::workspaces::child_ticks;
use super::{BenchSetup, BenchWindow, ROUNDS, StorageMedium};
use fixture::{DaemonFixture, EVENTS, LOOPS};
use process::{BenchDaemon, ThreadUsage};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// First registrations; each begins with a copy of the store.
const FIRSTS: usize = 3;
/// An idle blocking thread ends after ten seconds, which is a wake-up of its own.
const SETTLE: Duration = Duration::from_secs(13);

pub(super) fn measure(bed: &BenchSetup) -> Result<Vec<BenchSection>, String> {
    let ear = bed.memory.path().join("ear");
    let disk = DaemonFixture::new(bed, StorageMedium::Disk, None)?;
    let memory = DaemonFixture::new(bed, StorageMedium::Memory, Some(&disk))?;
    let mut sections = Vec::new();
    for (field, medium) in [(&disk, StorageMedium::Disk), (&memory, StorageMedium::Memory)] {
        sections.push(ready(bed, field, medium, &ear)?);
    }
    sections.push(waiting(bed, &disk, &ear)?);
    sections.push(starting(bed, &disk, &ear)?);
    sections.push(no_work(bed, &disk, &ear)?);
    sections.push(cadences(bed)?);
    Ok(sections)
}

impl BenchWindow {
    /// The length of an observation, given the length that a reliable result needs.
    fn scale(self, seconds: u64) -> Duration {
        Duration::from_secs(match self {
            Self::Whole => seconds,
            Self::Quick => seconds / 5,
        })
    }
}

/// From the start of the process to `READY=1`.
fn ready(bed: &BenchSetup, field: &DaemonFixture, medium: StorageMedium, ear: &Path) -> Result<BenchSection, String> {
    let empty = BenchRepo::new(bed, "daemon-empty", 1, medium)?;
    let [mut floor, mut first, mut rest, mut again] = [const { TimeSamples::new() }; 4];
    let mut peak = 0;
    for _ in 0..FIRSTS {
        field.reset_store()?;
        let mut daemon = BenchDaemon::start(&field.world, ear)?;
        first.push(daemon.ready);
        rest.push(daemon.seconds_to_rest());
        peak = daemon.memory().peak;
        daemon.stop()?;
    }
    for _ in 0..ROUNDS {
        let daemon = BenchDaemon::start(&empty, ear)?;
        floor.push(daemon.ready);
        daemon.stop()?;
        let daemon = BenchDaemon::start(&field.world, ear)?;
        again.push(daemon.ready);
        daemon.stop()?;
    }
    let about = format!(
        "loopwright up with {LOOPS} loop files and a store of {EVENTS} events, from the start of the process until its READY=1 at \
         NOTIFY_SOCKET. First: nothing of the repository is known yet, and every file is read; at rest: its rows are durable \
         and no thread works. Again: the files are unchanged"
    );
    let none = "up, three loops, empty store";
    Ok(BenchSection::new(format!("daemon ready {}", medium.place()), about)
        .line(none, floor, None)
        .line("up, first registration", first, Some(none))
        .line("up, first registration, at rest", rest, Some(none))
        .line("up, again", again, Some(none))
        .note("peak of resident memory at the first", format!("{:.1} MB", peak as f64 / 1024.0)))
}

/// An idle daemon, and a pass of the shell script over the same loops.
fn waiting(bed: &BenchSetup, field: &DaemonFixture, ear: &Path) -> Result<BenchSection, String> {
    let mut daemon = BenchDaemon::start(&field.world, ear)?;
    std::thread::sleep(SETTLE);
    let window = bed.window.scale(60);
    let used = daemon.usage_during(|| {
        std::thread::sleep(window);
        Ok(())
    })?;
    let (memory, threads) = (daemon.memory(), daemon.threads());
    daemon.stop()?;
    let minute = |count: u64| format!("{:.1}", count as f64 * 60.0 / window.as_secs_f64());
    let mb = |kib: u64| format!("{:.1} MB", kib as f64 / 1024.0);
    let (shell, shell_cpu, share) = shell_tick(bed, field)?;
    let (own, own_cpu) = own_tick(&field.world)?;
    let about = format!(
        "{LOOPS} loops, none due; observed for {} s{}. Context switches and CPU are of all threads of the process. The shell \
         script goes over {} of the loops, as a crontab would do every minute; loopwright tick is one pass without a daemon",
        window.as_secs(),
        if bed.window == BenchWindow::Quick { ", scaled to a minute (--quick)" } else { "" },
        LOOPS / share
    );
    Ok(BenchSection::new("idle daemon, on the disk", about)
        .line("a pass of the shell", shell, None)
        .line("loopwright tick, nothing due", own, Some("a pass of the shell"))
        .note(
            "CPU of a pass of the shell / of loopwright tick",
            format!("{} / {}", format_seconds(shell_cpu), format_seconds(own_cpu)),
        )
        .note("CPU of the daemon in a minute", format_seconds(used.cpu_ns as f64 * 60.0 / window.as_secs_f64() / 1e9))
        .note(
            "context switches in a minute, voluntary / involuntary",
            format!("{} / {}", minute(used.voluntary), minute(used.involuntary)),
        )
        .note(
            "resident memory / own / peak since its start",
            format!("{} / {} / {}", mb(memory.now), mb(memory.own), mb(memory.peak)),
        )
        .note("threads", threads.to_string()))
}

/// Wall time and CPU of one pass of the shell script over all loops; a quick run passes over a tenth of them and scales
/// the result.
fn shell_tick(bed: &BenchSetup, field: &DaemonFixture) -> Result<(TimeSamples, f64, usize), String> {
    let share = if bed.window == BenchWindow::Quick { 10 } else { 1 };
    let mut command = field.tick(LOOPS / share)?;
    let (mut once, mut scaled, before) = (TimeSamples::new(), TimeSamples::new(), child_ticks());
    once.time(|| run_quiet(&mut command))?;
    scaled.push(once.median() * share as f64);
    Ok((scaled, (child_ticks() - before) as f64 * 0.01 * share as f64, share))
}

fn own_tick(world: &BenchRepo) -> Result<(TimeSamples, f64), String> {
    let (mut times, before) = (TimeSamples::new(), child_ticks());
    for _ in 0..ROUNDS {
        times.time(|| run_quiet(&mut world.command(&["tick"])))?;
    }
    Ok((times, (child_ticks() - before) as f64 * 0.01 / ROUNDS as f64))
}

/// The start delay of one loop that is due every second, beside the others.
fn starting(bed: &BenchSetup, field: &DaemonFixture, ear: &Path) -> Result<BenchSection, String> {
    let mark = field.world.state.with_file_name("starts");
    // A loop that never reports anything is paused after a while, and unknown usage is charged as reserved.
    let script = format!("date +%s%N >> {}; echo well > $LOOPWRIGHT_OUTBOX/report.md", mark.display());
    let agent = format!("agents:\n  maker: {{ use: command, run: [/bin/sh, -c, \"{script}\"] }}\n");
    let room = "budget: { round: { usd: 0.01 }, day: { usd: 1000 } }\n";
    field.add("beat", &format!("on: {{ every: 1s }}\nsandbox: off\n{room}{agent}"))?;
    let daemon = BenchDaemon::start(&field.world, ear)?;
    std::thread::sleep(bed.window.scale(100));
    daemon.stop()?;
    field.remove("beat")?;
    let moments = moments(bed, &field.world, "beat")?;
    // The first rounds create what later ones reuse: the layers of the base and the cached facts of the repository.
    let settled = moments.iter().rev().skip(3);
    let mut recorded = TimeSamples::new();
    let number = |value: &Value, name: &str| value[name].as_i64();
    for moment in settled {
        if let (Some(due), Some(started)) = (number(moment, "due_ms"), number(moment, "started_ms")) {
            recorded.push((started - due) as f64 / 1e3);
        }
    }
    let text = std::fs::read_to_string(&mark).unwrap_or_default();
    let mut maker = TimeSamples::new();
    for line in text.lines().skip(3).filter_map(|line| line.trim().parse::<u64>().ok()) {
        // The loop is due at whole seconds.
        maker.push((line % 1_000_000_000) as f64 / 1e9);
    }
    let about = "one loop due every second, the others not due; its round runs a process that writes a line and a report. \
                 Due is the \
                 due moment on record; start is the start of the round on record; the maker's own start is by its own clock, \
                 after the round's start was durable and its workspace was created. Whole milliseconds are recorded";
    let percentiles = |samples: &TimeSamples| {
        let of = |percent: usize| format_seconds(samples.percentile(percent));
        format!("{} / {} / {} of {}", of(50), of(99), of(100), samples.count())
    };
    let other = moments.iter().filter(|moment| moment["receipt"] != "started").count();
    Ok(BenchSection::new("due to start, on the disk", about)
        .line("due to recorded start", recorded.clone(), None)
        .line("due to the maker's own start", maker.clone(), None)
        .note("due to recorded start, p50 / p99 / most", percentiles(&recorded))
        .note("due to the maker's own start, p50 / p99 / most", percentiles(&maker))
        .note("due moments that were not started", other.to_string()))
}

/// Loops that are due every second and whose probe reports no work.
fn no_work(bed: &BenchSetup, field: &DaemonFixture, ear: &Path) -> Result<BenchSection, String> {
    let mark = field.world.state.with_file_name("agents");
    let agent = format!("agents:\n  maker: {{ use: command, run: [/bin/sh, -c, \"echo >> {}\"] }}\n", mark.display());
    let text = format!("on: {{ every: 1s, probe: open-issues }}\nsandbox: off\n{agent}");
    let about = "loops due every second whose built-in probe (open-issues, answered without a process) finds nothing; every \
                 due moment gets its receipt, durably. CPU is the daemon's own, of all its threads, without children";
    let mut section = BenchSection::new("wake-ups that find no work, on the disk", about);
    let mut before = 0;
    for loops in [1, 10, 100] {
        let names: Vec<String> = (before..loops).map(|number| format!("idle-{number:03}")).collect();
        names.iter().try_for_each(|name| field.add(name, &text))?;
        before = loops;
        let (used, receipts, wakes) = woken(bed, field, ear)?;
        let each = |count: u64| format_seconds(used.cpu_ns as f64 / 1e9 / count.max(1) as f64);
        section = section.note(
            format!("{loops} due at each moment: CPU of a wake-up / for each loop"),
            format!("{} / {} ({wakes} moments, {receipts} receipts `no-work`)", each(wakes), each(receipts)),
        );
    }
    (0..before).try_for_each(|number| field.remove(&format!("idle-{number:03}")))?;
    let starts = std::fs::read_to_string(&mark).map_or(0, |text| text.lines().count());
    Ok(section.note("agents that were started", starts.to_string()))
}

/// The daemon's use of resources while moments pass, and the number of moments.
fn woken(bed: &BenchSetup, field: &DaemonFixture, ear: &Path) -> Result<(ThreadUsage, u64, u64), String> {
    let mut daemon = BenchDaemon::start(&field.world, ear)?;
    std::thread::sleep(Duration::from_secs(3));
    let (from, window) = (now_ms(), bed.window.scale(60));
    let used = daemon.usage_during(|| {
        std::thread::sleep(window);
        Ok(())
    })?;
    let to = now_ms();
    daemon.stop()?;
    let mut receipts = 0;
    let mut wakes = std::collections::BTreeSet::new();
    for path in idle_loops(field) {
        for moment in moments(bed, &field.world, &path)? {
            let due = moment["due_ms"].as_i64().unwrap_or(0);
            if moment["receipt"] == "no-work" && (from..to).contains(&due) {
                receipts += 1;
                wakes.insert(due);
            }
        }
    }
    Ok((used, receipts, wakes.len() as u64))
}

fn idle_loops(field: &DaemonFixture) -> Vec<String> {
    let is_there = |name: &String| field.world.repo.join(format!(".loopwright/loops/{name}.md")).exists();
    (0..100).map(|number| format!("idle-{number:03}")).filter(is_there).collect()
}

/// The receipts of a loop with their moments, latest first.
fn moments(bed: &BenchSetup, world: &BenchRepo, name: &str) -> Result<Vec<Value>, String> {
    let state: PathBuf = world.state.clone();
    run_worker(&bed.worker, &["moments", &state.to_string_lossy(), name])
}

fn cadences(bed: &BenchSetup) -> Result<BenchSection, String> {
    let about = "20,000 schedules of each kind, all different, in Europe/Berlin: the next moment after one, reading a text into \
                 a schedule, and resident bytes of each. Loops with the same times share one";
    let section = BenchSection::new("cadences", about);
    Ok(run_worker(&bed.worker, &["cadences"])?.iter().fold(section, |section, line| {
        let of = |name: &str| line[name].as_f64().unwrap_or(f64::NAN);
        let text =
            format!("{:.0} ns next, {:.1} µs read, {:.0} bytes", of("next_ns"), of("compile_ns") / 1e3, of("bytes"));
        section.note(line["kind"].as_str().unwrap_or_default(), text)
    }))
}

fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |span| span.as_millis() as i64)
}
