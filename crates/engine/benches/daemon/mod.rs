//! The library's half of the daemon benchmarks: the recorded times of a loop's occurrences, and the cost of cadences.

use loopwright::store::{ReceiptsQuery, Store, StoreMode};
use loopwright_core::cadence::LoopSchedule;
use loopwright_core::spec::Triggers;
use serde_json::json;
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

/// The number of different schedules held at once.
const SCHEDULES: usize = 20_000;
/// Queries of each of a few of them.
const ASKED: usize = 200;

/// Prints every receipt of a loop with its recorded times: due, resolved, and the start of its round.
pub(crate) async fn moments(state: &Path, loop_name: &str) -> Result<(), Box<dyn Error>> {
    let store = Store::open_sqlite(&state.join("store.db"), StoreMode::Read).await?;
    let all = store.schedules().await?;
    let row = all.into_iter().find(|row| row.loop_name == loop_name).ok_or("no loop has that name")?;
    let query = ReceiptsQuery { repo: row.repo, loop_name: row.loop_name, before: None, limit: 10_000 };
    for receipt in store.receipts(query).await? {
        let round = match &receipt.round {
            Some(id) => store.round(id).await?,
            None => None,
        };
        let started_ms = round.map(|round| round.started_ms);
        println!(
            "{}",
            json!({"receipt": receipt.receipt.word(), "due_ms": receipt.due_ms, "at_ms": receipt.at_ms, "started_ms": started_ms})
        );
    }
    Ok(store.close().await?)
}

/// Sets the cadence with a number.
type Write = fn(usize, &mut Triggers);

/// Prints for each kind of cadence the cost of computing the next due time, and the memory of a schedule.
pub(crate) fn cadences() {
    let kinds: [(&str, Write); 4] = [
        ("every", |n, on| on.every = vec![span(n)]),
        ("daily", |n, on| on.daily = vec![format!("{:02}:{:02}", n / 60 % 24, n % 60)]),
        ("weekly", |n, on| on.weekly = vec![format!("mon,thu {:02}:{:02}", n / 60 % 24, n % 60)]),
        ("cron", |n, on| on.cron = vec![format!("{} {} 1-{} * *", n % 60, n / 60 % 24, 2 + n / 1_440 % 26)]),
    ];
    for (kind, write) in kinds {
        let on = |number: usize| {
            let mut on = Triggers { timezone: Some("Europe/Berlin".to_owned()), ..Triggers::default() };
            write(number, &mut on);
            on
        };
        let (before, begun) = (resident(), Instant::now());
        let all: Vec<LoopSchedule> =
            (0..SCHEDULES).filter_map(|number| LoopSchedule::of(&on(number), "repo/loop", "UTC").ok()).collect();
        let compiled = begun.elapsed().as_nanos() as f64 / all.len() as f64;
        let bytes = resident().saturating_sub(before) as f64 / all.len() as f64;
        let begun = Instant::now();
        for schedule in all.iter().step_by(SCHEDULES / 100) {
            let mut at_ms = 1_790_000_000_000;
            for _ in 0..ASKED {
                at_ms = black_box(schedule.next_after(black_box(at_ms))).map_or(at_ms, |due| due.at_ms);
            }
        }
        let next = begun.elapsed().as_nanos() as f64 / (100 * ASKED) as f64;
        println!("{}", json!({"kind": kind, "next_ns": next, "compile_ns": compiled, "bytes": bytes}));
        drop(all);
    }
}

fn span(number: usize) -> loopwright_core::units::TimeSpan {
    loopwright_core::units::TimeSpan::parse(&format!("{}m", 5 + number)).expect("a span of minutes")
}

/// Bytes of resident memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
