//! `verify`: check the whole record: hashes, chain, database.

use super::{CommandContext, CommandExit, VerbResult, safe};
use crate::error::with_count;
use loopwright::store::{StoreFlaw, VerifyReport};
use serde_json::json;

pub(crate) async fn run(cx: &CommandContext) -> VerbResult {
    let store = cx.open_store_read_only().await?;
    // The size of a database that cannot be read is unknown; the report says why.
    let (report, bytes) = (store.verify().await?, store.size_bytes().await.ok());
    let broken = report.broken.as_ref().map(|b| json!({"seq": b.seq, "round": b.round, "why": b.why}));
    let document =
        json!({"schema": 1, "ok": report.is_ok(), "events": report.events, "bytes": bytes, "broken": broken});
    cx.out.answer(&document, || page(&report));
    Ok(if report.is_ok() { CommandExit::DONE } else { CommandExit::FAILED })
}

fn page(report: &VerifyReport) -> String {
    let checked = with_count(usize::try_from(report.events).unwrap_or(usize::MAX), "event");
    match &report.broken {
        None => format!("the record is intact: {checked} checked"),
        Some(StoreFlaw { seq, round, why }) => {
            let seq = seq.map_or("an unknown position".to_owned(), |seq| format!("event {seq}"));
            let round = round.as_ref().map_or(String::new(), |round| format!(" of round {}", safe(round)));
            format!(
                "the record is BROKEN at {seq}{round}: {}\n{checked} before it in order\n\
                 to keep the state, move it away; then restore a backup: loopwright restore FOLDER",
                safe(why)
            )
        }
    }
}
