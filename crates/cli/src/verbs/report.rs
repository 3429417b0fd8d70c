//! `report`: print a round's report; rebuilt from the record when its file is gone.

use super::{CommandContext, CommandError, VerbResult};
use crate::output::safe_lines;
use crate::view::find;
use crate::view::repo_view::RepoView;
use crate::view::round_record::RoundRecord;
use loopwright::seam::Seam;
use loopwright::state_dir::StateDir;
use serde_json::json;
use std::path::{Path, PathBuf};

/// A report is a few pages; Loopwright did not write a larger file.
const BYTES_MAX: u64 = 8 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// A round by its id or the start of it, or a loop by its name [default: the latest round here]
    #[arg(value_name = "ROUND|LOOP")]
    pub(crate) id: Option<String>,
    /// Print the path of the file instead, and create the file again if it is missing
    #[arg(long)]
    pub(crate) path: bool,
}

pub(crate) async fn run(args: ReportArgs, cx: &CommandContext) -> VerbResult {
    let (here, store) = tokio::join!(RepoView::find_current(cx), cx.open_store_read_only());
    let (here, store) = (here?, store?);
    let row = find::find_latest_round(store.as_ref(), here.as_ref(), args.id.as_deref()).await?;
    let places = StateDir::open(&cx.state_dir()?.0, Seam::none()).map_err(broken)?;
    let path = row.report.as_ref().map_or_else(|| places.report(&row.id), PathBuf::from);
    let text = match read(&path) {
        Some(text) => text,
        None => RoundRecord::read(store.as_ref(), &row.id).await?.markdown()?,
    };
    if args.path && !path.exists() {
        places.write(&path, text.as_bytes()).map_err(broken)?;
    }
    let document = json!({"schema": 1, "round": row.id, "path": path, "markdown": text});
    Ok(cx.out.answer(&document, || if args.path { path.display().to_string() } else { safe_lines(&text) }))
}

fn broken(error: loopwright::state_dir::StateFileError) -> CommandError {
    CommandError::failed(crate::error::error_chain(&error))
}

fn read(path: &Path) -> Option<String> {
    let fits = std::fs::metadata(path).ok()?.len() <= BYTES_MAX;
    fits.then(|| std::fs::read_to_string(path).ok()).flatten()
}
