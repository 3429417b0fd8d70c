//! The simulator: the real daemon, store and rounds on a clock that is set by hand, under seeded faults, and the promises
//! as oracles. `cargo xtask sim [SEED] [--seeds N]` runs it; `cargo xtask sim --bugs` shows that it sees what it should.
//!
//! Not a libtest program: to a test runner that asks it has no tests, because the test command runs it as a step of its own.
//!
//! A seed fixes the world, the faults and their order. Programs (git) run at their own pace, so a run that fails is likely,
//! not certain, to fail again: run the seed a few times.
//!
//! What is seen here of each promise, and where the rest is seen:
//!
//! | promise | here | elsewhere |
//! |---|---|---|
//! | P1 once per occurrence | a round, a receipt and an event are had once; rounds of a loop do not overlap, in the journal (`oracle`) and by their agents (`agent`); of two engines one schedules, and a round in the foreground keeps its loop's place (`story`) | on PostgreSQL: `daemon/fenced.rs` |
//! | P2 record before effect | an agent is started for a start that is on record (`agent`); the chain is whole (`oracle`); pauses, stops and events that were acknowledged are there after every crash (`said`) | torn pages: `store/files.rs` |
//! | P3 one door | the forge shows what is recorded as sent, once, after a yes (`oracle`) | every call of a delivery: `sweep` |
//! | P4 same tree | what was shipped is the tree that passed (`oracle`) | spec and gate files: `gates.rs`, the hostile suite |
//! | P5 no pass by default | a maker that failed and a checker that said no never end in success (`oracle`) | evidence of every other kind: the hostile suite, `weaknesses.rs` |
//! | P6 hard budgets | money is held back before an agent starts (`agent`), days and rounds add up, nothing stays held (`money`) | ceilings that kill a process tree: `budgets.rs`, `egress` |
//! | P7 stop means dead | no agent is at work after a stop, its round's end or the daemon's (`acts`, `oracle`, `life`) | process trees, for agents here are functions: `sweep`, `cargo xtask soak`, the hostile suite |
//! | P8 contained | not: nothing here has walls | the hostile suite, `crates/sandbox` |
//! | P9 crash anywhere | every round comes to its end and every engine opens, however often it died (`story`) | a real `kill -9`: `sweep`, `cargo xtask soak` |
//! | P10 time | every moment of a loop's grid is in exactly one receipt, in time, and none is invented (`cover`); mark and receipts move together (`oracle`) | zones and clock changes: `core::cadence`; a clock taken as it is: `core/tests/dispatch` |
//! | P11 bounded | attempts, events, and what waits to be written (`oracle`, `life`) | every parser: `fuzz`; sizes: the hostile suite |
//! | P12 old data, new code | every history is read back to what its row says (`oracle`) | databases of every version: `store/files.rs` |
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
mod money;
mod oracle;
mod said;
mod story;

use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// How often a long run says how far it is.
const TOLD_EACH: u64 = 1_000;

/// What the command line asks for.
struct Asked {
    first: u64,
    seeds: u64,
    /// Whether the first failure is enough.
    is_enough: bool,
    /// Whether the daemon's words are printed.
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
            // What a test runner adds.
            "--nocapture" | "--exact" | "--quiet" => {}
            seed => asked.first = seed.parse().ok()?,
        }
    }
    Some(asked)
}

fn run(asked: &Asked) -> ExitCode {
    let begun = Instant::now();
    // What a simulated agent does to itself is part of the story; its words would drown the rest.
    std::panic::set_hook(Box::new(|panic| {
        if !panic.to_string().contains("the agent panics") {
            eprintln!("{panic}");
        }
    }));
    let next = AtomicU64::new(asked.first);
    let told = AtomicU64::new(0);
    let tally = Mutex::new(oracle::Tally::default());
    let failures = Mutex::new(Vec::new());
    // A story waits about half of its time.
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
                    let so_many = told.fetch_add(1, Ordering::SeqCst);
                    if so_many > 0 && so_many.is_multiple_of(TOLD_EACH) {
                        println!("… {so_many} seeds, {:.0} s", begun.elapsed().as_secs_f64());
                    }
                    match story::tell(seed, asked.is_told) {
                        Ok(told) => tally.lock().expect("no worker panics").add(&told),
                        Err(why) => {
                            // At once, because a long run may be ended before its end.
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
    println!("sim: {} seeds, {} failed, {tally}; {seconds:.0} s", told.into_inner(), failures.len());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn commit() -> String {
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
