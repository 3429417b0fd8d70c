//! `backup` and `restore`: copy the state into a folder that can be kept elsewhere, and restore it.

use super::gc::format_bytes;
use super::{CommandContext, CommandError, VerbResult, safe};
use crate::error::with_count;
use crate::view::time::{date_and_time, now_ms, timestamp};
use loopwright::backup::{self, BackupError, BackupSummary};
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct BackupArgs {
    /// The folder to create [default: `loopwright-backup-` and the time, in the current folder]
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// A folder that `loopwright backup` created
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

pub(crate) async fn create(args: BackupArgs, cx: &CommandContext) -> VerbResult {
    let (state, _) = cx.state_dir()?;
    let store = cx.open_store_read_only().await?;
    let at_ms = now_ms();
    let folder = args.folder.unwrap_or_else(|| format!("loopwright-backup-{}", compact(at_ms)).into());
    let made = backup::make(store.as_ref(), &state, &folder, at_ms).await;
    store.close().await?;
    let made = made.map_err(|error| backup_error(error, "name another folder: `loopwright backup FOLDER`"))?;
    answer(cx, "backup", &made, || {
        let place = safe(&made.folder.display().to_string());
        format!("backed up to {place}: {}\nrestore it with: loopwright restore {place}", summary(&made))
    })
}

pub(crate) async fn restore(args: RestoreArgs, cx: &CommandContext) -> VerbResult {
    let (state, _) = cx.state_dir()?;
    if cx.settings(None)?.store.is_some() {
        let text =
            "`store` in the configuration names another database, but a backup contains the one of the state directory";
        let hint = "remove `store` from the configuration, or restore that database with its own tools";
        return Err(CommandError::invalid(text).hint(hint));
    }
    let occupied = "move the existing state away first, or name another state with `--state DIR`";
    let restored =
        backup::restore(&args.folder, &state, now_ms()).await.map_err(|error| backup_error(error, occupied))?;
    answer(cx, "restored", &restored, || {
        let place = safe(&restored.folder.display().to_string());
        let done = format!("restored to {place}: {}, as of {}", summary(&restored), date_and_time(restored.at_ms));
        format!(
            "{done}\nrounds after that moment are not in it: work that one of them has sent waits for you instead of being \
             sent again\nsee it: loopwright status; start loops again: loopwright up"
        )
    })
}

fn answer(cx: &CommandContext, key: &str, copied: &BackupSummary, page: impl FnOnce() -> String) -> VerbResult {
    let BackupSummary { folder, files, bytes, events, at_ms } = copied;
    let copied = json!({"folder": folder, "files": files, "bytes": bytes, "events": events, "at": timestamp(*at_ms)});
    Ok(cx.out.answer(&json!({"schema": 1, key: copied}), page))
}

fn summary(copied: &BackupSummary) -> String {
    let events = with_count(usize::try_from(copied.events).unwrap_or(usize::MAX), "event");
    format!("{events} checked, {}, {}", with_count(copied.files, "file"), format_bytes(copied.bytes))
}

/// `20261116T065300Z`, which every file system accepts in a name.
fn compact(at_ms: i64) -> String {
    timestamp(at_ms).chars().filter(|c| !matches!(c, '-' | ':')).collect()
}

/// The error of a backup; the hint is for one whose folder is occupied.
fn backup_error(error: BackupError, occupied: &str) -> CommandError {
    let text = error.to_string();
    match error {
        BackupError::Store(error) => error.into(),
        BackupError::Occupied(_) => CommandError::invalid(text).hint(occupied),
        BackupError::Foreign { .. } => {
            CommandError::invalid(text).hint("name a folder that `loopwright backup` created")
        }
        BackupError::Damaged { .. } => CommandError::failed(text).hint("nothing was restored; take another backup"),
        BackupError::File { .. } => CommandError::failed(text),
    }
}
