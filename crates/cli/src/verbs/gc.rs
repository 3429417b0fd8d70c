//! `gc`: remove data that is no longer needed, and print how much that freed.

use super::{CommandContext, CommandExit, VerbResult, close, safe};
use crate::error::{error_chain, with_count};
use crate::view::time::now_ms;
use loopwright::gc::{GcFailure, GcMode, GcRemoval, GcReport, GcRetention};
use loopwright::proc::CancelToken;
use loopwright::store::AgedRows;
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct GcArgs {
    /// Keep the data of rounds that ended in the last N days [default: `retention` of the configuration]
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u32>,
    /// Only list the data that would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

pub(crate) async fn run(args: GcArgs, cx: &CommandContext) -> VerbResult {
    let mode = if args.dry_run { GcMode::List } else { GcMode::Remove };
    // Without a store nothing has run, and this check must not create one.
    if super::status::open_store_if_any(cx).await?.is_none() {
        return finish(cx, &GcReport::default(), mode);
    }
    let engine = cx.open_engine(None, &CancelToken::new()).await?;
    let config = cx.config(None)?;
    let days = |configured: u32| args.days.unwrap_or(configured);
    let retention = GcRetention::from_days(now_ms(), days(config.retention_days()), days(config.log_retention_days()));
    if mode == GcMode::Remove {
        cx.abandon_suspended_rounds(&engine, retention.rounds_before_ms).await?;
    }
    finish(cx, &close(&engine, loopwright::gc::collect(&engine, retention, mode).await).await?, mode)
}

/// Failures to remove are printed last, and make the command fail.
fn finish(cx: &CommandContext, swept: &GcReport, mode: GcMode) -> VerbResult {
    let removed = &swept.removed;
    let freed: u64 = removed.iter().map(|one| one.bytes).sum();
    let line = |one: &GcRemoval| json!({"kind": one.kind.word(), "path": one.path, "bytes": one.bytes});
    let lines: Vec<_> = removed.iter().map(line).collect();
    let stuck_line = |one: &GcFailure| json!({"kind": one.kind.word(), "path": one.path, "why": error_chain(&one.why)});
    let document = json!({
        "schema": 1, "dry_run": mode == GcMode::List, "removed": lines, "freed_bytes": freed,
        "rows": {"receipts": swept.rows.receipts, "signals": swept.rows.signals, "memories": swept.rows.memories},
        "stuck": swept.stuck.iter().map(stuck_line).collect::<Vec<_>>(),
    });
    cx.out.answer(&document, || page(removed, freed, mode) + &rows_page(swept.rows, mode) + &stuck_page(&swept.stuck));
    Ok(if swept.stuck.is_empty() { CommandExit::DONE } else { CommandExit::FAILED })
}

fn rows_page(rows: AgedRows, mode: GcMode) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let what = match mode {
        GcMode::Remove => "removed",
        GcMode::List => "would remove",
    };
    let AgedRows { receipts, signals, memories } = rows;
    format!("\n{what} from the store: receipts {receipts}, taken signals {signals}, expired memories {memories}")
}

fn stuck_page(stuck: &[GcFailure]) -> String {
    let line = |one: &GcFailure| {
        let path = safe(&one.path.display().to_string());
        format!("\ncould not remove {} {path}: {}", one.kind.word(), safe(&error_chain(&one.why)))
    };
    stuck.iter().map(line).collect()
}

fn page(removed: &[GcRemoval], freed: u64, mode: GcMode) -> String {
    let mut page = String::new();
    for one in removed {
        page.push_str(&format!("{:<11} {}\n", one.kind.word(), safe(&one.path.display().to_string())));
    }
    let what = match mode {
        GcMode::Remove => "freed",
        GcMode::List => "would free",
    };
    page + &format!("{what} {} in {}", format_bytes(freed), with_count(removed.len(), "place"))
}

pub(crate) fn format_bytes(bytes: u64) -> String {
    match bytes {
        bytes if bytes < 1 << 10 => format!("{bytes} bytes"),
        bytes if bytes < 1 << 20 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        bytes => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}
