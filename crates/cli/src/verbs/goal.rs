//! `goal`: the contract of a piece of work. `write` makes one, `lint` checks it, `run` works toward it, `export` turns it
//! into a text for another tool, and `check` measures such a text.

mod check;
mod export;
mod lint;
mod run;
mod write;

pub(super) use run::prepare_again;
pub(super) use write::{goal_path, name_of};

use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult, safe};
use crate::context::{CheckedLoopFile, FileProblem, error_from_problems, read_named_file};
use loopwright::git::UserRepo;
use loopwright::repo_file::RepoFileError;
use loopwright_core::goal::{GoalContract, read_goal_file};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(crate) struct GoalArgs {
    #[command(subcommand)]
    what: GoalCommand,
}

#[derive(Debug, clap::Subcommand)]
enum GoalCommand {
    /// Write the contract of a task: outcome, criteria with their proofs, constraints, budget
    Write(Box<write::GoalWriteArgs>),
    /// Check a contract: its paths and commands exist, its bounds are present, its gates can fail
    Lint(lint::GoalLintArgs),
    /// Work toward the goal of a contract now
    Run(run::GoalRunArgs),
    /// Print a contract as the text of Claude Code's `/goal`
    Export(export::GoalExportArgs),
    /// Measure a text for `/goal`: exits with 11 if it is too long
    Check(check::GoalCheckArgs),
}

impl GoalArgs {
    /// Whether it must own the store.
    pub(crate) fn needs_store_owner(&self) -> bool {
        match &self.what {
            GoalCommand::Run(args) => !args.starts_another_process(),
            GoalCommand::Lint(args) => args.runs_gates(),
            GoalCommand::Write(_) | GoalCommand::Export(_) | GoalCommand::Check(_) => false,
        }
    }

    /// Whether this process leaves its terminal.
    pub(crate) fn is_detached(&self) -> bool {
        matches!(&self.what, GoalCommand::Run(args) if args.is_detached())
    }
}

pub(crate) async fn run(args: GoalArgs, cx: &CommandContext) -> VerbResult {
    match args.what {
        GoalCommand::Write(args) => write::run(*args, cx).await,
        GoalCommand::Lint(args) => lint::run(args, cx).await,
        GoalCommand::Run(args) => run::run(args, cx).await,
        GoalCommand::Export(args) => export::run(&args, cx),
        GoalCommand::Check(args) => check::run(&args, cx),
    }
}

/// Reads a contract; `-` is not a contract, because its rounds record the file.
fn read_goal(cx: &CommandContext, file: &Path) -> Result<GoalContract, CommandError> {
    Ok(read_goal_with_text(cx, file)?.0)
}

/// A contract and the text that it was read from: the file may have another one a moment later.
fn read_goal_with_text(cx: &CommandContext, file: &Path) -> Result<(GoalContract, String), CommandError> {
    let shown = file.to_string_lossy();
    let unreadable = |error: RepoFileError| {
        let hint = error.hint().unwrap_or("write one with `loopwright goal write \"TASK\"`");
        CommandError::new(CommandErrorKind::Invalid, format!("read `{shown}`: {error}")).hint(hint)
    };
    let bytes = read_named_file(&cx.env.cwd.join(file)).map_err(unreadable)?;
    let goal = read_goal_file(&shown, &bytes).map_err(|problems| {
        let found: Vec<_> = problems.into_iter().map(FileProblem::from).collect();
        error_from_problems(&found)
    })?;
    Ok((goal, String::from_utf8_lossy(&bytes).into_owned()))
}

/// A contract as the loop file that it compiles to. Its file is named from the root of the working copy.
fn as_loop_file(cx: &CommandContext, repo: &UserRepo, file: &Path, goal: &GoalContract) -> CheckedLoopFile {
    let path = cx.env.cwd.join(file);
    let whole = path.canonicalize().unwrap_or(path);
    let root = repo.work_tree.canonicalize().unwrap_or_else(|_| repo.work_tree.clone());
    let named: PathBuf = whole.strip_prefix(&root).map_or(whole.clone(), Path::to_owned);
    CheckedLoopFile { file: named.to_string_lossy().into_owned(), spec: goal.spec.clone() }
}

/// Refuses a goal whose name a loop of the repository has: both would share branches and history.
fn refuse_loop_name(cx: &CommandContext, repo: &UserRepo, goal: &GoalContract) -> Result<(), CommandError> {
    let loops = cx.loops(repo)?;
    let same = loops.loops.iter().find(|file| file.spec.name().is_same(goal.spec.name()));
    same.map_or(Ok(()), |file| {
        let text = format!("the goal and the loop in {} are both called `{}`", safe(&file.file), goal.spec.name);
        Err(CommandError::invalid(text).hint("give the goal another `name:`"))
    })
}
