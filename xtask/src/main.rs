//! The development commands: `cargo xtask VERB`. Each verb has a file; this one only selects the verb.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a development tool starts cargo, reads its environment, measures time and prints"
)]

mod agents;
mod bench;
mod clients;
mod command;
mod dist;
mod hostile;
mod manual;
mod matrix;
mod memory_temp;
mod record;
mod setup;
mod sim;
mod soak;
mod summary;
mod test;
mod tidy;
mod trust;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask VERB

  setup            install what the tests need (git, PostgreSQL, Python, Node, cargo-nextest, the agents' CLIs,
                   clients of the forges)
  test [FILTER]    set-up, format, lints, docs, tidy, all tests; with FILTER only the tests it names
  hostile [FILTER] hostile agents against the real program, as root and as an ordinary user, with a table of results
  matrix [AGENT]   each real agent as maker and checker, with every situation of the provider table
  sim [SEED] [--seeds N]
                   the whole engine on a manual clock, under seeded faults, checked against the promises
  sim --bugs [NAME...]
                   put known bugs back into a copy of the engine, one at a time; each must be caught
  soak [--kills N] [--killed-rounds N] [--rounds N] [--store ADDRESS] [--profile NAME]
                   kill `run` N times at random moments (default 200) and the daemon through N rounds (default 1000)
                   and check the promises afterwards; --rounds: run N rounds without kills, and fail if the last hundred
                   cost more than the first, if `gc` leaves too much, or if the daemon grows; --store: a PostgreSQL
  soak deliveries [--items N] [--worlds N] [--seed S]
                   send N items (default 1000) to a forge whose calls fail at random, with kills while it sends
  trust [--sample N] [--all] [--seed S] [--class C] [--program P] [--json]
                   measure how often a wrong change ships and a right one does not, against a plain exit-code gate
  bench [NAME...]  measure the `dist` build against the machine's floor and bare git (start, overhead, round, status,
                   workspace); --large adds 100,000 files, --json FILE writes the numbers to a file
  dist [--try] [--profile NAME]
                   build a static archive with checksum, man pages, completions and systemd unit under target/archive;
                   --try installs, upgrades, downgrades and removes it in a bare Debian (root, debootstrap, network)
  record-streams [AGENT...] [--case NAME]
                   record the output of the pinned agents for each scenario as fixtures
  docs             build the manual with mdBook under target/manual/html (the first time, cargo installs mdBook)
  tidy [--bless | --wording]
                   repository rules that no lint covers; --bless records today's numbers, --wording lists every
                   phrase to reword
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if matches!(words.first(), Some(&("test" | "hostile" | "sim" | "soak" | "trust")))
        && let Some(code) = memory_temp::run_in_memory()
    {
        return code;
    }
    let ended = match words.as_slice() {
        ["setup"] => setup::run(),
        ["test", filter @ ..] => test::run(filter),
        ["hostile", filter @ ..] => hostile::run(filter),
        ["matrix", filter @ ..] => matrix::run(filter),
        ["sim", words @ ..] => sim::run(words),
        ["soak", "deliveries", words @ ..] => soak::DeliverySoak::parse(words).and_then(|soak| soak.run()),
        ["soak", words @ ..] => soak::SoakOptions::parse(words).and_then(|soak| soak.run()),
        ["trust", words @ ..] => trust::TrustOptions::parse(words).and_then(|trust| trust.run()),
        ["bench", words @ ..] => bench::BenchOptions::parse(words).and_then(|bench| bench.run()),
        ["dist", words @ ..] => dist::DistOptions::parse(words).and_then(|dist| dist.run()),
        ["record-streams", words @ ..] => record::run(words),
        ["docs"] => manual::run(),
        ["tidy"] => tidy::run(tidy::LengthRatchet::Keep),
        ["tidy", "--bless"] => tidy::run(tidy::LengthRatchet::Bless),
        ["tidy", "--wording"] => tidy::list_wording(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) if why.is_empty() => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
