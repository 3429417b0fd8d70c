//! `workers`: the machines that take rounds of loops with labels, and the rounds that wait for one; `workers drain` and
//! `workers undrain` end and begin taking rounds.

use super::{CommandContext, CommandError, VerbResult, close, safe};
use crate::output::{CommandOutput, TextTable};
use crate::view::time::{Moment, date_and_time};
use loopwright::store::{KnownWorker, OfferPlace, OfferRow, RowChange, StoreError, StoreErrorKind, WorkerState, words};
use loopwright::{Engine, EngineError};
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub(crate) struct WorkersArgs {
    #[command(subcommand)]
    action: Option<WorkersCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum WorkersCommand {
    /// Let a worker take no more rounds; it finishes those it has
    Drain {
        /// The worker
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Let a drained worker take rounds again
    Undrain {
        /// The worker
        #[arg(value_name = "NAME")]
        name: String,
    },
}

pub(crate) async fn run(args: WorkersArgs, cx: &CommandContext) -> VerbResult {
    match args.action {
        None => list(cx).await,
        Some(WorkersCommand::Drain { name }) => set_state(cx, name, WorkerState::Draining).await,
        Some(WorkersCommand::Undrain { name }) => set_state(cx, name, WorkerState::Active).await,
    }
}

async fn list(cx: &CommandContext) -> VerbResult {
    let store = cx.open_store_read_only().await?;
    let (workers, mut offers) = (store.workers().await?, store.offers().await?);
    offers.retain(|offer| offer.worker.is_none());
    let document = json!({
        "schema": 1, "workers": workers.iter().map(describe).collect::<Vec<_>>(),
        "offered": offers.iter().map(describe_offer).collect::<Vec<_>>(),
    });
    Ok(cx.out.answer(&document, || render(&workers, &offers, &cx.out)))
}

/// The word for a worker: that of its row, or `gone` without a process.
fn standing(worker: &KnownWorker) -> &'static str {
    if worker.is_connected() { worker.row.state.word() } else { "gone" }
}

fn describe(worker: &KnownWorker) -> Value {
    let row = &worker.row;
    json!({
        "name": row.name, "host": row.host, "state": standing(worker), "drained": row.state == WorkerState::Draining,
        "labels": words(&row.labels), "agents": words(&row.agents), "repos": words(&row.repos),
        "boundary": row.boundary, "slots": row.slots, "rounds": worker.rounds, "version": row.version,
        "clock_offset_ms": row.offset_ms, "connected": Moment(row.since_ms),
        "seen": worker.process.as_ref().map(|process| Moment(process.seen_ms())),
    })
}

fn describe_offer(offer: &OfferRow) -> Value {
    let place: Option<OfferPlace> = serde_json::from_str(&offer.place).ok();
    let needs = place.map(|place| (place.repo, place.needs));
    json!({
        "round": offer.round, "repo": needs.as_ref().map(|(repo, _)| repo),
        "labels": needs.as_ref().map(|(_, needs)| &needs.labels), "agents": needs.as_ref().map(|(_, needs)| &needs.agents),
        "offered": Moment(offer.offered_ms), "tries": offer.tries,
    })
}

fn render(workers: &[KnownWorker], offers: &[OfferRow], out: &CommandOutput) -> String {
    let mut text = match workers.is_empty() {
        true => "no workers\nstart one with: loopwright worker --label NAME".to_owned(),
        false => {
            let row = |worker: &KnownWorker| {
                let used = format!("{}/{}", worker.rounds.len(), worker.row.slots);
                let seen = worker.process.as_ref().map_or("-".to_owned(), |process| date_and_time(process.seen_ms()));
                let offset = format!("{} ms", worker.row.offset_ms);
                let (name, labels) = (worker.row.name.clone(), words(&worker.row.labels).join(", "));
                [name, standing(worker).to_owned(), used, labels, worker.row.version.clone(), offset, seen]
            };
            let headings = ["NAME", "STATE", "ROUNDS", "LABELS", "VERSION", "CLOCK", "LAST SEEN"];
            TextTable::new(headings, workers.iter().map(row)).render_for(out)
        }
    };
    for offer in offers {
        let place: Option<OfferPlace> = serde_json::from_str(&offer.place).ok();
        let needs = place.map_or("a worker".to_owned(), |place| place.needs.text());
        text.push_str(&format!("\nround {} waits for {}", safe(&offer.round), safe(&needs)));
    }
    text
}

async fn set_state(cx: &CommandContext, name: String, state: WorkerState) -> VerbResult {
    let engine = Engine::open(cx.settings(None)?).await?;
    let written = engine.write_rows(vec![RowChange::WorkerState { name: name.clone(), state }]).await;
    let written = written.map_err(|error| match error {
        EngineError::Store(StoreError { kind: StoreErrorKind::Conflict(why), .. }) => {
            CommandError::unknown(why).hint("see `loopwright workers`")
        }
        error => error.into(),
    });
    close(&engine, written).await?;
    let document = json!({"schema": 1, "worker": name, "state": state.word()});
    Ok(cx.out.answer(&document, || match state {
        WorkerState::Draining => format!("{}: takes no more rounds, and finishes those it has", safe(&name)),
        WorkerState::Active => format!("{}: takes rounds", safe(&name)),
    }))
}
