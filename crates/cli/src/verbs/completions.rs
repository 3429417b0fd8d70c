//! `completions SHELL`: the script that completes verbs and flags in a shell.

use super::{CommandContext, CommandExit};
use crate::args::Cli;
use clap::CommandFactory as _;
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell that the script is for
    shell: Shell,
}

pub(crate) fn print(args: &CompletionsArgs, cx: &CommandContext) -> CommandExit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "loopwright", &mut script);
    cx.out.script(&String::from_utf8_lossy(&script))
}
