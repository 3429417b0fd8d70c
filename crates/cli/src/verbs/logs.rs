//! `logs`: a round's journal and the output of its agents. `report`: a round's report, rebuilt from the record when its
//! file is gone.

use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult};
use crate::context::read_bytes;
use crate::error::error_chain;
use crate::output::{browser, safe, safe_lines};
use crate::signals::SignalListener;
use crate::verbs::show::RoundDocument;
use crate::view::diff::RoundDiff;
use crate::view::explain::ExplanationView;
use crate::view::find;
use crate::view::last_action::last_action;
use crate::view::list_page::ListWindow;
use crate::view::log::RoundLogReader;
use crate::view::repo_view::RepoView;
use crate::view::rounds::{RoundRecord, read_line};
use crate::view::stages::stage_times;
use crate::view::standing::{ABANDONED, read_standing};
use crate::view::time::{date_and_time, now_ms, timestamp};
use crate::view::transcript::TranscriptForm;
use crate::web::pages::paper::{self, RoundSources};
use loopwright::seam::Seam;
use loopwright::state_dir::{StateDir, StateFileError};
use loopwright::store::{LeaseHolder, RoundRow, Store};
use loopwright_core::secrets::{redact, redact_json};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::SignalKind;

#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// A round by its id or its first characters, or a loop by its name [default: the latest round here]
    #[arg(value_name = "ROUND|LOOP")]
    pub(crate) id: Option<String>,
    /// Keep printing new output until the round ends or waits
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Print the recorded streams of the agents instead of their messages, tools and results
    #[arg(long)]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) window: ListWindow,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// A round by its id or its first characters, or a loop by its name [default: the latest round here]
    #[arg(value_name = "ROUND|LOOP")]
    pub(crate) id: Option<String>,
    /// Print the path of the file instead, and create the file again if it is missing
    #[arg(long)]
    pub(crate) path: bool,
    /// Print one HTML file instead, with the diff, the time and the spend in it; it loads nothing and prints well
    #[arg(long)]
    pub(crate) html: bool,
    /// Write the HTML file beside the report, and open it in your browser
    #[arg(long, conflicts_with = "path")]
    pub(crate) open: bool,
}

/// A report is a few pages; Loopwright did not write a larger file.
const BYTES_MAX: usize = 4 << 20;

/// How often a followed round is polled.
const LOOKS: Duration = Duration::from_millis(200);
/// A round that no process runs for so many looks is not followed further; a start or a takeover takes less.
const ABANDONED_LOOKS: u32 = 10;

pub(crate) async fn run(args: LogsArgs, cx: &CommandContext) -> VerbResult {
    if args.window.is_part() && !cx.out.is_json() {
        return Err(CommandError::new(CommandErrorKind::Usage, "`--limit` and `--offset` go with `--json`"));
    }
    let (store, row) = find_round_of(cx, args.id.as_deref()).await?;
    let state = cx.state_dir()?.0;
    let form = if args.raw { TranscriptForm::Raw } else { TranscriptForm::Activity };
    let mut log = RoundLogReader::new(&state, &row.id, form, &cx.out);
    cx.out.print(&title(&row));
    log.read_from_start(store.as_ref()).await?;
    if args.follow {
        follow(&mut log, store.as_ref(), &row.id, cx).await?;
    }
    if cx.out.is_json() {
        cx.out.document(&document(store.as_ref(), &state, &row, args.window).await?);
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

fn title(row: &RoundRow) -> String {
    let (round, name) = (safe(&row.id), safe(&row.loop_name));
    format!("round {round} of {name}, started {}\n", date_and_time(row.started_ms))
}

/// Prints what is new until the round is at rest, or until no process runs it any more.
pub(super) async fn follow(
    log: &mut RoundLogReader<'_>,
    store: &Store,
    round: &str,
    cx: &CommandContext,
) -> Result<(), CommandError> {
    let mut looks = tokio::time::interval(LOOKS);
    let mut abandoned = 0;
    let row = LiveRoundRow::new(cx, round)?;
    // One stream for the whole time: an interrupt that arrives while the row is drawn counts too.
    let mut interrupts = SignalListener::for_kinds([SignalKind::interrupt()]);
    while !log.is_at_rest() && cx.out.has_reader() {
        tokio::select! {
            _ = interrupts.next() => {
                row.clear();
                return Ok(());
            }
            _ = looks.tick() => {
                row.clear();
                log.read_new(store).await?;
            }
        }
        if !log.is_at_rest() {
            row.draw(store).await?;
        }
        abandoned = if is_running(store, round).await? { 0 } else { abandoned + 1 };
        if abandoned >= ABANDONED_LOOKS && !log.is_at_rest() {
            row.clear();
            cx.out.note(&format!("{ABANDONED}: loopwright why {}", safe(round)));
            return Ok(());
        }
    }
    row.clear();
    Ok(())
}

/// The last row of a terminal while a round is followed: its stage, elapsed time, spend and ceiling, and the last action
/// of its agent. Without a terminal there is no row.
struct LiveRoundRow<'c> {
    cx: &'c CommandContext,
    round: &'c str,
    state: PathBuf,
    is_on: bool,
}

impl<'c> LiveRoundRow<'c> {
    fn new(cx: &'c CommandContext, round: &'c str) -> Result<Self, CommandError> {
        let streams = cx.out.streams();
        let is_on = streams.out_is_terminal && streams.err_is_terminal && !cx.out.is_json();
        Ok(Self { cx, round, state: cx.state_dir()?.0, is_on })
    }

    fn clear(&self) {
        if self.is_on {
            self.cx.out.overwrite_row("");
        }
    }

    async fn draw(&self, store: &Store) -> Result<(), CommandError> {
        if !self.is_on {
            return Ok(());
        }
        if let Some(line) = read_line(store, self.round).await?.filter(|line| line.status == "running") {
            let action = last_action(&self.state, self.round).map(|action| redact(&action).into_owned());
            let width = self.cx.out.width().min(1000).saturating_sub(1);
            self.cx.out.overwrite_row(&line.live_text(action.as_deref(), now_ms(), width));
        }
        Ok(())
    }
}

async fn is_running(store: &Store, round: &str) -> Result<bool, CommandError> {
    Ok(store.leases().await?.iter().any(|lease| lease.name == round && lease.holder != LeaseHolder::Gone))
}

/// The journal as it is, and the paths of the transcripts; their text may be large, so it stays in the files.
async fn document(store: &Store, state: &Path, row: &RoundRow, window: ListWindow) -> Result<Value, CommandError> {
    let event = |event: loopwright::store::StoredEvent| {
        let body = serde_json::from_str(&event.body).map_or(Value::Null, redact_json);
        let (at, at_ms) = (timestamp(event.at_ms), event.at_ms);
        json!({"seq": event.seq, "index": event.index, "at": at, "at_ms": at_ms, "kind": event.kind, "body": body})
    };
    let mut events: Vec<_> = store.events(&row.id).await?.into_iter().map(event).collect();
    let stages = stage_times(&events);
    let page = window.cut(&mut events);
    let folder = state.join("transcripts").join(&row.id);
    let listed = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut transcripts: Vec<_> = listed.collect();
    transcripts.sort();
    Ok(json!({
        "schema": 1, "loop": row.loop_name, "round": row.id, "stages": stages, "page": page, "events": events,
        "transcripts": transcripts,
    }))
}

pub(crate) async fn report(args: ReportArgs, cx: &CommandContext) -> VerbResult {
    let (store, row) = find_round_of(cx, args.id.as_deref()).await?;
    let places = StateDir::open(&cx.state_dir()?.0, Seam::none()).map_err(broken)?;
    let path = row.report.as_ref().map_or_else(|| places.report(&row.id), PathBuf::from);
    if args.html || args.open {
        return html_report(&args, cx, store.as_ref(), &row, (&places, &path.with_extension("html"))).await;
    }
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

/// The report as one HTML file: printed, or written beside the Markdown report and opened.
async fn html_report(
    args: &ReportArgs,
    cx: &CommandContext,
    store: &Store,
    row: &RoundRow,
    (places, path): (&StateDir, &Path),
) -> VerbResult {
    let record = RoundRecord::read(store, &row.id).await?;
    let standing = read_standing(store, row).await?;
    let change = match RoundDiff::read(cx, row, &record).await {
        Ok(Some(diff)) => Ok(value(&diff)?),
        Ok(None) => Err("The round sealed no change.".to_owned()),
        // The change of an old round may be gone; the report is still worth its file.
        Err(error) => Err(error.text),
    };
    let html = paper::round_report(RoundSources {
        round: value(&RoundDocument::new(row, &record, standing))?,
        journal: document(store, &cx.state_dir()?.0, row, ListWindow::default()).await?,
        change,
        why: value(&ExplanationView::for_round(store, row).await?)?,
    });
    if args.path || args.open {
        places.write(path, html.as_bytes()).map_err(broken)?;
    }
    if args.open {
        browser::open_file(path, &cx.env)?;
    }
    let written = (args.path || args.open).then_some(path);
    let document = json!({"schema": 1, "round": row.id, "path": written, "html": html});
    Ok(cx.out.answer(&document, || written.map_or_else(|| html.clone(), |path| path.display().to_string())))
}

fn value(document: &impl serde::Serialize) -> Result<Value, CommandError> {
    serde_json::to_value(document).map_err(|error| CommandError::failed(format!("write a document: {error}")))
}

fn broken(error: StateFileError) -> CommandError {
    CommandError::failed(error_chain(&error))
}

fn read_report(path: &Path) -> Option<String> {
    // The reader limits the size, and does not wait for a pipe.
    let bytes = read_bytes(path).ok().filter(|bytes| bytes.len() <= BYTES_MAX)?;
    String::from_utf8(bytes).ok()
}
