//! Plan: a planner reads a snapshot of base and writes its two files into a sink of its own. Nothing else that it writes
//! counts: its files are dropped, and the round records the plan before a maker starts.

use super::context::{RoundContext, pinned_base};
use super::isolate::RoundSandbox;
use super::journal::RoundJournal;
use super::money::RoundBudget;
use super::role_runner::{FileAccess, RoleCall, RoleRun, RoleRunner, RoleTurn, RoleView};
use super::{StageError, brief, workspace_trouble};
use crate::workspace::SnapshotKind;
use crate::{random, staging, state_dir};
use loopwright_core::goal_plan::{BRIEF_FILE, BRIEF_MAX, PLAN_FILE, PLAN_MAX, PlanDraft};
use loopwright_core::outbox;
use loopwright_core::prompt::VerdictChannel;
use loopwright_core::round::{Event, PlannerResult, RoleResult, Stage};
use loopwright_core::spec::Role;
use std::path::Path;

pub(super) async fn plan(
    cx: &RoundContext<'_>,
    journal: &mut RoundJournal,
    budget: &mut RoundBudget,
    sandbox: &mut RoundSandbox,
) -> Result<Event, StageError> {
    let facts = journal.facts();
    let spec = facts.started.spec.clone();
    budget.ensure_time_left(&spec)?;
    let turn = RoleTurn::next(cx, journal.round(), Role::Planner)?;
    cx.stage(Stage::Plan, format!("plan with {}", turn.agent.name()));
    let base = pinned_base(facts)?;
    sandbox.prepare_base(cx, &spec, &base, Stage::Plan, budget).await?;
    let workspace = sandbox.workspace(Stage::Plan)?;
    let folder = workspace.root.join(format!("plan-{}", random::nonce().map_err(StageError::Fatal)?));
    let [home, tmp, sink, outbox] = ["home", "tmp", "sink", "outbox"].map(|name| folder.join(name));
    for path in [&home, &tmp, &sink, &outbox] {
        state_dir::make_dir(path).map_err(|error| StageError::broke(Stage::Plan, "workspace", &error))?;
    }
    let kind = SnapshotKind::ReadOnly;
    let shown = cx.workspaces.shown_commit(workspace, &base).await.map_err(workspace_trouble(Stage::Plan))?;
    let snapshot = cx.workspaces.snapshot(workspace, "plan", &shown, kind, &sandbox.views.extra_lower()).await;
    let files = snapshot.map_err(workspace_trouble(Stage::Plan))?.files;
    let (root, way) = (workspace.root.clone(), turn.answer_way());
    let view = RoleView {
        files,
        access: FileAccess::ReadOnly,
        root,
        outbox: outbox.clone(),
        home,
        tmp,
        items: None,
        sink: Some(sink.clone()),
    };
    let again = if facts.planner_starts > 0 { format!("-{}", facts.planner_starts + 1) } else { String::new() };
    let (attempt, name) = (facts.attempt_number(), format!("planner-0{again}"));
    let prompt = brief::planner_brief(cx, facts, way).await?;
    let call = RoleCall { plan: Some(sink.clone()), ..RoleCall::new(turn, attempt, name, prompt, view) };
    let run = Box::pin(RoleRunner { cx, journal, budget, sandbox }.run(call)).await?;
    let result = PlannerResult { plan: draft(&sink, way, &run), cannot: cannot(&outbox)? };
    Ok(run.ended(RoleResult::Planner(result)))
}

fn draft(sink: &Path, way: VerdictChannel, run: &RoleRun) -> PlanDraft {
    match way {
        VerdictChannel::File => {
            // A byte more than is read, so that a file that is too long is recognised.
            let read = |name: &str, bytes_max: usize| staging::read_sink(&sink.join(name), bytes_max as u64 + 1);
            let (brief, plan) = (read(BRIEF_FILE, BRIEF_MAX), read(PLAN_FILE, PLAN_MAX));
            PlanDraft::read(brief.as_deref(), plan.as_deref())
        }
        VerdictChannel::Message => {
            let report = run.outcome.as_ref().map(|outcome| &outcome.self_report);
            PlanDraft::read_message(report.and_then(|report| report.answer.as_deref()).unwrap_or_default())
        }
    }
}

fn cannot(folder: &Path) -> Result<Option<String>, StageError> {
    let files = staging::read(folder, folder, None);
    let files = files.map_err(|error| StageError::broke(Stage::Plan, "outbox", &error))?;
    Ok(outbox::cannot_reason(&files))
}
