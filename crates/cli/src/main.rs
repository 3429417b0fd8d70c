//! The `loopwright` command: parses what was typed, does it, prints the answer, and exits with a documented code.

mod args;
mod context;
mod control;
mod daemon;
mod demo;
mod dev;
mod error;
mod exit;
mod output;
mod panic;
mod posting;
mod progress;
mod signals;
mod story;
mod usage;
mod verbs;
mod view;

use args::Cli;
use context::{Context, Environment};
use std::process::ExitCode;

fn main() -> ExitCode {
    // First of all: this program executed again to play a scripted agent is not a command line.
    loopwright::agents::main_if_asked();
    panic::report_as_bug();
    let env = Environment::read();
    let exit = match Cli::parse_grouped() {
        Ok(cli) => command(cli, env),
        Err(error) => usage::explain(&error, env),
    };
    exit.into()
}

fn command(cli: Cli, env: Environment) -> exit::Exit {
    let cx = Context::new(env, cli.flags);
    let exit = verbs::run(cli.verb, &cx).unwrap_or_else(|error| {
        cx.out.error(&error);
        error.kind.exit()
    });
    cx.out.finish(exit)
}
