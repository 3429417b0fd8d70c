//! Runs commands for a face in a process of its own, such as `top` and `mcp`, with their output collected. A command that
//! changes something runs in the daemon if one listens, as it would from a shell.

use super::{DaemonConnection, FaceAnswer};
use crate::args::{Cli, GlobalFlags};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandErrorKind, CommandExit, VerbResult};
use crate::output::{OutputSender, StreamInfo};
use crate::verbs;
use clap::Parser as _;
use std::ffi::OsString;
use std::path::PathBuf;

/// The end of a command, and its output.
#[derive(Debug)]
pub(crate) struct CommandAnswer {
    pub(crate) exit: CommandExit,
    pub(crate) output: FaceAnswer,
}

/// Runs commands with the repository and the state directory of the face that it belongs to.
#[derive(Debug)]
pub(crate) struct CommandRunner {
    cx: CommandContext,
    state: PathBuf,
}

impl CommandRunner {
    /// A runner for a face with this context.
    pub(crate) fn new(cx: &CommandContext) -> Result<Self, CommandError> {
        let (state, _) = cx.state_dir()?;
        Ok(Self { cx: cx.duplicate(), state })
    }

    /// Runs a command line, without the program's own name. An error of the command is in its output.
    pub(crate) async fn run(&self, words: Vec<String>) -> Result<CommandAnswer, CommandError> {
        let argv = self.whole_words(words);
        let cli = Cli::try_parse_from(std::iter::once("loopwright".to_owned()).chain(argv.iter().cloned()));
        let cli = cli.map_err(|error| CommandError::new(CommandErrorKind::Usage, error.to_string()))?;
        let (line, output) = OutputSender::new(StreamInfo::default());
        let cx = self.cx.for_words(&cli.flags, line);
        let work = async {
            let ended = self.perform(cli, &argv, &cx).await;
            let exit = cx.out.finish(ended);
            // The output ends when its last printer is gone.
            drop(cx);
            exit
        };
        let (exit, output) = tokio::join!(work, FaceAnswer::collect(output));
        Ok(CommandAnswer { exit, output })
    }

    /// The context of the face, for readings that print nothing.
    pub(crate) fn quiet_context(&self) -> CommandContext {
        let (line, _) = OutputSender::new(StreamInfo::default());
        self.cx.for_words(&GlobalFlags::default(), line)
    }

    /// The words with the flags that the face itself was started with.
    pub(crate) fn whole_words(&self, words: Vec<String>) -> Vec<String> {
        let mut argv = vec![format!("--state={}", self.state.display())];
        if let Some(repo) = self.cx.explicit_repo().filter(|_| !words.iter().any(|word| word.starts_with("--repo="))) {
            argv.push(format!("--repo={}", repo.display()));
        }
        argv.extend(words);
        argv
    }

    async fn perform(&self, cli: Cli, argv: &[String], cx: &CommandContext) -> VerbResult {
        if !cli.verb.needs_store_owner() {
            return verbs::run_for_face(cli.verb, cx).await;
        }
        if let Some(ended) = self.forward(argv, cx).await? {
            return Ok(ended);
        }
        match verbs::run_for_face(cli.verb, cx).await {
            // If a daemon took the store in the meantime, the daemon performs it.
            Err(error) if error.kind == CommandErrorKind::Held => self.forward(argv, cx).await?.ok_or(error),
            ended => ended,
        }
    }

    async fn forward(&self, argv: &[String], cx: &CommandContext) -> Result<Option<CommandExit>, CommandError> {
        match DaemonConnection::connect(&self.state).await? {
            Some(daemon) => daemon.forward(argv.iter().map(OsString::from), cx).await.map(Some),
            None => Ok(None),
        }
    }
}
