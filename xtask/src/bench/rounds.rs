//! Whole rounds: against the minimum that a durable round must do, and against the same work done manually with git.

use super::facts::{append, spawn_true};
use super::sample::TimeSamples;
use super::table::{BenchSection, format_seconds};
use super::worker::{BenchWorker, seconds};
use super::{BenchSetup, ROUNDS, StorageMedium};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A loop that does nothing, a loop whose change is sealed and rejected because the loop may not send changes, and a
/// loop that ships.
const LOOPS: [(&str, &str); 3] = [
    (
        "light",
        "level: L1\ncheck: none\nattempts: 1\nagents:\n  maker: { use: command, run: [/bin/true] }\nbudget:\n  day: { usd: 1000000 }\n",
    ),
    (
        "edit",
        "level: L2\nattempts: 1\nagents:\n  \
         maker: { use: command, run: [/bin/sh, -c, \"echo more >> d000/f00000.txt\"] }\nbudget:\n  day: { usd: 1000000 }\n",
    ),
    (
        "ship",
        "level: L3\nallow: [pull-request]\nopen_max: 1000\nattempts: 1\nagents:\n  maker: { use: scripted, script: ship.script }\n  \
         checker: { use: scripted, script: ship.script }\ngates:\n  - { name: more, run: [sh, gate.sh] }\n\
         output:\n  - pull-request: { draft: false }\nbudget:\n  day: { usd: 1000000 }\n",
    ),
];

/// Each round proposes another change: a loop whose pull request is open does not propose the same change again.
const SCRIPT: &str = "@ maker
run sh -c \"echo $LOOPWRIGHT_ROUND > note\"
append d000/f00000.txt \"more\"
usage input=100 output=20

@ checker
verdict pass correctness=5@gate:more scope=5@gate:more tests=5@gate:more
";

/// Exit codes of rounds that ended as expected: shipped, nothing to ship, a change where only a report may be sent.
const ENDS: [(&str, &str); 3] = [("light", "empty"), ("edit", "rejected"), ("ship", "shipped")];

/// A repository with loops and its own state folder.
pub(super) struct BenchRepo {
    program: PathBuf,
    pub(super) repo: PathBuf,
    pub(super) state: PathBuf,
}

impl BenchRepo {
    pub(super) fn new(bed: &BenchSetup, name: &str, files: usize, medium: StorageMedium) -> Result<Self, String> {
        let dir = bed.folder(name, medium)?;
        let world = Self { program: bed.program.clone(), repo: dir.join("repo"), state: dir.join("state") };
        for (name, rest) in LOOPS {
            let text = format!("---\nname: {name}\nintent: Change one line.\n{rest}---\n# Maker\nChange one line.\n");
            write(&world.repo.join(format!(".loopwright/loops/{name}.md")), &text)?;
        }
        write(&world.repo.join(".loopwright/ship.script"), SCRIPT)?;
        write(&world.repo.join("gate.sh"), "grep -q more d000/f00000.txt\n")?;
        repository(&world.repo, files)?;
        Ok(world)
    }

    /// The program in this repository, with no other environment.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(&self.repo).env_clear().stdin(Stdio::null());
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", self.state.with_file_name("home"));
        command.env("LOOPWRIGHT_STATE_DIR", &self.state);
        command
    }

    /// Runs one round of a loop and checks its exit code.
    pub(super) fn round(&self, name: &str) -> Result<(), String> {
        let output = self.command(&["run", name, "--json"]).output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let wanted = ENDS.iter().find(|(known, _)| *known == name).map_or("", |(_, end)| end);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        if document["outcome"] == wanted {
            return Ok(());
        }
        Err(format!("round of `{name}` did not end {wanted}: {text}{}", String::from_utf8_lossy(&output.stderr)))
    }

    /// The peak of resident memory during one round: the kernel's own high-water mark, read every millisecond.
    fn peak(&self, name: &str) -> Result<u64, String> {
        let mut child = quieted(&mut self.command(&["run", name])).spawn().map_err(|error| error.to_string())?;
        let mut peak = 0;
        while child.try_wait().map_err(|error| error.to_string())?.is_none() {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            peak = peak.max(kib.unwrap_or(0));
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(peak)
    }
}

/// The engine's own time in a round, without the time of git and the agent.
pub(super) fn overhead(bed: &BenchSetup, medium: StorageMedium) -> Result<BenchSection, String> {
    let world = BenchRepo::new(bed, "overhead", 1, medium)?;
    let file = world.repo.join(".loopwright/loops/light.md");
    let mut worker = BenchWorker::start_rounds(&bed.worker, &world.state, &world.repo, &file)?;
    let mut log = File::create(world.repo.with_file_name("log")).map_err(|error| error.to_string())?;
    worker.request("round")?;
    let [mut floor, mut start, mut door, mut whole, mut own, mut store] = [const { TimeSamples::new() }; 6];
    let mut last = serde_json::Value::Null;
    for _ in 0..ROUNDS * 3 {
        floor.time(|| {
            (0..5).try_for_each(|_| append(&mut log))?;
            (0..2).try_for_each(|_| spawn_true())
        })?;
        start.time(spawn_true)?;
        door.push(seconds(&worker.request("door")?));
        let round = worker.request("round")?;
        let parts = &round["parts"];
        whole.push(seconds(&round));
        own.push(seconds(&round) - seconds(&parts["git"]) - seconds(&parts["process"]));
        store.push(seconds(&parts["store"]));
        last = round;
    }
    let parts = &last["parts"];
    let count = |kind: &str| parts[kind]["count"].to_string();
    let about = "one engine, one round after another: one-file repository, L1, `command` agent /bin/true; everything \
                 durable. Own time is the round without its git and agent processes: deciding, the store with its \
                 flushes, folders and files, the report";
    Ok(BenchSection::new(format!("engine overhead of a round {}", medium.place()), about)
        .line("floor: 5 durable appends + 2 process starts", floor, None)
        .line("own time of the engine", own, Some("floor: 5 durable appends + 2 process starts"))
        .line("of it the store", store, None)
        .line("whole round", whole, Some("floor: 5 durable appends + 2 process starts"))
        .line("start of /bin/true by the standard library", start, None)
        .line("the same through the engine's process runner", door, Some("start of /bin/true by the standard library"))
        .note(
            "in one round",
            format!(
                "{} git processes ({}), {} agent, {} transactions, {} durable files",
                count("git"),
                format_seconds(seconds(&parts["git"])),
                count("process"),
                count("store"),
                count("fs")
            ),
        ))
}

/// Rounds of a repository with this many files against the same work with git, including the removal of the checkout.
pub(super) fn whole_rounds(bed: &BenchSetup, files: usize, medium: StorageMedium) -> Result<BenchSection, String> {
    let world = BenchRepo::new(bed, &format!("whole-{files}"), files, medium)?;
    let by_hand = world.repo.with_file_name("hand");
    // The first round of a base copies its objects, once; for plain git they are already there.
    let mut first = TimeSamples::new();
    first.time(|| world.round("edit"))?;
    world.round("ship")?;
    let [mut hand, mut twice, mut edit, mut ship] = [const { TimeSamples::new() }; 4];
    for number in 0..ROUNDS {
        hand.time(|| hand_made(&world.repo, &by_hand, number, 1))?;
        edit.time(|| world.round("edit"))?;
        twice.time(|| hand_made(&world.repo, &by_hand, number, 3))?;
        ship.time(|| world.round("ship"))?;
    }
    let about = "manually: worktree add, edit, git add, git commit, worktree remove (and the branch). A round that \
                 ships \
                 has three checkouts: the maker's, a pristine one for the gate, a read-only one for the checker";
    let (one, three) = ("manually, one checkout", "manually, three checkouts");
    let place = medium.place();
    Ok(BenchSection::new(format!("whole round with {files} files {place}, by the command"), about)
        .line(one, hand, None)
        .line("loopwright run: make, seal, record (L2)", edit, Some(one))
        .line(three, twice, None)
        .line("loopwright run: gate, checker, pull request (L3)", ship, Some(three))
        .line("first round of a base (copies its objects, once)", first, Some(one))
        .note(
            "peak resident memory of the engine, L2 / L3",
            format!("{:.1} / {:.1} MB", world.peak("edit")? as f64 / 1024.0, world.peak("ship")? as f64 / 1024.0),
        ))
}

/// The same work with git: a branch in its own checkouts, one of them with a committed change.
fn hand_made(repo: &Path, place: &Path, number: usize, checkouts: usize) -> Result<(), String> {
    let branch = format!("hand-{number}-{checkouts}");
    let at = place.to_string_lossy();
    git(repo, &["worktree", "add", "-q", "-b", &branch, &at])?;
    let file = place.join("d000/f00000.txt");
    let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
    std::fs::write(&file, text + "more\n").map_err(|error| error.to_string())?;
    git(place, &["add", "-A"])?;
    git(place, &["commit", "-q", "-m", "manual change"])?;
    let more: Vec<String> = (1..checkouts).map(|extra| format!("{at}-{extra}")).collect();
    for extra in &more {
        git(repo, &["worktree", "add", "-q", "--detach", extra, &branch])?;
    }
    for extra in more.iter().map(String::as_str).chain([&*at]) {
        git(repo, &["worktree", "remove", "--force", extra])?;
    }
    git(repo, &["branch", "-q", "-D", &branch])
}

/// A repository with text files of about 3 KB, fifty to a folder.
pub(super) fn repository(repo: &Path, files: usize) -> Result<(), String> {
    for number in 0..files {
        let text = format!("file {number}\n{}", format!("line of text in {number}\n").repeat(150));
        write(&repo.join(format!("d{:03}/f{number:05}.txt", number / 50)), &text)?;
    }
    for args in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "base"]] {
        git(repo, args)?;
    }
    Ok(())
}

/// Git as a developer has it, except for the machine's own configuration.
pub(super) fn git(dir: &Path, args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("git");
    command.current_dir(dir).args(["-c", "user.name=Bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"]);
    command.args(args).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("start git: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr))),
    }
}

/// Runs a command and discards its output.
pub(super) fn run_quiet(command: &mut Command) -> Result<(), String> {
    let status = quieted(command).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("ended with {status}")) }
}

fn quieted(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::null()).stderr(Stdio::null())
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(path, text)).map_err(|error| format!("write `{}`: {error}", path.display()))
}
