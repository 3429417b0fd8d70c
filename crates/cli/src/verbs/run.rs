//! `run LOOP`: one round now, in the foreground. The exit code is the outcome's.

use super::Ended;
use crate::context::{Context, LoopFile, error_of, inputs, prompts};
use crate::error::{CommandError, Kind};
use crate::exit::Exit;
use crate::posting::{self, Posting};
use crate::progress::Screen;
use crate::signals::Running;
use crate::story;
use crate::view::loops::stop_file;
use clap::builder::NonEmptyStringValueParser;
use loopwright::Engine;
use loopwright::daemon::STOP_FLAG;
use loopwright::git::UserRepo;
use loopwright::round::{Bindings, RunRequest};
use loopwright_core::outcome::RoundOutcome;
use loopwright_core::report::RoundReport;
use loopwright_core::spec::CheckedSpec;
use serde::Serialize;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name of the loop
    #[arg(value_name = "LOOP")]
    name: String,
    /// Work on this item, without running the probe
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    item: Option<String>,
    /// Send nothing, and print exactly the items that would be sent
    #[arg(long)]
    dry_run: bool,
}

/// The document of `run --json`: the report of the round and, in a dry run, what would be sent.
#[derive(Debug, Serialize)]
struct Document<'r> {
    #[serde(flatten)]
    report: &'r RoundReport,
    would_send: Option<&'r [Posting]>,
}

pub(crate) async fn run(args: Args, cx: &Context) -> Ended {
    let repo = cx.repo().await?;
    let (bind, request) = prepared(cx, &repo, &args.name).await?;
    let request = RunRequest { items: args.item.into_iter().collect(), dry_run: args.dry_run, ..request };
    perform(cx, &repo, &bind, request).await
}

/// A start by hand of a loop as its file is now.
pub(crate) async fn prepared(
    cx: &Context,
    repo: &UserRepo,
    name: &str,
) -> Result<(Bindings, RunRequest), CommandError> {
    let (spec, inputs) = chosen(cx, repo, name).await?;
    let bind = cx.bindings(&spec, &repo.work_tree)?;
    Ok((bind, RunRequest { inputs, ..RunRequest::manual(spec, &repo.work_tree, cx.actor_name()) }))
}

/// Runs one round with everything around it: signals, recovery, progress, the story, the exit code.
pub(crate) async fn perform(cx: &Context, repo: &UserRepo, bind: &Bindings, request: RunRequest) -> Ended {
    let telling = cx.telling()?;
    let dry_run = request.dry_run;
    let running = Running::default();
    let cancel = cx.cancel(&running);
    let engine = cx.owner(Some(repo), &cancel).await?;
    unless_stopped(cx, &engine).await?;
    if cancel.is_cancelled() {
        return Err(CommandError::new(Kind::Interrupted, "interrupted before the round began"));
    }
    engine.events().attach(Arc::new(Screen::new(&cx.out, telling, &running))).keep();
    let ran = engine.run(request, bind, &cancel).await;
    let told = match ran {
        Ok(report) => tell(cx, &engine, &report, dry_run).await,
        Err(error) => Err(error.into()),
    };
    engine.close().await?;
    told
}

/// Nothing starts while everything is stopped, by hand neither. A daemon looks itself.
async fn unless_stopped(cx: &Context, engine: &Engine) -> Result<(), CommandError> {
    let flag = engine.store().flags().await?.into_iter().find(|flag| flag.name == STOP_FLAG);
    let why = flag.map(|flag| format!("by {}: {}", flag.actor, flag.why));
    let Some(why) = why.or_else(|| stop_file(cx).map(|why| format!("by the file STOP: {why}"))) else { return Ok(()) };
    engine.close().await?;
    Err(CommandError::refused(format!("everything is stopped {why}")).hint("let loops start again: loopwright thaw"))
}

/// The loop as it will run: checked, with the configuration's agents where it names none, and nothing against it.
async fn chosen(
    cx: &Context,
    repo: &UserRepo,
    name: &str,
) -> Result<(CheckedSpec, Vec<(String, String)>), CommandError> {
    let loops = cx.loops(repo)?;
    let file = loops.find(name)?;
    let spec = cx.with_configured_agents(file.spec.clone(), repo)?;
    let file = LoopFile { file: file.file.clone(), spec };
    let mut found = cx.objections(repo, &file).await?.findings;
    found.extend(prompts::objections(&repo.work_tree));
    if !found.is_empty() {
        return Err(error_of(&found));
    }
    if !loops.findings.is_empty() {
        cx.out.note("note: other loop files have problems: loopwright check");
    }
    let inputs = inputs::hashes(repo, &file);
    Ok((file.spec, inputs))
}

pub(super) async fn tell(cx: &Context, engine: &Engine, report: &RoundReport, dry_run: bool) -> Ended {
    // Only a candidate that was verified would leave.
    let verified = report.outcome == Some(RoundOutcome::Reported);
    let items = if dry_run && verified { would_send(engine, report).await? } else { Vec::new() };
    let document = Document { report, would_send: dry_run.then_some(&items) };
    cx.out.answer(&document, || {
        let sent = if dry_run { posting::page(&items) } else { String::new() };
        format!("{sent}{}", story::end(&cx.out, report))
    });
    Ok(Exit::of(report.outcome))
}

/// What would be handed to the forge, made by the code that hands it over.
async fn would_send(engine: &Engine, report: &RoundReport) -> Result<Vec<Posting>, CommandError> {
    Ok(Posting::all(&engine.recorded(&report.round).await?.round))
}
