//! `workflow`: lists dynamic workflows, shows one with its items, and ends one. `run` and `goal run` start a workflow
//! or continue with it.

pub(super) mod control;

use super::run::ensure_not_stopped;
use super::{CommandContext, CommandError, CommandErrorKind, CommandExit, VerbResult, safe};
use crate::output::{CommandOutput, TextTable};
use crate::signals::CurrentRound;
use crate::view::standing::state_look;
use loopwright::EngineError;
use loopwright::git::UserRepo;
use loopwright::round::{LoopBindings, RunRequest};
use loopwright::store::{Store, WorkflowPartRow, WorkflowState};
use loopwright::workflow::{self, PartReport, WorkflowNews, WorkflowReport, WorkflowRequest, end_workflow};
use loopwright_core::workflow::WorkflowPart;
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct WorkflowArgs {
    #[command(subcommand)]
    verb: WorkflowVerb,
}

#[derive(Debug, clap::Subcommand)]
enum WorkflowVerb {
    /// List the latest workflows of this repository
    List,
    /// Show a workflow: its items, their rounds, results and costs
    Show {
        /// The id of the workflow, or its first characters
        #[arg(value_name = "WORKFLOW")]
        id: String,
    },
    /// End a workflow: nothing more of it starts, and the next `run` begins another one
    End {
        /// The id of the workflow, or its first characters
        #[arg(value_name = "WORKFLOW")]
        id: String,
        /// Why
        #[arg(long, value_name = "TEXT", default_value = "a person ended it")]
        why: String,
    },
}

impl WorkflowArgs {
    pub(crate) fn needs_store_owner(&self) -> bool {
        matches!(self.verb, WorkflowVerb::End { .. })
    }
}

pub(crate) async fn run(args: WorkflowArgs, cx: &CommandContext) -> VerbResult {
    match args.verb {
        WorkflowVerb::List => list(cx).await,
        WorkflowVerb::Show { id } => {
            let report = read(cx.open_store_read_only().await?.as_ref(), &id).await?;
            Ok(cx.out.answer(&report, || render(&report, &cx.out)))
        }
        WorkflowVerb::End { id, why } => {
            let cancel = cx.cancel(&CurrentRound::default());
            let engine = cx.open_engine(None, &cancel).await?;
            let ended = end_workflow(&engine, &id, &why).await;
            engine.close().await?;
            let report = ended.map_err(|error| unknown(error, &id))?;
            Ok(cx.out.answer(&report, || format!("workflow {} of {} has ended", report.workflow, safe(&report.r#loop))))
        }
    }
}

async fn list(cx: &CommandContext) -> VerbResult {
    let repo = cx.repo().await?;
    let store = cx.open_store_read_only().await?;
    let mut reports = Vec::new();
    for row in store.workflows(&repo.id).await? {
        reports.push(WorkflowReport::read(&store, row).await?);
    }
    let workflows: Vec<_> = reports.iter().map(summary).collect();
    Ok(cx.out.answer(&json!({"schema": 1, "workflows": workflows}), || {
        if reports.is_empty() {
            return "no workflow has run in this repository".to_owned();
        }
        let row = |report: &WorkflowReport| {
            let items = format!("{} done, {} failed, {} open", report.done, report.failed, report.open);
            [report.workflow.clone(), report.r#loop.clone(), state(report), items, report.why.clone()]
        };
        let rows = reports.iter().map(row);
        TextTable::new(["WORKFLOW", "LOOP", "STATE", "ITEMS", "WHY"], rows).with_look(2, state_look).render_for(&cx.out)
    }))
}

fn summary(report: &WorkflowReport) -> serde_json::Value {
    json!({
        "workflow": report.workflow, "loop": report.r#loop, "state": report.state, "outcome": report.outcome,
        "done": report.done, "failed": report.failed, "open": report.open,
    })
}

async fn read(store: &Store, id: &str) -> Result<WorkflowReport, CommandError> {
    let row = store.workflow(id).await?;
    let row = row.ok_or_else(|| unknown(EngineError::Unknown(id.to_owned()), id))?;
    Ok(WorkflowReport::read(store, row).await?)
}

fn unknown(error: EngineError, id: &str) -> CommandError {
    match error {
        EngineError::Unknown(_) => {
            let text = format!("no workflow has the id `{}`, or several start with it", safe(id));
            CommandError::new(CommandErrorKind::Usage, text).hint("loopwright workflow list")
        }
        error => error.into(),
    }
}

fn state(report: &WorkflowReport) -> String {
    let word = report.outcome.filter(|_| report.state == WorkflowState::Ended.word()).map(|outcome| outcome.word());
    word.unwrap_or(report.state).to_owned()
}

fn render(report: &WorkflowReport, out: &CommandOutput) -> String {
    let table = TextTable::new(["ITEM", "STATE", "OUTCOME", "ROUND", "NOTE"], report.parts.iter().map(line));
    let table = table.with_look(1, state_look).with_look(2, state_look);
    let why = if report.why.is_empty() { String::new() } else { format!(": {}", safe(&report.why)) };
    format!(
        "workflow {} of {}: {}{why}\n{} done, {} failed, {} open; {}, {} tokens\n\n{}",
        report.workflow,
        safe(&report.r#loop),
        state(report),
        report.done,
        report.failed,
        report.open,
        report.usd,
        report.tokens,
        table.render_for(out)
    )
}

fn line(part: &PartReport) -> [String; 5] {
    let name = match part.part {
        WorkflowPart::Item => part.item.clone(),
        other if part.item.is_empty() => format!("({other})"),
        other => format!("({other}: {})", part.item),
    };
    let outcome = part.outcome.map_or("-", |outcome| outcome.word()).to_owned();
    let round = part.round.clone().unwrap_or_else(|| "-".to_owned());
    [name, part.state.word().to_owned(), outcome, round, part.note.clone()]
}

/// Starts a workflow, or continues with the open one of the loop, and shows each item as it ends.
pub(crate) async fn run_workflow(
    cx: &CommandContext,
    repo: &UserRepo,
    bind: &LoopBindings,
    request: RunRequest,
    goals: Vec<(String, String)>,
) -> VerbResult {
    let running = CurrentRound::default();
    let cancel = cx.cancel(&running);
    let engine = cx.open_engine(Some(repo), &cancel).await?;
    ensure_not_stopped(cx, &engine).await?;
    let RunRequest { spec, repo: folder, actor, round, dry_run, .. } = request;
    let hash = spec.hash().to_owned();
    let request = WorkflowRequest { spec, repo: folder, actor, id: round, dry_run, goals };
    let out = &cx.out;
    let mut tell = |news: WorkflowNews<'_>| match news {
        WorkflowNews::Begun(row) => {
            out.note(&format!("workflow   {} of {}", row.id, safe(&row.loop_name)));
            if row.spec_hash != hash {
                out.note("           continues as it was started; the loop file has changed since then");
            }
        }
        WorkflowNews::Listed(count) => out.note(&format!("items      {count}")),
        WorkflowNews::PartEnded(part) => out.note(&ended_line(part)),
    };
    let ran = workflow::run_workflow(&engine, request, bind, &cancel, &mut tell).await;
    let closed = engine.close().await;
    let report = ran?;
    closed?;
    out.answer(&report, || render(&report, out));
    Ok(CommandExit::from_outcome(report.outcome))
}

fn ended_line(part: &WorkflowPartRow) -> String {
    let name = if part.part == WorkflowPart::Item { safe(&part.item) } else { format!("({})", part.part) };
    let outcome = part.outcome.map_or("-", |outcome| outcome.word());
    format!("{:<10} {name}: {outcome}", part.state.word())
}
