//! `goal check FILE`: the length check of a text for `/goal`. It fails closed: a text that cannot be read whole, or a
//! limit that makes no sense, is an error and never a pass.

use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult, safe};
use crate::context::read_bytes;
use crate::output::TextStyle;
use loopwright_core::goal::{GoalLengthCheck, GoalLengthLimits, GoalLengthVerdict};
use serde_json::json;
use std::io::Read as _;

/// The most bytes that are read. A longer text has more units than any accepted limit.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct GoalCheckArgs {
    /// The file with the text; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// The first length that is too long, in UTF-16 units [default: 3990, or the cap if that is lower]
    #[arg(long, value_name = "UNITS")]
    target: Option<u32>,
    /// The first length that `/goal` refuses, in UTF-16 units [default: 4000]
    #[arg(long, value_name = "UNITS")]
    cap: Option<u32>,
}

pub(super) fn run(args: &GoalCheckArgs, cx: &CommandContext) -> VerbResult {
    let limits = GoalLengthLimits::new(args.target, args.cap)
        .map_err(|error| CommandError::new(CommandErrorKind::Usage, error.to_string()))?;
    let text = read_text(cx, &args.file)?;
    let check = GoalLengthCheck::measure(&text, limits);
    let document = json!({
        "schema": 1, "file": args.file, "units": check.units, "target": limits.target(), "cap": limits.cap(),
        "verdict": check.verdict.word(), "warnings": check.warnings,
    });
    cx.out.answer(&document, || page(cx, &check, limits));
    if !cx.out.is_json() {
        check.warnings.iter().for_each(|warning| cx.out.note(&format!("warning: {warning}")));
    }
    Ok(if check.fits() { CommandExit::DONE } else { CommandExit::REJECTED })
}

fn page(cx: &CommandContext, check: &GoalLengthCheck, limits: GoalLengthLimits) -> String {
    let (units, target, cap) = (check.units, limits.target(), limits.cap());
    match check.verdict {
        GoalLengthVerdict::Fits => {
            format!("{}: {units} units (target {target}, cap {cap})", cx.out.style(TextStyle::Green, "ok"))
        }
        GoalLengthVerdict::OverTarget => {
            format!("{}: {units} units reach the target {target} (cap {cap})", cx.out.style(TextStyle::Red, "too long"))
        }
        GoalLengthVerdict::OverCap => {
            format!("{}: {units} units reach the cap {cap}", cx.out.style(TextStyle::Red, "too long"))
        }
    }
}

fn read_text(cx: &CommandContext, file: &str) -> Result<String, CommandError> {
    let bytes = match file {
        "-" => {
            let mut bytes = Vec::new();
            std::io::stdin().lock().take(BYTES_MAX + 1).read_to_end(&mut bytes).map(|_| bytes)
        }
        file => read_bytes(&cx.env.cwd.join(file)),
    };
    let shown = if file == "-" { "standard input".to_owned() } else { format!("`{}`", safe(file)) };
    let invalid = |why: String| CommandError::new(CommandErrorKind::Invalid, format!("read {shown}: {why}"));
    let bytes = bytes.map_err(|error| invalid(error.to_string()))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Ok("x".repeat(bytes.len()));
    }
    String::from_utf8(bytes).map_err(|_| invalid("it is not UTF-8 text".to_owned()).hint("save the file as UTF-8"))
}
