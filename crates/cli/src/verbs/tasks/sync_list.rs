//! The registry and other lists: a Markdown file that people edit, and the open issues of a forge. A line whose task
//! has changed since the file was written is a conflict: both sides are shown and neither is changed.

use super::list::with_done;
use super::{TaskRegistry, find, refused};
use crate::context::{FileProblem, error_from_problems, read_named_file};
use crate::error::{CommandError, CommandErrorKind, CommandExit, VerbResult, with_count};
use crate::output::safe;
use crate::verbs::close;
use crate::view::time::now_ms;
use loopwright::round::new_round_id;
use loopwright::store::{RowChange, StoreError, StoreErrorKind, TaskRow};
use loopwright::{EngineError, open_issues};
use loopwright_core::forge::Issue;
use loopwright_core::task::{TITLE_MAX, TaskActor, TaskBoard, TaskState, WorkTask};
use loopwright_core::task_list::{TaskLine, TaskListChange, compare_task_list, read_task_list, write_task_list};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The longest text of an issue that is kept, in characters.
const BODY_MAX: usize = 10_000;

pub(super) async fn export(registry: &TaskRegistry<'_>, file: Option<PathBuf>) -> VerbResult {
    let text = write_task_list(&registry.read().await?, now_ms());
    let out = &registry.cx.out;
    let Some(file) = file else {
        return Ok(out.answer(&json!({"schema": 1, "file": null, "markdown": text}), || text.clone()));
    };
    let path = registry.cx.env.cwd.join(&file);
    let is_list = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).starts_with("# Tasks\n");
    if path.symlink_metadata().is_ok() && !read_named_file(&path).is_ok_and(is_list) {
        return Err(CommandError::invalid(format!("`{}` exists and is not a list of tasks", file.display())));
    }
    std::fs::write(&path, &text)
        .map_err(|error| CommandError::failed(format!("write `{}`: {error}", file.display())))?;
    Ok(out.answer(&json!({"schema": 1, "file": file, "markdown": text}), || {
        format!("wrote {}", safe(&file.to_string_lossy()))
    }))
}

pub(super) async fn import(registry: &TaskRegistry<'_>, file: &Path) -> VerbResult {
    let shown = file.to_string_lossy();
    let invalid = |text: String| CommandError::new(CommandErrorKind::Invalid, text);
    let bytes = read_named_file(&registry.cx.env.cwd.join(file))
        .map_err(|error| error_from_problems(&[FileProblem::unreadable(&*shown, "read the list", &error)]))?;
    let text = String::from_utf8(bytes).map_err(|_| invalid(format!("`{shown}` is not UTF-8 text")))?;
    let lines = read_task_list(&text)
        .map_err(|(line, why)| invalid(why).at_location(shown.clone(), u32::try_from(line).unwrap_or(0), 1))?;
    let engine = registry.open().await?;
    let imported = import_lines(registry, &engine, lines).await;
    let (done, conflicts) = close(&engine, imported).await?;
    let document = json!({
        "schema": 1, "imported": done, "conflicts": conflicts.iter().map(conflict_json).collect::<Vec<_>>(),
    });
    registry.cx.out.answer(&document, || page(&done, &conflicts));
    Ok(if conflicts.is_empty() { CommandExit::DONE } else { CommandExit::REJECTED })
}

/// A line that was not imported, with the title of the task in the registry and the reason.
struct ListConflict {
    line: TaskLine,
    task: Option<Box<WorkTask>>,
    why: String,
}

async fn import_lines(
    registry: &TaskRegistry<'_>,
    engine: &loopwright::Engine,
    lines: Vec<TaskLine>,
) -> Result<(Vec<String>, Vec<ListConflict>), CommandError> {
    let (mut done, mut conflicts) = (Vec::new(), Vec::new());
    let all = all_tasks(registry, engine).await?;
    for change in compare_task_list(lines, &all) {
        let (line, written) = match change {
            TaskListChange::Conflict { line, task } => {
                let why = if task.is_some() { "both sides changed" } else { "the registry has no such task" };
                conflicts.push(ListConflict { line, task, why: why.to_owned() });
                continue;
            }
            TaskListChange::Add(line) => (line.clone(), add_line(registry, engine, &line).await),
            TaskListChange::Edit(line) => (line.clone(), edit_line(registry, engine, &line).await),
        };
        match written {
            Ok(task) => done.push(format!("{} {}", task.id, task.title)),
            Err(error) if error.kind == CommandErrorKind::Failed => return Err(error),
            Err(error) => conflicts.push(ListConflict { line, task: None, why: error.text }),
        }
    }
    Ok((done, conflicts))
}

async fn all_tasks(registry: &TaskRegistry<'_>, engine: &loopwright::Engine) -> Result<Vec<WorkTask>, CommandError> {
    let board = registry.board(engine.store()).await?;
    Ok(with_done(registry, board).await?.tasks().to_vec())
}

async fn add_line(
    registry: &TaskRegistry<'_>,
    engine: &loopwright::Engine,
    line: &TaskLine,
) -> Result<WorkTask, CommandError> {
    let id = new_round_id()?.to_string();
    let decided = registry.decide(engine, |board, graph| {
        let task = WorkTask::new(&id, &line.title, line.priority.unwrap_or(2), now_ms()).map_err(refused)?;
        let needs = known_needs(line, board)?;
        let changes = registry.graph_change(&needs, graph);
        let task = WorkTask { version: 1, ..task.need(needs, board.tasks()).map_err(refused)? };
        Ok((task.clone(), [vec![RowChange::NewTask(TaskRow::new(&registry.repo.id, task))], changes].concat()))
    });
    decided.await
}

async fn edit_line(
    registry: &TaskRegistry<'_>,
    engine: &loopwright::Engine,
    line: &TaskLine,
) -> Result<WorkTask, CommandError> {
    let Some((id, version)) = &line.known else { return Err(CommandError::unknown("the line has no id")) };
    let actor = registry.cx.actor_name();
    let decided = registry.decide(engine, |board, graph| {
        let task = find(board.tasks(), id)?.clone();
        if task.version != *version {
            return Err(CommandError::refused("the task has just changed"));
        }
        let needs = known_needs(line, board)?;
        let changes = if needs == task.needs {
            Vec::new()
        } else {
            vec![RowChange::TaskGraph { repo: registry.repo.id.clone(), version: graph }]
        };
        let task = task.edit(&line.title, line.priority.unwrap_or(task_priority(board, id))).map_err(refused)?;
        let task = task.need(needs, board.tasks()).map_err(refused)?;
        let actor = TaskActor { name: &actor, fence: None };
        let task = if line.is_done {
            task.done(actor, Some("done in the list".to_owned()), now_ms()).map_err(refused)?
        } else {
            task
        };
        // All edits of a line are one change.
        let task = WorkTask { version: version + 1, ..task };
        Ok((task.clone(), [vec![RowChange::Task(TaskRow::new(&registry.repo.id, task))], changes].concat()))
    });
    decided.await
}

fn task_priority(board: &TaskBoard, id: &str) -> i64 {
    board.tasks().iter().find(|task| task.id == id).map_or(2, |task| task.priority)
}

/// The needs of a line. A task that is done is not on the board and stays in the list of needs.
fn known_needs(line: &TaskLine, board: &TaskBoard) -> Result<Vec<String>, CommandError> {
    let whole = |need: &String| match find(board.tasks(), need) {
        Ok(task) => Ok(task.id.clone()),
        Err(_) if loopwright_core::name::RoundId::parse(need).is_ok() => Ok(need.clone()),
        Err(error) => Err(error),
    };
    line.needs.iter().map(whole).collect()
}

fn conflict_json(conflict: &ListConflict) -> Value {
    json!({
        "line": conflict.line.line, "list": conflict.line.title, "why": conflict.why,
        "registry": conflict.task.as_ref().map(|task| task.title.clone()),
    })
}

fn page(done: &[String], conflicts: &[ListConflict]) -> String {
    let mut lines: Vec<String> = done.iter().map(|line| format!("imported  {}", safe(line))).collect();
    for conflict in conflicts {
        lines.push(format!(
            "conflict  line {}: {}: {}",
            conflict.line.line,
            safe(&conflict.line.title),
            safe(&conflict.why)
        ));
        if let Some(task) = &conflict.task {
            let state = if task.state == TaskState::Done { "done" } else { "open" };
            lines.push(format!(
                "          the registry has: {} (priority: {}, {state})",
                safe(&task.title),
                task.priority
            ));
        }
    }
    let counts = format!("{} imported, {}", with_count(done.len(), "line"), with_count(conflicts.len(), "conflict"));
    lines.push(counts);
    lines.join("\n")
}

/// Adds a task for each open issue that has none. A forge's text is data; it decides nothing.
pub(super) async fn import_issues(registry: &TaskRegistry<'_>, forge: &str, labels: &[String]) -> VerbResult {
    let engine = registry.open().await?;
    let added = match open_issues(&engine, forge, labels, &registry.repo).await {
        Ok(issues) => add_issues(registry, &engine, issues).await,
        Err(error) => Err(CommandError::failed(format!("read the issues of `{forge}`: {error}"))),
    };
    let (added, known) = close(&engine, added).await?;
    let document = json!({"schema": 1, "imported": added, "known": known});
    Ok(registry.cx.out.answer(&document, || {
        let mut lines: Vec<String> = added.iter().map(|line| format!("imported  {}", safe(line))).collect();
        lines.push(format!("{} imported, {known} known", with_count(added.len(), "issue")));
        lines.join("\n")
    }))
}

async fn add_issues(
    registry: &TaskRegistry<'_>,
    engine: &loopwright::Engine,
    issues: Vec<Issue>,
) -> Result<(Vec<String>, usize), CommandError> {
    let (mut added, mut known) = (Vec::new(), 0);
    for issue in issues {
        let id = new_round_id()?.to_string();
        let source = format!("issue-{}", issue.about.number);
        let title: String = issue.about.title.as_deref().unwrap_or(&source).chars().take(TITLE_MAX).collect();
        let title = if title.trim().is_empty() { source.clone() } else { title };
        let body = issue.about.body.chars().take(BODY_MAX).collect();
        let task = WorkTask::new(&id, &title, 2, now_ms()).map_err(refused)?;
        let task = WorkTask { body, source: Some(source), ..task };
        let line = format!("{} {}", task.id, task.title);
        match engine.write_rows(vec![RowChange::NewTask(TaskRow::new(&registry.repo.id, task))]).await {
            Ok(()) => added.push(line),
            Err(EngineError::Store(StoreError { kind: StoreErrorKind::Conflict(_), .. })) => known += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok((added, known))
}
