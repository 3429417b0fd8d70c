//! The simulator: the real daemon, store and rounds on a manual clock, under seeded faults, with the promises as
//! oracles. `cargo xtask sim [SEED] [--seeds N]` runs it; `cargo xtask sim --bugs` shows that it detects planted bugs.
//!
//! Not a libtest program: it reports no tests to a test runner, because the test command runs it as a separate step.
//!
//! A seed fixes the loops, the faults and their order. Programs (git) run at their own pace, so a failing run is
//! likely, not certain, to fail again: run the seed a few times.
//!
//! How this simulator checks each promise, and where the rest is checked:
//!
//! | promise | here | elsewhere |
//! |---|---|---|
//! | P1 once per occurrence | a round, a receipt and an event exist once; rounds of a loop do not overlap, in the journal (`oracle`) and by their agents (`agent`); of two engines one schedules, and a round in the foreground keeps its loop's slot (`story`) | on PostgreSQL: `daemon/fenced.rs` |
//! | P2 record before effect | an agent starts only if its start is on record (`agent`); the chain is whole (`oracle`); pauses, stops and events that were acknowledged are there after every crash (`said`) | torn pages: `store/files.rs` |
//! | P3 one door | the forge shows what is recorded as sent, once, after an approval (`oracle`) | every call of a delivery: `sweep` |
//! | P4 same tree | what was shipped is the tree that passed (`oracle`) | spec and gate files: `gates.rs`, the hostile suite |
//! | P5 no pass by default | a failed maker and a rejecting checker never end in success (`oracle`) | evidence of every other kind: the hostile suite, `weaknesses.rs` |
//! | P6 hard budgets | money is reserved before an agent starts (`agent`), days and rounds add up, nothing stays reserved (`money`) | ceilings that kill a process tree: `budgets.rs`, `egress` |
//! | P7 stop means dead | no agent is at work after a stop, its round's end or the daemon's (`acts`, `oracle`, `life`) | process trees, for agents here are functions: `sweep`, `cargo xtask soak`, the hostile suite |
//! | P8 contained | not: nothing here is confined | the hostile suite, `crates/sandbox` |
//! | P9 crash anywhere | every round ends and every engine opens, after any number of crashes (`story`) | a real `kill -9`: `sweep`, `cargo xtask soak` |
//! | P10 time | every due time of a loop's grid is in exactly one receipt, in time, and none is invented (`cover`); mark and receipts move together (`oracle`) | zones and clock changes: `core::cadence`; an implausible clock that is accepted: `core/tests/dispatch` |
//! | P11 bounded | attempts, events, and unwritten decisions (`oracle`, `life`) | every parser: `fuzz`; sizes: the hostile suite |
//! | P12 old data, new code | every history replays to the state in its row (`oracle`) | databases of every version: `store/files.rs` |
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr, reason = "a test program of its own")]

mod acts;
mod agent;
mod cover;
mod dice;
mod faults;
mod fleet;
mod foreground;
mod ground;
mod life;
#[path = "../common/manual_clock.rs"]
mod manual_clock;
mod money;
mod oracle;
mod said;
mod story;

use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// How often a long run prints its progress.
const TOLD_EACH: u64 = 1_000;

/// The arguments of the command line.
struct Asked {
    first: u64,
    seeds: u64,
    /// Whether the run stops at the first failure.
    is_enough: bool,
    /// Whether the daemon's events are printed.
    is_told: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let Some(asked) = read(&words) else {
        eprintln!("usage: sim [SEED] [--seeds N] [--first] [--tell]");
        return ExitCode::from(2);
    };
    run(&asked)
}

fn read(words: &[String]) -> Option<Asked> {
    let mut asked = Asked { first: 1, seeds: 1, is_enough: false, is_told: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => asked.seeds = words.next()?.parse().ok()?,
            "--first" => asked.is_enough = true,
            "--tell" => asked.is_told = true,
            // Arguments that a test runner adds.
            "--nocapture" | "--exact" | "--quiet" => {}
            seed => asked.first = seed.parse().ok()?,
        }
    }
    Some(asked)
}

fn run(asked: &Asked) -> ExitCode {
    let begun = Instant::now();
    // Panics of a simulated agent are part of the story; their messages would hide everything else.
    std::panic::set_hook(Box::new(|panic| {
        if !panic.to_string().contains("the agent panics") {
            eprintln!("{panic}");
        }
    }));
    let next = AtomicU64::new(asked.first);
    let seeds_done = AtomicU64::new(0);
    let tally = Mutex::new(oracle::Tally::default());
    let failures = Mutex::new(Vec::new());
    // A story waits for about half of its time.
    let workers = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    let is_over = asked.is_enough && !failures.lock().expect("no worker panics").is_empty();
                    if is_over || seed >= asked.first.saturating_add(asked.seeds) {
                        return;
                    }
                    let so_many = seeds_done.fetch_add(1, Ordering::SeqCst);
                    if so_many > 0 && so_many.is_multiple_of(TOLD_EACH) {
                        println!("… {so_many} seeds, {:.0} s", begun.elapsed().as_secs_f64());
                    }
                    match story::tell(seed, asked.is_told) {
                        Ok(seed_tally) => tally.lock().expect("no worker panics").add(&seed_tally),
                        Err(why) => {
                            // Printed at once, because a long run may be stopped early.
                            println!("FAILED seed {seed} at commit {}: {why}", commit());
                            failures.lock().expect("no worker panics").push(seed);
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no worker panics");
    for seed in &failures {
        println!("again: cargo xtask sim {seed}");
    }
    let tally = tally.into_inner().expect("no worker panics");
    let seconds = begun.elapsed().as_secs_f64();
    println!("sim: {} seeds, {} failed, {tally}; {seconds:.0} s", seeds_done.into_inner(), failures.len());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn commit() -> String {
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
