//! `goal export FILE`: a contract as the text of Claude Code's `/goal`, within its length.

use super::{CommandContext, CommandError, CommandExit, VerbResult, read_goal};
use loopwright_core::goal::{GoalLengthLimits, export_goal};
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct GoalExportArgs {
    /// The contract
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) fn run(args: &GoalExportArgs, cx: &CommandContext) -> VerbResult {
    let goal = read_goal(cx, &args.file)?;
    let exported = export_goal(&goal, &args.file.to_string_lossy(), GoalLengthLimits::default());
    if !exported.length.fits() {
        let text = format!("the text has {} units even without its optional parts", exported.length.units);
        cx.out.error(&CommandError::invalid(text).hint("shorten the outcome and the criteria"));
        return Ok(CommandExit::REJECTED);
    }
    let document = json!({
        "schema": 1, "text": exported.text, "units": exported.length.units, "left_out": exported.left_out,
        "warnings": exported.length.warnings,
    });
    cx.out.answer(&document, || exported.text.clone());
    if !cx.out.is_json() {
        exported.left_out.iter().for_each(|part| cx.out.note(&format!("left out: {part}; the file has them")));
        exported.length.warnings.iter().for_each(|warning| cx.out.note(&format!("warning: {warning}")));
    }
    Ok(CommandExit::DONE)
}
