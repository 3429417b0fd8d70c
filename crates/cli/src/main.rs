//! The `loopwright` command: parses its arguments, runs the verb, prints the answer, and exits with a documented code.

mod args;
mod context;
mod control;
mod daemon;
mod demo;
mod dev;
mod dry_run;
mod error;
mod exit;
mod output;
mod panic;
mod progress;
mod round_summary;
mod signals;
mod usage;
mod verbs;
mod view;

use args::Cli;
use context::{CommandContext, CommandEnvironment};
use std::process::ExitCode;

fn main() -> ExitCode {
    // This comes first: when this program is executed again as a scripted agent, its arguments are not a command line.
    loopwright::agents::main_if_asked();
    panic::report_as_bug();
    let env = CommandEnvironment::read();
    let exit = match Cli::parse_grouped() {
        Ok(cli) => command(cli, env),
        Err(error) => usage::print_usage_error(&error, env),
    };
    exit.into()
}

fn command(cli: Cli, env: CommandEnvironment) -> exit::CommandExit {
    let cx = CommandContext::new(env, cli.flags);
    let exit = verbs::run(cli.verb, &cx).unwrap_or_else(|error| {
        cx.out.error(&error);
        error.kind.exit()
    });
    cx.out.finish(exit)
}
