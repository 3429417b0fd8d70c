//! `goal run FILE…`: compiles a contract to a loop and runs one round of it, as `run` does. Several contracts become one
//! workflow of goals.

use super::{
    CommandContext, CommandError, VerbResult, as_loop_file, read_goal, read_goal_with_text, refuse_loop_name, safe,
};
use crate::context::{CheckedLoopFile, FileProblem, error_from_problems};
use crate::detached::{self, DetachArgs};
use crate::verbs::run::{prepare_file, run_round};
use crate::verbs::tasks::{register_run, start_for_run, task_for_run};
use crate::verbs::workflow::run_workflow;
use loopwright::git::UserRepo;
use loopwright::round::{LoopBindings, RunRequest, new_round_id};
use loopwright_core::goal::GoalContract;
use loopwright_core::name::RoundId;
use loopwright_core::spec::LoopMode;
use loopwright_core::workflow::goal_group;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct GoalRunArgs {
    /// The contract; several are worked on at once and land together, in this order
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// How many of several goals run at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    at_once: u32,
    /// The task of which this run is the work: the round gets its id
    #[arg(long, value_name = "ID", conflicts_with = "dry_run")]
    task: Option<String>,
    /// The number that `tasks claim` printed: a claim that another one replaced is refused
    #[arg(long, value_name = "N", requires = "task")]
    fence: Option<i64>,
    /// Send nothing, and print exactly the items that would be sent
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    detach: DetachArgs,
}

impl GoalRunArgs {
    pub(super) fn starts_another_process(&self) -> bool {
        self.detach.starts_another_process()
    }

    pub(super) fn is_detached(&self) -> bool {
        self.detach.is_detached()
    }

    /// The id that the round gets: the one that another process has chosen, or that of the task.
    async fn chosen_id(&self, cx: &CommandContext, repo: &UserRepo) -> Result<Option<RoundId>, CommandError> {
        match (self.detach.round_id()?, &self.task) {
            (Some(chosen), _) => Ok(Some(chosen)),
            (None, Some(task)) => task_for_run(cx, repo, task).await.map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Starts the given task, or registers a new one with the id of the round.
    async fn record_task(
        &self,
        cx: &CommandContext,
        repo: &UserRepo,
        id: &str,
        title: &str,
        source: String,
    ) -> Result<(), CommandError> {
        match (self.dry_run, &self.task) {
            (true, _) => Ok(()),
            (false, Some(_)) => start_for_run(cx, repo, id, self.fence, source).await,
            (false, None) => register_run(cx, repo, id, title, source).await,
        }
    }
}

pub(super) async fn run(args: GoalRunArgs, cx: &CommandContext) -> VerbResult {
    let repo = cx.repo().await?;
    let [path] = args.files.as_slice() else { return Box::pin(run_group(&args, cx, &repo)).await };
    let goal = read_goal(cx, path)?;
    refuse_loop_name(cx, &repo, &goal)?;
    let file = as_loop_file(cx, &repo, path, &goal);
    let origin = goal.origin(&file.file);
    let (bind, request) = prepare_file(cx, &repo, file).await?;
    let chosen = args.chosen_id(cx, &repo).await?;
    if args.detach.starts_another_process() {
        return detached::start(cx, &goal.spec.name, chosen).await;
    }
    let _awake = args.detach.keep_awake(cx).await;
    let round = match chosen {
        Some(chosen) => chosen,
        None => new_round_id()?,
    };
    // The task comes first and has the round's id, so that the work is on record even if the round does not begin.
    args.record_task(cx, &repo, round.as_str(), &goal.outcome, format!("goal:{}", path.display())).await?;
    let request = RunRequest { dry_run: args.dry_run, round: Some(round), goal: Some(origin), ..request };
    if request.spec.mode == LoopMode::DynamicWorkflow {
        return Box::pin(run_workflow(cx, &repo, &bind, request, Vec::new())).await;
    }
    run_round(cx, &repo, &bind, request).await
}

/// Several goals at once: one workflow, in which each goal has its own round, and one landing.
async fn run_group(args: &GoalRunArgs, cx: &CommandContext, repo: &UserRepo) -> VerbResult {
    let (mut goals, mut texts) = (Vec::new(), Vec::new());
    for path in &args.files {
        let (goal, text) = read_goal_with_text(cx, path)?;
        refuse_loop_name(cx, repo, &goal)?;
        let file = as_loop_file(cx, repo, path, &goal).file;
        if goals.iter().any(|(_, known): &(String, GoalContract)| known.spec.name == goal.spec.name) {
            return Err(CommandError::invalid(format!("two goals are called `{}`", safe(&goal.spec.name))));
        }
        texts.push((file.clone(), text));
        goals.push((file, goal));
    }
    let group =
        goal_group(&goals, args.at_once).map_err(|error| CommandError::invalid(error.to_string()).hint(error.hint))?;
    let spec = group
        .check()
        .map_err(|problems| error_from_problems(&problems.into_iter().map(FileProblem::from).collect::<Vec<_>>()))?;
    let (name, intent) = (spec.name.clone(), spec.intent.clone());
    let (bind, request) =
        prepare_file(cx, repo, CheckedLoopFile { file: "the goals together".to_owned(), spec }).await?;
    let chosen = args.chosen_id(cx, repo).await?;
    if args.detach.starts_another_process() {
        return detached::start(cx, &name, chosen).await;
    }
    let _awake = args.detach.keep_awake(cx).await;
    let id = match chosen {
        Some(chosen) => chosen,
        None => new_round_id()?,
    };
    args.record_task(cx, repo, id.as_str(), &intent, format!("goals:{name}")).await?;
    let request = RunRequest { dry_run: args.dry_run, round: Some(id), ..request };
    Box::pin(run_workflow(cx, repo, &bind, request, texts)).await
}

/// Another round toward the goal of an earlier one, with the contract as its file is now.
pub(crate) async fn prepare_again(
    cx: &CommandContext,
    repo: &UserRepo,
    file: &str,
) -> Result<(LoopBindings, RunRequest), CommandError> {
    let path = repo.work_tree.join(file);
    let goal = read_goal(cx, &path)?;
    refuse_loop_name(cx, repo, &goal)?;
    let loop_file = as_loop_file(cx, repo, &path, &goal);
    let origin = goal.origin(&loop_file.file);
    let (bind, request) = prepare_file(cx, repo, loop_file).await?;
    Ok((bind, RunRequest { goal: Some(origin), ..request }))
}
