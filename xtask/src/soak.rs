//! `cargo xtask soak [--kills N] [--killed-rounds N] [--rounds N] [--store ADDRESS] [--profile NAME] [--seed S]`: kills the
//! real program at random moments and checks the promises: every round ends, nothing ships twice, no process is left, the
//! chain is complete. First it kills `run` the given number of times, then the daemon through the given number of rounds of
//! many loops. At last a daemon without kills runs many rounds, and the last ones may not cost more than the first ones.
//! `--store` is an empty PostgreSQL database. `soak deliveries` sends items to a forge whose calls fail at random.

mod daemon;
mod deliveries;
mod growth;

pub(crate) use deliveries::DeliverySoak;

use crate::command;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The longest wait before a kill; a whole round takes less on a quiet machine, so some rounds finish.
const DELAY_MAX_MS: u64 = 900;

/// Each kill while an agent works charges its reservation, the round's ceiling divided by attempts and roles. With four
/// attempts a round has room for seven kills, as many as a slow machine needs.
const LOOP: &str = "---
name: mend
intent: Mend the sum.
level: L3
allow: [pull-request]
open_max: 1000
attempts: 4
gates:
  - { name: tests, run: [sh, tests/run.sh], red_before: true }
output:
  - pull-request: { draft: false }
agents:
  maker: { use: scripted, script: mend.script }
budget:
  day: { usd: 100000 }
---
# Maker
Mend the sum.
";

/// Each round proposes another change: a loop whose pull request is open does not propose the same change again.
const SCRIPT: &str = "@ maker
run sh -c \"echo $LOOPWRIGHT_ROUND > note\"
replace sum.sh \"$1 - $2\" \"$1 + $2\"
usage input=100 output=20

@ checker
verdict pass correctness=5@sum.sh:2 scope=5@gate:tests tests=4@gate:tests
";

/// The parsed command line.
pub(crate) struct SoakOptions {
    kills: u32,
    /// Rounds of a daemon that is killed.
    killed_rounds: usize,
    /// Rounds without kills, to see what grows.
    rounds: usize,
    seed: u64,
    store: Option<String>,
    profile: String,
}

/// The program under test, and the database that it uses.
struct SoakProgram {
    binary: PathBuf,
    store: Option<String>,
}

const USAGE: &str = "soak takes --kills N, --killed-rounds N, --rounds N, --store ADDRESS, --profile NAME and --seed S";

impl SoakOptions {
    /// Parses the words after `soak`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let (store, profile) = (None, "dev".to_owned());
        let mut soak =
            Self { kills: 200, killed_rounds: 1_000, rounds: 0, seed: std::process::id().into(), store, profile };
        for pair in words.chunks(2) {
            let &[word, value] = pair else { return Err(format!("{USAGE}, and `{}` has no value", pair[0])) };
            let number = || value.parse::<u64>().map_err(|_| format!("{word}: `{value}` is not a number"));
            let rounds = || Ok::<_, String>(usize::try_from(number()?).unwrap_or(usize::MAX));
            match word {
                "--kills" => soak.kills = u32::try_from(number()?).map_err(|_| "too many kills")?,
                "--killed-rounds" => soak.killed_rounds = rounds()?,
                "--rounds" => soak.rounds = rounds()?,
                "--seed" => soak.seed = number()?,
                "--store" => soak.store = Some(value.to_owned()),
                "--profile" => soak.profile = value.to_owned(),
                _ => return Err(format!("{USAGE}, not `{word}`")),
            }
        }
        Ok(soak)
    }

    pub(crate) fn run(&self) -> Result<(), String> {
        let binary = command::build_hostile_program(&self.profile)?;
        let program = SoakProgram { binary, store: self.store.clone() };
        if self.kills > 0 {
            self.kill_runs(&program)?;
        }
        if self.killed_rounds > 0 {
            daemon::run(self.killed_rounds, self.seed, &program)?;
        }
        if self.rounds > 0 {
            growth::run(self.rounds, &program)?;
        }
        Ok(())
    }

    fn kill_runs(&self, program: &SoakProgram) -> Result<(), String> {
        let world = SoakRepo::new(program)?;
        println!("soak: {} kills, seed {}", self.kills, self.seed);
        let begun = Instant::now();
        let (runs, whole) = self.strike(&world)?;
        // Two runs without kills: the first recovers what the last kill left.
        for _ in 0..2 {
            let ended = world.loopwright(&["run", "mend"]).output().map_err(|error| error.to_string())?;
            if ended.status.code() != Some(0) {
                return Err(format!("the last run: {}", String::from_utf8_lossy(&ended.stderr)));
            }
        }
        let tally = world.examine()?;
        println!(
            "soak: {runs} runs, {} killed, {whole} got through; {} rounds: {tally:?}; {:.0} s",
            self.kills,
            tally.values().sum::<usize>(),
            begun.elapsed().as_secs_f64()
        );
        Ok(())
    }

    fn strike(&self, world: &SoakRepo) -> Result<(u32, u32), String> {
        let mut random = self.seed | 1;
        let (mut kills, mut runs, mut whole) = (0, 0, 0);
        while kills < self.kills {
            let child =
                world.loopwright(&["run", "mend"]).spawn().map_err(|error| format!("start loopwright: {error}"))?;
            runs += 1;
            if killed(child, Duration::from_millis(next(&mut random) % DELAY_MAX_MS)) {
                kills += 1;
            } else {
                whole += 1;
            }
        }
        Ok((runs, whole))
    }
}

/// Xorshift: enough to spread moments, and repeatable from its seed.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Kills the child if it still runs after the delay; returns whether it did.
fn killed(mut child: Child, delay: Duration) -> bool {
    let pid = rustix::process::Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let _ = child.wait();
        let _ = sender.send(());
    });
    let late = ended.recv_timeout(delay).is_err();
    if late {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let _ = waiter.join();
    late
}

/// A repository with a bug and a loop that fixes it again and again.
struct SoakRepo {
    root: tempfile::TempDir,
    binary: PathBuf,
    store: Option<String>,
}

/// The most rounds that the program lists at once.
const LISTED_MAX: usize = 10_000;

impl SoakRepo {
    fn new(program: &SoakProgram) -> Result<Self, String> {
        let files = [
            ("sum.sh", "#!/bin/sh\necho $(($1 - $2))\n"),
            ("tests/run.sh", "test \"$(sh sum.sh 2 3)\" = 5 && echo 'ok 1 - adds'\n"),
            (".loopwright/loops/mend.md", LOOP),
            (".loopwright/mend.script", SCRIPT),
        ];
        Self::with(program, &files.map(|(name, text)| (name.to_owned(), text.to_owned())))
    }

    /// A repository with these files in its first commit.
    fn with(program: &SoakProgram, files: &[(String, String)]) -> Result<Self, String> {
        let root = tempfile::tempdir().map_err(|error| error.to_string())?;
        let world = Self { root, binary: program.binary.clone(), store: program.store.clone() };
        let repo = world.repo();
        for (name, text) in files {
            let path = repo.join(name);
            let folder = path.parent().unwrap_or(&repo);
            std::fs::create_dir_all(folder)
                .and_then(|()| std::fs::write(&path, text))
                .map_err(|error| error.to_string())?;
        }
        for words in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
            let mut git = command::program("git");
            git.current_dir(&repo).args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(words);
            command::run(git)?;
        }
        Ok(world)
    }

    fn repo(&self) -> PathBuf {
        self.root.path().join("repo")
    }

    fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    fn loopwright(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(words).current_dir(self.repo()).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.root.path());
        command.env("LOOPWRIGHT_STATE_DIR", self.state());
        command.envs(self.store.iter().map(|store| ("LOOPWRIGHT_STORE", store)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn json(&self, words: &[&str]) -> Result<Value, String> {
        let output = self.loopwright(words).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("loopwright {words:?}: {}", String::from_utf8_lossy(&output.stderr)));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| format!("loopwright {words:?}: {error}"))
    }

    /// All rounds of these loops.
    fn rounds(&self, loops: impl IntoIterator<Item = String>) -> Result<Vec<Value>, String> {
        let mut all = Vec::new();
        for name in loops {
            let document = self.json(&["rounds", &name, "--limit", &LISTED_MAX.to_string(), "--json"])?;
            let rounds = document["rounds"].as_array().ok_or("`rounds` has no list")?;
            if rounds.len() >= LISTED_MAX {
                return Err(format!("{name} has more rounds than `rounds` lists: use more loops"));
            }
            all.extend_from_slice(rounds);
        }
        Ok(all)
    }

    /// Checks every promise that is visible from outside; returns the rounds by outcome.
    fn examine(&self) -> Result<BTreeMap<String, usize>, String> {
        self.json(&["verify", "--json"])?;
        let rounds = self.rounds(["mend".to_owned()])?;
        let mut tally = BTreeMap::new();
        for round in &rounds {
            let outcome = round["outcome"].as_str().ok_or_else(|| format!("a round has not ended: {round}"))?;
            *tally.entry(outcome.to_owned()).or_insert(0) += 1;
        }
        if let Some(odd) = tally.keys().find(|outcome| !matches!(outcome.as_str(), "shipped" | "interrupted")) {
            return Err(format!("a round ended {odd}, which a kill must not cause: {tally:?}"));
        }
        let shipped = tally.get("shipped").copied().unwrap_or(0);
        let pulls = pulls(&self.state().join("forge"))?;
        if pulls != shipped {
            return Err(format!("{pulls} pull requests are visible, {shipped} rounds shipped"));
        }
        let left = survivors(&rounds);
        if !left.is_empty() {
            return Err(format!("processes are left: {left:?}"));
        }
        Ok(tally)
    }
}

fn pulls(forge: &Path) -> Result<usize, String> {
    let mut count = 0;
    for repo in std::fs::read_dir(forge).map_err(|error| error.to_string())? {
        let folder = repo.map_err(|error| error.to_string())?.path().join("pulls");
        for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
            let name = entry.map_err(|error| error.to_string())?.file_name();
            count += usize::from(name.to_string_lossy().ends_with(".md"));
        }
    }
    Ok(count)
}

/// Processes that carry a cookie of these rounds; other engines on this machine have other rounds.
fn survivors(rounds: &[Value]) -> Vec<String> {
    let ids: Vec<_> = rounds.iter().filter_map(|round| round["round"].as_str()).collect();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let is_ours = |pair: &[u8]| {
        let cookie = pair.strip_prefix(b"LOOPWRIGHT_COOKIE=lw-").unwrap_or_default();
        ids.iter().any(|id| cookie.starts_with(id.as_bytes()))
    };
    let marked = entries.filter_map(Result::ok).filter(|entry| {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(is_ours)
    });
    marked.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
