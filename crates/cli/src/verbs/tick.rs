//! `tick`: exactly one pass over what is due, for people whose cron or launchd drives it. Waits for the rounds it started.

use super::Ended;
use crate::context::Context;
use crate::daemon::{Repositories, Stamp, Teller, own};
use crate::error::counted;
use crate::exit::Exit;
use crate::signals::Running;
use crate::view::time::moment;
use loopwright::daemon::{TickReport, tick};
use loopwright_core::dispatch::{Fate, Receipt};
use loopwright_core::outcome::RoundOutcome;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn run(cx: &Context) -> Ended {
    // From here on agents run beside us, and this process knows keys. A kernel that says no leaves what was before.
    let _ = loopwright::proc::make_undumpable();
    let engine = own(cx).await?;
    let teller = Arc::new(Teller::new(&cx.out, Stamp::Clock, cx.telling()?));
    let fleet = Repositories::new(cx, &teller, &engine)?;
    let limits = fleet.limits()?;
    let cancel = cx.cancel(&Running::default());
    engine.events().attach(teller).keep();
    let ticked = tick(engine.clone(), Arc::new(fleet), limits, &cancel).await;
    engine.close().await?;
    let report = ticked?;
    cx.out.answer(&document(&report), || page(&report));
    Ok(if cancel.is_cancelled() { Exit::INTERRUPTED } else { Exit::DONE })
}

fn document(report: &TickReport) -> Value {
    let rounds = report.rounds.iter().map(|round| {
        json!({
            "loop": &*round.key.name, "repo": &*round.key.repo, "round": round.round,
            "outcome": round.outcome.map(RoundOutcome::word),
        })
    });
    let failed = report.failed.iter().map(|(key, why)| json!({"loop": &*key.name, "repo": &*key.repo, "reason": why}));
    json!({
        "schema": 1, "rounds": rounds.collect::<Vec<_>>(), "failed": failed.collect::<Vec<_>>(),
        "receipts": report.receipts.iter().map(receipt).collect::<Vec<_>>(),
    })
}

fn receipt(receipt: &Receipt) -> Value {
    json!({
        "loop": &*receipt.key.name, "repo": &*receipt.key.repo, "due": moment(receipt.due_ms), "trigger": &*receipt.trigger,
        "receipt": receipt.fate.word(), "reason": receipt.reason, "round": receipt.round, "count": receipt.count,
    })
}

fn page(report: &TickReport) -> String {
    let skipped = report.receipts.iter().filter(|receipt| receipt.fate != Fate::Started).count();
    let failed =
        if report.failed.is_empty() { String::new() } else { format!(", {} not started", report.failed.len()) };
    format!("one pass: {}, {}{failed}", counted(report.rounds.len(), "round"), counted(skipped, "skip"))
}
