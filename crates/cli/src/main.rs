//! The `loopwright` command: parses its arguments, runs the verb, prints the answer, and exits with a documented code.

mod args;
mod context;
mod control;
mod daemon;
mod demo;
mod detached;
mod dev;
mod dry_run;
mod error;
mod locked_file;
mod mcp;
mod notify;
mod output;
mod panic;
mod progress;
#[cfg(test)]
mod reference;
mod round_summary;
mod signals;
mod telemetry;
mod tui;
mod upkeep;
mod verbs;
mod view;
mod web;

use args::{Cli, GlobalFlags};
use clap::error::ErrorKind;
use context::{CommandContext, CommandEnvironment};
use error::{CommandError, CommandErrorKind, CommandExit};
use std::process::ExitCode;

fn main() -> ExitCode {
    // This comes first: when this program is executed again as a scripted agent, its arguments are not a command line.
    loopwright::agents::main_if_asked();
    panic::report_as_bug();
    let env = CommandEnvironment::read();
    let exit = match Cli::parse_grouped() {
        Ok(cli) => {
            let cx = CommandContext::new(env, cli.flags);
            cx.prefer_newer_zones();
            view::time::set_zone(&cx.system_zone());
            cx.out.finish(verbs::run(cli.verb, &cx))
        }
        Err(error) => print_usage_error(&error, env),
    };
    ExitCode::from(exit.0)
}

/// Prints help, the version, or the problem of the arguments.
fn print_usage_error(error: &clap::Error, env: CommandEnvironment) -> CommandExit {
    let asked_for = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let json = !asked_for && std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    let cx = CommandContext::new(env, GlobalFlags { json, ..GlobalFlags::default() });
    let text = error.to_string();
    if json {
        return cx.out.finish(Err(as_error(&text)));
    }
    if asked_for {
        cx.out.print(&text)
    } else {
        cx.out.note(&text)
    }
    cx.out.finish(Ok(if asked_for { CommandExit::DONE } else { CommandExit::USAGE }))
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
