//! The live log of one round, as a task: the lines that `logs --follow` prints, sent to the screen.

use super::TuiUpdate;
use crate::args::GlobalFlags;
use crate::context::CommandContext;
use crate::error::CommandError;
use crate::output::{CommandOutput, OutputChunk, OutputSender, StreamInfo};
use crate::view::log::RoundLogReader;
use crate::view::transcript::TranscriptForm;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::interval;

/// How often the log is read.
const READ_EVERY: Duration = Duration::from_millis(250);

/// Sends the log of a round until the round rests or the reader is gone.
pub(super) async fn follow(cx: CommandContext, round: String, to: mpsc::Sender<TuiUpdate>) {
    let (line, mut lines) = OutputSender::new(StreamInfo::default());
    let out = CommandOutput::new(&GlobalFlags::default(), &cx.env, Some(line));
    let (reader_round, reader_to) = (round.clone(), to.clone());
    // The lines end when `out` is dropped at the end of the reading.
    let reading = async move {
        if let Err(error) = read(&cx, &reader_round, &out, &reader_to).await {
            let why = vec![format!("cannot read: {}", error.text)];
            let _ = reader_to.send(TuiUpdate::LogLines(reader_round.clone(), why)).await;
        }
    };
    let sending = async {
        while let Some(OutputChunk::Out(text) | OutputChunk::Err(text)) = lines.next().await {
            let lines = text.lines().map(str::to_owned).collect();
            if to.send(TuiUpdate::LogLines(round.clone(), lines)).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(reading, sending);
}

async fn read(
    cx: &CommandContext,
    round: &str,
    out: &CommandOutput,
    to: &mpsc::Sender<TuiUpdate>,
) -> Result<(), CommandError> {
    let store = cx.open_store_read_only().await?;
    let mut log = RoundLogReader::new(&cx.state_dir()?.0, round, TranscriptForm::Activity, out);
    log.read_from_start(store.as_ref()).await?;
    let mut looks = interval(READ_EVERY);
    while !log.is_at_rest() && !to.is_closed() {
        looks.tick().await;
        log.read_new(store.as_ref()).await?;
    }
    Ok(())
}
