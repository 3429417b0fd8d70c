//! The views of the registry: the tasks that are ready, all tasks by their places, and one task.

use super::{TaskRegistry, find, task_json};
use crate::error::{CommandError, VerbResult};
use crate::output::{CommandOutput, TextTable, safe};
use crate::view::standing::state_look;
use crate::view::time::now_ms;
use loopwright_core::task::{TaskBoard, TaskStanding, TaskState, WorkTask};
use serde_json::{Value, json};

pub(super) async fn ready(registry: &TaskRegistry<'_>) -> VerbResult {
    let board = registry.read().await?;
    let now = now_ms();
    let tasks: Vec<Value> = board.ready(now).into_iter().map(|task| standing_json(&board, task, now)).collect();
    Ok(registry.cx.out.answer(&json!({"schema": 1, "tasks": tasks}), || {
        table(&registry.cx.out, &board, board.ready(now).into_iter(), now, "no task is ready")
    }))
}

pub(super) async fn list(registry: &TaskRegistry<'_>, all: bool) -> VerbResult {
    let mut board = registry.read().await?;
    if all {
        board = with_done(registry, board).await?;
    }
    let now = now_ms();
    let shown: Vec<&WorkTask> = board.tasks().iter().filter(|task| all || task.state != TaskState::Done).collect();
    let tasks: Vec<Value> = shown.iter().map(|task| standing_json(&board, task, now)).collect();
    Ok(registry.cx.out.answer(&json!({"schema": 1, "tasks": tasks}), || {
        table(&registry.cx.out, &board, shown.into_iter(), now, "no open task\nadd one: loopwright tasks add \"TITLE\"")
    }))
}

pub(super) async fn show(registry: &TaskRegistry<'_>, id: &str) -> VerbResult {
    let board = registry.read().await?;
    let board = with_done(registry, board).await?;
    let (task, now) = (find(board.tasks(), id)?, now_ms());
    let (standing, why) = board.standing(task, now);
    let document = json!({"schema": 1, "task": standing_json(&board, task, now)});
    Ok(registry.cx.out.answer(&document, || {
        let mut lines = vec![format!("{}  {}", task.id, safe(&task.title)), format!("{standing}: {}", safe(&why))];
        lines.push(format!("priority {}; claim {}", task.priority, task.fence));
        lines.extend(task.source.iter().map(|source| format!("from {}", safe(source))));
        lines.extend(task.body.lines().map(safe));
        lines.join("\n")
    }))
}

/// The board with the tasks that are recorded as done.
pub(super) async fn with_done(registry: &TaskRegistry<'_>, board: TaskBoard) -> Result<TaskBoard, CommandError> {
    let mut done = Vec::new();
    if let Some(store) = crate::verbs::status::open_store_if_any(registry.cx).await? {
        for row in store.tasks(&registry.repo.id).await?.into_iter().filter(|row| row.state == TaskState::Done) {
            done.push(row.into_task()?);
        }
    }
    Ok(board.with_done(done))
}

fn standing_json(board: &TaskBoard, task: &WorkTask, now: i64) -> Value {
    let (standing, why) = board.standing(task, now);
    let mut value = task_json(task);
    value["standing"] = json!(standing.word());
    value["why"] = json!(why);
    value
}

fn table<'t>(
    out: &CommandOutput,
    board: &TaskBoard,
    tasks: impl Iterator<Item = &'t WorkTask>,
    now: i64,
    none: &str,
) -> String {
    let mut rows: Vec<(TaskStanding, [String; 5])> = tasks
        .map(|task| {
            let (standing, why) = board.standing(task, now);
            let cells =
                [task.id.clone(), task.priority.to_string(), standing.word().to_owned(), task.title.clone(), why];
            (standing, cells)
        })
        .collect();
    if rows.is_empty() {
        return none.to_owned();
    }
    rows.sort_by_key(|(standing, _)| *standing);
    let rows = rows.into_iter().map(|(_, cells)| cells);
    TextTable::new(["ID", "PRIORITY", "STATE", "TITLE", "WHY"], rows).with_look(2, state_look).render_for(out)
}
