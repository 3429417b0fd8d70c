//! `run LOOP`: one round now, in the foreground. The exit code is that of the outcome.

use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult, workflow};
use crate::context::{CheckedLoopFile, LoopPreflight, ModelAccess, PreflightCache, error_from_problems, prompts};
use crate::detached::{self, DetachArgs};
use crate::dry_run::{self, DryRunItem};
use crate::progress::ProgressDisplay;
use crate::round_summary;
use crate::signals::CurrentRound;
use crate::view::repo_view::read_stop_file;
use clap::builder::NonEmptyStringValueParser;
use loopwright::Engine;
use loopwright::daemon::STOP_FLAG;
use loopwright::git::UserRepo;
use loopwright::round::{LoopBindings, RunRequest};
use loopwright::store::WorkflowRow;
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::report::RoundReport;
use loopwright_core::spec::{CheckedSpec, LoopMode, LoopSpec};
use serde::Serialize;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The name of the loop
    #[arg(value_name = "LOOP")]
    name: String,
    /// Work on this item, without running the probe
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    item: Option<String>,
    /// Send nothing, and print exactly the items that would be sent
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    detach: DetachArgs,
}

impl RunArgs {
    /// Whether another process does the work.
    pub(crate) fn starts_another_process(&self) -> bool {
        self.detach.starts_another_process()
    }

    /// Whether this is that process.
    pub(crate) fn is_detached(&self) -> bool {
        self.detach.is_detached()
    }
}

/// The document of `run --json`: the report of the round and, in a dry run, the items that would be sent.
#[derive(Debug, Serialize)]
struct Document<'r> {
    #[serde(flatten)]
    report: &'r RoundReport,
    would_send: Option<&'r [DryRunItem]>,
}

pub(crate) async fn run(args: RunArgs, cx: &CommandContext) -> VerbResult {
    let repo = cx.repo().await?;
    let (bind, request) = prepare_manual_run(cx, &repo, &args.name).await?;
    if args.detach.starts_another_process() {
        return detached::start(cx, &args.name, None).await;
    }
    let _awake = args.detach.keep_awake(cx).await;
    let (items, round): (Vec<String>, _) = (args.item.into_iter().collect(), args.detach.round_id()?);
    if request.spec.mode == LoopMode::DynamicWorkflow {
        if !items.is_empty() {
            let text = "a workflow works on all its items; `--item` is for other loops";
            return Err(CommandError::new(CommandErrorKind::Usage, text));
        }
        let request = RunRequest { dry_run: args.dry_run, round, ..request };
        return Box::pin(workflow::run_workflow(cx, &repo, &bind, request, Vec::new())).await;
    }
    let request = RunRequest { items, dry_run: args.dry_run, round, ..request };
    run_round(cx, &repo, &bind, request).await
}

/// A manual start of a loop as its file is now.
pub(crate) async fn prepare_manual_run(
    cx: &CommandContext,
    repo: &UserRepo,
    name: &str,
) -> Result<(LoopBindings, RunRequest), CommandError> {
    let loops = cx.loops(repo)?;
    let prepared = prepare_file(cx, repo, loops.find(name)?.clone()).await?;
    if !loops.problems.is_empty() {
        cx.out.note("note: other loop files have problems: loopwright check");
    }
    Ok(prepared)
}

/// A manual start of a loop, also of one that is not in the folder of loops.
pub(super) async fn prepare_file(
    cx: &CommandContext,
    repo: &UserRepo,
    file: CheckedLoopFile,
) -> Result<(LoopBindings, RunRequest), CommandError> {
    let (spec, inputs) = choose_spec(cx, repo, file).await?;
    let bind = cx.bindings(&spec, &repo.work_tree)?;
    Ok((bind, RunRequest { inputs, ..RunRequest::manual(spec, &repo.work_tree, cx.actor_name()) }))
}

/// The request that continues a workflow with the loop that its record has.
pub(super) fn prepare_recorded(
    cx: &CommandContext,
    repo: &UserRepo,
    row: &WorkflowRow,
) -> Result<(LoopBindings, RunRequest), CommandError> {
    let unreadable = |why: String| CommandError::failed(format!("the record of workflow {}: {why}", row.id));
    let spec: LoopSpec = serde_json::from_str(&row.spec).map_err(|error| unreadable(error.to_string()))?;
    let spec = spec.check().map_err(|problems| unreadable(problems.to_string()))?;
    ModelAccess::read(cx)?.ensure_access(&spec)?;
    let bind = cx.bindings(&spec, &repo.work_tree)?;
    Ok((bind, RunRequest::manual(spec, &repo.work_tree, cx.actor_name())))
}

/// Runs one round with everything around it: signals, recovery, progress, the summary, the exit code.
pub(crate) async fn run_round(
    cx: &CommandContext,
    repo: &UserRepo,
    bind: &LoopBindings,
    request: RunRequest,
) -> VerbResult {
    let telling = cx.progress_detail()?;
    let dry_run = request.dry_run;
    let running = CurrentRound::default();
    let cancel = cx.cancel(&running);
    let engine = cx.open_engine(Some(repo), &cancel).await?;
    ensure_not_stopped(cx, &engine).await?;
    if cancel.is_cancelled() {
        return Err(CommandError::new(CommandErrorKind::Interrupted, "interrupted before the round began"));
    }
    engine.events().attach(Arc::new(ProgressDisplay::new(&cx.out, telling, &running))).keep();
    let ran = engine.run(request, bind, &cancel).await;
    let result = match ran {
        Ok(report) => report_round(cx, &engine, &report, dry_run).await,
        Err(error) => Err(error.into()),
    };
    engine.close().await?;
    result
}

/// No round starts while everything is stopped, not even manually. A daemon checks this itself.
pub(super) async fn ensure_not_stopped(cx: &CommandContext, engine: &Engine) -> Result<(), CommandError> {
    let flag = engine.store().flags().await?.into_iter().find(|flag| flag.name == STOP_FLAG);
    let why = flag.map(|flag| format!("by {}: {}", flag.actor, flag.why));
    let Some(why) = why.or_else(|| read_stop_file(cx).map(|why| format!("by the file STOP: {why}"))) else {
        return Ok(());
    };
    engine.close().await?;
    Err(CommandError::refused(format!("everything is stopped {why}")).hint("to let loops start again: loopwright thaw"))
}

/// The loop as it will run: checked, with the configured agents where it names none, and without objections.
async fn choose_spec(
    cx: &CommandContext,
    repo: &UserRepo,
    file: CheckedLoopFile,
) -> Result<(CheckedSpec, Vec<(String, String)>), CommandError> {
    let spec = cx.with_configured_agents(file.spec, repo)?;
    let file = CheckedLoopFile { file: file.file, spec };
    let mut found = LoopPreflight::check(&file, &mut PreflightCache::new(cx, repo)?).await?.problems;
    found.extend(prompts::check_prompts(&repo.work_tree));
    if !found.is_empty() {
        return Err(error_from_problems(&found));
    }
    ModelAccess::read(cx)?.ensure_access(&file.spec)?;
    let inputs = file.hash_inputs(repo);
    Ok((file.spec, inputs))
}

pub(super) async fn report_round(
    cx: &CommandContext,
    engine: &Engine,
    report: &RoundReport,
    dry_run: bool,
) -> VerbResult {
    // Only a verified candidate would be sent.
    let verified = report.outcome == Some(RoundOutcome::Reported);
    let items = if dry_run && verified { would_send(engine, report).await? } else { Vec::new() };
    let document = Document { report, would_send: dry_run.then_some(&items) };
    cx.out.answer(&document, || {
        let sent = if dry_run { dry_run::page(&items) } else { String::new() };
        format!("{sent}{}", round_summary::render_end_and_steps(&cx.out, report))
    });
    Ok(CommandExit::from_outcome(report.outcome))
}

/// The items that would go to the forge, built by the code that sends them.
async fn would_send(engine: &Engine, report: &RoundReport) -> Result<Vec<DryRunItem>, CommandError> {
    Ok(DryRunItem::from_round(&engine.load_round(&report.round).await?.round))
}
