//! `completions SHELL`: the script with which a shell completes our verbs and flags.

use super::Ended;
use crate::args::Cli;
use crate::context::Context;
use crate::exit::Exit;
use clap::CommandFactory as _;
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell that the script is for
    shell: Shell,
}

pub(crate) fn run(args: &Args, cx: &Context) -> Ended {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "loopwright", &mut script);
    cx.out.script(&String::from_utf8_lossy(&script));
    Ok(Exit::DONE)
}
