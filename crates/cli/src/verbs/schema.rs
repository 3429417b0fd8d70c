//! `schema`: the JSON Schema of loop files, from the same types that parse them. The answer is JSON with and without
//! `--json`.

use super::VerbResult;
use crate::context::CommandContext;
use crate::exit::CommandExit;

pub(crate) fn run(cx: &CommandContext) -> VerbResult {
    cx.out.document(&loopwright_core::spec::schema());
    Ok(CommandExit::DONE)
}
