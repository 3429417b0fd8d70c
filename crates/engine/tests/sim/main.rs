//! The simulator: the real daemon, store and rounds on a clock that is set by hand, under seeded faults, and the promises
//! as oracles. `cargo xtask sim [SEED] [--seeds N]` runs it.
//!
//! Not a libtest program: to a test runner that asks it has no tests, because the test command runs it as a step of its own.
//!
//! A seed fixes the world, the faults and their order. Programs (git) run at their own pace, so a run that fails is likely,
//! not certain, to fail again: run the seed a few times.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr, reason = "a test program of its own")]

mod dice;
mod faults;
mod fleet;
mod life;
mod oracle;
mod story;

use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What the command line asks for.
struct Asked {
    first: u64,
    seeds: u64,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let Some(asked) = read(&words) else {
        eprintln!("usage: sim [SEED] [--seeds N]");
        return ExitCode::from(2);
    };
    run(&asked)
}

fn read(words: &[String]) -> Option<Asked> {
    let mut asked = Asked { first: 1, seeds: 1 };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seeds" => asked.seeds = words.next()?.parse().ok()?,
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
    let tally = Mutex::new(oracle::Tally::default());
    let failures = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= asked.first.saturating_add(asked.seeds) {
                        return;
                    }
                    match story::tell(seed) {
                        Ok(told) => tally.lock().expect("no worker panics").add(&told),
                        Err(why) => failures.lock().expect("no worker panics").push((seed, why)),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no worker panics");
    for (seed, why) in &failures {
        println!("FAILED seed {seed} at commit {}: {why}", commit());
        println!("  again: cargo xtask sim {seed}");
    }
    let tally = tally.into_inner().expect("no worker panics");
    let seconds = begun.elapsed().as_secs_f64();
    println!("sim: {} seeds, {} failed, {tally}; {seconds:.0} s", asked.seeds, failures.len());
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn commit() -> String {
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
