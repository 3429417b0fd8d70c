//! A daemon under measurement: started as a service manager would start it, and observed only through `/proc`.

use super::super::rounds::BenchRepo;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// A limit that no step here reaches.
const DAEMON_TIMEOUT: Duration = Duration::from_secs(120);
/// The daemon is idle when its threads have used no processor time for this long.
const REST_WINDOW: Duration = Duration::from_millis(300);

/// The process.
pub(super) struct BenchDaemon {
    child: Child,
    begun: Instant,
    /// From its start until it reported `READY=1`.
    pub(super) ready: f64,
    threads: BTreeMap<u32, ThreadUsage>,
}

/// The resources that threads have used since they started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ThreadUsage {
    pub(super) cpu_ns: u64,
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
}

/// Resident memory, in KiB.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MemoryUsage {
    pub(super) now: u64,
    pub(super) peak: u64,
    /// The part of it that is not mapped from the program's file.
    pub(super) own: u64,
}

impl BenchDaemon {
    /// Starts `loopwright up` and waits until it reports that it is ready, on the socket that service managers listen
    /// on.
    pub(super) fn start(world: &BenchRepo, ear: &Path) -> Result<Self, String> {
        let wrong = |error: std::io::Error| format!("start a daemon: {error}");
        // A socket of the last start may still exist.
        let _ = fs::remove_file(ear);
        let heard = UnixDatagram::bind(ear).map_err(wrong)?;
        heard.set_read_timeout(Some(DAEMON_TIMEOUT)).map_err(wrong)?;
        let log = File::create(world.state.with_file_name("log")).map_err(wrong)?;
        let mut command = world.command(&["up"]);
        command.env("NOTIFY_SOCKET", ear).env("TZ", "UTC");
        command.stdout(log.try_clone().map_err(wrong)?).stderr(log);
        let begun = Instant::now();
        let child = command.spawn().map_err(wrong)?;
        let mut words = [0; 256];
        let length = heard.recv(&mut words).map_err(|error| format!("the daemon is not ready: {error}"))?;
        let ready = begun.elapsed().as_secs_f64();
        match words[..length].starts_with(b"READY=1") {
            true => Ok(Self { child, begun, ready, threads: BTreeMap::new() }),
            false => Err("the daemon said something else than READY=1".to_owned()),
        }
    }

    fn about(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap_or_default()
    }

    /// The resources used so far. A thread that has ended counts with its last observed values.
    pub(super) fn usage(&mut self) -> ThreadUsage {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        for task in tasks.into_iter().flatten().flatten() {
            let Some(id) = task.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            let (times, status) = (read("schedstat"), read("status"));
            let switches = |word: &str| field(&status, word);
            let used = ThreadUsage {
                cpu_ns: times.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0),
                voluntary: switches("voluntary_ctxt_switches:"),
                involuntary: switches("nonvoluntary_ctxt_switches:"),
            };
            self.threads.insert(id, used);
        }
        self.threads.values().fold(ThreadUsage::default(), |all, one| ThreadUsage {
            cpu_ns: all.cpu_ns + one.cpu_ns,
            voluntary: all.voluntary + one.voluntary,
            involuntary: all.involuntary + one.involuntary,
        })
    }

    /// The resources used while `work` runs.
    pub(super) fn usage_during(&mut self, work: impl FnOnce() -> Result<(), String>) -> Result<ThreadUsage, String> {
        let before = self.usage();
        work()?;
        let after = self.usage();
        Ok(ThreadUsage {
            cpu_ns: after.cpu_ns - before.cpu_ns,
            voluntary: after.voluntary - before.voluntary,
            involuntary: after.involuntary - before.involuntary,
        })
    }

    /// From its start until it is idle: by then, every decision of the start is durable.
    pub(super) fn seconds_to_rest(&mut self) -> f64 {
        let (mut last, mut changed) = (self.usage(), self.begun.elapsed());
        while self.begun.elapsed() < changed + REST_WINDOW {
            std::thread::sleep(Duration::from_millis(2));
            let now = self.usage();
            if now.cpu_ns != last.cpu_ns {
                (last, changed) = (now, self.begun.elapsed());
            }
        }
        changed.as_secs_f64()
    }

    pub(super) fn memory(&self) -> MemoryUsage {
        let status = self.about("status");
        let kib = |word: &str| field(&status, word);
        MemoryUsage { now: kib("VmRSS:"), peak: kib("VmHWM:"), own: kib("RssAnon:") }
    }

    /// How many threads it has now.
    pub(super) fn threads(&self) -> u64 {
        field(&self.about("status"), "Threads:")
    }

    /// Stops the process and waits for its end.
    pub(super) fn stop(mut self) -> Result<(), String> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)
            .map_err(|error| format!("stop the daemon: {error}"))?;
        let status = self.child.wait().map_err(|error| format!("wait for the daemon: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("the daemon ended with {status}")) }
    }
}

impl Drop for BenchDaemon {
    fn drop(&mut self) {
        // After an error of the measurement the process must not stay alive; killing an ended process does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The number after a word at the start of a line.
fn field(text: &str, word: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(word));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
