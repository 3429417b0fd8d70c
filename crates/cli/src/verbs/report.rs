//! `report`: print a round's report, made again from the record when its file is gone.

use super::Ended;
use crate::context::Context;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::safe_lines;
use crate::view::find;
use crate::view::loops::Here;
use crate::view::story::Story;
use loopwright::places::Places;
use loopwright::seam::Seam;
use serde_json::json;
use std::path::{Path, PathBuf};

/// A report is a few pages; a larger file is none of ours.
const BYTES_MAX: u64 = 8 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A round by its id or the start of it, or a loop by its name [default: the latest round here]
    #[arg(value_name = "ROUND|LOOP")]
    pub(crate) id: Option<String>,
    /// Print the path of the file instead, and create the file again if it is missing
    #[arg(long)]
    pub(crate) path: bool,
}

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    let (here, store) = tokio::join!(Here::find(cx), cx.reader());
    let (here, store) = (here?, store?);
    let row = find::latest(store.as_ref(), here.as_ref(), args.id.as_deref()).await?;
    let places = Places::open(&cx.state_dir()?.0, Seam::none()).map_err(broken)?;
    let path = row.report.as_ref().map_or_else(|| places.report(&row.id), PathBuf::from);
    let text = match read(&path) {
        Some(text) => text,
        None => Story::read(store.as_ref(), &row.id).await?.markdown()?,
    };
    if args.path && !path.exists() {
        places.write(&path, text.as_bytes()).map_err(broken)?;
    }
    let document = json!({"schema": 1, "round": row.id, "path": path, "markdown": text});
    cx.out.answer(&document, || if args.path { path.display().to_string() } else { safe_lines(&text) });
    Ok(Exit::DONE)
}

fn broken(error: loopwright::places::PlaceError) -> CommandError {
    CommandError::failed(crate::error::chain(&error))
}

fn read(path: &Path) -> Option<String> {
    let fits = std::fs::metadata(path).ok()?.len() <= BYTES_MAX;
    fits.then(|| std::fs::read_to_string(path).ok()).flatten()
}
