//! `top`: the dashboard in the terminal.

use super::{CommandContext, CommandError, CommandErrorKind, VerbResult};
use crate::tui;

pub(crate) async fn run(cx: &CommandContext) -> VerbResult {
    if !cx.out.can_ask() {
        return Err(CommandError::new(CommandErrorKind::Usage, "`top` needs a terminal")
            .hint("for programs: loopwright status --json; for a log: loopwright logs --follow"));
    }
    tui::run(cx, cx.out.has_colour()).await
}
