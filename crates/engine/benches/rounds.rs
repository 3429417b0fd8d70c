//! The library's half of `cargo xtask bench`: a release-built process that runs one measured operation for each line it
//! receives and answers with one line of JSON. xtask decides what is compared with what.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measuring tool reads its arguments, measures time and prints"
)]

mod daemon;
mod redact;
mod spaces;
mod streams;

use loopwright::agents::CommandAgent;
use loopwright::proc::{CancelToken, ProcessRunner, SpawnRequest, TreeCookie};
use loopwright::round::{DeliveryOutlet, LoopBindings, RoleAgents, RunRequest};
use loopwright::seam::{Seam, SeamFault, SeamHook, SeamMoment};
use loopwright::store::{NewEvent, ProcessInfo, RoundRow, RowChange, StatsChange, Store, StoreBatch, StoreMode};
use loopwright::{AlwaysEscalate, Engine, EngineSettings};
use loopwright_core::spec::{CheckedSpec, Role, read_loop_file};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Instant;

const USAGE: &str = "rounds serve STATE REPO LOOP-FILE | rounds spaces STATE REPO | rounds fill STATE REPO-ID EVENTS (see cargo xtask bench)";

/// Events of one generated round.
const EVENTS_A_ROUND: usize = 12;

/// Events of one batch; with the rows of their rounds it stays below the 10,000 that the store accepts at once.
const BATCH: usize = 8000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let ended = match words.as_slice() {
        ["serve", state, repo, file] => runtime.block_on(serve(Path::new(state), Path::new(repo), Path::new(file))),
        ["fill", state, repo, events] => runtime.block_on(fill(Path::new(state), repo, events.parse().unwrap_or(0))),
        ["moments", state, name] => runtime.block_on(daemon::moments(Path::new(state), name)),
        ["cadences"] => {
            daemon::cadences();
            Ok(())
        }
        ["streams"] => {
            streams::measure();
            Ok(())
        }
        ["redact"] => {
            redact::measure();
            Ok(())
        }
        ["spaces", state, repo] => runtime.block_on(spaces::serve(Path::new(state), Path::new(repo))),
        _ => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rounds: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Adds up the time between the two moments of each seam. Seams of one kind do not overlap, because a round runs one
/// step at a time.
#[derive(Default)]
struct Ledger(Mutex<BTreeMap<&'static str, Entry>>);

#[derive(Default)]
struct Entry {
    since: Option<Instant>,
    nanos: u64,
    count: u64,
}

impl SeamHook for Ledger {
    fn hit(&self, moment: SeamMoment, site: &'static str) -> Result<(), SeamFault> {
        let now = Instant::now();
        let mut entries = self.0.lock().expect("nobody panics while holding it");
        let entry = entries.entry(site).or_default();
        match (moment, entry.since.take()) {
            (SeamMoment::Before, _) => entry.since = Some(now),
            (SeamMoment::After, Some(since)) => {
                entry.nanos += u64::try_from((now - since).as_nanos()).unwrap_or(u64::MAX);
                entry.count += 1;
            }
            (SeamMoment::After, None) => {}
        }
        Ok(())
    }
}

impl Ledger {
    /// The sums since the last call, by the first part of the seam's name.
    fn take(&self) -> BTreeMap<String, (u64, u64)> {
        let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (site, entry) in std::mem::take(&mut *self.0.lock().expect("nobody panics while holding it")) {
            let kind = site.split('.').next().unwrap_or(site).to_owned();
            let sum = sums.entry(kind).or_default();
            *sum = (sum.0 + entry.nanos, sum.1 + entry.count);
        }
        sums
    }
}

/// One engine for the whole session, as in a long-running process.
async fn serve(state: &Path, repo: &Path, file: &Path) -> Result<(), Box<dyn Error>> {
    let ledger = Arc::new(Ledger::default());
    let seam = Seam::hooked(Arc::clone(&ledger) as Arc<dyn SeamHook>);
    let engine = Engine::open(EngineSettings { seam, ..EngineSettings::new(state) }).await?;
    let text = std::fs::read(file)?;
    let spec = read_loop_file("bench.md", &text).map_err(|problems| problems.to_string())?;
    let bind = bindings(&spec)?;
    for line in std::io::stdin().lock().lines() {
        let answer = match line?.as_str() {
            "round" => round(&engine, &ledger, &spec, &bind, repo).await?,
            "door" => door(repo).await?,
            other => return Err(format!("unknown order `{other}`").into()),
        };
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(engine.close().await?)
}

fn bindings(spec: &CheckedSpec) -> Result<LoopBindings, Box<dyn Error>> {
    let maker = spec.agents.values().next().ok_or("the loop names no agent")?;
    Ok(LoopBindings {
        agents: RoleAgents::default().with(Role::Maker, Arc::new(CommandAgent::new(&maker.run)?)),
        gate: Arc::new(AlwaysEscalate),
        outlet: DeliveryOutlet::LocalForge,
    })
}

async fn round(
    engine: &Engine,
    ledger: &Ledger,
    spec: &CheckedSpec,
    bind: &LoopBindings,
    repo: &Path,
) -> Result<Value, Box<dyn Error>> {
    ledger.take();
    let begun = Instant::now();
    let report = engine.run(RunRequest::manual(spec.clone(), repo, "bench"), bind, &CancelToken::new()).await?;
    let nanos = begun.elapsed().as_nanos();
    let parts: serde_json::Map<_, _> = ledger
        .take()
        .into_iter()
        .map(|(kind, (nanos, count))| (kind, json!({ "nanos": nanos, "count": count })))
        .collect();
    let outcome = report.outcome.map(loopwright::RoundOutcome::word);
    Ok(json!({ "nanos": u64::try_from(nanos)?, "outcome": outcome, "parts": parts }))
}

/// Starts a program that does nothing, in the same way as agents and git.
async fn door(dir: &Path) -> Result<Value, Box<dyn Error>> {
    let begun = Instant::now();
    let spawn = SpawnRequest::new("/bin/true", dir, TreeCookie::new("bench"));
    ProcessRunner::new(Seam::none()).run(spawn, &mut (), &CancelToken::new(), |_| ()).await?;
    Ok(json!({ "nanos": u64::try_from(begun.elapsed().as_nanos())? }))
}

/// Fills a store with history through the store's own interface, so that its chain is valid. Batches are large because
/// each is flushed to the disk: the events of a batch share a round, and there is one round row for every dozen events.
async fn fill(state: &Path, repo: &str, events: u64) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(state)?;
    let store = Store::open_sqlite(&state.join("store.db"), StoreMode::Write(ProcessInfo::current(0))).await?;
    for first in (0..events).step_by(BATCH) {
        store.append(past(repo, first, events.min(first + BATCH as u64))).await?;
    }
    Ok(store.close().await?)
}

fn past(repo: &str, first: u64, end: u64) -> StoreBatch {
    let at_ms = 1_700_000_000_000 + i64::try_from(first).unwrap_or(0);
    let id = |number: u64| format!("r{number:012}");
    let event = |number: u64| NewEvent {
        kind: "made".to_owned(),
        body: format!("{{\"kind\":\"made\",\"text\":\"event {number}, {}\"}}", "x".repeat(80)),
    };
    let numbers = (first..end).step_by(EVENTS_A_ROUND);
    let rows = numbers.clone().map(|number| RowChange::Round(past_row(repo, &id(number), &loop_name(number), at_ms)));
    let counters = numbers.map(|number| {
        RowChange::Stats(StatsChange {
            repo: repo.to_owned(),
            loop_name: loop_name(number),
            runs: 1,
            successes: 1,
            failures: 0,
            items: 0,
            duration_ms: 1000,
            last_run_ms: Some(at_ms),
            last_outcome: Some(loopwright::RoundOutcome::Shipped),
            last_round: Some(id(number)),
        })
    });
    let events = (first..end).map(event).collect();
    StoreBatch { round: id(first), expect_index: 0, at_ms, events, changes: rows.chain(counters).collect() }
}

fn loop_name(number: u64) -> String {
    format!("loop-{:05}", number / EVENTS_A_ROUND as u64 % 10)
}

fn past_row(repo: &str, id: &str, loop_name: &str, at_ms: i64) -> RoundRow {
    RoundRow {
        id: id.to_owned(),
        loop_name: loop_name.to_owned(),
        repo: repo.to_owned(),
        repo_path: "/bench".to_owned(),
        occurrence: format!("manual:{id}"),
        trigger: "manual".to_owned(),
        item: None,
        level: loopwright::LoopLevel::L2Assisted,
        phase: loopwright_core::round::RoundPhase::Ended,
        outcome: Some(loopwright::RoundOutcome::Shipped),
        started_ms: at_ms,
        ended_ms: Some(at_ms + 1000),
        attempts: 1,
        base: None,
        tree: None,
        candidate: None,
        spec_hash: "0".repeat(64),
        summary: "a round of the past".to_owned(),
        report: None,
        spend_tokens: 0,
        spend_micros: 0,
        cookie: None,
    }
}
