//! `tick`: exactly one pass over the loops that are due, for cron or launchd. Waits for the rounds it started.

use super::{CommandContext, CommandExit, VerbResult, close, safe};
use crate::daemon::{DaemonFleet, DaemonLog, TimestampStyle, open_as_owner};
use crate::error::with_count;
use crate::signals::CurrentRound;
use crate::upkeep::keep_up_loops;
use crate::view::time::timestamp;
use loopwright::daemon::{TickReport, tick};
use loopwright_core::dispatch::{OccurrenceOutcome, OccurrenceReceipt};
use loopwright_core::outcome::RoundOutcome;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn run(cx: &CommandContext) -> VerbResult {
    // Agents may run beside this process from here on, and it knows keys: make its memory unreadable to them.
    // If that fails, it stays as it was.
    let _ = loopwright::proc::make_undumpable();
    let engine = open_as_owner(cx).await?;
    let daemon_log = Arc::new(DaemonLog::new(&cx.out, TimestampStyle::TimeOfDay, cx.progress_detail()?));
    let fleet = DaemonFleet::new(cx, &daemon_log, &engine)?;
    let limits = fleet.limits()?;
    let cancel = cx.cancel(&CurrentRound::default());
    engine.events().attach(daemon_log).keep();
    let upkeep = keep_up_loops(cx, &engine, &cancel).await;
    upkeep.problems.iter().chain(&upkeep.done).for_each(|line| cx.out.note(&safe(line)));
    let report = close(&engine, tick(engine.clone(), Arc::new(fleet), limits, &cancel).await).await?;
    cx.out.answer(&document(&report), || page(&report));
    Ok(if cancel.is_cancelled() { CommandExit::INTERRUPTED } else { CommandExit::DONE })
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

fn receipt(receipt: &OccurrenceReceipt) -> Value {
    json!({
        "loop": &*receipt.key.name, "repo": &*receipt.key.repo, "due": timestamp(receipt.due_ms), "trigger": &*receipt.trigger,
        "receipt": receipt.fate.word(), "reason": receipt.reason, "round": receipt.round, "count": receipt.count,
    })
}

fn page(report: &TickReport) -> String {
    let skipped = report.receipts.iter().filter(|receipt| receipt.fate != OccurrenceOutcome::Started).count();
    let failed =
        if report.failed.is_empty() { String::new() } else { format!(", {} not started", report.failed.len()) };
    format!("one pass: {}, {}{failed}", with_count(report.rounds.len(), "round"), with_count(skipped, "skip"))
}
