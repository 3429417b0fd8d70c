//! A command line that could not be parsed, or one that asks for help: shown as clap's text, or as a JSON error.

use crate::args::GlobalFlags;
use crate::context::{CommandContext, CommandEnvironment};
use crate::error::{CommandError, CommandErrorKind};
use crate::exit::CommandExit;
use clap::error::ErrorKind;

/// Prints help, the version, or the problem of the arguments.
pub(crate) fn print_usage_error(error: &clap::Error, env: CommandEnvironment) -> CommandExit {
    let asked_for = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let json = !asked_for && std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    let cx = CommandContext::new(env, GlobalFlags { json, ..GlobalFlags::default() });
    let exit = if asked_for { CommandExit::DONE } else { CommandExit::USAGE };
    let text = error.to_string();
    match (asked_for, json) {
        (true, _) => cx.out.print(&text),
        (false, true) => cx.out.error(&as_error(&text)),
        (false, false) => cx.out.note(&text),
    }
    cx.out.finish(exit)
}

/// Clap's paragraphs: the error first, then tips and the usage.
fn as_error(text: &str) -> CommandError {
    let mut paragraphs = text.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let first = paragraphs.next().unwrap_or_default();
    let hints = paragraphs.filter(|part| !part.is_empty()).map(|part| match part.strip_prefix("tip: ") {
        Some(tip) => tip.to_owned(),
        None => part,
    });
    let text = first.strip_prefix("error: ").unwrap_or(&first);
    CommandError { hints: hints.collect(), ..CommandError::new(CommandErrorKind::Usage, text) }
}
