//! `completions SHELL`: the script that completes verbs and flags in a shell.

use super::VerbResult;
use crate::args::Cli;
use crate::context::CommandContext;
use crate::exit::CommandExit;
use clap::CommandFactory as _;
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell that the script is for
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, cx: &CommandContext) -> VerbResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "loopwright", &mut script);
    cx.out.script(&String::from_utf8_lossy(&script));
    Ok(CommandExit::DONE)
}
