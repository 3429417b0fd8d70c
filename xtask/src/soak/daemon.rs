//! The soak of the daemon: kills `up` with -9 again and again while many loops are due every second. After a kill at
//! any moment, every due moment has exactly one receipt, every round is recorded once and ends, no process is left, and
//! the next `up` needs no manual repair.

use super::{SoakProgram, SoakRepo, killed, next, survivors};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Loops, each due every second.
const LOOPS: [&str; 6] = ["ants", "bees", "cats", "dogs", "eels", "fish"];
/// Kills come this long after the daemon is ready, or one time in five after its start.
const DELAY_MS: std::ops::Range<u64> = 50..500;
/// A daemon that is not ready after this time is broken.
const READY_MAX: Duration = Duration::from_secs(60);
/// The most kills for each round: a soak whose rounds never finish is broken too.
const KILLS_PER_ROUND_MAX: usize = 20;

const SCRIPT: &str = "@ maker
setsid-child sleep 300
run sleep 0.1
stage report.md seen
";

fn loop_file(name: &str) -> String {
    format!(
        "---\nname: {name}\nintent: Look at it.\nlevel: L1\ncheck: none\non: {{ every: 1s }}\n\
         agents:\n  maker: {{ use: scripted, script: look.script }}\nbudget:\n  day: {{ usd: 100000 }}\n---\n# Maker\nLook.\n"
    )
}

/// The outcome of one due moment: the word, the round, the number of moments it covers, and the last of them.
type ReceiptFacts = (String, Option<String>, i64, i64);

/// Kills daemons until the given number of rounds has started, lets the last one end normally, and checks the state.
pub(super) fn run(rounds: usize, seed: u64, program: &SoakProgram) -> Result<(), String> {
    let mut files: Vec<_> =
        LOOPS.iter().map(|name| (format!(".loopwright/loops/{name}.md"), loop_file(name))).collect();
    files.push((".loopwright/look.script".to_owned(), SCRIPT.to_owned()));
    let world = SoakRepo::with(program, &files)?;
    println!("soak: a daemon killed through {rounds} rounds of {} loops, seed {seed}", LOOPS.len());
    let begun = Instant::now();
    let (mut random, mut kills, mut seen) = (seed | 1, 0_usize, SeenReceipts::default());
    while seen.rounds() < rounds {
        let number = next(&mut random);
        let delay = Duration::from_millis(DELAY_MS.start + number % (DELAY_MS.end - DELAY_MS.start));
        let daemon = if number.is_multiple_of(5) { started(&world)?.0 } else { ready(&world)? };
        if !killed(daemon, delay) {
            return Err(format!("the daemon ended by itself after {kills} kills: see {}", world.state().display()));
        }
        kills += 1;
        seen.look(&world)?;
        if kills > rounds.max(10) * KILLS_PER_ROUND_MAX {
            return Err(format!("{kills} kills, and only {} rounds", seen.rounds()));
        }
    }
    quiet_end(&world, &mut seen)?;
    let summary = seen.examine(&world)?;
    println!("soak: {kills} kills, {summary}; {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Starts a daemon; the channel receives the line with which it reports that it is ready.
fn started(world: &SoakRepo) -> Result<(Child, mpsc::Receiver<()>), String> {
    let mut child = world.loopwright(&["up"]).spawn().map_err(|error| format!("start the daemon: {error}"))?;
    let (sender, receiver) = mpsc::channel();
    let stdout = child.stdout.take().ok_or("the daemon has no output")?;
    let stderr = child.stderr.take().ok_or("the daemon has no output")?;
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if line.contains("up") {
                let _ = sender.send(());
            }
        }
    });
    // Read to its end, so that the daemon never blocks on its output.
    std::thread::spawn(move || BufReader::new(stderr).lines().map_while(Result::ok).for_each(drop));
    Ok((child, receiver))
}

pub(super) fn ready(world: &SoakRepo) -> Result<Child, String> {
    let (mut child, ready_signal) = started(world)?;
    if ready_signal.recv_timeout(READY_MAX).is_ok() {
        return Ok(child);
    }
    let _ = child.kill();
    let ended = child.wait().map_err(|error| error.to_string())?;
    Err(format!("the daemon did not become ready: {ended}"))
}

/// Starts one more daemon, which recovers what the last kill left, and stops it.
fn quiet_end(world: &SoakRepo, seen: &mut SeenReceipts) -> Result<(), String> {
    let mut daemon = ready(world)?;
    let before = seen.rounds();
    let deadline = Instant::now() + READY_MAX;
    while seen.rounds() < before + LOOPS.len() {
        seen.look(world)?;
        if Instant::now() > deadline {
            return Err("after the last kill, loops start no rounds".to_owned());
        }
    }
    let pid = rustix::process::Pid::from_child(&daemon);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).map_err(|error| error.to_string())?;
    let ended = daemon.wait().map_err(|error| error.to_string())?;
    seen.look(world)?;
    if ended.success() { Ok(()) } else { Err(format!("when stopped, the daemon ended with {ended}")) }
}

/// Every observed receipt, by loop and due moment.
#[derive(Default)]
struct SeenReceipts(BTreeMap<(&'static str, i64), ReceiptFacts>);

impl SeenReceipts {
    /// Reads the latest receipts of every loop; an already observed one must still be the same.
    fn look(&mut self, world: &SoakRepo) -> Result<(), String> {
        for name in LOOPS {
            let output = command(world, name).output().map_err(|error| error.to_string())?;
            // There is no store to read before the first daemon created it.
            let Ok(document) = serde_json::from_slice::<Value>(&output.stdout) else { continue };
            for receipt in document["receipts"].as_array().into_iter().flatten() {
                self.note(name, receipt)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, name: &'static str, receipt: &Value) -> Result<(), String> {
        let due = moment(receipt["due"].as_str()).ok_or_else(|| format!("a receipt without a moment: {receipt}"))?;
        let through = moment(receipt["through"].as_str()).unwrap_or(due);
        let word = receipt["receipt"].as_str().unwrap_or_default().to_owned();
        let round = receipt["round"].as_str().map(str::to_owned);
        let fate = (word, round, receipt["count"].as_i64().unwrap_or(0), through);
        match self.0.insert((name, due), fate.clone()) {
            Some(before) if before != fate => {
                Err(format!("{name} was due at {due}: first it was {before:?}, then {fate:?}"))
            }
            _ => Ok(()),
        }
    }

    fn rounds(&self) -> usize {
        self.0.values().filter(|fate| fate.0 == "started").count()
    }

    /// Checks every promise that is visible from outside.
    fn examine(&self, world: &SoakRepo) -> Result<String, String> {
        let moments = LOOPS.into_iter().map(|name| self.unbroken(name)).sum::<Result<i64, String>>()?;
        world.json(&["verify", "--json"])?;
        let rounds = world.rounds(LOOPS.map(str::to_owned))?;
        if let Some(open) = rounds.iter().find(|round| round["outcome"].is_null()) {
            return Err(format!("a round has not ended: {open}"));
        }
        let born: std::collections::BTreeSet<_> =
            self.0.values().filter(|fate| fate.0 == "started").filter_map(|fate| fate.1.as_deref()).collect();
        let recorded: std::collections::BTreeSet<_> =
            rounds.iter().filter_map(|round| round["round"].as_str()).collect();
        if born != recorded || born.len() != self.rounds() {
            let odd: Vec<_> = born.symmetric_difference(&recorded).collect();
            return Err(format!(
                "{} receipts say started, {} rounds are on record: {odd:?}",
                self.rounds(),
                recorded.len()
            ));
        }
        let left = survivors(&rounds);
        if !left.is_empty() {
            return Err(format!("processes are left: {left:?}"));
        }
        let mut fates: BTreeMap<&str, i64> = BTreeMap::new();
        self.0.values().for_each(|fate| *fates.entry(&fate.0).or_default() += fate.2);
        let mut outcomes: BTreeMap<&str, i64> = BTreeMap::new();
        rounds
            .iter()
            .filter_map(|round| round["outcome"].as_str())
            .for_each(|word| *outcomes.entry(word).or_default() += 1);
        Ok(format!("{} rounds: {outcomes:?}; {moments} due moments: {fates:?}", rounds.len()))
    }

    /// Checks that every second from a loop's first receipt to its last is in exactly one of them; returns the number
    /// of seconds.
    fn unbroken(&self, name: &'static str) -> Result<i64, String> {
        let own: Vec<_> =
            self.0.iter().filter(|((of, _), _)| *of == name).map(|((_, due), fate)| (*due, fate)).collect();
        let Some((first, _)) = own.first() else { return Err(format!("{name} has no receipts")) };
        let mut expected = *first;
        for (due, (word, _, count, through)) in &own {
            if *due != expected || *count != through - due + 1 {
                return Err(format!("{name}: {expected} was next, and {word} is for {count} from {due} to {through}"));
            }
            expected = through + 1;
        }
        Ok(expected - first)
    }
}

fn command(world: &SoakRepo, name: &str) -> Command {
    world.loopwright(&["show", name, "--json"])
}

/// Seconds since 1970 of `2026-11-15T02:30:00Z`.
fn moment(text: Option<&str>) -> Option<i64> {
    let text = text?.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let number = |text: &str| text.parse::<i64>().ok();
    let [year, month, day] = date.split('-').map(number).collect::<Option<Vec<_>>>()?.try_into().ok()?;
    let [hour, minute, second] = time.split(':').map(number).collect::<Option<Vec<_>>>()?.try_into().ok()?;
    // Days of the civil calendar, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}
