//! The n-th fault sweep: runs one scripted round that ships many times; each time the n-th call at a seam fails, kills
//! the process, or succeeds and then reports an error. After each run a new engine takes over, and the promises must
//! hold.
//!
//! Not a libtest program: it executes itself again as the engine that dies and as the scripted agent. It answers the
//! few queries of a test runner.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr, reason = "a test program of its own")]

mod fault;
mod oracle;
mod world;

use fault::{Fault, Mode};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use world::World;

const NAME: &str = "every_fault_leaves_the_promises_standing";
const TROUBLED: &str = "every_crash_around_a_fallback_and_a_resume_leaves_the_promises_standing";
const GOAL: &str = "every_crash_of_a_goal_round_leaves_the_promises_standing";
const NESTED: &str = "a_fault_during_recovery_leaves_the_promises_standing";
/// A sweep with fewer points than this is broken.
const POINTS_MIN: usize = 100;

fn main() -> ExitCode {
    loopwright::agents::main_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| args.get(at).map(String::as_str);
    match word(0) {
        Some("__round") => world::child(&args[1..]),
        _ if args.iter().any(|arg| arg == "--list") => list(&args),
        _ => run(&args),
    }
}

fn list(args: &[String]) -> ExitCode {
    if !args.iter().any(|arg| arg == "--ignored") {
        println!("{NAME}: test\n{GOAL}: test\n{NESTED}: test\n{TROUBLED}: test");
    }
    ExitCode::SUCCESS
}

fn run(args: &[String]) -> ExitCode {
    let asked = |name: &str| args.iter().all(|arg| arg.starts_with("--") || name.contains(arg.as_str()));
    let mut failures = Vec::new();
    if asked(NAME) {
        failures.extend(sweep(&World::template(), &Mode::ALL, 1));
    }
    if asked(TROUBLED) {
        failures.extend(sweep(&World::troubled(), &[Mode::CrashBefore, Mode::CrashAfter], 1));
    }
    if asked(GOAL) {
        failures.extend(sweep(&World::goal(), &[Mode::CrashBefore], 3));
    }
    if asked(NESTED) {
        failures.extend(nested());
    }
    for failure in &failures {
        eprintln!("{failure}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Every mode for every n, or for every few of them, until a run hits no fault.
fn sweep(template: &World, modes: &[Mode], stride: usize) -> Vec<String> {
    let points = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    for mode in modes.iter().copied() {
        let next = AtomicUsize::new(0);
        let end = AtomicUsize::new(usize::MAX);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let n = next.fetch_add(stride, Ordering::SeqCst);
                        if n >= end.load(Ordering::SeqCst) {
                            return;
                        }
                        let world = template.copy();
                        let met = world.run(Fault { mode, n });
                        if !met {
                            end.fetch_min(n, Ordering::SeqCst);
                        } else {
                            points.fetch_add(1, Ordering::SeqCst);
                        }
                        world.run(Fault::none());
                        let mut wrong = oracle::check(&world);
                        if !met && !world.log().contains("Some(Shipped)") {
                            wrong.push("without a fault it did not ship".to_owned());
                        }
                        if !wrong.is_empty() {
                            let mut all = failures.lock().expect("no thread panics while holding it");
                            all.push(format!("{mode:?} at {n}: {}\n{}", wrong.join("; "), world.log()));
                        }
                    }
                });
            }
        });
        println!("{mode:?}: {} points", end.load(Ordering::SeqCst));
    }
    let points = points.into_inner();
    println!("{points} fault points in all");
    let mut failures = failures.into_inner().expect("the threads are gone");
    let points_min = POINTS_MIN / stride;
    if points < points_min {
        failures.push(format!("only {points} fault points were hit, {points_min} are expected"));
    }
    failures
}

/// Crashes at a sample of points, then crashes again at each point of the recovery that follows.
fn nested() -> Vec<String> {
    let template = World::template();
    let mut failures = Vec::new();
    let mut points = 0;
    'crashes: for first in (2..).step_by(10) {
        for second in (0..6).step_by(2) {
            // A fresh copy of the template for each run: the engine would treat a copy of a used world as another
            // repository.
            let world = template.copy();
            if !world.run(Fault { mode: Mode::CrashBefore, n: first }) {
                break 'crashes;
            }
            world.run(Fault { mode: Mode::CrashBefore, n: second });
            world.run(Fault::none());
            let wrong = oracle::check(&world);
            if !wrong.is_empty() {
                failures.push(format!("crash at {first}, then at {second}: {}\n{}", wrong.join("; "), world.log()));
            }
            points += 1;
        }
    }
    println!("{points} nested fault points");
    failures
}

/// Runs this program again as an engine.
pub(crate) fn engine_process(args: &[String]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.arg("__round").args(args).env_clear().env("PATH", loopwright_testkit::TRUSTED_PATH);
    command
}
