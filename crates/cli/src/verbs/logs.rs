//! `logs`: print a round's journal and the output of its agents.

use super::{CommandContext, CommandError, CommandExit, VerbResult};
use crate::view::find;
use crate::view::log::RoundLogReader;
use crate::view::repo_view::RepoView;
use crate::view::time::timestamp;
use loopwright::store::{RoundRow, Store};
use loopwright_core::secrets::redact_json;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// A round by its id or the start of it, or a loop by its name [default: the latest round here]
    #[arg(value_name = "ROUND|LOOP")]
    pub(crate) id: Option<String>,
    /// Keep printing new output until the round ends or waits
    #[arg(short, long)]
    pub(crate) follow: bool,
}

/// How often a followed round is polled.
const LOOKS: Duration = Duration::from_millis(200);

pub(crate) async fn run(args: LogsArgs, cx: &CommandContext) -> VerbResult {
    let (here, store) = tokio::join!(RepoView::find_current(cx), cx.open_store_read_only());
    let (here, store) = (here?, store?);
    let row = find::find_latest_round(store.as_ref(), here.as_ref(), args.id.as_deref()).await?;
    let state = cx.state_dir()?.0;
    let mut log = RoundLogReader::new(&state, &row.id);
    let mut tell = |line: &str| cx.out.print(line);
    log.read_from_start(store.as_ref(), &mut tell).await?;
    if args.follow {
        follow(&mut log, store.as_ref(), cx).await?;
    }
    if cx.out.is_json() {
        cx.out.document(&document(store.as_ref(), &state, &row).await?);
    }
    Ok(CommandExit::DONE)
}

async fn follow(log: &mut RoundLogReader, store: &dyn Store, cx: &CommandContext) -> Result<(), CommandError> {
    let mut looks = tokio::time::interval(LOOKS);
    while !log.is_at_rest() && cx.out.has_reader() {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(()),
            _ = looks.tick() => log.read_new(store, &mut |line| cx.out.print(line)).await?,
        }
    }
    Ok(())
}

/// The journal as it is, and the paths of the transcripts; their text may be large, so it stays in the files.
async fn document(store: &dyn Store, state: &Path, row: &RoundRow) -> Result<Value, CommandError> {
    let event = |event: loopwright::store::StoredEvent| {
        let body = serde_json::from_str(&event.body).map_or(Value::Null, redact_json);
        json!({"seq": event.seq, "index": event.index, "at": timestamp(event.at_ms), "kind": event.kind, "body": body})
    };
    let events: Vec<_> = store.events(&row.id).await?.into_iter().map(event).collect();
    let folder = state.join("transcripts").join(&row.id);
    let listed = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut transcripts: Vec<_> = listed.collect();
    transcripts.sort();
    Ok(json!({
        "schema": 1, "loop": row.loop_name, "round": row.id, "events": events, "transcripts": transcripts,
    }))
}
