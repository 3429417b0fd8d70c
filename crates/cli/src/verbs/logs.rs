//! `logs`: a round's journal and the output of its agents. `report`: a round's report, rebuilt from the record when its
//! file is gone.

use super::{CommandContext, CommandError, CommandExit, VerbResult};
use crate::error::error_chain;
use crate::output::safe_lines;
use crate::view::find;
use crate::view::log::RoundLogReader;
use crate::view::repo_view::RepoView;
use crate::view::rounds::RoundRecord;
use crate::view::time::timestamp;
use loopwright::seam::Seam;
use loopwright::state_dir::{StateDir, StateFileError};
use loopwright::store::{RoundRow, Store};
use loopwright_core::secrets::redact_json;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// A round by its id or its first characters, or a loop by its name [default: the latest round here]
    #[arg(value_name = "ROUND|LOOP")]
    pub(crate) id: Option<String>,
    /// Keep printing new output until the round ends or waits
    #[arg(short, long)]
    pub(crate) follow: bool,
}

/// A report is a few pages; Loopwright did not write a larger file.
const BYTES_MAX: u64 = 8 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// A round by its id or its first characters, or a loop by its name [default: the latest round here]
    #[arg(value_name = "ROUND|LOOP")]
    pub(crate) id: Option<String>,
    /// Print the path of the file instead, and create the file again if it is missing
    #[arg(long)]
    pub(crate) path: bool,
}

/// How often a followed round is polled.
const LOOKS: Duration = Duration::from_millis(200);

pub(crate) async fn run(args: LogsArgs, cx: &CommandContext) -> VerbResult {
    let (store, row) = find_round_of(cx, args.id.as_deref()).await?;
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

/// The round that an id names, or the latest one here, and the store. Searches the repository while the store opens.
async fn find_round_of(cx: &CommandContext, id: Option<&str>) -> Result<(Arc<Store>, RoundRow), CommandError> {
    let (here, store) = tokio::join!(RepoView::find_current(cx), cx.open_store_read_only());
    let (here, store) = (here?, store?);
    let row = find::find_latest_round(store.as_ref(), here.as_ref(), id).await?;
    Ok((store, row))
}

async fn follow(log: &mut RoundLogReader, store: &Store, cx: &CommandContext) -> Result<(), CommandError> {
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
async fn document(store: &Store, state: &Path, row: &RoundRow) -> Result<Value, CommandError> {
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

pub(crate) async fn report(args: ReportArgs, cx: &CommandContext) -> VerbResult {
    let (store, row) = find_round_of(cx, args.id.as_deref()).await?;
    let places = StateDir::open(&cx.state_dir()?.0, Seam::none()).map_err(broken)?;
    let path = row.report.as_ref().map_or_else(|| places.report(&row.id), PathBuf::from);
    let text = match read_report(&path) {
        Some(text) => text,
        None => RoundRecord::read(store.as_ref(), &row.id).await?.markdown()?,
    };
    if args.path && !path.exists() {
        places.write(&path, text.as_bytes()).map_err(broken)?;
    }
    let document = json!({"schema": 1, "round": row.id, "path": path, "markdown": text});
    Ok(cx.out.answer(&document, || if args.path { path.display().to_string() } else { safe_lines(&text) }))
}

fn broken(error: StateFileError) -> CommandError {
    CommandError::failed(error_chain(&error))
}

fn read_report(path: &Path) -> Option<String> {
    let fits = std::fs::metadata(path).ok()?.len() <= BYTES_MAX;
    fits.then(|| std::fs::read_to_string(path).ok()).flatten()
}
